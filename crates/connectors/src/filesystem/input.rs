//! The decompressed bytes of a text file, from a position on.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};
use flate2::bufread::MultiGzDecoder;

use super::identity::{FileId, Head};
use super::io_error;

/// The remedy for a file that ends before its position.
pub(super) const PUT_BACK: &str = "put the former file back, and start the job again; write what is new to new files";
/// What to do about a compressed file that cannot be read further.
const WRITE_AGAIN: &str = "write the file again under its name, with the same text up to there";

/// How a text file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    /// One or more gzip members.
    Gzip,
    /// One or more zstd frames.
    Zstd,
}

impl Compression {
    /// The compression that a file name's extension stands for.
    pub(super) fn from_extension(path: &Path) -> Compression {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::None,
        }
    }

    /// The term for one compressed unit of a file: gzip has members, zstd has frames.
    fn frame_name(self) -> &'static str {
        if self == Compression::Zstd { "frame" } else { "member" }
    }

    /// Whether the decoder found something else where a member or frame should begin.
    fn is_not_a_part(self, error: &io::Error) -> bool {
        let message = error.to_string();
        match self {
            Compression::Zstd => message.contains("Unknown frame descriptor"),
            _ => message.contains("invalid gzip header"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Compression::None => "plain",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }
}

/// The file that a followed table reads under this name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tracked {
    pub(super) id: FileId,
    pub(super) head: Head,
}

/// What an input can deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Supply {
    Bytes,
    /// Nothing at the moment.
    Nothing,
    /// The content was replaced: the file was truncated and written again.
    Replaced,
}

/// A text file being read from a position on.
pub(super) struct Input {
    path: PathBuf,
    compression: Compression,
    tracked: Option<Tracked>,
    /// Whether a growing file stays open, so that it can be read to its end after it was deleted or moved
    /// away.
    stays_open: bool,
    reader: Option<Reader>,
    /// Number of decompressed bytes delivered so far.
    position: u64,
    /// Size of the compressed file when it was last opened.
    packed_bytes: u64,
    /// Whether there were no more bytes at the last read.
    is_at_end: bool,
    /// Whether the compressed file ended within a member or frame at the last read: its writer is still
    /// writing it.
    is_cut: bool,
}

enum Reader {
    Plain(File),
    Packed(Box<dyn Read + Send>),
}

impl Input {
    pub(super) fn new(path: &Path, compression: Compression, tracked: Option<Tracked>, position: u64) -> Input {
        let path = path.to_owned();
        Input {
            path,
            compression,
            tracked,
            stays_open: false,
            reader: None,
            position,
            packed_bytes: 0,
            is_at_end: false,
            is_cut: false,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes that the file was renamed to `path`.
    pub(super) fn rename(&mut self, path: &Path) {
        self.path = path.to_owned();
    }

    pub(super) fn set_stays_open(&mut self, stays_open: bool) {
        self.stays_open = stays_open;
    }

    pub(super) fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    /// Number of decompressed bytes delivered so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Whether there were no more bytes at the last read, and none are missing.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_at_end && !self.is_cut
    }

    pub(super) fn head(&self) -> Head {
        self.tracked.map_or(Head::default(), |tracked| tracked.head)
    }

    /// Opens the file if it is not open.
    pub(super) fn open(&mut self) -> Result<Supply> {
        let opened = match (self.tracked, &self.reader) {
            (None, Some(_)) | (Some(_), Some(Reader::Packed(_))) => return Ok(Supply::Bytes),
            (None, None) => self.open_whole(),
            (Some(tracked), Some(Reader::Plain(file))) => {
                let supply = supply(file, &tracked, file.metadata(), self.position);
                self.is_at_end |= matches!(supply, Ok(Supply::Nothing));
                if let Ok(Supply::Bytes) = supply
                    && !tracked.head.is_full()
                {
                    self.tracked = Head::read(file).ok().map(|head| Tracked { head, ..tracked });
                }
                supply
            }
            (Some(tracked), None) => self.open_growing(tracked),
        };
        opened.map_err(|e| self.failed(&e))
    }

    /// Opens a file of a bounded table.
    fn open_whole(&mut self) -> io::Result<Supply> {
        let file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        if self.compression == Compression::None && self.position > 0 {
            if length < self.position {
                return Err(shorter());
            }
            if length == self.position {
                return Ok(Supply::Nothing);
            }
        }
        self.read_from(file, length)
    }

    /// Opens a file of a followed table if it still exists and has grown.
    fn open_growing(&mut self, tracked: Tracked) -> io::Result<Supply> {
        // The next scan of the folder finds out whether the file was renamed or deleted.
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Supply::Nothing),
            opened => opened?,
        };
        let metadata = file.metadata()?;
        if FileId::from_metadata(&metadata) != tracked.id {
            return Ok(Supply::Nothing);
        }
        let length = metadata.len();
        let given = if self.compression == Compression::None { self.position } else { self.packed_bytes };
        match supply(&file, &tracked, Ok(metadata), given)? {
            Supply::Bytes => {}
            other => {
                self.is_at_end |= other == Supply::Nothing;
                return Ok(other);
            }
        }
        self.tracked = Some(Tracked { head: Head::read(&file)?, ..tracked });
        self.read_from(file, length)
    }

    /// Continues in an open file after the bytes that were delivered.
    fn read_from(&mut self, mut file: File, length: u64) -> io::Result<Supply> {
        if self.compression == Compression::None {
            file.seek(SeekFrom::Start(self.position))?;
            self.reader = Some(Reader::Plain(file));
            return Ok(Supply::Bytes);
        }
        self.packed_bytes = length;
        let mut reader: Box<dyn Read + Send> = match self.compression {
            // An empty file has no gzip member and no zstd frame.
            _ if length == 0 => Box::new(io::empty()),
            Compression::Zstd => Box::new(zstd::Decoder::new(file)?),
            _ => Box::new(MultiGzDecoder::new(BufReader::with_capacity(64 << 10, file))),
        };
        let skipped = match io::copy(&mut reader.by_ref().take(self.position), &mut io::sink()) {
            Err(error) if self.is_incomplete(&error) => {
                self.is_cut = true;
                return Ok(Supply::Nothing);
            }
            skipped => skipped?,
        };
        self.is_cut = false;
        if skipped < self.position {
            return match self.tracked {
                Some(_) => Ok(Supply::Replaced),
                None => Err(shorter()),
            };
        }
        self.reader = Some(Reader::Packed(reader));
        Ok(Supply::Bytes)
    }

    /// Reads up to `most` more bytes; true at the current end of the file.
    pub(super) fn read(&mut self, bytes: &mut Vec<u8>, most: usize) -> Result<bool> {
        let before = bytes.len();
        bytes.reserve_exact(most + 64);
        let read = match &mut self.reader {
            None => return Err(Error::internal("a read without an open file")),
            Some(Reader::Plain(file)) => file.take(most as u64).read_to_end(bytes),
            Some(Reader::Packed(reader)) => reader.take(most as u64).read_to_end(bytes),
        };
        self.position += (bytes.len() - before) as u64;
        let at_end = match read {
            Ok(read) => read < most,
            // The writer has not written the rest yet.
            Err(error) if self.is_incomplete(&error) => {
                self.is_cut = true;
                true
            }
            Err(error) => return Err(self.failed(&error)),
        };
        self.is_at_end = at_end;
        let stays_open = self.stays_open && self.tracked.is_some() && matches!(self.reader, Some(Reader::Plain(_)));
        if at_end && !stays_open {
            self.reader = None;
        }
        Ok(at_end)
    }

    /// Whether the error means that a growing compressed file ends within a member or frame.
    fn is_incomplete(&self, error: &io::Error) -> bool {
        self.tracked.is_some() && self.compression != Compression::None && error.kind() == ErrorKind::UnexpectedEof
    }

    /// Whether a compressed file is open and has delivered bytes.
    fn has_delivered_packed(&self) -> bool {
        self.position > 0 && matches!(self.reader, Some(Reader::Packed(_)))
    }

    /// The file, and how far its text could be read.
    fn place(&self) -> String {
        let path = self.path.display();
        match self.has_delivered_packed() {
            true => format!("{path}, after byte {} of its text", self.position),
            false => path.to_string(),
        }
    }

    fn failed(&self, error: &io::Error) -> Error {
        let path = self.path.display();
        match error.kind() {
            _ if error.get_ref().is_some_and(|inner| inner.is::<Shorter>()) => {
                Error::outside(format!("{path} has become shorter since it was read")).remedy(PUT_BACK)
            }
            ErrorKind::UnexpectedEof if self.compression != Compression::None => {
                Error::user(format!("the {} file ends too early", self.compression.name()))
                    .at(self.place())
                    .remedy(WRITE_AGAIN)
            }
            ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::Other if self.has_delivered_packed() => {
                let (name, part) = (self.compression.name(), self.compression.frame_name());
                let message = match self.compression.is_not_a_part(error) {
                    true => format!("the {name} file has bytes after its last {part} that are not a {part}"),
                    false => format!("the {name} file is damaged: {error}"),
                };
                Error::user(message).at(self.place()).remedy(WRITE_AGAIN)
            }
            ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::Other
                if self.compression != Compression::None =>
            {
                Error::user(format!("not a readable {} file: {error}", self.compression.name()))
                    .at(path.to_string())
                    .remedy("check the file, or name its compression: 'compression' = 'none', 'gzip' or 'zstd'")
            }
            _ => io_error(&self.path, "read", error),
        }
    }
}

/// A file is shorter than the position of the next read.
#[derive(Debug)]
struct Shorter;

impl fmt::Display for Shorter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the file is shorter than its position")
    }
}

impl std::error::Error for Shorter {}

fn shorter() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, Shorter)
}

/// Whether an open file of a followed table has more bytes than were delivered.
fn supply(file: &File, tracked: &Tracked, metadata: io::Result<Metadata>, given: u64) -> io::Result<Supply> {
    let length = metadata?.len();
    if length < given {
        return Ok(Supply::Replaced);
    }
    if length == given {
        return Ok(Supply::Nothing);
    }
    Ok(if tracked.head.is_of(file)? { Supply::Bytes } else { Supply::Replaced })
}
