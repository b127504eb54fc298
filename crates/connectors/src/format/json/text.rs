//! Strings: where they end, and what their escapes mean.

use super::fault::{Fault, Read, shown};
use crate::format::lanes::{Baseline, Lanes, WIDTH};

/// A string in the record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Offset of the first byte after the opening quote.
    pub(super) start: usize,
    /// Offset of the closing quote.
    pub(super) end: usize,
    /// Whether it contains a backslash.
    pub(super) escaped: bool,
}

/// Reads the string with its opening quote at `at`: it is UTF-8 and has no control characters. Its escapes
/// are not checked.
pub(super) fn string(bytes: &[u8], at: usize) -> Read<Span> {
    let start = at + 1;
    let (mut escaped, mut ascii) = (false, true);
    let mut pos = start;
    loop {
        pos = special(bytes, pos);
        match bytes.get(pos) {
            Some(b'"') => break,
            Some(b'\\') => {
                escaped = true;
                pos += 2;
            }
            Some(0x80..) => {
                ascii = false;
                pos += 1;
            }
            Some(control) => {
                return Err(Fault::new(pos, format!("control character {control:#04x} in a string must be escaped")));
            }
            None => return Err(Fault::new(at, "unterminated string starting")),
        }
    }
    if !ascii && let Err(error) = std::str::from_utf8(&bytes[start..pos]) {
        return Err(Fault::new(start + error.valid_up_to(), "the string is not UTF-8: invalid byte"));
    }
    Ok(Span { start, end: pos, escaped })
}

/// The first position from `pos` on that needs attention in a string, or the end.
#[inline]
fn special(bytes: &[u8], mut pos: usize) -> usize {
    while let Some(block) = bytes.get(pos..pos + WIDTH) {
        // SAFETY: the block has 32 bytes; the baseline is on every processor.
        let mask = unsafe { Baseline::special(block.as_ptr()) };
        if mask != 0 {
            return pos + mask.trailing_zeros() as usize;
        }
        pos += WIDTH;
    }
    let rest = bytes.get(pos..).unwrap_or_default();
    let plain = |byte: &u8| (0x20..0x80).contains(byte) && *byte != b'"' && *byte != b'\\';
    pos + rest.iter().position(|byte| !plain(byte)).unwrap_or(rest.len())
}

/// Appends the unescaped string. `bytes` is the record, for the positions in messages.
pub(super) fn unescape(bytes: &[u8], span: Span, out: &mut Vec<u8>) -> Read<()> {
    let mut pos = span.start;
    while let Some(plain) = memchr::memchr(b'\\', &bytes[pos..span.end]) {
        out.extend_from_slice(&bytes[pos..pos + plain]);
        let (character, after) = escape(&bytes[..span.end], pos + plain)?;
        if character.is_ascii() {
            out.push(character as u8);
        } else {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        pos = after;
    }
    out.extend_from_slice(&bytes[pos..span.end]);
    Ok(())
}

/// The character of the escape at `at`, and the position after it.
#[inline]
pub(super) fn escape(bytes: &[u8], at: usize) -> Read<(char, usize)> {
    let character = match bytes.get(at + 1) {
        Some(&byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode(bytes, at),
        _ => return Err(wrong_escape(bytes, at)),
    };
    Ok((character, at + 2))
}

fn unicode(bytes: &[u8], at: usize) -> Read<(char, usize)> {
    let unit = |at: usize| -> Option<u32> {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
    };
    let first = unit(at).ok_or_else(|| wrong_escape(bytes, at))?;
    let (code, end) = match first {
        0xd800..0xdc00 => match unit(at + 6) {
            Some(second @ 0xdc00..0xe000) => (0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), at + 12),
            _ => return Err(lone_surrogate(at)),
        },
        _ => (first, at + 6),
    };
    Ok((char::from_u32(code).ok_or_else(|| lone_surrogate(at))?, end))
}

#[cold]
fn wrong_escape(bytes: &[u8], at: usize) -> Box<Fault> {
    let end = bytes.len().min(at + 6);
    let text = shown(&bytes[..end], at);
    Fault::new(at, format!("invalid escape {text}"))
}

#[cold]
fn lone_surrogate(at: usize) -> Box<Fault> {
    Fault::new(at, "unpaired surrogate")
}
