//! The names of a table's files: `part-<task>-<number>.<extension>`, and
//! `.part-<task>-<number>.<extension>.inprogress` while they are written. The writer locks its file. A file
//! in progress without a lock was left behind by a killed writer.
//!
//! Several writers may have the same task number: those of other statements and other jobs. The writer that
//! makes the hidden file owns the number, so it checks the visible name after that.

use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};
use anabranch_operators::TaskContext;

use super::disk::{Disk, DiskFile, exists};
use super::file::cut_to_records;
use crate::filesystem::entries;
use crate::filesystem::frame::Framing;

const IN_PROGRESS: &str = ".inprogress";

/// The folder of a table, as one task sees it.
pub(super) struct PartFolder {
    disk: Disk,
    folder: PathBuf,
    extension: &'static str,
    task: u32,
    parallelism: u32,
    /// Number of the task's next file.
    next: u64,
}

impl PartFolder {
    /// Makes the folder if it is missing, and continues after the numbers of earlier jobs.
    pub(super) fn open(disk: Disk, folder: &Path, context: &TaskContext, extension: &'static str) -> Result<Self> {
        disk.make_folder(folder)?;
        let (task, parallelism) = (context.index, context.parallelism.max(1));
        let mut parts = PartFolder { disk, folder: folder.to_owned(), extension, task, parallelism, next: 0 };
        let own = parts.names()?.into_iter().filter(|name| name.task == task);
        parts.next = own.map(|name| name.number + 1).max().unwrap_or(0);
        Ok(parts)
    }

    /// Files of all tasks, complete or not.
    fn names(&self) -> Result<Vec<PartName>> {
        let names = entries(&self.folder)?.into_iter().map(|entry| entry.file_name());
        Ok(names.filter_map(|name| PartName::parse(name.to_str()?)).collect())
    }

    /// Makes the next hidden file, with a number that no other writer uses.
    pub(super) fn create(&mut self) -> Result<DiskFile> {
        loop {
            let visible = format!("part-{}-{}.{}", self.task, self.next, self.extension);
            let path = self.folder.join(format!(".{visible}{IN_PROGRESS}"));
            self.next += 1;
            let Some(file) = self.disk.create(&path)? else { continue };
            file.lock()?;
            // Before this lock, another writer may have found the file unlocked and removed it.
            if !file.has_its_name()? {
                continue;
            }
            if exists(&self.folder.join(visible))? {
                self.disk.remove(&path)?;
                continue;
            }
            return Ok(file);
        }
    }

    /// Gives a hidden file its visible name.
    pub(super) fn publish(&self, path: &Path) -> Result<()> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let visible = name.strip_prefix('.').and_then(|name| name.strip_suffix(IN_PROGRESS));
        let Some(visible) = visible else { return Err(Error::internal(format!("'{name}' is no file in progress"))) };
        let target = self.folder.join(visible);
        if exists(&target)? {
            return Err(Error::outside(format!("{} is there already", target.display()))
                .remedy("let only one job at a time write to a folder"));
        }
        match self.disk.rename(path, &target)? {
            true => Ok(()),
            false => Err(Error::outside(format!("{} has disappeared before its rows became visible", path.display()))
                .remedy("leave hidden files in the folder alone")),
        }
    }

    /// Syncs the names in the folder to disk.
    pub(super) fn sync(&self) -> Result<()> {
        self.disk.sync_folder(&self.folder)
    }

    /// Completes the text files that killed tasks left behind. They are shared out over the tasks of this
    /// job.
    pub(super) fn recover(&self, framing: Framing) -> Result<()> {
        let is_mine = |name: &PartName| name.in_progress && name.task % self.parallelism == self.task;
        let mut changed = false;
        for name in self.names()?.iter().filter(|name| is_mine(name)) {
            let path = self.folder.join(&name.text);
            if !name.text.ends_with(&format!(".{}{IN_PROGRESS}", self.extension)) {
                continue;
            }
            let Some(mut file) = self.disk.open(&path)? else { continue };
            // Its writer, or another task that recovers, may have published it since.
            if !file.try_lock()? || !file.has_its_name()? {
                continue;
            }
            match cut_to_records(&mut file, framing)? {
                true => self.publish(&path)?,
                false => self.disk.remove(&path)?,
            }
            changed = true;
        }
        if changed { self.sync() } else { Ok(()) }
    }
}

/// The parts of a file's name.
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
