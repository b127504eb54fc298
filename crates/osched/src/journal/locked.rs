//! A file that its writer holds locked.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch_model::{Error, Result, pause};

use super::contents::Line;

/// How long another process may take to restore a journal, or for its turn in the folder: 5 s.
const LOCK_TRIES: usize = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Only the user reads it: it decides what is written to threads.
const MODE: u32 = 0o600;

/// A file that is locked as long as this value lives.
pub(super) struct LockedFile {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl LockedFile {
    /// Makes a file with these lines, in the place of one that is there.
    pub(super) fn create(path: PathBuf, lines: &[Line]) -> Result<LockedFile> {
        // Under another name until it is locked and complete, so that no other process takes it for one that
        // was left.
        let new = path.with_extension("new");
        let file = options().create(true).truncate(true).open(&new).map_err(|e| failed("make", &new, &e))?;
        lock(&file, &new)?;
        let mut locked = LockedFile { file, path: new.clone(), bytes: 0 };
        locked.append(lines)?;
        std::fs::rename(&new, &path).map_err(|e| failed("rename", &new, &e))?;
        locked.path = path;
        Ok(locked)
    }

    /// Opens a file once no other process holds it. `None` if it does not exist, or was removed meanwhile.
    pub(super) fn open(path: &Path) -> Result<Option<LockedFile>> {
        loop {
            let Some(file) = open(path)? else { return Ok(None) };
            lock(&file, path)?;
            match is_at(&file, path)? {
                Some(true) => {
                    let bytes = file.metadata().map_err(|e| failed("read", path, &e))?.len();
                    return Ok(Some(LockedFile { file, path: path.to_owned(), bytes }));
                }
                // Its writer has rewritten it.
                Some(false) => {}
                None => return Ok(None),
            }
        }
    }

    /// Whether another process holds the file.
    pub(super) fn is_held(path: &Path) -> Result<bool> {
        loop {
            let Some(file) = open(path)? else { return Ok(false) };
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(true),
                Err(TryLockError::Error(error)) => return Err(failed("lock", path, &error)),
                Ok(()) if is_at(&file, path)? == Some(false) => {}
                Ok(()) => return Ok(false),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes
    }

    /// Adds lines, and returns once they are on disk.
    pub(super) fn append(&mut self, lines: &[Line]) -> Result<()> {
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line).map_err(|e| Error::internal(e.to_string()))?;
            text.push(b'\n');
        }
        let written = self.file.seek(SeekFrom::Start(self.bytes)).and_then(|_| self.file.write_all(&text));
        if let Err(error) = written.and_then(|()| self.file.sync_data()) {
            // A part of a line in the middle would make the file unreadable. If this fails as well, the next
            // call overwrites it.
            drop(self.file.set_len(self.bytes));
            return Err(failed("write", &self.path, &error));
        }
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// A new file with these lines in the place of this one.
    pub(super) fn rewrite(&self, lines: &[Line]) -> Result<LockedFile> {
        LockedFile::create(self.path.clone(), lines)
    }

    pub(super) fn text(&self) -> Result<String> {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes));
        read.map_err(|e| failed("read", &self.path, &e))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn remove(self) -> Result<()> {
        std::fs::remove_file(&self.path).map_err(|e| failed("remove", &self.path, &e))
    }
}

/// Locks a file, of which nothing is read: the turn of a process in a folder.
pub(super) fn lock_file(path: &Path) -> Result<File> {
    let file = options().create(true).truncate(false).open(path).map_err(|e| failed("open", path, &e))?;
    lock(&file, path)?;
    Ok(file)
}

pub(super) fn failed(action: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::outside(format!("cannot {action} it: {error}")).at(path.display().to_string()).remedy(
        "osched needs a folder of its own that it can write: set state-directory, or correct the folder's owner",
    )
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(MODE).custom_flags(libc::O_NOFOLLOW);
    options
}

fn open(path: &Path) -> Result<Option<File>> {
    match options().open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("open", path, &error)),
    }
}

fn lock(file: &File, path: &Path) -> Result<()> {
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => pause(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(failed("lock", path, &error)),
        }
    }
    Err(Error::outside("another osched holds it")
        .at(path.display().to_string())
        .remedy("end that osched first: it restores everything at its end"))
}

/// Whether the open file is the one at the path; `None` if there is none.
fn is_at(file: &File, path: &Path) -> Result<Option<bool>> {
    let open = file.metadata().map_err(|e| failed("read", path, &e))?;
    match std::fs::symlink_metadata(path) {
        Ok(there) => Ok(Some((there.dev(), there.ino()) == (open.dev(), open.ino()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path, &error)),
    }
}
