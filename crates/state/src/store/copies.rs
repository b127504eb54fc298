//! Local copies of state files of a remote store: a job that restarts on the same machine reads them instead of the
//! remote files.
//!
//! Nothing depends on them. A copy that is not exactly what was written counts as missing, and a failure to write one
//! is ignored. Each place has its own folder; a folder without writes for days belongs to a job that is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch_model::{Error, Result};
use bytes::Bytes;

use super::Blob;

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
        let copies = directory.join("copies");
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let readable: String = place.chars().map(plain).take(80).collect();
        let folder = copies.join(format!("{readable}-{:08x}", crc32fast::hash(place.as_bytes())));
        fs::create_dir_all(&folder).map_err(|error| {
            Error::outside(format!("the directory cannot be created: {error}"))
                .at(directory.display().to_string())
                .remedy("use a writable directory")
        })?;
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
        let written = fs::create_dir_all(&self.folder).and_then(|()| fs::write(&path, content));
        if written.is_err() {
            let _ = fs::remove_file(path);
        }
    }

    pub(super) fn delete(&self, name: &str) {
        if let Some(path) = self.path(name) {
            let _ = fs::remove_file(path);
        }
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
