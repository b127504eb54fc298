//! The names of files that are written exactly once, and what becomes of those that nobody will ever rename.
//!
//! A file is `.part-SCOPE-TASK-OPENED-NUMBER.json.inprogress` while it is written, `...complete` when it is on disk, and
//! `part-SCOPE-TASK-EPOCH-INDEX.json` when its checkpoint is complete. OPENED is when the writer was opened: a hidden name is
//! never used twice, so that a committable cannot come to mean another writer's file. A writer locks its file in progress.
//!
//! What a crash leaves behind is removed when no committable can own it any more: files in progress, which none ever owns,
//! with the first row; complete ones when the first checkpoint of the new run is complete, because until then they may be in
//! the hands of another task that goes on from the old one.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anabranch_model::{Epoch, Error, Result};
use anabranch_operators::TaskContext;

use crate::filesystem::io_error;
use crate::positions::number;

const IN_PROGRESS: &str = ".inprogress";
const COMPLETE: &str = ".complete";

/// Which of the hidden files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leftover {
    InProgress,
    Complete,
}

/// The folder of a table, as one task sees it.
pub(super) struct StagedFolder {
    folder: PathBuf,
    scope: String,
    extension: &'static str,
    task: u32,
    parallelism: u32,
    opened_ms: i64,
    /// Number of the next file.
    next: u64,
}

impl StagedFolder {
    /// Makes the folder if need be.
    pub(super) fn open(
        folder: &Path,
        context: &TaskContext,
        scope: &str,
        extension: &'static str,
    ) -> Result<StagedFolder> {
        fs::create_dir_all(folder).map_err(|e| io_error(folder, "make the folder", &e))?;
        Ok(StagedFolder {
            folder: folder.to_owned(),
            scope: scope.to_owned(),
            extension,
            task: context.index,
            parallelism: context.parallelism.max(1),
            opened_ms: context.clock.wall_ms().max(0),
            next: 0,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// Makes the next file in progress, locked.
    pub(super) fn create(&mut self) -> Result<(File, PathBuf)> {
        loop {
            let StagedFolder { scope, task, opened_ms, next, extension, .. } = &*self;
            let stem = format!(".part-{scope}-{task}-{opened_ms}-{next}.{extension}");
            let path = self.folder.join(format!("{stem}{IN_PROGRESS}"));
            self.next += 1;
            if self.folder.join(format!("{stem}{COMPLETE}")).exists() {
                continue;
            }
            let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made.map_err(|e| io_error(&path, "make the file", &e))?,
            };
            file.lock().map_err(|e| io_error(&path, "lock", &e))?;
            return Ok((file, path));
        }
    }

    /// Notes in its name that a file is on disk. Returns the name.
    pub(super) fn complete(&self, path: &Path) -> Result<String> {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(IN_PROGRESS));
        let stem = name.ok_or_else(|| Error::internal(format!("{} is no file in progress", path.display())))?;
        let complete = format!("{stem}{COMPLETE}");
        fs::rename(path, self.folder.join(&complete)).map_err(|e| io_error(path, "rename", &e))?;
        Ok(complete)
    }

    /// The name under which a file will be visible: the `index`-th of an epoch.
    pub(super) fn visible(&self, epoch: Epoch, index: usize) -> String {
        format!("part-{}-{}-{}-{index}.{}", self.scope, self.task, epoch.0, self.extension)
    }

    /// Gives a complete file its visible name; false if there is no such file (any more).
    pub(super) fn publish(folder: &Path, hidden: &str, visible: &str) -> Result<bool> {
        let (source, target) = (folder.join(hidden), folder.join(visible));
        if target.exists() {
            if !source.exists() {
                return Ok(false);
            }
            return Err(Error::outside(format!("{} is there already", target.display())).remedy(
                "let only one job at a time write to a folder, or remove what an abandoned run has left there",
            ));
        }
        match fs::rename(&source, &target) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(io_error(&target, "give the name", &error)),
        }
    }

    /// Forces the names in a folder to disk.
    pub(super) fn sync(folder: &Path) -> Result<()> {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|e| io_error(folder, "force to disk", &e))
    }

    /// Removes a file that will not be visible.
    pub(super) fn discard(path: &Path) -> Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(io_error(path, "remove", &error)),
            _ => Ok(()),
        }
    }

    /// Removes what earlier runs of the job left behind, shared out over the tasks of this one.
    pub(super) fn remove(&self, which: Leftover, kept: &BTreeSet<String>) -> Result<()> {
        for entry in fs::read_dir(&self.folder).map_err(|e| io_error(&self.folder, "list", &e))? {
            let entry = entry.map_err(|e| io_error(&self.folder, "list", &e))?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !kept.contains(*name)) else { continue };
            if self.parse(name).is_none_or(|(task, kind)| task % self.parallelism != self.task || kind != which) {
                continue;
            }
            if which == Leftover::Complete || Self::is_abandoned(&entry.path())? {
                Self::discard(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Whether nobody writes a file.
    fn is_abandoned(path: &Path) -> Result<bool> {
        let file = match OpenOptions::new().write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(|e| io_error(path, "open", &e))?,
        };
        match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(io_error(path, "lock", &e)),
        }
    }

    /// The task and the kind of a hidden file of this scope.
    fn parse(&self, name: &str) -> Option<(u32, Leftover)> {
        let rest = name.strip_prefix(".part-")?.strip_prefix(self.scope.as_str())?.strip_prefix('-')?;
        let (rest, kind) = match (rest.strip_suffix(IN_PROGRESS), rest.strip_suffix(COMPLETE)) {
            (Some(rest), _) => (rest, Leftover::InProgress),
            (None, Some(rest)) => (rest, Leftover::Complete),
            (None, None) => return None,
        };
        let (numbers, _) = rest.split_once('.')?;
        let numbers = numbers.split('-').map(number).collect::<Option<Vec<u64>>>()?;
        let [task, _, _] = numbers.as_slice() else { return None };
        Some((u32::try_from(*task).ok()?, kind))
    }
}
