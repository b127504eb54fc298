//! Names of the files of an exactly-once sink, and the removal of files that will never become visible.
//!
//! A file is `.part-SCOPE-TASK-iINCARNATION-OPENED-NUMBER.json.inprogress` while it is written, `...complete`
//! when it is on disk, and `part-SCOPE-TASK-EPOCH-INDEX.json` when its checkpoint is complete. OPENED is the
//! time at which the writer was opened. A hidden name is never used twice, so a committable cannot come to
//! mean another writer's file. A writer locks its file in progress.
//!
//! A writer removes hidden files of older incarnations only. It removes their files in progress, which no
//! committable owns, with the first row. It removes their complete files when the first checkpoint of its own
//! incarnation is complete: until then another task may still have to commit them. Files of newer
//! incarnations belong to a process that has taken the job over, and stay.
//!
//! `.part-SCOPE-TASK-EPOCH.committed` is an empty file. This commit marker says that the commit of this
//! epoch, and of all before it, has begun.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anabranch_model::{Epoch, Error, Result};
use anabranch_operators::TaskContext;

use super::disk::{Disk, DiskFile, exists};
use crate::filesystem::entries;
use crate::positions::number;

const IN_PROGRESS: &str = ".inprogress";
const COMPLETE: &str = ".complete";
const COMMITTED: &str = ".committed";

/// Kinds of hidden files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leftover {
    InProgress,
    Complete,
}

/// The folder of a table, as one task sees it.
pub(super) struct StagedFolder {
    pub(super) disk: Disk,
    folder: PathBuf,
    scope: String,
    extension: &'static str,
    task: u32,
    parallelism: u32,
    incarnation: u64,
    opened_ms: i64,
    /// Number of the next file.
    next: u64,
}

impl StagedFolder {
    /// Makes the folder if it is missing.
    pub(super) fn open(
        disk: Disk,
        folder: &Path,
        context: &TaskContext,
        scope: &str,
        extension: &'static str,
    ) -> Result<StagedFolder> {
        disk.make_folder(folder)?;
        Ok(StagedFolder {
            disk,
            folder: folder.to_owned(),
            scope: scope.to_owned(),
            extension,
            task: context.index,
            parallelism: context.parallelism.max(1),
            incarnation: context.host.incarnation().0,
            opened_ms: context.clock.wall_ms().max(0),
            next: 0,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// Makes the next file in progress, locked.
    pub(super) fn create(&mut self) -> Result<DiskFile> {
        loop {
            let StagedFolder { scope, task, incarnation, opened_ms, next, extension, .. } = &*self;
            let stem = format!(".part-{scope}-{task}-i{incarnation}-{opened_ms}-{next}.{extension}");
            let path = self.folder.join(format!("{stem}{IN_PROGRESS}"));
            self.next += 1;
            if exists(&self.folder.join(format!("{stem}{COMPLETE}")))? {
                continue;
            }
            if let Some(file) = self.disk.create(&path)? {
                file.lock()?;
                return Ok(file);
            }
        }
    }

    /// Marks a file as complete by its name, and returns the name.
    pub(super) fn complete(&self, path: &Path) -> Result<String> {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(IN_PROGRESS));
        let stem = name.ok_or_else(|| Error::internal(format!("{} is no file in progress", path.display())))?;
        let complete = format!("{stem}{COMPLETE}");
        match self.disk.rename(path, &self.folder.join(&complete))? {
            true => Ok(complete),
            false => Err(Error::outside(format!("{} has disappeared while it was written", path.display()))
                .remedy("leave hidden files in the folder alone")),
        }
    }

    /// The name under which a file will be visible: the `index`-th of an epoch.
    pub(super) fn visible(&self, epoch: Epoch, index: usize) -> String {
        format!("part-{}-{}-{}-{index}.{}", self.scope, self.task, epoch.0, self.extension)
    }

    /// Gives a complete file its visible name; false if there is no such file (any more).
    pub(super) fn publish(&self, folder: &Path, hidden: &str, visible: &str) -> Result<bool> {
        let (source, target) = (folder.join(hidden), folder.join(visible));
        if exists(&target)? {
            if !exists(&source)? {
                return Ok(false);
            }
            return Err(Error::user(format!("{} is there already, and not from this job", target.display()))
                .remedy("move the file to another folder, and start the job again"));
        }
        self.disk.rename(&source, &target)
    }

    /// Makes the marker of an epoch's commit. `visible` is the name of one of its files.
    pub(super) fn mark_committed(&self, folder: &Path, visible: &str, epoch: Epoch) -> Result<PathBuf> {
        let marker = folder.join(format!(".{}-{}{COMMITTED}", writer_of(visible)?, epoch.0));
        self.disk.create(&marker)?;
        Ok(marker)
    }

    /// Whether two markers belong to commits of the same task.
    pub(super) fn is_of_one_writer(one: &Path, other: &Path) -> bool {
        let writer = |marker: &Path| Some(marker.to_str()?.rsplit_once('-')?.0.to_owned());
        writer(one) == writer(other)
    }

    /// Whether an epoch's commit has a marker.
    pub(super) fn is_marked_committed(folder: &Path, visible: &str, epoch: Epoch) -> Result<bool> {
        let writer = format!(".{}-", writer_of(visible)?);
        let committed = |name: &OsString| {
            let epoch: &str = name.to_str()?.strip_prefix(&writer)?.strip_suffix(COMMITTED)?;
            number::<u64>(epoch)
        };
        Ok(names(folder)?.iter().filter_map(committed).any(|committed| committed >= epoch.0))
    }

    /// Removes this task's share of the files that older incarnations of the job left behind.
    pub(super) fn remove(&self, which: Leftover) -> Result<()> {
        for name in names(&self.folder)? {
            let Some(name) = name.to_str() else { continue };
            if self.parse(name).is_none_or(|hidden| hidden.kind != which || !self.is_mine_to_remove(&hidden)) {
                continue;
            }
            let path = self.folder.join(name);
            if which == Leftover::Complete || self.is_abandoned(&path)? {
                self.disk.remove(&path)?;
            }
        }
        Ok(())
    }

    /// The last epoch whose commit has a marker of this scope in a folder.
    pub(super) fn last_committed(folder: &Path, scope: &str) -> Result<Option<u64>> {
        let prefix = format!(".part-{scope}-");
        Ok(names(folder)?.iter().filter_map(|name| committed(name, &prefix)).map(|(_, epoch)| epoch).max())
    }

    /// Removes commit markers that a later marker of the same writer replaces.
    pub(super) fn remove_markers(&self) -> Result<()> {
        let prefix = format!(".part-{}-", self.scope);
        let mut newest: BTreeMap<u32, u64> = BTreeMap::new();
        let markers: Vec<_> = names(&self.folder)?.iter().filter_map(|name| committed(name, &prefix)).collect();
        for (task, epoch) in &markers {
            let newest = newest.entry(*task).or_insert(*epoch);
            *newest = (*newest).max(*epoch);
        }
        let is_old = |(task, epoch): &&(u32, u64)| task % self.parallelism == self.task && newest[task] > *epoch;
        markers.iter().filter(is_old).try_for_each(|(task, epoch)| {
            self.disk.remove(&self.folder.join(format!("{prefix}{task}-{epoch}{COMMITTED}")))
        })
    }

    fn is_mine_to_remove(&self, hidden: &Hidden) -> bool {
        hidden.incarnation < self.incarnation && hidden.task % self.parallelism == self.task
    }

    /// Whether no writer holds the file's lock.
    fn is_abandoned(&self, path: &Path) -> Result<bool> {
        self.disk.open(path)?.map_or(Ok(false), |file| file.try_lock())
    }

    /// Parses the name of a hidden file of this scope.
    fn parse(&self, name: &str) -> Option<Hidden> {
        let rest = name.strip_prefix(".part-")?.strip_prefix(self.scope.as_str())?.strip_prefix('-')?;
        let (rest, kind) = match (rest.strip_suffix(IN_PROGRESS), rest.strip_suffix(COMPLETE)) {
            (Some(rest), _) => (rest, Leftover::InProgress),
            (None, Some(rest)) => (rest, Leftover::Complete),
            (None, None) => return None,
        };
        let (numbers, _) = rest.split_once('.')?;
        let parts: Vec<&str> = numbers.split('-').collect();
        let [task, incarnation, opened, next] = parts.as_slice() else { return None };
        number::<u64>(opened).and(number::<u64>(next))?;
        Some(Hidden { task: number(task)?, incarnation: number(incarnation.strip_prefix('i')?)?, kind })
    }
}

/// The parts of a hidden file's name.
struct Hidden {
    task: u32,
    incarnation: u64,
    kind: Leftover,
}

/// The writer of a visible file: `part-SCOPE-TASK` of `part-SCOPE-TASK-EPOCH-INDEX.json`.
fn writer_of(visible: &str) -> Result<&str> {
    let writer = visible.rsplit_once('-').and_then(|(rest, _)| rest.rsplit_once('-'));
    writer.map(|(writer, _)| writer).ok_or_else(|| Error::internal(format!("'{visible}' is no visible name")))
}

/// The task and the epoch of a commit marker of the scope that the prefix names.
fn committed(name: &OsString, prefix: &str) -> Option<(u32, u64)> {
    let (task, epoch) = name.to_str()?.strip_prefix(prefix)?.strip_suffix(COMMITTED)?.split_once('-')?;
    Some((number(task)?, number(epoch)?))
}

fn names(folder: &Path) -> Result<Vec<OsString>> {
    Ok(entries(folder)?.into_iter().map(|entry| entry.file_name()).collect())
}
