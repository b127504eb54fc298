//! Texts as bytes of a character set, as Java has them: what a set lacks becomes `?`, and bytes that are no
//! text become U+FFFD.

use arrow::array::ArrayRef;
use datafusion_common::Result;

use crate::arguments::{Arguments, try_bytes, try_texts};
use crate::definition::{Definition, Kind, Returns, failure, function};

pub(crate) const DEFINITIONS: &[Definition] = &[
    function("encode", &[&[Kind::Text, Kind::Text]], Returns::Bytes, encode),
    function("decode", &[&[Kind::TextOrBytes, Kind::Text]], Returns::Text, decode),
];

#[derive(Clone, Copy)]
enum Charset {
    Ascii,
    Latin1,
    Utf8,
    /// Whether the first of two bytes is the low one. An encoding without a byte order in its name begins
    /// with a byte order mark.
    Utf16 {
        little: Option<bool>,
    },
}

impl Charset {
    fn of(name: &str) -> Result<Charset> {
        Ok(match name.to_ascii_uppercase().as_str() {
            "US-ASCII" => Charset::Ascii,
            "ISO-8859-1" => Charset::Latin1,
            "UTF-8" => Charset::Utf8,
            "UTF-16" => Charset::Utf16 { little: None },
            "UTF-16BE" => Charset::Utf16 { little: Some(false) },
            "UTF-16LE" => Charset::Utf16 { little: Some(true) },
            _ => {
                return Err(failure(format!(
                    "there is no character set '{name}'; use US-ASCII, ISO-8859-1, UTF-8, UTF-16, UTF-16BE or UTF-16LE"
                )));
            }
        })
    }

    fn encode(self, text: &str, out: &mut Vec<u8>) {
        let below = |end: u32| text.chars().map(move |c| if u32::from(c) < end { u32::from(c) as u8 } else { b'?' });
        match self {
            Charset::Ascii => out.extend(below(0x80)),
            Charset::Latin1 => out.extend(below(0x100)),
            Charset::Utf8 => out.extend_from_slice(text.as_bytes()),
            Charset::Utf16 { little: Some(true) } => out.extend(text.encode_utf16().flat_map(u16::to_le_bytes)),
            Charset::Utf16 { little } => {
                if little.is_none() && !text.is_empty() {
                    out.extend_from_slice(&[0xfe, 0xff]);
                }
                out.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
            }
        }
    }

    fn decode(self, bytes: &[u8], out: &mut String) {
        match self {
            Charset::Ascii => {
                out.extend(bytes.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '\u{fffd}' }));
            }
            Charset::Latin1 => out.extend(bytes.iter().map(|byte| char::from(*byte))),
            Charset::Utf8 => utf8(bytes, out),
            Charset::Utf16 { little } => {
                let (little, bytes) = match (little, bytes) {
                    (None, [0xff, 0xfe, rest @ ..]) => (true, rest),
                    (None, [0xfe, 0xff, rest @ ..]) => (false, rest),
                    (little, bytes) => (little == Some(true), bytes),
                };
                utf16(bytes, little, out);
            }
        }
    }
}

/// An encoded surrogate becomes one U+FFFD, as in Java.
fn utf8(bytes: &[u8], out: &mut String) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return out.push_str(text);
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        let half = rest.windows(3).position(|of| matches!(of, [0xed, 0xa0..=0xbf, 0x80..=0xbf]));
        let (text, behind) = rest.split_at(half.unwrap_or(rest.len()));
        out.push_str(&String::from_utf8_lossy(text));
        if half.is_some() {
            out.push('\u{fffd}');
        }
        rest = behind.get(3..).unwrap_or_default();
    }
}

/// Half a character takes what follows it along, as in Java.
fn utf16(bytes: &[u8], little: bool, out: &mut String) {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let unit = |pair: &[u8; 2]| if little { u16::from_le_bytes(*pair) } else { u16::from_be_bytes(*pair) };
    let mut units = pairs.iter().map(unit);
    let mut lacks_second = false;
    while let Some(first) = units.next() {
        let is_half = (0xd800..0xdc00).contains(&first);
        let second = if is_half { units.next() } else { None };
        lacks_second = is_half && second.is_none();
        let read = [Some(first), second].into_iter().flatten();
        out.push(char::decode_utf16(read).next().and_then(std::result::Result::ok).unwrap_or('\u{fffd}'));
    }
    if !rest.is_empty() && !lacks_second {
        out.push('\u{fffd}');
    }
}

fn encode(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, charset) = (arguments.text(0), arguments.text(1));
    try_bytes(arguments.rows, |row, out| {
        let (Some(text), Some(charset)) = (text.get(row), charset.get(row)) else { return Ok(None) };
        Charset::of(charset)?.encode(text, out);
        Ok(Some(()))
    })
}

fn decode(arguments: &Arguments) -> Result<ArrayRef> {
    let (bytes, charset) = (arguments.bytes(0), arguments.text(1));
    try_texts(arguments, |row, out| {
        let (Some(bytes), Some(charset)) = (bytes.get(row), charset.get(row)) else { return Ok(None) };
        Charset::of(charset)?.decode(bytes, out);
        Ok(Some(()))
    })
}
