//! The names of a table's files: `part-<task>-<number>.<extension>`, and `.part-<task>-<number>.<extension>.inprogress`
//! while they are written. The writer holds a lock on its file, by which a file in progress can be told from one that
//! was left behind.
//!
//! Several writers may have the same task number: those of other statements and other jobs, and whatever else writes into
//! the folder. Whoever makes the hidden file owns the number, so the visible name is looked at after that.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};
use anabranch_operators::TaskContext;

use super::file::cut_to_records;
use crate::filesystem::frame::Framing;
use crate::filesystem::io_error;

const IN_PROGRESS: &str = ".inprogress";

/// The folder of a table, as one task sees it.
pub(super) struct PartFolder {
    folder: PathBuf,
    extension: &'static str,
    task: u32,
    parallelism: u32,
    /// Number of the task's next file.
    next: u64,
}

impl PartFolder {
    /// Makes the folder if need be, and goes on after the numbers of earlier jobs.
    pub(super) fn open(folder: &Path, context: &TaskContext, extension: &'static str) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|e| io_error(folder, "make the folder", &e))?;
        let (task, parallelism) = (context.index, context.parallelism.max(1));
        let mut parts = PartFolder { folder: folder.to_owned(), extension, task, parallelism, next: 0 };
        let own = parts.names()?.into_iter().filter(|name| name.task == task);
        parts.next = own.map(|name| name.number + 1).max().unwrap_or(0);
        Ok(parts)
    }

    /// Files of all tasks, complete or not.
    fn names(&self) -> Result<Vec<PartName>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(|e| io_error(&self.folder, "list", &e))? {
            let entry = entry.map_err(|e| io_error(&self.folder, "list", &e))?;
            names.extend(entry.file_name().to_str().and_then(PartName::parse));
        }
        Ok(names)
    }

    /// Makes the next hidden file, with a number that nobody else uses.
    pub(super) fn create(&mut self) -> Result<(File, PathBuf)> {
        loop {
            let visible = format!("part-{}-{}.{}", self.task, self.next, self.extension);
            let path = self.folder.join(format!(".{visible}{IN_PROGRESS}"));
            self.next += 1;
            let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made.map_err(|e| io_error(&path, "make the file", &e))?,
            };
            file.lock().map_err(|e| io_error(&path, "lock", &e))?;
            // Before it was locked, another writer may have taken it for one that was left behind, and removed it.
            if !is_at(&file, &path)? {
                continue;
            }
            if self.folder.join(visible).exists() {
                fs::remove_file(&path).map_err(|e| io_error(&path, "remove", &e))?;
                continue;
            }
            return Ok((file, path));
        }
    }

    /// Gives a hidden file its visible name.
    pub(super) fn publish(&self, path: &Path) -> Result<()> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let visible = name.strip_prefix('.').and_then(|name| name.strip_suffix(IN_PROGRESS));
        let Some(visible) = visible else { return Err(Error::internal(format!("'{name}' is no file in progress"))) };
        let target = self.folder.join(visible);
        if target.exists() {
            return Err(Error::outside(format!("{} is there already", target.display()))
                .remedy("let only one job at a time write to a folder"));
        }
        fs::rename(path, &target).map_err(|e| io_error(&target, "give the name", &e))
    }

    /// Forces the names in the folder to disk.
    pub(super) fn sync(&self) -> Result<()> {
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|e| io_error(&self.folder, "force to disk", &e))
    }

    /// Completes the text files that killed tasks left behind. They are shared out over the tasks of this job.
    pub(super) fn recover(&self, framing: Framing) -> Result<()> {
        let is_mine = |name: &PartName| name.in_progress && name.task % self.parallelism == self.task;
        for name in self.names()?.iter().filter(|name| is_mine(name)) {
            let path = self.folder.join(&name.text);
            if !name.text.ends_with(&format!(".{}{IN_PROGRESS}", self.extension)) {
                continue;
            }
            let mut file = match OpenOptions::new().read(true).write(true).open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened.map_err(|e| io_error(&path, "open", &e))?,
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(e)) => return Err(io_error(&path, "lock", &e)),
            }
            // Its writer, or another that recovers, may have been done with it just before it was locked.
            if !is_at(&file, &path)? {
                continue;
            }
            if cut_to_records(&mut file, &path, framing)? {
                self.publish(&path)?;
            } else {
                fs::remove_file(&path).map_err(|e| io_error(&path, "remove", &e))?;
            }
        }
        Ok(())
    }
}

/// Whether an open file still has this name.
fn is_at(file: &File, path: &Path) -> Result<bool> {
    let named = match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        found => found.map_err(|e| io_error(path, "look at", &e))?,
    };
    let open = file.metadata().map_err(|e| io_error(path, "look at", &e))?;
    Ok((open.dev(), open.ino()) == (named.dev(), named.ino()))
}

/// A file's name, taken apart.
struct PartName {
    text: String,
    task: u32,
    number: u64,
    in_progress: bool,
}

impl PartName {
    fn parse(text: &str) -> Option<Self> {
        let in_progress = text.starts_with('.') && text.ends_with(IN_PROGRESS);
        let rest = text.strip_prefix('.').unwrap_or(text).strip_prefix("part-")?;
        let (task, rest) = rest.split_once('-')?;
        let (number, _) = rest.split_once('.')?;
        Some(PartName { text: text.to_owned(), task: task.parse().ok()?, number: number.parse().ok()?, in_progress })
    }
}
