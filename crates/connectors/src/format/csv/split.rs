//! Finds the fields of a record.
//!
//! The delimiters and quotes of all records are found at once, by wide comparisons. Then each record is split
//! at those marks.

use crate::format::lanes::{Baseline, Lanes, WIDTH};

/// A field within a record: the bytes between its quotes, if it has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldRange {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The field is quoted.
    pub(crate) quoted: bool,
    /// The field contains doubled quotes.
    pub(crate) escaped: bool,
}

/// The positions of delimiters and quotes, in order.
#[derive(Debug, Default)]
pub(super) struct Marks {
    positions: Vec<u32>,
    /// The first mark after the records that were split.
    next: usize,
}

impl Marks {
    /// Finds the marks of `bytes` from position `from` on. Positions fit 32 bits: they are offsets of an
    /// array.
    pub(super) fn find(&mut self, bytes: &[u8], from: usize, delimiter: u8) {
        self.positions.clear();
        self.next = 0;
        #[cfg(target_arch = "x86_64")]
        if crate::format::lanes::has_avx2() {
            // SAFETY: the processor was checked for these instructions.
            unsafe { self.find_avx2(bytes, from, delimiter) };
            return;
        }
        // SAFETY: every processor has the baseline.
        unsafe { self.find_by::<Baseline>(bytes, from, delimiter) };
    }

    /// # Safety
    /// The processor must have AVX2, BMI1 and BMI2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn find_avx2(&mut self, bytes: &[u8], from: usize, delimiter: u8) {
        // SAFETY: same contract.
        unsafe { self.find_by::<crate::format::lanes::Avx2>(bytes, from, delimiter) };
    }

    /// # Safety
    /// The processor must have the instructions of `L`.
    #[inline(always)]
    unsafe fn find_by<L: Lanes>(&mut self, bytes: &[u8], from: usize, delimiter: u8) {
        let mut base = from;
        while let Some(block) = bytes.get(base..base + WIDTH) {
            // SAFETY: the block has 32 bytes.
            self.add(base, unsafe { L::either(block.as_ptr(), delimiter, b'"') });
            base += WIDTH;
        }
        let rest = bytes.get(base..).unwrap_or_default();
        let mut block = [0; WIDTH];
        block[..rest.len()].copy_from_slice(rest);
        // SAFETY: an array of 32 bytes.
        let mask = unsafe { L::either(block.as_ptr(), delimiter, b'"') };
        self.add(base, mask & !u32::MAX.checked_shl(rest.len() as u32).unwrap_or(0));
    }

    #[inline(always)]
    fn add(&mut self, base: usize, mut mask: u32) {
        self.positions.reserve(WIDTH);
        while mask != 0 {
            self.positions.push(base as u32 + mask.trailing_zeros());
            mask &= mask - 1;
        }
    }

    /// The position of the next mark, which must be before `end`.
    #[inline(always)]
    fn peek(&self, end: usize) -> Option<usize> {
        self.positions.get(self.next).map(|position| *position as usize).filter(|position| *position < end)
    }

    /// Passes the marks before `position`.
    #[inline]
    fn pass(&mut self, position: usize) {
        while self.peek(position).is_some() {
            self.next += 1;
        }
    }

    /// Splits the record `bytes[start..end]` into `fields`, without the line ends after it. Records are split
    /// in their order.
    pub(super) fn split(
        &mut self,
        bytes: &[u8],
        start: usize,
        mut end: usize,
        fields: &mut Vec<FieldRange>,
    ) -> Result<(), String> {
        fields.clear();
        self.pass(start);
        while end > start && matches!(bytes[end - 1], b'\n' | b'\r') {
            end -= 1;
        }
        if end == start {
            return Err("the record is empty".into());
        }
        let mut pos = start;
        loop {
            let quoted = bytes.get(pos) == Some(&b'"') && pos < end;
            let (field, next) = if quoted { self.quoted(bytes, start, pos, end)? } else { self.plain(bytes, pos, end) };
            fields.push(field);
            if next >= end {
                return Ok(());
            }
            self.next += 1;
            pos = next + 1;
        }
    }

    /// The unquoted field that begins at `start`, and the position of its delimiter. A quote within it is an
    /// ordinary character.
    #[inline(always)]
    fn plain(&mut self, bytes: &[u8], start: usize, end: usize) -> (FieldRange, usize) {
        let next = loop {
            match self.peek(end) {
                Some(mark) if bytes[mark] == b'"' => self.next += 1,
                mark => break mark.unwrap_or(end),
            }
        };
        (FieldRange { start, end: next, quoted: false, escaped: false }, next)
    }

    /// The field with its opening quote at `open`, and the position of its delimiter.
    fn quoted(&mut self, bytes: &[u8], record: usize, open: usize, end: usize) -> Result<(FieldRange, usize), String> {
        let mut escaped = false;
        self.next += 1;
        while let Some(mark) = self.peek(end) {
            self.next += 1;
            if bytes[mark] != b'"' {
                continue;
            }
            let after = mark + 1;
            if after < end && bytes[after] == b'"' {
                escaped = true;
                self.next += 1;
                continue;
            }
            if after < end && self.peek(end) != Some(after) {
                return Err(format!("byte {}: expected a delimiter after the closing quote", after - record));
            }
            return Ok((FieldRange { start: open + 1, end: mark, quoted: true, escaped }, after));
        }
        Err(format!("byte {}: unterminated quote", open - record))
    }
}

/// Splits one record into `fields`, without the line ends after it.
pub(crate) fn split_fields(record: &[u8], delimiter: u8, fields: &mut Vec<FieldRange>) -> Result<(), String> {
    let mut marks = Marks::default();
    marks.find(record, 0, delimiter);
    marks.split(record, 0, record.len(), fields)
}

/// A field's bytes with its quotes undoubled.
pub(crate) fn unquote(field: &[u8], into: &mut Vec<u8>) {
    into.clear();
    let mut rest = field;
    while let Some(at) = memchr::memchr(b'"', rest) {
        into.extend_from_slice(&rest[..=at]);
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    into.extend_from_slice(rest);
}
