//! Followed tables: scanning the folder, and matching files with the positions of a checkpoint.
//!
//! Tasks scan at different times. So the task of a file depends on the inode only, which a rename does not
//! change.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result};
use anabranch_operators::{Host, Positions, TaskContext};

use super::identity::{FileId, Identity, owner};
use super::input::Tracked;
use super::listing::files;
use super::options::FileFormat;
use super::position::{FileNames, Position, StoredPosition};
use super::{io_error, listing};
use crate::guarantee::START_OVER;
use crate::wait::wait;

/// The state of scanning a followed table.
pub(super) struct Follow {
    path: PathBuf,
    /// The table is one file. It may be missing during a rotation.
    is_file: bool,
    clock: Arc<dyn Clock>,
    host: Arc<dyn Host>,
    interval: Duration,
    next_scan: Nanos,
    pub(super) task: u32,
    pub(super) parallelism: u32,
    /// Number of partitions that this task has opened.
    opened: u32,
}

/// The restored position of a followed file.
pub(super) struct Resumed {
    pub(super) label: String,
    pub(super) position: Position,
    /// Whether the file had no more bytes after the position.
    pub(super) is_at_end: bool,
    pub(super) tracked: Tracked,
}

impl Follow {
    pub(super) fn new(path: &Path, interval: Duration, context: &TaskContext) -> Follow {
        Follow {
            path: path.to_owned(),
            is_file: path.is_file(),
            clock: context.clock.clone(),
            host: Arc::clone(&context.host),
            interval,
            next_scan: context.clock.now().plus(interval),
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

    /// Waits until the next scan of the folder is due, but at most `wait_at_most`. Returns whether it is due.
    pub(super) fn wait(&mut self, wait_at_most: Duration) -> bool {
        wait(self.host.as_ref(), self.next_scan.after(self.clock.now()).min(wait_at_most));
        let now = self.clock.now();
        let is_due = now >= self.next_scan;
        if is_due {
            self.next_scan = now.plus(self.interval);
        }
        is_due
    }

    /// Scans the table: its files sorted by name. A file with several names is listed once.
    pub(super) fn present(&self) -> Result<Vec<(PathBuf, FileId)>> {
        if self.is_file && !self.path.exists() {
            return Ok(Vec::new());
        }
        let mut present = BTreeMap::new();
        for path in files(&self.path)? {
            match fs::metadata(&path) {
                // The file was renamed or deleted after it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                found => {
                    let id = FileId::from_metadata(&found.map_err(|e| io_error(&path, "look at", &e))?);
                    present.entry(id).or_insert(path);
                }
            }
        }
        let mut present: Vec<_> = present.into_iter().map(|(id, path)| (path, id)).collect();
        present.sort();
        Ok(present)
    }
}

/// A followed table.
pub(super) struct Table<'a> {
    pub(super) names: &'a FileNames,
    pub(super) format: &'a FileFormat,
    pub(super) name: &'a str,
}

/// Matches the positions in `from` with the files that are present: by inode and creation time. If that
/// fails, for example after the folder was copied, by name and first bytes. Positions from a time when the
/// table was not followed are matched by name. A missing file must have been read to its end.
pub(super) fn resume(
    from: &Positions,
    present: &[(PathBuf, FileId)],
    Table { names, format, name: table }: Table<'_>,
    context: &TaskContext,
) -> Result<BTreeMap<FileId, Resumed>> {
    let by_inode: BTreeMap<_, _> = present.iter().map(|(_, id)| ((id.inode, id.born_ms), *id)).collect();
    let mut found = BTreeMap::new();
    let mut unmatched = Vec::new();
    for (label, text) in from {
        let entry = StoredPosition::parse(label, text, format, table)?;
        match entry.identity.and_then(|identity| by_inode.get(&(identity.inode, identity.born_ms))) {
            Some(id) => _ = found.insert(*id, resumed(label, &entry, *id)),
            None => unmatched.push((label, entry)),
        }
    }
    let by_path: BTreeMap<&Path, FileId> = present.iter().map(|(path, id)| (path.as_path(), *id)).collect();
    for (label, entry) in unmatched {
        let path = names.path(&entry.name);
        let same = by_path.get(path.as_path()).filter(|id| !found.contains_key(id));
        match same {
            Some(id) if begins_alike(&path, entry.identity)? => {
                found.insert(*id, resumed(label, &entry, *id));
            }
            _ if entry.position == Position::End => {}
            _ if entry.is_at_end => report_gone(table, &path, &entry, context),
            _ => return Err(gone(table, &path, &entry)),
        }
    }
    Ok(found)
}

/// Notifies the user that a file was deleted or replaced while the job was not running. The file had been
/// read to its end, but may have grown since. Only the task that would read the file reports it.
fn report_gone(table: &str, path: &Path, entry: &StoredPosition, context: &TaskContext) {
    let reader = entry.identity.map_or(0, |identity| owner(identity.inode, context.parallelism));
    if reader == context.index {
        context.host.notify(format!(
            "table {table}: {} is gone; it had been read to its end when the checkpoint was made, and what was written to it \
             since is not read",
            path.display()
        ));
    }
}

fn gone(table: &str, path: &Path, entry: &StoredPosition) -> Error {
    let (path, position) = (path.display(), entry.position);
    Error::user(format!("{path} is gone, and it had been read to {position} only: the rest of it would be lost"))
        .at(format!("table {table}"))
        .remedy(format!("put the file back, or {START_OVER}"))
}

fn resumed(label: &str, entry: &StoredPosition, id: FileId) -> Resumed {
    let head = entry.identity.map(|identity| identity.head).unwrap_or_default();
    let (position, is_at_end) = (entry.position, entry.is_at_end);
    Resumed { label: label.to_owned(), position, is_at_end, tracked: Tracked { id, head } }
}

/// Whether the file at `path` begins with the bytes of `identity`. Without an identity, the name suffices.
fn begins_alike(path: &Path, identity: Option<Identity>) -> Result<bool> {
    let Some(identity) = identity else { return Ok(true) };
    let begins_alike = File::open(path).and_then(|file| identity.head.is_of(&file));
    begins_alike.map_err(|e| io_error(path, "read", &e))
}

/// The names of the files of a bounded table. All tasks get the same list, even if files appear while they
/// open the table.
pub(super) fn agreed(path: &Path, names: &FileNames, context: &TaskContext) -> Result<Vec<String>> {
    let mut list = || listing::files(path)?.iter().map(|file| names.name(file)).collect();
    context.host.agreed(&format!("files of {}", path.display()), &mut list)
}
