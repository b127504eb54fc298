//! The identity of a followed file. The name is not part of it, because a log rotation gives the name to
//! another file.

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::UNIX_EPOCH;

use anabranch_model::{HASH_SEED, hash_bytes};

/// Number of first bytes that identify a file: more than a header has, so that they include rows.
const HEAD_BYTES: usize = 4096;

/// A file's identity in its file system. It survives a rename. A file that takes over a name has another
/// identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId {
    device: u64,
    pub(super) inode: u64,
    /// Creation time in milliseconds since 1970, because inodes of deleted files are reused. 0 if the file
    /// system does not record it.
    pub(super) born_ms: u64,
}

impl FileId {
    pub(super) fn from_metadata(metadata: &Metadata) -> FileId {
        let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born_ms = born.map_or(0, |born| u64::try_from(born.as_millis()).unwrap_or(0));
        FileId { device: metadata.dev(), inode: metadata.ino(), born_ms }
    }
}

/// Which of `parallelism` tasks reads the file of this inode.
pub(super) fn owner(inode: u64, parallelism: u32) -> u32 {
    let owner = hash_bytes(HASH_SEED, &inode.to_le_bytes()) % u64::from(parallelism.max(1));
    u32::try_from(owner).unwrap_or(0)
}

/// A hash of a file's first bytes. They stay the same while the file grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// Number of the bytes.
    pub(super) bytes: u64,
    pub(super) hash: u64,
}

impl Head {
    /// The hash of a file's present first bytes.
    pub(super) fn read(file: &File) -> io::Result<Head> {
        Self::first(file, HEAD_BYTES)
    }

    fn first(file: &File, most: usize) -> io::Result<Head> {
        let mut buffer = [0; HEAD_BYTES];
        let buffer = &mut buffer[..most.min(HEAD_BYTES)];
        let mut length = 0;
        while length < buffer.len() {
            match file.read_at(&mut buffer[length..], length as u64)? {
                0 => break,
                read => length += read,
            }
        }
        Ok(Head { bytes: length as u64, hash: hash_bytes(HASH_SEED, &buffer[..length]) })
    }

    /// Whether a file still begins with these bytes.
    pub(super) fn is_of(&self, file: &File) -> io::Result<bool> {
        let most = usize::try_from(self.bytes).unwrap_or(HEAD_BYTES);
        Ok(self.bytes == 0 || Self::first(file, most)? == *self)
    }

    /// Whether the hash covers its maximal number of bytes.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= HEAD_BYTES as u64
    }
}

/// The identity of a followed file as written in its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) inode: u64,
    pub(super) born_ms: u64,
    pub(super) head: Head,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { inode, born_ms, head } = self;
        write!(f, "inode {inode} born {born_ms} first {} hash {}", head.bytes, head.hash)
    }
}
