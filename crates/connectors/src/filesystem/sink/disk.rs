//! The file operations of the sinks. Their order decides what is on disk after a power failure. Tests record
//! them here, let one fail, and replay what a power failure would leave.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_model::Result;

use crate::filesystem::io_error;

/// An operation on the disk.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests watch"))]
pub(super) enum Operation<'a> {
    MakeFolder(&'a Path),
    Create(&'a Path),
    Write(&'a Path, &'a [u8]),
    Cut(&'a Path, u64),
    SyncFile(&'a Path),
    Rename(&'a Path, &'a Path),
    Remove(&'a Path),
    SyncFolder(&'a Path),
}

/// Observes each operation before it is carried out. An error replaces the operation.
pub(super) trait Watch: Send + Sync {
    fn before(&self, operation: Operation<'_>) -> io::Result<()>;
}

/// The local disk.
#[derive(Clone, Default)]
pub(super) struct Disk {
    watch: Option<Arc<dyn Watch>>,
}

impl Disk {
    /// A disk whose operations are watched.
    #[cfg(test)]
    pub(super) fn watched(watch: Arc<dyn Watch>) -> Disk {
        Disk { watch: Some(watch) }
    }

    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        self.watch.as_ref().map_or(Ok(()), |watch| watch.before(operation))
    }

    /// Makes a folder and its missing parents, and syncs their names to disk.
    pub(super) fn make_folder(&self, folder: &Path) -> Result<()> {
        let missing: Vec<_> = folder.ancestors().take_while(|f| !f.as_os_str().is_empty() && !f.exists()).collect();
        for folder in missing.into_iter().rev() {
            let made = self.before(Operation::MakeFolder(folder)).and_then(|()| fs::create_dir(folder));
            match made {
                // Another task made it first.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made.map_err(|e| io_error(folder, "make the folder", &e))?,
            }
            let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
            self.sync_folder(parent.unwrap_or(Path::new(".")))?;
        }
        match folder.is_dir() {
            true => Ok(()),
            false => Err(io_error(folder, "make the folder", &io::Error::from(ErrorKind::NotADirectory))),
        }
    }

    /// Makes a file; `None` if the name is taken.
    pub(super) fn create(&self, path: &Path) -> Result<Option<DiskFile>> {
        let made = self
            .before(Operation::Create(path))
            .and_then(|()| OpenOptions::new().write(true).create_new(true).open(path));
        match made {
            Ok(file) => Ok(Some(DiskFile { disk: self.clone(), file, path: path.to_owned() })),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(io_error(path, "make the file", &error)),
        }
    }

    /// Opens a file to read and write it; `None` if there is none.
    pub(super) fn open(&self, path: &Path) -> Result<Option<DiskFile>> {
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => Ok(Some(DiskFile { disk: self.clone(), file, path: path.to_owned() })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error(path, "open", &error)),
        }
    }

    /// Gives a file another name; false if there is no such file.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<bool> {
        match self.before(Operation::Rename(from, to)).and_then(|()| fs::rename(from, to)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(io_error(to, "give the name", &error)),
        }
    }

    /// Removes a file if it is there.
    pub(super) fn remove(&self, path: &Path) -> Result<()> {
        match self.before(Operation::Remove(path)).and_then(|()| fs::remove_file(path)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(io_error(path, "remove", &error)),
            _ => Ok(()),
        }
    }

    /// Syncs the names in a folder to disk.
    pub(super) fn sync_folder(&self, folder: &Path) -> Result<()> {
        let synced = self.before(Operation::SyncFolder(folder)).and_then(|()| File::open(folder)?.sync_all());
        synced.map_err(|e| io_error(folder, "sync to disk", &e))
    }
}

/// Whether there is a file of this name.
pub(super) fn exists(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|e| io_error(path, "look at", &e))
}

/// An open file.
pub(super) struct DiskFile {
    disk: Disk,
    file: File,
    path: PathBuf,
}

impl DiskFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the content to disk.
    pub(super) fn sync(&self) -> Result<()> {
        let synced = self.disk.before(Operation::SyncFile(&self.path)).and_then(|()| self.file.sync_all());
        synced.map_err(|e| io_error(&self.path, "sync to disk", &e))
    }

    /// Waits for the file's lock, and takes it.
    pub(super) fn lock(&self) -> Result<()> {
        self.file.lock().map_err(|e| io_error(&self.path, "lock", &e))
    }

    /// Takes the file's lock; false if another has it.
    pub(super) fn try_lock(&self) -> Result<bool> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(io_error(&self.path, "lock", &e)),
        }
    }

    /// Whether the file still has the name under which it was opened.
    pub(super) fn has_its_name(&self) -> Result<bool> {
        let failed = |e: io::Error| io_error(&self.path, "look at", &e);
        let named = match self.path.metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            found => found.map_err(failed)?,
        };
        let open = self.file.metadata().map_err(failed)?;
        Ok((open.dev(), open.ino()) == (named.dev(), named.ino()))
    }

    /// All of the content.
    pub(super) fn read(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.read_to_end(&mut bytes));
        read.map_err(|e| io_error(&self.path, "read", &e)).map(|_| bytes)
    }

    /// Truncates the file.
    pub(super) fn cut(&self, bytes: u64) -> Result<()> {
        let cut = self.disk.before(Operation::Cut(&self.path, bytes)).and_then(|()| self.file.set_len(bytes));
        cut.map_err(|e| io_error(&self.path, "cut", &e))
    }
}

impl Write for DiskFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.before(Operation::Write(&self.path, bytes))?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
