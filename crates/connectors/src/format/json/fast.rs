//! Reading a record of a known layout: compare what must be there, look only at the values.
//!
//! The fast path recognizes; it never judges. Whatever it does not recognize, for whatever reason, goes to the general
//! parser from its beginning, so the two cannot disagree about what is malformed. Slots that it wrote before it gave up are
//! written again.

use super::column::{ColumnId, Columns};
use super::datetime::TimestampFormat;
use super::lanes::{Lanes, WIDTH};
use super::layout::{Action, Layout, Literal, Step};
use super::number::eight_digits;
use super::parser::{Parser, Presence};

/// Bytes after a record that must be readable: a literal, and a load after it, may begin at the record's end.
pub(super) const PADDING: usize = 3 * WIDTH;

/// A record with room to read beyond its end.
#[derive(Clone, Copy)]
pub(super) struct Padded<'a> {
    bytes: &'a [u8],
    /// Its begin as a pointer into all of the memory around it.
    pointer: *const u8,
    /// Its place in the input.
    offset: usize,
}

/// In place of the end of a value: it is not what the step is made for, perhaps not of this layout at all.
const OTHER: usize = usize::MAX;

impl<'a> Padded<'a> {
    /// The record `memory[start..end]`, if [`PADDING`] bytes follow it; `offset` is its place in the input.
    #[inline(always)]
    pub(super) fn new(memory: &'a [u8], start: usize, end: usize, offset: usize) -> Option<Self> {
        if end.checked_add(PADDING)? > memory.len() {
            return None;
        }
        Some(Padded { bytes: memory.get(start..end)?, pointer: memory.as_ptr().wrapping_add(start), offset })
    }

    #[inline(always)]
    fn at(&self, pos: usize) -> *const u8 {
        debug_assert!(pos <= self.bytes.len() + PADDING);
        self.pointer.wrapping_add(pos)
    }
}

/// Reads `record` by `layout` into `slot`; false if it is not of that layout.
///
/// # Safety
/// The processor must have the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn read<L: Lanes>(
    layout: &Layout,
    record: Padded<'_>,
    columns: &mut Columns,
    slot: usize,
    format: TimestampFormat,
) -> bool {
    let len = record.bytes.len();
    let mut pos = 0;
    for step in &layout.steps {
        if !step.literal.head.is_empty() {
            if !record.bytes[pos..].starts_with(&step.literal.head) {
                return false;
            }
            pos += step.literal.head.len();
        }
        // SAFETY: `pos` is at most `len` here and at the top of each step, and the padding is readable.
        let equal = unsafe { L::equal(record.at(pos), &step.literal.tail) } | step.literal.beyond;
        let at = pos + step.literal.tail_len;
        // The opening quote alone may differ: then the value is something else than a string.
        if equal | step.quote != u32::MAX {
            return false;
        }
        // SAFETY: `at` is at most `pos` and one width, so at most `len` and that width.
        let end = unsafe {
            match step.action {
                _ if equal != u32::MAX => OTHER,
                Action::SkipText => text_end::<L>(record, at),
                Action::Text => text::<L>(step.target, record, at, columns, slot),
                Action::SkipInteger => integer_end::<L>(record, at).end,
                Action::Integer => integer::<L>(step, record, at, columns, slot),
                Action::Skip | Action::Read => OTHER,
            }
        };
        pos = end;
        if end == OTHER {
            match general(step, record, at - usize::from(step.quote != 0), columns, slot, format) {
                Some(end) => pos = end,
                None => return false,
            }
        }
    }
    // SAFETY: `pos` is at most `len`.
    if !unsafe { ends::<L>(&layout.last, record, pos, len) } {
        return false;
    }
    for id in &layout.present {
        columns.set_valid(*id, slot);
    }
    for id in &layout.absent {
        columns.set_null(*id, slot);
    }
    true
}

/// Whether the record ends at `pos` with `last` and white space.
///
/// # Safety
/// As for [`read`]; `pos` must be at most `len`, the record's length.
#[inline(always)]
unsafe fn ends<L: Lanes>(last: &Literal, record: Padded<'_>, mut pos: usize, len: usize) -> bool {
    if !last.head.is_empty() {
        if !record.bytes[pos..].starts_with(&last.head) {
            return false;
        }
        pos += last.head.len();
    }
    // SAFETY: `pos` is at most `len`, and the padding is readable.
    let equal = unsafe { L::equal(record.at(pos), &last.tail) } | last.beyond;
    let end = pos + last.tail_len;
    equal == u32::MAX
        && match len.checked_sub(end) {
            None => false,
            Some(0) => true,
            Some(_) => record.bytes[end..].iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')),
        }
}

/// The value at `at` by the general parser; gives where it ends.
#[inline(never)]
fn general(
    step: &Step,
    record: Padded<'_>,
    at: usize,
    columns: &mut Columns,
    slot: usize,
    format: TimestampFormat,
) -> Option<usize> {
    if at > record.bytes.len() {
        return None;
    }
    let nullable = columns.column(step.target).nullable;
    let mut parser =
        Parser { bytes: record.bytes, pos: at, offset: record.offset, columns, format, trace: None, depth: step.depth };
    if matches!(step.action, Action::Skip | Action::SkipText | Action::SkipInteger) {
        parser.skip().ok()?;
    } else if parser.value(step.target, slot).ok()? == Presence::Null && !nullable {
        return None;
    }
    Some(parser.pos)
}

/// Where the string whose content begins at `at` ends, after its closing quote.
///
/// # Safety
/// As for [`read`]; `at` must be at most one width after the record's end.
#[inline(always)]
unsafe fn text_end<L: Lanes>(record: Padded<'_>, at: usize) -> usize {
    let len = record.bytes.len();
    let mut pos = at;
    loop {
        // SAFETY: `pos` is at most one width after the record's end, by the caller or the check below.
        let special = unsafe { L::special(record.at(pos)) };
        if special != 0 {
            let end = pos + special.trailing_zeros() as usize;
            // SAFETY: `end` is less than one width after `pos`, which is readable.
            let closed = unsafe { *record.at(end) } == b'"' && end < len;
            return if closed { end + 1 } else { OTHER };
        }
        pos += WIDTH;
        if pos >= len {
            return OTHER;
        }
    }
}

/// The string whose content begins at `at` into column `target`.
///
/// # Safety
/// As for [`text_end`].
#[inline(always)]
unsafe fn text<L: Lanes>(target: ColumnId, record: Padded<'_>, at: usize, columns: &mut Columns, slot: usize) -> usize {
    // SAFETY: same contract.
    let end = unsafe { text_end::<L>(record, at) };
    if end != OTHER {
        // SAFETY: the string's content is in the record, and the padding after it is readable.
        columns.set_view(target, slot, unsafe { plain_view(record, at, end - 1 - at) });
    }
    end
}

/// The view of a string without escapes.
///
/// # Safety
/// The `len` bytes at `at` must be in the record.
#[inline(always)]
unsafe fn plain_view(record: Padded<'_>, at: usize, len: usize) -> u128 {
    // SAFETY: `at` is at most the record's length, and the padding after it is readable.
    let bytes = u128::from_le(unsafe { record.at(at).cast::<u128>().read_unaligned() });
    let view = if len <= 12 {
        (bytes & !(u128::MAX << (8 * len))) << 32
    } else {
        (bytes & 0xffff_ffff) << 32 | ((record.offset + at) as u128) << 96
    };
    view | len as u128
}

/// The digits of an integer.
struct Digits {
    at: usize,
    count: usize,
    /// The end of the integer, or [`OTHER`].
    end: usize,
}

/// Finds the integer at `at`.
///
/// # Safety
/// As for [`text_end`].
#[inline(always)]
unsafe fn integer_end<L: Lanes>(record: Padded<'_>, at: usize) -> Digits {
    // SAFETY: `at` is at most one width after the record's end: one more is readable, and some bytes after that.
    let (at, count) = unsafe {
        let at = at + usize::from(*record.at(at) == b'-');
        (at, L::non_digits(record.at(at)).trailing_zeros() as usize)
    };
    let end = at + count;
    // SAFETY: as above.
    let (first, after) = unsafe { (*record.at(at), *record.at(end)) };
    let other = count.wrapping_sub(1) >= WIDTH - 1
        || (first == b'0' && count > 1)
        || matches!(after, b'.' | b'e' | b'E')
        || end >= record.bytes.len();
    Digits { at, count, end: if other { OTHER } else { end } }
}

/// The integer at `at` into column `target` of the step.
///
/// # Safety
/// As for [`text_end`].
#[inline(always)]
unsafe fn integer<L: Lanes>(step: &Step, record: Padded<'_>, at: usize, columns: &mut Columns, slot: usize) -> usize {
    // SAFETY: same contract.
    let digits = unsafe { integer_end::<L>(record, at) };
    if digits.end == OTHER || digits.count > 16 {
        return OTHER;
    }
    // SAFETY: the digits are in the record, and the padding after it is readable.
    let eight = |pos: usize| u64::from_le(unsafe { record.at(pos).cast::<u64>().read_unaligned() });
    // Fewer than eight digits are moved up, behind zeros.
    let up_to_eight = |pos: usize, count: usize| match count {
        0 => 0,
        _ => eight_digits(eight(pos) << (64 - 8 * count)),
    };
    let value = if digits.count <= 8 {
        up_to_eight(digits.at, digits.count)
    } else {
        eight_digits(eight(digits.at)) * POWERS[digits.count - 8] + up_to_eight(digits.at + 8, digits.count - 8)
    };
    let value = if digits.at > at { -(value as i64) } else { value as i64 };
    if value < step.min || value > step.max {
        return OTHER;
    }
    columns.set_integer(step.target, slot, value);
    digits.end
}

const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
