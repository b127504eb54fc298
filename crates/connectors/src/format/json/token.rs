//! The tokens of a record, by wide comparisons: where strings, numbers and white space end.
//!
//! A value that is not plain gives [`OTHER`]: the functions only recognize, and leave decisions to the
//! general parser. They accept positions up to one width after the record's end, which is readable, and
//! return none beyond the record's end.

use super::number::{Fixed, eight_digits};
use super::text::{Span, escape};
use crate::format::lanes::{Lanes, WIDTH};
use crate::format::view::view_of;

/// Bytes after a record that must be readable: a literal, and a load after it, may begin at the record's end.
pub(super) const PADDING: usize = 3 * WIDTH;

/// Returned instead of the end of a value: it is not of the expected kind.
pub(super) const OTHER: usize = usize::MAX;

/// A record with padding after its end.
#[derive(Clone, Copy)]
pub(super) struct Padded<'a> {
    /// The record.
    pub(super) bytes: &'a [u8],
    /// The record and the padding.
    room: &'a [u8],
    /// The record's offset in the input.
    pub(super) offset: usize,
}

impl<'a> Padded<'a> {
    /// The record `memory[start..end]`, if [`PADDING`] bytes follow it; `offset` is its offset in the input.
    #[inline(always)]
    pub(super) fn new(memory: &'a [u8], start: usize, end: usize, offset: usize) -> Option<Self> {
        Some(Padded { bytes: memory.get(start..end)?, room: memory.get(start..end.checked_add(PADDING)?)?, offset })
    }

    #[inline(always)]
    pub(super) fn at(&self, pos: usize) -> *const u8 {
        debug_assert!(pos <= self.bytes.len() + PADDING);
        self.room.as_ptr().wrapping_add(pos)
    }

    /// The byte at a position, which may be in the padding.
    #[inline(always)]
    pub(super) fn byte(&self, pos: usize) -> u8 {
        self.room.get(pos).copied().unwrap_or(0)
    }
}

/// Where the white space at `pos` ends.
///
/// # Safety
/// The processor must have the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn space_end<L: Lanes>(record: Padded<'_>, pos: usize) -> usize {
    let is_space = |pos: usize| matches!(record.byte(pos), b' ' | b'\t' | b'\n' | b'\r');
    if record.byte(pos) > b' ' || pos >= record.bytes.len() || !is_space(pos) {
        return pos;
    }
    if record.byte(pos + 1) > b' ' {
        return pos + 1;
    }
    let mut pos = pos + 1;
    while pos < record.bytes.len() {
        // SAFETY: `pos` is in the record, and the padding after it is readable.
        let filled = unsafe { L::filled(record.at(pos)) };
        if filled != 0 {
            return (pos + filled.trailing_zeros() as usize).min(record.bytes.len());
        }
        pos += WIDTH;
    }
    record.bytes.len()
}

/// Where the string whose content begins at `at` ends, after its closing quote, if it is plain: ASCII without
/// escapes.
///
/// # Safety
/// The processor must have the instructions of `L`; `at` must be at most one width after the record's end.
#[inline(always)]
pub(super) unsafe fn text_end<L: Lanes>(record: Padded<'_>, at: usize) -> usize {
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

/// Finds the string with its content at `at`, which may contain anything that strings may contain. Checks its
/// escapes if `CHECKED`.
///
/// # Safety
/// As for [`text_end`].
#[inline(always)]
pub(super) unsafe fn rich_text<L: Lanes, const CHECKED: bool>(record: Padded<'_>, at: usize) -> Option<Span> {
    let bytes = record.bytes;
    let (mut escaped, mut wide) = (false, 0);
    let mut pos = at;
    let end = 'blocks: loop {
        if pos >= bytes.len() {
            return None;
        }
        // SAFETY: `pos` is in the record, and the padding after it is readable.
        let (special, here) = unsafe { (L::special(record.at(pos)), L::wide(record.at(pos))) };
        // Bytes outside of ASCII are checked together, at the end.
        let mut stops = special & !here;
        loop {
            if stops == 0 {
                wide |= here;
                pos += WIDTH;
                break;
            }
            let stop = pos + stops.trailing_zeros() as usize;
            match bytes.get(stop) {
                Some(b'"') => {
                    wide |= here & ((stops & stops.wrapping_neg()) - 1);
                    break 'blocks stop;
                }
                Some(b'\\') => {}
                _ => return None,
            }
            escaped = true;
            let after = if CHECKED { escape(bytes, stop).ok()?.1 } else { stop + 2 };
            // Bits covered by the escape are ignored.
            stops = match u32::MAX.checked_shl((after - pos) as u32) {
                Some(rest) => stops & rest,
                None => {
                    wide |= here;
                    pos = after;
                    break;
                }
            };
        }
    };
    if wide != 0 && std::str::from_utf8(&bytes[at..end]).is_err() {
        return None;
    }
    Some(Span { start: at, end, escaped })
}

/// The view of a string without escapes.
///
/// # Safety
/// The `len` bytes at `at` must be in the record.
#[inline(always)]
pub(super) unsafe fn plain_view(record: Padded<'_>, at: usize, len: usize) -> u128 {
    // SAFETY: `at` is at most the record's length, and the padding after it is readable.
    let bytes = unsafe { record.at(at).cast::<[u8; 16]>().read_unaligned() };
    view_of(bytes, len, record.offset + at)
}

/// The digits of an integer.
#[derive(Clone, Copy)]
struct Digits {
    at: usize,
    count: usize,
    /// The position after them, or [`OTHER`].
    end: usize,
}

/// Finds the whole digits of the number at `at`.
///
/// # Safety
/// As for [`text_end`].
#[inline(always)]
unsafe fn whole_digits<L: Lanes>(record: Padded<'_>, at: usize) -> Digits {
    // SAFETY: `at` is at most one width after the record's end: one more is readable, and some bytes after
    // that.
    let (at, count) = unsafe {
        let at = at + usize::from(*record.at(at) == b'-');
        (at, L::non_digits(record.at(at)).trailing_zeros() as usize)
    };
    // SAFETY: as above.
    let first = unsafe { *record.at(at) };
    let end = at + count;
    let other = count.wrapping_sub(1) >= WIDTH - 1 || (first == b'0' && count > 1) || end >= record.bytes.len();
    Digits { at, count, end: if other { OTHER } else { end } }
}

/// Where the integer at `at` ends.
///
/// # Safety
/// As for [`text_end`].
#[inline(always)]
pub(super) unsafe fn integer_end<L: Lanes>(record: Padded<'_>, at: usize) -> usize {
    // SAFETY: same contract.
    let digits = unsafe { whole_digits::<L>(record, at) };
    if digits.end == OTHER || matches!(record.byte(digits.end), b'.' | b'e' | b'E') { OTHER } else { digits.end }
}

/// The value of `count` digits at `pos`, at most 19.
///
/// # Safety
/// They must be in the record.
#[inline(always)]
unsafe fn digits_value(record: Padded<'_>, pos: usize, count: usize) -> u64 {
    // SAFETY: the digits are in the record, and the padding after it is readable.
    let eight = |pos: usize| u64::from_le(unsafe { record.at(pos).cast::<u64>().read_unaligned() });
    // Fewer than eight digits are shifted, after leading zeros.
    let up_to_eight = |pos: usize, count: usize| match count {
        0 => 0,
        _ => eight_digits(eight(pos) << (64 - 8 * count)),
    };
    if count <= 8 {
        return up_to_eight(pos, count);
    }
    let high = eight_digits(eight(pos));
    if count <= 16 {
        return high * POWERS[count - 8] + up_to_eight(pos + 8, count - 8);
    }
    let high = high * POWERS[8] + eight_digits(eight(pos + 8));
    high * POWERS[count - 16] + up_to_eight(pos + 16, count - 16)
}

const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Digits whose value fits 64 bits.
const DIGITS_MAX: usize = 19;

/// The integer at `at`, and where it ends, if it is within the range.
///
/// # Safety
/// As for [`text_end`].
#[inline(always)]
pub(super) unsafe fn integer<L: Lanes>(record: Padded<'_>, at: usize, min: i64, max: i64) -> (i64, usize) {
    // SAFETY: same contract.
    let digits = unsafe { whole_digits::<L>(record, at) };
    if digits.end == OTHER || digits.count > DIGITS_MAX || matches!(record.byte(digits.end), b'.' | b'e' | b'E') {
        return (0, OTHER);
    }
    // SAFETY: the digits are in the record.
    let value = unsafe { digits_value(record, digits.at, digits.count) };
    let negative = digits.at > at;
    let fits = value <= i64::MAX as u64 + u64::from(negative);
    let value = if negative { (value as i64).wrapping_neg() } else { value as i64 };
    (value, if fits && (min..=max).contains(&value) { digits.end } else { OTHER })
}

/// The number at `at`, and where it ends, if it has no exponent.
///
/// # Safety
/// As for [`text_end`].
#[inline(always)]
pub(super) unsafe fn fixed<L: Lanes>(record: Padded<'_>, at: usize) -> (Fixed, usize) {
    let nothing = (Fixed { negative: false, digits: None, fraction: 0 }, OTHER);
    // SAFETY: same contract.
    let whole = unsafe { whole_digits::<L>(record, at) };
    if whole.end == OTHER {
        return nothing;
    }
    let (mut end, mut fraction) = (whole.end, 0);
    if record.byte(end) == b'.' {
        // SAFETY: `end` is in the record, and the padding after it is readable.
        fraction = unsafe { L::non_digits(record.at(end + 1)) }.trailing_zeros() as usize;
        end += 1 + fraction;
        if fraction.wrapping_sub(1) >= WIDTH - 1 || end >= record.bytes.len() {
            return nothing;
        }
    }
    if matches!(record.byte(end), b'e' | b'E') {
        return nothing;
    }
    let mut digits = None;
    if whole.count + fraction <= DIGITS_MAX {
        // SAFETY: the digits are in the record.
        let (high, low) =
            unsafe { (digits_value(record, whole.at, whole.count), digits_value(record, end - fraction, fraction)) };
        digits = Some(high * 10_u64.pow(fraction as u32) + low);
    }
    (Fixed { negative: whole.at > at, digits, fraction: fraction as u32 }, end)
}

#[inline(always)]
pub(super) fn has_word(record: Padded<'_>, at: usize, word: &[u8]) -> bool {
    record.bytes.get(at..at + word.len()) == Some(word)
}
