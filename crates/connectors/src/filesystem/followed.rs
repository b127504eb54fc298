//! A table that is followed: which files its folder holds at each look, and where reading of them went on from.
//!
//! Tasks look at different times, so a file's task follows from its inode alone, which no renaming changes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Nanos, Result};
use anabranch_operators::{Positions, TaskContext};

use super::identity::{FileId, Identity};
use super::input::Tracked;
use super::listing::files;
use super::options::FileFormat;
use super::position::{Entry, Names, Position};
use super::{io_error, listing};
use crate::positions::foreign;
use crate::wait::wait;

/// What is needed to notice new files.
pub(super) struct Follow {
    path: PathBuf,
    /// The table is one file, which may be missing for a moment.
    is_file: bool,
    clock: Arc<dyn Clock>,
    interval: Duration,
    next_look: Nanos,
    pub(super) task: u32,
    pub(super) parallelism: u32,
    opened: u32,
}

/// What a followed file goes on from.
pub(super) struct Resumed {
    pub(super) label: String,
    pub(super) position: Position,
    pub(super) tracked: Tracked,
}

impl Follow {
    pub(super) fn new(path: &Path, interval: Duration, context: &TaskContext) -> Follow {
        Follow {
            path: path.to_owned(),
            is_file: path.is_file(),
            clock: context.clock.clone(),
            interval,
            next_look: context.clock.now().plus(interval),
            task: context.index,
            parallelism: context.parallelism.max(1),
            opened: 0,
        }
    }

    /// The number of the next partition of this task.
    pub(super) fn next_partition(&mut self) -> u32 {
        let partition = self.opened * self.parallelism + self.task;
        self.opened += 1;
        partition
    }

    /// Waits until the next look at the folder, or as long as allowed. Whether it is time to look.
    pub(super) fn wait(&mut self, wait_at_most: Duration) -> bool {
        wait(self.next_look.after(self.clock.now()).min(wait_at_most));
        let now = self.clock.now();
        let is_due = now >= self.next_look;
        if is_due {
            self.next_look = now.plus(self.interval);
        }
        is_due
    }

    /// The table's files in the order of their names. A file with several names is there once.
    pub(super) fn present(&self) -> Result<Vec<(PathBuf, FileId)>> {
        if self.is_file && !self.path.exists() {
            return Ok(Vec::new());
        }
        let mut present = BTreeMap::new();
        for path in files(&self.path)? {
            match fs::metadata(&path) {
                // It was renamed or deleted since it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                found => {
                    let id = FileId::of(&found.map_err(|e| io_error(&path, "look at", &e))?);
                    present.entry(id).or_insert(path);
                }
            }
        }
        let mut present: Vec<_> = present.into_iter().map(|(id, path)| (path, id)).collect();
        present.sort();
        Ok(present)
    }
}

/// Finds the files of `from` again: by what the file system calls them, else by their names and first bytes, as after the
/// folder was copied. Positions of former versions have names only.
pub(super) fn resume(
    from: &Positions,
    present: &[(PathBuf, FileId)],
    (names, format, table): (&Names, &FileFormat, &str),
) -> Result<BTreeMap<FileId, Resumed>> {
    let by_inode: BTreeMap<_, _> = present.iter().map(|(_, id)| ((id.inode, id.born_ms), *id)).collect();
    let mut found = BTreeMap::new();
    let mut elsewhere = Vec::new();
    for (label, text) in from {
        let entry = Entry::parse(label, text, format, table)?;
        match entry.identity.and_then(|identity| by_inode.get(&(identity.inode, identity.born_ms))) {
            Some(id) => _ = found.insert(*id, resumed(label, &entry, *id)),
            None => elsewhere.push((label, entry)),
        }
    }
    for (label, entry) in elsewhere {
        let path = names.path(&entry.name);
        let same = present.iter().find(|(present, id)| *present == path && !found.contains_key(id));
        match same {
            Some((path, id)) if begins_alike(path, entry.identity)? => {
                found.insert(*id, resumed(label, &entry, *id));
            }
            // What was read to its end may be gone.
            _ if entry.position == Position::End => {}
            _ => return Err(foreign(table, label, &format!("there is no such file in {}", names.root().display()))),
        }
    }
    Ok(found)
}

fn resumed(label: &str, entry: &Entry, id: FileId) -> Resumed {
    let head = entry.identity.map(|identity| identity.head).unwrap_or_default();
    Resumed { label: label.to_owned(), position: entry.position, tracked: Tracked { id, head } }
}

fn begins_alike(path: &Path, identity: Option<Identity>) -> Result<bool> {
    let Some(identity) = identity else { return Ok(true) };
    let begins_alike = File::open(path).and_then(|file| identity.head.is_of(&file));
    begins_alike.map_err(|e| io_error(path, "read", &e))
}

/// The files of a table that is read once, by their names: all tasks take the same ones, whatever appears meanwhile.
pub(super) fn agreed(path: &Path, names: &Names, context: &TaskContext) -> Result<Vec<String>> {
    let mut list = || listing::files(path)?.iter().map(|file| names.name(file)).collect();
    context.host.agreed(&format!("files of {}", path.display()), &mut list)
}
