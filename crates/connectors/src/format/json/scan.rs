//! Reads a record of unknown layout: key by key, value by value, each with a few wide comparisons.
//!
//! The scanner serves streams with dissimilar records, and the values of known layouts that are not plain. It
//! checks the grammar of everything, including values that no column needs. Like reading by layout, it only
//! recognizes: a record that it does not recognize goes to the general parser from its beginning.

use super::column::{ColumnId, Columns, ROOT};
use super::datetime::{EPOCH_MS_MAX, EPOCH_MS_MIN, TimestampFormat};
use super::fast::{integer_into, plain_text};
use super::kind::ValueKind;
use super::number::number;
use super::parser::{DEPTH_MAX, Parser, Presence};
use super::text::unescape;
use super::token::{OTHER, Padded, fixed, has_word, integer_end, plain_view, rich_text, space_end, text_end};
use crate::format::lanes::{Baseline, Lanes, WIDTH};

/// A record being read, and where its values go.
pub(super) struct Scanner<'a> {
    pub(super) record: Padded<'a>,
    pub(super) columns: &'a mut Columns,
    pub(super) format: TimestampFormat,
}

/// The functions of the scanner that are not inlined, compiled with the instructions of the implementation.
pub(super) trait Scan: Lanes {
    /// Reads the whole record into `slot`; false if it is not recognized.
    ///
    /// # Safety
    /// The processor must have the instructions of the implementation.
    unsafe fn record(scanner: &mut Scanner<'_>, slot: usize) -> bool;

    /// Reads the object with its content at `pos` into the fields of `id`; returns where it ends. It is
    /// nested in `depth` objects and arrays, itself included.
    ///
    /// # Safety
    /// As for [`Scan::record`].
    unsafe fn object(scanner: &mut Scanner<'_>, id: ColumnId, slot: usize, pos: usize, depth: usize) -> usize;

    /// Reads the value at `pos` into `slot` of `id`; returns where it ends.
    ///
    /// # Safety
    /// As for [`Scan::record`].
    unsafe fn value(scanner: &mut Scanner<'_>, id: ColumnId, slot: usize, pos: usize, depth: usize) -> usize;

    /// Skips the value at `pos`; returns where it ends.
    ///
    /// # Safety
    /// As for [`Scan::record`].
    unsafe fn skip(record: Padded<'_>, pos: usize, depth: usize) -> usize;

    /// Reads the string with its content at `at`, which is not plain, into `slot` of the text column `id`.
    ///
    /// # Safety
    /// As for [`Scan::record`].
    unsafe fn rich(scanner: &mut Scanner<'_>, id: ColumnId, slot: usize, at: usize) -> usize;
}

/// Implements [`Scan`] with the functions of this module, compiled with the given features.
macro_rules! scan {
    ($lanes:ty $(, $feature:meta)?) => {
        impl Scan for $lanes {
            $(#[$feature])?
            unsafe fn record(scanner: &mut Scanner<'_>, slot: usize) -> bool {
                // SAFETY: same contract.
                unsafe { record::<Self>(scanner, slot) }
            }

            $(#[$feature])?
            unsafe fn object(s: &mut Scanner<'_>, id: ColumnId, slot: usize, pos: usize, depth: usize) -> usize {
                // SAFETY: same contract.
                unsafe { object::<Self>(s, id, slot, pos, depth) }
            }

            $(#[$feature])?
            unsafe fn value(s: &mut Scanner<'_>, id: ColumnId, slot: usize, pos: usize, depth: usize) -> usize {
                // SAFETY: same contract.
                unsafe { value::<Self>(s, id, slot, pos, depth) }
            }

            $(#[$feature])?
            unsafe fn skip(record: Padded<'_>, pos: usize, depth: usize) -> usize {
                // SAFETY: same contract.
                unsafe { skip::<Self>(record, pos, depth) }
            }

            $(#[$feature])?
            unsafe fn rich(scanner: &mut Scanner<'_>, id: ColumnId, slot: usize, at: usize) -> usize {
                // SAFETY: same contract.
                unsafe { rich::<Self>(scanner, id, slot, at) }
            }
        }
    };
}

scan!(Baseline);
#[cfg(target_arch = "x86_64")]
scan!(crate::format::lanes::Avx2, target_feature(enable = "avx2,bmi1,bmi2"));
#[cfg(all(test, target_arch = "x86_64"))]
scan!(crate::format::lanes::Portable);

/// # Safety
/// As for [`Scan::record`].
#[inline(always)]
unsafe fn record<L: Scan>(scanner: &mut Scanner<'_>, slot: usize) -> bool {
    let record = scanner.record;
    // SAFETY: same contract.
    unsafe {
        let pos = space_end::<L>(record, 0);
        if record.byte(pos) != b'{' {
            return false;
        }
        let end = object::<L>(scanner, ROOT, slot, pos + 1, 1);
        end <= record.bytes.len() && space_end::<L>(record, end) == record.bytes.len()
    }
}

/// # Safety
/// As for [`Scan::object`].
#[inline(always)]
unsafe fn object<L: Scan>(s: &mut Scanner<'_>, id: ColumnId, slot: usize, pos: usize, depth: usize) -> usize {
    let record = s.record;
    s.columns.begin_object(id);
    let mut count = 0;
    // SAFETY: same contract.
    let mut pos = unsafe { space_end::<L>(record, pos) };
    let mut more = record.byte(pos) != b'}';
    pos += usize::from(!more);
    while more {
        // SAFETY: same contract.
        let (field, at) = unsafe { key::<L>(s, id, pos) };
        if at >= record.bytes.len() {
            return OTHER;
        }
        pos = match field.and_then(|field| s.columns.mark_seen(id, field, true)) {
            Some((child, seen_before)) => {
                count += usize::from(!seen_before);
                // SAFETY: same contract.
                unsafe { value::<L>(s, child, slot, at, depth) }
            }
            // SAFETY: same contract.
            None => unsafe { skip::<L>(record, at, depth) },
        };
        if pos >= record.bytes.len() {
            return OTHER;
        }
        // SAFETY: same contract.
        (more, pos) = unsafe { after_value::<L>(record, pos, b'}') };
        if pos == OTHER {
            return OTHER;
        }
    }
    if s.columns.end_object(id, slot, count) { pos } else { OTHER }
}

/// Reads what follows a value that ends at `pos`: returns whether there is another value, and where that
/// begins, or where `close` ends.
///
/// # Safety
/// The processor must have the instructions of `L`.
#[inline(always)]
unsafe fn after_value<L: Lanes>(record: Padded<'_>, pos: usize, close: u8) -> (bool, usize) {
    // SAFETY: same contract.
    let pos = unsafe { space_end::<L>(record, pos) };
    match record.byte(pos) {
        // SAFETY: same contract.
        b',' => (true, unsafe { space_end::<L>(record, pos + 1) }),
        byte if byte == close => (false, pos + 1),
        _ => (false, OTHER),
    }
}

/// The key at `pos`, as the position of a field of `id`, and where its value begins.
///
/// # Safety
/// The processor must have the instructions of `L`.
#[inline(always)]
unsafe fn key<L: Lanes>(s: &Scanner<'_>, id: ColumnId, pos: usize) -> (Option<usize>, usize) {
    let record = s.record;
    if pos >= record.bytes.len() || record.byte(pos) != b'"' {
        return (None, OTHER);
    }
    let at = pos + 1;
    // SAFETY: `at` is at most the record's length, and the padding is readable.
    let len = unsafe { L::special(record.at(at)) }.trailing_zeros() as usize;
    if len < WIDTH && record.byte(at + len) == b'"' {
        // SAFETY: `len` is less than the width; the rest as above.
        return unsafe { (s.columns.short_field::<L>(id, record.at(at), len), colon_end::<L>(record, at + len + 1)) };
    }
    // SAFETY: as above.
    let Some(span) = (unsafe { rich_text::<L, true>(record, at) }) else { return (None, OTHER) };
    if span.escaped {
        // It may be a field's name with escapes.
        return (None, OTHER);
    }
    // SAFETY: same contract.
    (s.columns.field(id, &record.bytes[span.start..span.end]), unsafe { colon_end::<L>(record, span.end + 1) })
}

/// Where the value after the colon at `pos` begins.
///
/// # Safety
/// The processor must have the instructions of `L`.
#[inline(always)]
unsafe fn colon_end<L: Lanes>(record: Padded<'_>, mut pos: usize) -> usize {
    if record.byte(pos) != b':' {
        // SAFETY: same contract.
        pos = unsafe { space_end::<L>(record, pos) };
        if record.byte(pos) != b':' {
            return OTHER;
        }
    }
    // SAFETY: same contract.
    unsafe { space_end::<L>(record, pos + 1) }
}

/// # Safety
/// As for [`Scan::value`].
#[inline(always)]
unsafe fn value<L: Scan>(s: &mut Scanner<'_>, id: ColumnId, slot: usize, pos: usize, depth: usize) -> usize {
    if pos >= s.record.bytes.len() {
        return OTHER;
    }
    let byte = s.record.byte(pos);
    // SAFETY: same contract; `pos` is in the record.
    let end = unsafe {
        match s.columns.column(id).kind {
            ValueKind::Text if byte == b'"' => text::<L>(s, id, slot, pos + 1),
            ValueKind::Integer { min, max } => integer_into::<L>(s, id, slot, pos, min, max),
            ValueKind::Unsigned64 => integer_into::<L>(s, id, slot, pos, 0, i64::MAX),
            ValueKind::Timestamp(timestamp) if timestamp.is_millisecond() && byte != b'"' => {
                integer_into::<L>(s, id, slot, pos, EPOCH_MS_MIN, EPOCH_MS_MAX)
            }
            ValueKind::Float64 => float::<L>(s, id, slot, pos),
            ValueKind::Decimal { precision, scale } => decimal::<L>(s, id, slot, pos, precision, scale),
            ValueKind::Boolean => boolean(s, id, slot, pos),
            ValueKind::Struct if byte == b'{' && depth < DEPTH_MAX => L::object(s, id, slot, pos + 1, depth + 1),
            _ => OTHER,
        }
    };
    if end == OTHER { general(s, id, slot, pos, depth) } else { end }
}

/// The value at `pos` by the general parser, or null.
fn general(s: &mut Scanner<'_>, id: ColumnId, slot: usize, pos: usize, depth: usize) -> usize {
    let nullable = s.columns.column(id).nullable;
    if has_word(s.record, pos, b"null") && nullable {
        s.columns.set_null(id, slot);
        return pos + 4;
    }
    let Padded { bytes, offset, .. } = s.record;
    // Values that do not fit are left to the general parser, which reads the whole record again.
    let mut parser = Parser::new(bytes, pos, offset, s.columns, s.format);
    parser.depth = depth;
    match parser.value(id, slot) {
        Ok(Presence::Value) => parser.pos,
        Ok(Presence::Null) if nullable => parser.pos,
        _ => OTHER,
    }
}

/// # Safety
/// As for [`Scan::rich`].
#[inline(always)]
unsafe fn text<L: Scan>(s: &mut Scanner<'_>, id: ColumnId, slot: usize, at: usize) -> usize {
    // SAFETY: same contract.
    unsafe {
        match plain_text::<L>(s, id, slot, at) {
            OTHER => L::rich(s, id, slot, at),
            end => end,
        }
    }
}

/// # Safety
/// As for [`Scan::rich`].
#[inline(always)]
unsafe fn rich<L: Lanes>(s: &mut Scanner<'_>, id: ColumnId, slot: usize, at: usize) -> usize {
    // SAFETY: same contract.
    let Some(span) = (unsafe { rich_text::<L, false>(s.record, at) }) else { return OTHER };
    if !span.escaped {
        // SAFETY: the string's content is in the record.
        s.columns.set_view(id, slot, unsafe { plain_view(s.record, at, span.end - at) });
    } else if s.columns.set_bytes(id, slot, |out| unescape(s.record.bytes, span, out)).is_err() {
        return OTHER;
    }
    span.end + 1
}

/// # Safety
/// The processor must have the instructions of `L`; `pos` must be in the record.
#[inline(always)]
unsafe fn float<L: Lanes>(s: &mut Scanner<'_>, id: ColumnId, slot: usize, pos: usize) -> usize {
    // SAFETY: same contract.
    let (number, end) = unsafe { fixed::<L>(s.record, pos) };
    if end == OTHER {
        return OTHER;
    }
    let nearest = || std::str::from_utf8(&s.record.bytes[pos..end]).ok()?.parse::<f64>().ok();
    match number.float().or_else(nearest).filter(|value| value.is_finite()) {
        Some(value) => s.columns.set_float(id, slot, value),
        None => return OTHER,
    }
    end
}

/// # Safety
/// The processor must have the instructions of `L`; `pos` must be in the record.
#[inline(always)]
unsafe fn decimal<L: Lanes>(
    s: &mut Scanner<'_>,
    id: ColumnId,
    slot: usize,
    pos: usize,
    precision: u8,
    scale: i8,
) -> usize {
    // SAFETY: same contract.
    let (number, end) = unsafe { fixed::<L>(s.record, pos) };
    if end == OTHER {
        return OTHER;
    }
    let Some(value) = number.decimal(precision, scale) else { return OTHER };
    s.columns.set_decimal(id, slot, value);
    end
}

#[inline(always)]
fn boolean(s: &mut Scanner<'_>, id: ColumnId, slot: usize, pos: usize) -> usize {
    let (value, end) = if has_word(s.record, pos, b"true") {
        (1, pos + 4)
    } else if has_word(s.record, pos, b"false") {
        (0, pos + 5)
    } else {
        return OTHER;
    };
    s.columns.set_integer(id, slot, value);
    end
}

/// # Safety
/// As for [`Scan::skip`].
#[inline(always)]
unsafe fn skip<L: Lanes>(record: Padded<'_>, pos: usize, depth: usize) -> usize {
    // SAFETY: same contract.
    unsafe {
        match record.byte(pos) {
            _ if pos >= record.bytes.len() => OTHER,
            b'{' | b'[' => skip_nested::<L>(record, pos, depth),
            _ => skip_scalar::<L>(record, pos),
        }
    }
}

/// Skips a string, a number or a word.
///
/// # Safety
/// The processor must have the instructions of `L`; `pos` must be in the record.
#[inline(always)]
unsafe fn skip_scalar<L: Lanes>(record: Padded<'_>, pos: usize) -> usize {
    // SAFETY: same contract.
    unsafe {
        match record.byte(pos) {
            b'"' => skip_text::<L>(record, pos + 1),
            b't' if has_word(record, pos, b"true") => pos + 4,
            b'f' if has_word(record, pos, b"false") => pos + 5,
            b'n' if has_word(record, pos, b"null") => pos + 4,
            b'-' | b'0'..=b'9' => match integer_end::<L>(record, pos) {
                OTHER => number(record.bytes, pos).map_or(OTHER, |number| number.end),
                end => end,
            },
            _ => OTHER,
        }
    }
}

/// # Safety
/// The processor must have the instructions of `L`; `at` must be at most one width after the record's end.
#[inline(always)]
unsafe fn skip_text<L: Lanes>(record: Padded<'_>, at: usize) -> usize {
    // SAFETY: same contract.
    unsafe {
        match text_end::<L>(record, at) {
            OTHER => rich_text::<L, true>(record, at).map_or(OTHER, |span| span.end + 1),
            end => end,
        }
    }
}

/// Skips the object or array at `pos`, which is nested in `depth` others.
///
/// # Safety
/// The processor must have the instructions of `L`.
#[inline(always)]
unsafe fn skip_nested<L: Lanes>(record: Padded<'_>, mut pos: usize, depth: usize) -> usize {
    // Bit 0: whether the innermost is an object.
    let mut objects = 0_u128;
    let mut level = 0;
    loop {
        if pos >= record.bytes.len() {
            return OTHER;
        }
        let byte = record.byte(pos);
        let is_object = byte == b'{';
        if is_object || byte == b'[' {
            if depth + level >= DEPTH_MAX {
                return OTHER;
            }
            level += 1;
            objects = objects << 1 | u128::from(is_object);
            // SAFETY: same contract.
            pos = unsafe { space_end::<L>(record, pos + 1) };
            if record.byte(pos) != if is_object { b'}' } else { b']' } {
                if is_object {
                    // SAFETY: same contract.
                    pos = unsafe { skip_key::<L>(record, pos) };
                }
                continue;
            }
            (pos, level, objects) = (pos + 1, level - 1, objects >> 1);
        } else {
            // SAFETY: same contract; `pos` is in the record.
            pos = unsafe { skip_scalar::<L>(record, pos) };
        }
        // What follows the value, and the objects and arrays that end there.
        loop {
            if level == 0 {
                return pos;
            }
            if pos >= record.bytes.len() {
                return OTHER;
            }
            // SAFETY: same contract.
            let (more, next) = unsafe { after_value::<L>(record, pos, if objects & 1 == 1 { b'}' } else { b']' }) };
            pos = next;
            if more {
                if objects & 1 == 1 {
                    // SAFETY: same contract.
                    pos = unsafe { skip_key::<L>(record, pos) };
                }
                break;
            }
            (level, objects) = (level - 1, objects >> 1);
        }
    }
}

/// Where the value after the key at `pos` begins.
///
/// # Safety
/// The processor must have the instructions of `L`.
#[inline(always)]
unsafe fn skip_key<L: Lanes>(record: Padded<'_>, pos: usize) -> usize {
    if pos >= record.bytes.len() || record.byte(pos) != b'"' {
        return OTHER;
    }
    // SAFETY: same contract; `pos` is in the record.
    unsafe {
        match skip_text::<L>(record, pos + 1) {
            OTHER => OTHER,
            end => colon_end::<L>(record, end),
        }
    }
}
