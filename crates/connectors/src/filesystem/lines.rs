//! Reads a text file in blocks of whole records. Records share the memory of their block, and so may the
//! decoded columns: bytes are copied once, from the operating system.

use anabranch_model::Result;
use arrow::array::BinaryArray;
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use memchr::memchr_iter;

use super::frame::{Framing, line_end};
use super::input::{Input, Supply};
use super::position::Position;

/// Bytes read at a time.
const BLOCK_BYTES: usize = 1 << 20;
/// The longest record. A longer one is malformed: the reader skips it and never holds all of it in memory.
const RECORD_BYTES_MAX: usize = 64 << 20;
/// The number of bytes of such a record that are reported.
const SHOWN_BYTES: usize = 1000;
/// The number of blocks skipped at a time, before other files are read.
const BLOCKS_PAST: usize = 16;
/// The longest CSV record with an open quote. In a longer one, the quote counts as damage.
const QUOTED_BYTES_MAX: usize = 4 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A result of [`LineReader::next`].
pub(super) enum Piece {
    Records(Block),
    TooLong(TooLong),
    /// A part of a record that is too long was skipped.
    Past,
}

/// A record that is longer than allowed.
pub(super) struct TooLong {
    byte: u64,
    /// Number of its line.
    pub(super) line: u64,
    /// Its first bytes.
    pub(super) begins: Vec<u8>,
    pub(super) error: String,
}

/// Records of a file.
pub(super) struct Block {
    pub(super) records: BinaryArray,
    /// Where the block begins in the file.
    start: u64,
    /// A position in the block, and the number of its line.
    counted: (usize, u64),
}

impl Block {
    /// Number of the line on which a record begins. Callers must query records in ascending order.
    pub(super) fn line(&mut self, record: usize) -> u64 {
        self.counted = self.count(record);
        self.counted.1
    }

    fn count(&self, record: usize) -> (usize, u64) {
        let (from, line) = self.counted;
        let to = self.records.value_offsets()[record] as usize;
        (to, line + memchr_iter(b'\n', &self.records.values()[from..to]).count() as u64)
    }

    /// Where a record begins. [`Block::line`] must not have been called for it or for a later record.
    pub(super) fn position(&self, record: usize) -> Position {
        let (at, line) = self.count(record);
        Position::Text { byte: self.start + at as u64, line }
    }
}

/// Reader of one text file.
pub(super) struct LineReader {
    pub(super) input: Input,
    framing: Framing,
    /// Whether the file may grow: then its last line is a record only if it has a line end.
    follow: bool,
    record_bytes_max: usize,
    /// Bytes read of a record that is not complete.
    rest: Vec<u8>,
    /// Whether there may be complete records in `rest`.
    is_unsplit: bool,
    /// Number of the line at the beginning of `rest`, from 1.
    line: u64,
    /// The record that is being skipped.
    too_long: Option<TooLong>,
    /// Whether the file was read to its final end.
    ended: bool,
    /// Whether the content of the file was replaced.
    replaced: bool,
}

impl LineReader {
    /// Reads from the input's position, which is the start of a record, on line `line`.
    pub(super) fn new(input: Input, framing: Framing, follow: bool, line: u64) -> Self {
        LineReader {
            input,
            framing,
            follow,
            record_bytes_max: RECORD_BYTES_MAX,
            rest: Vec::new(),
            is_unsplit: false,
            line,
            too_long: None,
            ended: false,
            replaced: false,
        }
    }

    /// The position after the records of the last block.
    pub(super) fn position(&self) -> Position {
        match &self.too_long {
            Some(TooLong { byte, line, .. }) => Position::Text { byte: *byte, line: *line },
            None => Position::Text { byte: self.input.position() - self.rest.len() as u64, line: self.line },
        }
    }

    /// Whether the file had no more bytes behind the position, at the last read.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty() && self.too_long.is_none() && self.input.is_at_end()
    }

    /// Whether reading began at this position and found nothing yet.
    pub(super) fn has_read_nothing_since(&self, start: Position) -> bool {
        matches!(start, Position::Text { byte, .. } if self.input.position() == byte)
    }

    /// Whether the content was replaced, so that the file has to be read from its beginning.
    pub(super) fn is_replaced(&self) -> bool {
        self.replaced
    }

    /// The next records or the next skipped record; `None` at the end, or if no complete record is available
    /// yet.
    pub(super) fn next(&mut self) -> Result<Option<Piece>> {
        if self.replaced {
            return Ok(None);
        }
        let supply = if self.ended { Supply::Nothing } else { self.input.open()? };
        if self.too_long.is_some() && (self.ended || supply == Supply::Bytes) {
            return self.read_past();
        }
        if supply != Supply::Bytes && !std::mem::take(&mut self.is_unsplit) {
            self.replaced = supply == Supply::Replaced;
            return Ok(None);
        }
        let at_start = self.input.position() == self.rest.len() as u64;
        let mut bytes = std::mem::take(&mut self.rest);
        loop {
            let at_end = supply != Supply::Bytes || self.read_more(&mut bytes)?;
            let begin = if at_start && bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
            let offsets = self.split(&bytes, begin, at_end && !self.follow);
            let end = offsets.last().map_or(0, |end| *end as usize);
            if offsets.len() > 1 {
                return Ok(Some(Piece::Records(self.block(bytes, offsets, end))));
            }
            if bytes.len() - end > self.record_bytes_max {
                self.too_long = Some(self.too_long(&bytes, end));
                return Ok(Some(Piece::Past));
            }
            if at_end {
                self.rest = bytes;
                return Ok(None);
            }
        }
    }

    /// Describes the record that begins at `begin`, which is too long and has no line end yet.
    fn too_long(&self, bytes: &[u8], begin: usize) -> TooLong {
        let record = &bytes[begin..];
        TooLong {
            byte: self.input.position() - record.len() as u64,
            line: self.line + memchr_iter(b'\n', &bytes[..begin]).count() as u64,
            begins: record[..record.len().min(SHOWN_BYTES)].to_vec(),
            error: format!("the record is longer than {} bytes; it begins as shown", self.record_bytes_max),
        }
    }

    /// Skips bytes up to the end of the line.
    fn read_past(&mut self) -> Result<Option<Piece>> {
        let mut bytes = Vec::new();
        for _ in 0..BLOCKS_PAST {
            bytes.clear();
            let at_end = self.ended || self.read_more(&mut bytes)?;
            let end = match line_end(&bytes, 0) {
                Some(end) => end,
                None if at_end && self.follow => return Ok(None),
                None if at_end => bytes.len(),
                None => continue,
            };
            self.rest = bytes[end..].to_vec();
            self.is_unsplit = true;
            let Some(too_long) = self.too_long.take() else { break };
            self.line = too_long.line + 1;
            return Ok(Some(Piece::TooLong(too_long)));
        }
        Ok(Some(Piece::Past))
    }

    /// Reads one more block; true at the end of the file.
    fn read_more(&mut self, bytes: &mut Vec<u8>) -> Result<bool> {
        let at_end = self.input.read(bytes, BLOCK_BYTES)?;
        self.ended = at_end && !self.follow;
        Ok(at_end)
    }

    /// Ends of the records in `bytes[begin..]`. With `all` the file ends here, so the last line needs no line
    /// end. A CSV record whose quote is never closed, or stays open for too long, ends with its first line.
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
                _ if all => self.framing.last_record_end(bytes, at),
                Some(end) => end,
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
        let start = self.input.position() - bytes.len() as u64;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Block { records: BinaryArray::new(offsets, Buffer::from_vec(bytes), None), start, counted: (0, first_line) }
    }
}

#[cfg(test)]
mod tests;
