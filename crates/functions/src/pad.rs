//! Functions whose lengths count UTF-16 units, as in Flink: a character beyond the basic plane counts twice,
//! and half of one is shown as `?`.

use arrow::array::ArrayRef;
use datafusion_common::Result;

use crate::arguments::{Arguments, GROWTH, texts, try_texts};
use crate::definition::{Definition, Kind, Returns, failure, function};

/// Limit of the results of functions that make texts longer.
pub(crate) const LONGEST_TEXT: usize = 16 << 20;

/// Limit of one result of a function that repeats an argument within another one.
pub(crate) struct Limit {
    function: &'static str,
    bytes: usize,
}

impl Limit {
    /// The limit grows with the arguments, so that a short text in place of another one never reaches it.
    pub(crate) fn new(function: &'static str, bytes_of_arguments: usize) -> Self {
        Limit { function, bytes: LONGEST_TEXT.max(bytes_of_arguments.saturating_mul(GROWTH)) }
    }

    pub(crate) fn check(&self, text: &str) -> Result<()> {
        if text.len() > self.bytes {
            return Err(failure(format!("{} gives a text of more than {} bytes", self.function, self.bytes)));
        }
        Ok(())
    }
}

const PAD: &[&[Kind]] = &[&[Kind::Text, Kind::Integer, Kind::Text]];
const OVERLAY: &[&[Kind]] =
    &[&[Kind::Text, Kind::Text, Kind::Integer], &[Kind::Text, Kind::Text, Kind::Integer, Kind::Integer]];

pub(crate) const DEFINITIONS: &[Definition] = &[
    function("lpad", PAD, Returns::Text, |a| pad(a, true)),
    function("rpad", PAD, Returns::Text, |a| pad(a, false)),
    // CAST(text AS CHAR(n)).
    function("as_char", &[&[Kind::Text, Kind::Integer]], Returns::Text, as_char),
    function("overlay", OVERLAY, Returns::Text, overlay).never_fails(),
];

fn append(units: impl Iterator<Item = u16>, out: &mut String) {
    out.extend(char::decode_utf16(units).map(|unit| unit.unwrap_or('?')));
}

fn pad(arguments: &Arguments, left: bool) -> Result<ArrayRef> {
    let (text, length, filling) = (arguments.text(0), arguments.integer(1), arguments.text(2));
    try_texts(arguments, |row, out| {
        let (Some(text), Some(length), Some(filling)) = (text.get(row), length.get(row), filling.get(row)) else {
            return Ok(None);
        };
        let Ok(length) = usize::try_from(length) else { return Ok(None) };
        if filling.is_empty() {
            return Ok(None);
        }
        if length > LONGEST_TEXT {
            let name = if left { "LPAD" } else { "RPAD" };
            return Err(failure(format!("{name} to a length of {length}: the limit is {LONGEST_TEXT}")));
        }
        let own = text.encode_utf16().count();
        let missing = length.saturating_sub(own);
        let filling = filling.encode_utf16().cycle().take(missing);
        let kept = text.encode_utf16().take(length);
        match left {
            true => append(filling.chain(kept), out),
            false => append(kept.chain(filling), out),
        }
        Ok(Some(()))
    })
}

/// The text cut or filled with blanks to the length of its type. Unlike the other functions here, it counts
/// whole characters.
fn as_char(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, length) = (arguments.text(0), arguments.integer(1));
    try_texts(arguments, |row, out| {
        let (Some(text), Some(length)) = (text.get(row), length.get(row)) else { return Ok(None) };
        let length = usize::try_from(length).unwrap_or(0);
        if length > LONGEST_TEXT {
            return Err(failure(format!("CHAR({length}): {LONGEST_TEXT} is the most")));
        }
        out.extend(text.chars().chain(std::iter::repeat(' ')).take(length));
        Ok(Some(()))
    })
}

/// A start outside of the text leaves it unchanged. A length that ends outside of the text, or that is not
/// positive, replaces the whole rest.
fn overlay(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, new, start) = (arguments.text(0), arguments.text(1), arguments.integer(2));
    let length = (arguments.len() > 3).then(|| arguments.integer(3));
    texts(arguments, |row, out| {
        let (text, new, start) = (text.get(row)?, new.get(row)?, start.get(row)?);
        let own = text.encode_utf16().count();
        let length = match &length {
            Some(length) => length.get(row)?,
            None => i64::try_from(new.encode_utf16().count()).ok()?,
        };
        let Some(before) = usize::try_from(start).ok().filter(|start| (1..=own).contains(start)) else {
            out.push_str(text);
            return Some(());
        };
        let after = usize::try_from(length).ok().filter(|length| *length > 0).map(|length| before - 1 + length);
        let rest = after.filter(|after| *after < own).unwrap_or(own);
        append(
            text.encode_utf16().take(before - 1).chain(new.encode_utf16()).chain(text.encode_utf16().skip(rest)),
            out,
        );
        Some(())
    })
}
