//! Newline-separated records in one piece of memory, as from a file or a socket.

use anabranch_model::Result;
use arrow::array::BinaryArray;
use arrow::buffer::{Buffer, OffsetBuffer};

use super::BLOCK_ROWS;

/// Lines, each ending in a newline.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    bytes: Buffer,
    count: u64,
}

impl Lines {
    /// `bytes` has `count` lines; the last one ends in a newline too.
    pub(crate) fn new(bytes: Vec<u8>, count: u64) -> Self {
        Lines { bytes: Buffer::from_vec(bytes), count }
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of lines.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Divides the lines into arrays of [`BLOCK_ROWS`], newlines included, without copying.
    pub(crate) fn blocks(&self) -> Blocks<'_> {
        Blocks { lines: self, at: 0 }
    }

    /// The text in `parts` pieces of about the same size, without copying.
    pub(crate) fn pieces(&self, parts: usize) -> Vec<Buffer> {
        self.split(parts).into_iter().map(|range| self.bytes.slice_with_length(range.start, range.len())).collect()
    }

    /// Byte ranges of `parts` pieces of about the same size, divided at line ends.
    pub(crate) fn split(&self, parts: usize) -> Vec<std::ops::Range<usize>> {
        let mut ranges = Vec::with_capacity(parts);
        let mut start = 0;
        for part in 1..=parts {
            let aim = (self.bytes.len() * part / parts).max(start);
            let end = memchr::memchr(b'\n', &self.bytes[aim.saturating_sub(1)..])
                .map_or(self.bytes.len(), |n| aim.saturating_sub(1) + n + 1);
            ranges.push(start..end.max(start));
            start = end.max(start);
        }
        ranges
    }
}

/// Iterator of [`Lines::blocks`].
pub(crate) struct Blocks<'a> {
    lines: &'a Lines,
    at: usize,
}

impl Iterator for Blocks<'_> {
    type Item = Result<BinaryArray>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.lines.bytes[self.at..];
        if rest.is_empty() {
            return None;
        }
        let mut offsets: Vec<i32> = Vec::with_capacity(BLOCK_ROWS + 1);
        offsets.push(0);
        let mut end = 0;
        for newline in memchr::memchr_iter(b'\n', rest).take(BLOCK_ROWS) {
            end = newline + 1;
            match i32::try_from(end) {
                Ok(offset) => offsets.push(offset),
                Err(_) => return Some(Err(anabranch_model::Error::internal("a block exceeds 2 GB"))),
            }
        }
        let values = self.lines.bytes.slice_with_length(self.at, end);
        self.at += end;
        Some(BinaryArray::try_new(OffsetBuffer::new(offsets.into()), values, None).map_err(Into::into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(count: u64) -> Lines {
        let text: String = (0..count).map(|i| format!("line {i}\n")).collect();
        Lines::new(text.into_bytes(), count)
    }

    #[test]
    fn blocks_hold_every_line_once_and_share_memory() {
        let lines = numbered(BLOCK_ROWS as u64 + 5);
        let blocks: Vec<_> = lines.blocks().collect::<Result<_>>().unwrap();
        assert_eq!(blocks.iter().map(|b| b.iter().count()).collect::<Vec<_>>(), [BLOCK_ROWS, 5]);
        assert_eq!(blocks[1].value(0), format!("line {BLOCK_ROWS}\n").as_bytes());
        assert_eq!(blocks[0].values().as_ptr(), lines.bytes().as_ptr());
    }

    #[test]
    fn parts_cover_everything_and_end_with_lines() {
        let lines = numbered(100);
        for parts in 1..=7 {
            let ranges = lines.split(parts);
            let pieces = lines.pieces(parts);
            assert_eq!(pieces.iter().flat_map(|piece| piece.as_slice()).copied().collect::<Vec<_>>(), lines.bytes());
            assert_eq!(ranges.len(), parts);
            assert_eq!((ranges[0].start, ranges[parts - 1].end), (0, lines.bytes().len()));
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(ranges.iter().all(|range| lines.bytes()[range.end - 1] == b'\n'), "{ranges:?}");
        }
    }
}
