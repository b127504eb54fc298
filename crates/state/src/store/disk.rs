//! The file operations that checkpoints in a directory need, as a trait: the operating system's, or those of
//! a model that loses everything that was not made durable.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskEntry {
    /// Its name in the folder.
    pub name: String,
    /// Whether it is a folder.
    pub is_folder: bool,
}

/// A disk. A change of a name is durable after [`Disk::sync_folder`] of its folder, and not before.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Creates a new file with durable content. There must be none of this name.
    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// The same, for a file with secrets: only the user of this process may read it.
    fn write_private(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// From now on only the user of this process may read a file.
    fn make_private(&self, path: &Path) -> io::Result<()>;

    /// Gives a file a second name. An error of kind `AlreadyExists` if that name is taken.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Moves a file, replacing an existing one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a folder. An error of kind `AlreadyExists` if there is one.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Replaces `content` by that of a file. What room it has is used again: memory that is new takes longer
    /// than reading does.
    fn read(&self, path: &Path, content: &mut Vec<u8>) -> io::Result<()>;

    /// When a file was written, in milliseconds since 1970.
    fn written_ms(&self, path: &Path) -> io::Result<i64>;

    /// The entries of a folder, in any order.
    fn list(&self, folder: &Path) -> io::Result<Vec<DiskEntry>>;
}

/// The system may not interrupt a thread before it has written this number of bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Writes in pieces, and yields between them to threads with rows to process: these cannot interrupt a copy
/// into the system's memory.
pub(super) fn write_in_pieces(file: &mut File, content: &[u8]) -> io::Result<()> {
    for (number, piece) in content.chunks(PIECE_BYTES).enumerate() {
        if number > 0 {
            std::thread::yield_now();
        }
        file.write_all(piece)?;
    }
    Ok(())
}

/// Rights of a file with secrets: its owner reads and writes it.
const PRIVATE: u32 = 0o600;

fn write_new(options: &OpenOptions, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = options.open(path)?;
    // Through the handle that wrote: another handle may not report an error of the write-back.
    write_in_pieces(&mut file, content).and_then(|()| file.sync_all())
}

/// The operating system's files.
#[derive(Debug)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        write_new(OpenOptions::new().write(true).create_new(true), path, content)
    }

    fn write_private(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        write_new(OpenOptions::new().write(true).create_new(true).mode(PRIVATE), path, content)
    }

    fn make_private(&self, path: &Path) -> io::Result<()> {
        let mode = fs::metadata(path)?.permissions().mode();
        match mode & 0o777 & !PRIVATE {
            0 => Ok(()),
            _ => fs::set_permissions(path, fs::Permissions::from_mode(mode & PRIVATE)),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn read(&self, path: &Path, content: &mut Vec<u8>) -> io::Result<()> {
        content.clear();
        File::open(path)?.read_to_end(content).map(drop)
    }

    fn written_ms(&self, path: &Path) -> io::Result<i64> {
        let since = fs::metadata(path)?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<DiskEntry>> {
        let entry = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            // Names of objects are always text; other files are shown as well as possible.
            let name = OsStr::new(&entry.file_name()).to_string_lossy().into_owned();
            Ok(DiskEntry { name, is_folder: entry.path().is_dir() })
        };
        fs::read_dir(folder)?.map(entry).collect()
    }
}
