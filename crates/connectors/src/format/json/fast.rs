//! Reads a record of a known layout: compares the bytes that must be there, and reads only the values.
//!
//! The fast path only recognizes records. Any record that it does not recognize is read again from its
//! beginning, by the scanner or by the general parser, and only the latter rejects records. So the two cannot
//! disagree about which records are malformed. Slots that the fast path wrote before are overwritten.

use super::column::ColumnId;
use super::layout::{Action, Layout, Literal, Step};
use super::scan::{Scan, Scanner};
use super::token::{OTHER, Padded, integer, integer_end, plain_view, space_end, text_end};
use crate::format::lanes::Lanes;

/// Reads the scanner's record by `layout` into `slot`; false if it is not of that layout.
///
/// # Safety
/// The processor must have the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn read<L: Scan>(layout: &Layout, scanner: &mut Scanner<'_>, slot: usize) -> bool {
    let record = scanner.record;
    let len = record.bytes.len();
    let mut pos = 0;
    for step in &layout.steps {
        // SAFETY: `pos` is at most `len` here and at the top of each step.
        let (at, same) = unsafe { literal::<L>(&step.literal, record, pos) };
        // Only the opening quote may differ: then the value is not a string.
        if same | step.quote != u32::MAX {
            if !may_be_loose(&step.literal, record, at, same) {
                return false;
            }
            // SAFETY: same contract.
            pos = unsafe { loose_step::<L>(step, scanner, slot, pos) };
        } else {
            // SAFETY: `at` is at most `pos` and one width, so at most `len` and that width.
            pos = unsafe {
                match step.action {
                    _ if same != u32::MAX => OTHER,
                    Action::SkipText => text_end::<L>(record, at),
                    Action::Text => plain_text::<L>(scanner, step.target, slot, at),
                    Action::SkipInteger => integer_end::<L>(record, at),
                    Action::Integer => integer_into::<L>(scanner, step.target, slot, at, step.min, step.max),
                    Action::Skip | Action::Read => OTHER,
                }
            };
            if pos == OTHER {
                // SAFETY: same contract.
                pos = unsafe { any::<L>(step, scanner, slot, at - usize::from(step.quote != 0)) };
            }
        }
        if pos > len {
            return false;
        }
    }
    // SAFETY: `pos` is at most `len`.
    if !unsafe { ends::<L>(&layout.last, record, pos) } {
        return false;
    }
    for id in &layout.present {
        scanner.columns.set_valid(*id, slot);
    }
    for id in &layout.absent {
        scanner.columns.set_null(*id, slot);
    }
    true
}

/// Compares a literal with the bytes at `pos`. Returns where it ends, and a mask of the equal bytes.
///
/// # Safety
/// As for [`read`]; `pos` must be at most the record's length.
#[inline(always)]
unsafe fn literal<L: Scan>(literal: &Literal, record: Padded<'_>, mut pos: usize) -> (usize, u32) {
    if !literal.head.is_empty() {
        if !record.bytes[pos..].starts_with(&literal.head) {
            return (pos, 0);
        }
        pos += literal.head.len();
    }
    // SAFETY: `pos` is at most the record's length, and the padding is readable.
    (pos + literal.tail_len, unsafe { L::equal(record.at(pos), &literal.tail) } | literal.beyond)
}

/// Whether the compared literal may be there with other white space: at the first difference, one of the two
/// has white space.
#[inline(always)]
fn may_be_loose(literal: &Literal, record: Padded<'_>, end: usize, same: u32) -> bool {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    let differs = (!same).trailing_zeros() as usize;
    let expected = literal.tail.get(differs).copied().unwrap_or(0);
    !literal.head.is_empty() || is_space(expected) || is_space(record.byte(end - literal.tail_len + differs))
}

/// A step whose literal differs at most in its white space.
///
/// # Safety
/// As for [`read`].
#[cold]
#[inline(always)]
unsafe fn loose_step<L: Scan>(step: &Step, scanner: &mut Scanner<'_>, slot: usize, pos: usize) -> usize {
    // SAFETY: same contract.
    match unsafe { step.literal.loose_end::<L>(scanner.record, pos) } {
        // SAFETY: same contract.
        Some(at) => unsafe { any::<L>(step, scanner, slot, at - usize::from(step.quote != 0)) },
        None => OTHER,
    }
}

/// Whether the record ends at `pos` with `last` and white space.
///
/// # Safety
/// As for [`read`]; `pos` must be at most the record's length.
#[inline(always)]
unsafe fn ends<L: Scan>(last: &Literal, record: Padded<'_>, pos: usize) -> bool {
    let len = record.bytes.len();
    // SAFETY: same contract.
    unsafe {
        let (mut end, same) = literal::<L>(last, record, pos);
        if same != u32::MAX {
            if !may_be_loose(last, record, end, same) {
                return false;
            }
            match last.loose_end::<L>(record, pos) {
                Some(loose) => end = loose,
                None => return false,
            }
        }
        end == len || (end < len && space_end::<L>(record, end) == len)
    }
}

/// Reads the value at `at` of a step, of any kind; returns where it ends.
///
/// # Safety
/// As for [`read`].
#[inline(always)]
unsafe fn any<L: Scan>(step: &Step, scanner: &mut Scanner<'_>, slot: usize, at: usize) -> usize {
    // SAFETY: same contract.
    unsafe {
        match step.action {
            Action::Skip | Action::SkipText | Action::SkipInteger => L::skip(scanner.record, at, step.depth),
            Action::Text | Action::Integer | Action::Read => L::value(scanner, step.target, slot, at, step.depth),
        }
    }
}

/// Reads the string with its content at `at`, if it is plain, into `slot` of the text column `id`.
///
/// # Safety
/// As for [`text_end`].
#[inline(always)]
pub(super) unsafe fn plain_text<L: Lanes>(s: &mut Scanner<'_>, id: ColumnId, slot: usize, at: usize) -> usize {
    // SAFETY: same contract.
    let end = unsafe { text_end::<L>(s.record, at) };
    if end != OTHER {
        // SAFETY: the string's content is in the record, and the padding after it is readable.
        s.columns.set_view(id, slot, unsafe { plain_view(s.record, at, end - 1 - at) });
    }
    end
}

/// Reads the integer at `pos`, if it is within the range, into `slot` of `id`.
///
/// # Safety
/// As for [`text_end`].
#[inline(always)]
pub(super) unsafe fn integer_into<L: Lanes>(
    s: &mut Scanner<'_>,
    id: ColumnId,
    slot: usize,
    pos: usize,
    min: i64,
    max: i64,
) -> usize {
    // SAFETY: same contract.
    let (value, end) = unsafe { integer::<L>(s.record, pos, min, max) };
    if end != OTHER {
        s.columns.set_integer(id, slot, value);
    }
    end
}
