//! Reads a text file in blocks of whole records. A block's records share its memory, and so may what is decoded from
//! them: bytes are copied once, from the operating system.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};
use arrow::array::BinaryArray;
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use memchr::memchr_iter;

use super::frame::{Framing, line_end};
use super::io_error;
use super::position::Position;

/// Bytes read at a time.
const BLOCK_BYTES: usize = 1 << 20;
/// The longest line. Beyond, the file is taken for one of another kind.
const LINE_BYTES_MAX: usize = 64 << 20;
/// The longest CSV record whose quote is still to be closed. Beyond, the quote is taken for damage.
const QUOTED_BYTES_MAX: usize = 4 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Records of a file.
pub(super) struct Block {
    pub(super) records: BinaryArray,
    /// Where the block begins in the file.
    start: u64,
    /// A position in the block, and the number of its line.
    counted: (usize, u64),
}

impl Block {
    /// Number of the line on which a record begins. Records must be asked for in their order.
    pub(super) fn line(&mut self, record: usize) -> u64 {
        self.counted = self.count(record);
        self.counted.1
    }

    fn count(&self, record: usize) -> (usize, u64) {
        let (from, line) = self.counted;
        let to = self.records.value_offsets()[record] as usize;
        (to, line + memchr_iter(b'\n', &self.records.values()[from..to]).count() as u64)
    }

    /// Where a record begins that has not been asked for.
    pub(super) fn position(&self, record: usize) -> Position {
        let (at, line) = self.count(record);
        Position::Text { byte: self.start + at as u64, line }
    }
}

/// Reader of one text file.
pub(super) struct LineReader {
    path: PathBuf,
    framing: Framing,
    /// The file grows: its last line counts once it has its line end.
    follow: bool,
    /// `None` while nothing is being read.
    file: Option<File>,
    /// Bytes read so far.
    position: u64,
    /// Bytes read of a record that is not complete.
    rest: Vec<u8>,
    /// Number of the line at the beginning of `rest`, from 1.
    line: u64,
    /// The file has been read to the end that it will keep.
    ended: bool,
}

impl LineReader {
    /// Reads on before the record that begins at a byte, on a line.
    pub(super) fn new(path: &Path, framing: Framing, follow: bool, byte: u64, line: u64) -> Self {
        let path = path.to_owned();
        LineReader { path, framing, follow, file: None, position: byte, rest: Vec::new(), line, ended: false }
    }

    /// After the records of the last block.
    pub(super) fn position(&self) -> Position {
        Position::Text { byte: self.position - self.rest.len() as u64, line: self.line }
    }

    /// The next records; `None` at the end, or if there is no complete one at the moment.
    pub(super) fn next(&mut self) -> Result<Option<Block>> {
        if self.ended || !self.open()? {
            return Ok(None);
        }
        let at_start = self.position == self.rest.len() as u64;
        let mut bytes = std::mem::take(&mut self.rest);
        loop {
            let at_end = self.read_more(&mut bytes)?;
            let begin = if at_start && bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
            let offsets = self.split(&bytes, begin, at_end && !self.follow);
            let end = offsets.last().map_or(0, |end| *end as usize);
            if offsets.len() > 1 {
                return Ok(Some(self.block(bytes, offsets, end)));
            }
            if at_end {
                self.rest = bytes;
                return Ok(None);
            }
            if bytes.len() - end > LINE_BYTES_MAX {
                let place = format!("{} line {}", self.path.display(), self.line);
                return Err(Error::user(format!("the line is longer than {} MiB", LINE_BYTES_MAX >> 20))
                    .at(place)
                    .remedy("check that the file is text and the option 'format' fits it"));
            }
        }
    }

    /// Whether nothing more will come.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Notes the end of a file that has been deleted while it was followed: its last line, without its end, was never
    /// complete. A file of a table that is read once is missed.
    fn is_gone(&mut self, error: &std::io::Error) -> bool {
        self.ended = self.follow && error.kind() == ErrorKind::NotFound;
        self.ended
    }

    /// Opens the file where reading goes on; false if nothing more is there.
    fn open(&mut self) -> Result<bool> {
        if self.file.is_some() {
            return Ok(true);
        }
        let path = self.path.clone();
        let failed = |doing: &str, error: &std::io::Error| io_error(&path, doing, error);
        if self.position > 0 {
            let length = match self.path.metadata() {
                Err(error) if self.is_gone(&error) => return Ok(false),
                found => found.map_err(|e| failed("look at", &e))?.len(),
            };
            if length < self.position {
                return Err(Error::outside(format!("{} has become shorter since it was read", self.path.display()))
                    .remedy("write new lines to new files instead of replacing old ones"));
            }
            if length == self.position {
                return Ok(false);
            }
        }
        let mut file = match File::open(&self.path) {
            Err(error) if self.is_gone(&error) => return Ok(false),
            opened => opened.map_err(|e| failed("open", &e))?,
        };
        file.seek(SeekFrom::Start(self.position)).map_err(|e| failed("read", &e))?;
        self.file = Some(file);
        Ok(true)
    }

    /// Reads a block more; true at the end of the file.
    fn read_more(&mut self, bytes: &mut Vec<u8>) -> Result<bool> {
        let Some(file) = &mut self.file else { return Err(Error::internal("a read without an open file")) };
        bytes.reserve_exact(BLOCK_BYTES + 64);
        let read = file.take(BLOCK_BYTES as u64).read_to_end(bytes);
        let read = read.map_err(|e| io_error(&self.path, "read", &e))?;
        self.position += read as u64;
        let at_end = read < BLOCK_BYTES;
        if at_end {
            self.file = None;
            self.ended = !self.follow;
        }
        Ok(at_end)
    }

    /// Ends of the records in `bytes[begin..]`. What is not complete becomes a record if it never will be: the last line
    /// of a file that ends without a line end, and the first line of a CSV record whose quote is not closed.
    fn split(&self, bytes: &[u8], begin: usize, all: bool) -> Vec<i32> {
        let mut offsets = vec![begin as i32];
        let mut at = begin;
        loop {
            at = self.framing.split(bytes, at, &mut offsets);
            let quote_open = self.framing.is_quoting() && bytes.len() - at > QUOTED_BYTES_MAX;
            if at == bytes.len() || !(all || quote_open) {
                return offsets;
            }
            let end = match line_end(bytes, at) {
                Some(end) => end,
                None if all => bytes.len(),
                None => return offsets,
            };
            self.framing.push(&bytes[at..end], end, &mut offsets);
            at = end;
        }
    }

    fn block(&mut self, bytes: Vec<u8>, offsets: Vec<i32>, end: usize) -> Block {
        let first_line = self.line;
        self.line += memchr_iter(b'\n', &bytes[..end]).count() as u64;
        self.rest = bytes[end..].to_vec();
        let start = self.position - bytes.len() as u64;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Block { records: BinaryArray::new(offsets, Buffer::from_vec(bytes), None), start, counted: (0, first_line) }
    }
}

#[cfg(test)]
mod tests;
