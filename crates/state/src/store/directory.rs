//! Objects as files in a local directory. After a power failure each object is whole or absent, and every
//! object that was reported as written is present.
//!
//! A file gets its name when its content is durable; it counts as written when the name is durable too. If
//! the disk refuses one of the two, the write has failed, although the file may be visible under its name.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::disk::{Disk, DiskEntry};

/// Separates an object's name from the rest in the name of a file that is being written. No object's name
/// contains it.
const UNFINISHED: char = '#';

/// Who may read an object, beside what the system allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    All,
    /// The user of this process alone.
    Owner,
}

/// A directory with objects.
#[derive(Debug)]
pub(super) struct Directory {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    /// Folders that were made durable.
    folders: Mutex<BTreeSet<PathBuf>>,
    /// Numbers the files that are being written.
    files: AtomicU64,
}

impl Directory {
    pub(super) fn new(disk: Arc<dyn Disk>, root: PathBuf) -> Directory {
        Directory { disk, root, folders: Mutex::default(), files: AtomicU64::new(0) }
    }

    /// Writes an object, replacing an existing one.
    pub(super) fn put(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let (path, folder) = self.place(name)?;
        let file = self.write(name, content, Readers::All)?;
        self.disk.rename(&file, &path).inspect_err(|_| self.discard(&file))?;
        self.disk.sync_folder(&folder)
    }

    /// Writes an object unless there is one of this name: false if there is.
    pub(super) fn put_new(&self, name: &str, content: &[u8], readers: Readers) -> io::Result<bool> {
        let (path, folder) = self.place(name)?;
        let file = self.write(name, content, readers)?;
        let linked = self.disk.link(&file, &path);
        self.discard(&file);
        match linked {
            Ok(()) => self.disk.sync_folder(&folder).map(|()| true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// An object's content, in this memory.
    pub(super) fn get(&self, name: &str, mut room: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        let path = self.root.join(name);
        let read = found(self.disk.read(&path, &mut room))?;
        self.present(read.map(|()| room), path.parent().unwrap_or(&self.root))
    }

    /// When an object was written.
    pub(super) fn written_ms(&self, name: &str) -> io::Result<Option<i64>> {
        found(self.disk.written_ms(&self.root.join(name)))
    }

    /// From now on only the user of this process may read an object, if it exists.
    pub(super) fn make_private(&self, name: &str) -> io::Result<()> {
        found(self.disk.make_private(&self.root.join(name))).map(|_| ())
    }

    /// Removes an object. It may reappear after a power failure.
    pub(super) fn delete(&self, name: &str) -> io::Result<()> {
        found(self.disk.remove(&self.root.join(name))).map(|_| ())
    }

    /// Removes an object durably.
    pub(super) fn delete_durably(&self, name: &str) -> io::Result<()> {
        self.delete(name)?;
        let path = self.root.join(name);
        found(self.disk.sync_folder(path.parent().unwrap_or(&self.root))).map(|_| ())
    }

    /// Names of all objects in a folder and its subfolders, including files whose writing was interrupted.
    pub(super) fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let mut folders = vec![folder.trim_end_matches('/').to_owned()];
        while let Some(folder) = folders.pop() {
            let path = self.root.join(&folder);
            let entries = self.present(found(self.disk.list(&path))?, &path)?;
            for DiskEntry { name, is_folder } in entries.unwrap_or_default() {
                let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                if is_folder { folders.push(name) } else { names.push(name) }
            }
        }
        Ok(names)
    }

    /// Names of the files and folders in the directory itself.
    pub(super) fn top(&self) -> io::Result<Vec<String>> {
        Ok(self.disk.list(&self.root)?.into_iter().map(|entry| entry.name).collect())
    }

    /// What was found in a folder. If a folder to which objects were written has disappeared, its absence
    /// does not mean that they were deleted: the directory was moved, or is not mounted any more.
    fn present<T>(&self, found: Option<T>, folder: &Path) -> io::Result<Option<T>> {
        let is_known = || self.folders.lock().unwrap_or_else(PoisonError::into_inner).contains(folder);
        if found.is_none() && is_known() {
            self.disk.list(folder)?;
        }
        Ok(found)
    }

    /// The path of an object, and its folder, which exists durably.
    fn place(&self, name: &str) -> io::Result<(PathBuf, PathBuf)> {
        let path = self.root.join(name);
        let folder = path.parent().unwrap_or(&self.root).to_owned();
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if folder != self.root && !folders.contains(&folder) {
            make_folders(self.disk.as_ref(), &self.root, &folder)?;
            folders.insert(folder.clone());
        }
        Ok((path, folder))
    }

    /// Writes a file beside the object of this name. Leaves nothing if that fails.
    fn write(&self, name: &str, content: &[u8], readers: Readers) -> io::Result<PathBuf> {
        loop {
            let (process, number) = (std::process::id(), self.files.fetch_add(1, Relaxed));
            let file = self.root.join(format!("{name}{UNFINISHED}{process}-{number}"));
            let written = match readers {
                Readers::All => self.disk.write_file(&file, content),
                Readers::Owner => self.disk.write_private(&file, content),
            };
            match written {
                Ok(()) => return Ok(file),
                // A file of a process with the same number, on another machine or before this one.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    self.discard(&file);
                    return Err(error);
                }
            }
        }
    }

    fn discard(&self, file: &Path) {
        // A file that cannot be removed now only takes space.
        let _ = self.disk.remove(file);
    }
}

/// Creates the folders from `root`, which exists, down to `folder`, durably.
pub(super) fn make_folders(disk: &dyn Disk, root: &Path, folder: &Path) -> io::Result<()> {
    let Ok(below) = folder.strip_prefix(root) else { return Ok(()) };
    let mut path = root.to_owned();
    for name in below {
        let parent = path.clone();
        path.push(name);
        match disk.make_folder(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            // The process that created it may not have made it durable.
            _ => disk.sync_folder(&parent)?,
        }
    }
    Ok(())
}

fn found<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
