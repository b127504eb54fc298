//! Local copies of state files of a remote store: a job that restarts on the same machine reads them instead
//! of the remote files.
//!
//! Nothing depends on them. A copy that is not exactly what was written counts as missing, and a failure to
//! write one is ignored. Several processes may use one directory. Each place has its own folder; a folder
//! without writes for days belongs to a job that is gone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch_model::{Epoch, Error, Incarnation, Result, StageId, TaskId};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Blob;
use super::disk::write_in_pieces;

/// Folder of the copies of all places.
const COPIES: &str = "copies";
/// Largest number of tasks whose copies a process announces.
const TASKS_MAX: usize = 4096;
/// Folder of the store whose objects are copied.
const COPIED: &str = "state/";
/// A folder without writes for this time is removed when a job opens another one.
const UNUSED_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug)]
pub(super) struct Copies {
    folder: PathBuf,
}

impl Copies {
    /// Copies of the objects at `place`, in a folder of `directory`.
    pub(super) fn open(directory: &Path, place: &str) -> Result<Copies> {
        let copies = directory.join(COPIES);
        let folder = copies.join(folder_name(place));
        check_writable(directory, &folder)?;
        remove_unused(&copies, &folder);
        Ok(Copies { folder })
    }

    /// The content of an object that was copied, if the copy is intact.
    pub(super) fn get(&self, blob: &Blob) -> Option<Bytes> {
        let path = self.path(&blob.name)?;
        if path.metadata().ok()?.len() != blob.bytes {
            return None;
        }
        let content = fs::read(path).ok()?;
        let intact = content.len() as u64 == blob.bytes && crc32fast::hash(&content) == blob.crc32;
        intact.then(|| content.into())
    }

    pub(super) fn put(&self, name: &str, content: &[u8]) {
        let Some(path) = self.path(name) else { return };
        // A half-written file is recognized by its checksum; a missing one is read from the store.
        let written = fs::create_dir_all(&self.folder).and_then(|()| File::create(&path));
        let written = written.and_then(|mut file| write_in_pieces(&mut file, content));
        if written.is_err() {
            let _ = fs::remove_file(path);
        }
    }

    pub(super) fn delete(&self, name: &str) {
        if let Some(path) = self.path(name) {
            let _ = fs::remove_file(path);
        }
    }

    /// Removes all copies of the place.
    pub(super) fn remove_all(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }

    /// Removes copies of objects that are not needed.
    pub(super) fn keep(&self, needed: impl Fn(&str) -> bool) {
        for path in entries(&self.folder) {
            let name = path.file_name().and_then(|name| name.to_str());
            if !name.is_some_and(|name| needed(&format!("{COPIED}{name}"))) {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// The path of an object's copy, if the object is of a kind that is copied.
    fn path(&self, name: &str) -> Option<PathBuf> {
        let file = name.strip_prefix(COPIED)?;
        (!file.is_empty() && !file.contains(['/', '\\'])).then(|| self.folder.join(file))
    }
}

/// The folder of a place in a directory of copies. All processes that have the place under this name use the
/// same.
pub(super) fn folder_name(place: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let readable: String = place.chars().map(plain).take(80).collect();
    format!("{readable}-{:08x}", crc32fast::hash(place.as_bytes()))
}

/// Creates a folder of a directory, and writes a file there.
fn check_writable(directory: &Path, folder: &Path) -> Result<()> {
    let file = folder.join(format!(".writable-{}", std::process::id()));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&file, "")).and_then(|()| fs::remove_file(file));
    written.map_err(|error| {
        Error::outside(format!("the directory cannot be written: {error}"))
            .at(directory.display().to_string())
            .remedy("use a writable directory")
    })
}

/// The copies of one place in a local directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalCopies {
    /// The name of their folder: see [`Store::copies_name`](super::Store::copies_name).
    pub folder: String,
    /// The tasks whose state was copied.
    pub tasks: Vec<CopiedTask>,
}

/// A task whose state was copied. A message has it as an array of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedTask {
    /// The task.
    pub task: TaskId,
    /// The incarnation of its newest file.
    pub incarnation: Incarnation,
    /// The epoch of its newest file.
    pub epoch: Epoch,
}

impl<'de> Deserialize<'de> for CopiedTask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (task, incarnation, epoch) = Deserialize::deserialize(deserializer)?;
        Ok(CopiedTask { task, incarnation, epoch })
    }
}

impl Serialize for CopiedTask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.task, self.incarnation, self.epoch).serialize(serializer)
    }
}

impl LocalCopies {
    /// All copies in a directory, which must be writable. Of very many tasks only those of the places that
    /// were written last.
    pub fn find(directory: &Path) -> Result<Vec<LocalCopies>> {
        let copies = directory.join(COPIES);
        check_writable(directory, &copies)?;
        let mut folders: Vec<PathBuf> = entries(&copies).filter(|path| path.is_dir()).collect();
        let changed = |path: &PathBuf| path.metadata().and_then(|metadata| metadata.modified()).ok();
        folders.sort_by_cached_key(|path| std::cmp::Reverse(changed(path)));
        let (mut found, mut left) = (Vec::new(), TASKS_MAX);
        for path in folders {
            let Some(folder) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let mut newest = BTreeMap::new();
            for file in entries(&path) {
                let Some((task, of)) = file.file_name().and_then(|name| parts(name.to_str()?)) else { continue };
                let known = newest.entry(task).or_insert(of);
                *known = of.max(*known);
            }
            let copied = |(task, (incarnation, epoch))| CopiedTask { task, incarnation, epoch };
            let tasks: Vec<_> = newest.into_iter().map(copied).take(left).collect();
            left -= tasks.len();
            if !tasks.is_empty() {
                found.push(LocalCopies { folder: folder.to_owned(), tasks });
            }
        }
        Ok(found)
    }
}

/// What the name of a state file says: whose state it has, and from when.
fn parts(name: &str) -> Option<(TaskId, (Incarnation, Epoch))> {
    let mut parts = name.strip_suffix(".arrow")?.splitn(4, '-');
    let (incarnation, epoch) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let (stage, index) = parts.next()?.split_once('.')?;
    let task = TaskId { stage: StageId(stage.parse().ok()?), index: index.parse().ok()? };
    Some((task, (Incarnation(incarnation), Epoch(epoch))))
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

/// Removes the folders of other places without recent writes or removals.
fn remove_unused(copies: &Path, own: &Path) {
    for folder in entries(copies).filter(|folder| folder != own) {
        let changed = folder.metadata().and_then(|metadata| metadata.modified());
        let unused = changed.ok().and_then(|time| time.elapsed().ok());
        if unused.is_some_and(|unused| unused > UNUSED_MAX) {
            let _ = fs::remove_dir_all(folder);
        }
    }
}
