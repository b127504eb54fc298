//! Parts of texts by position. Positions count characters from 1; a negative one counts from the end.

use arrow::array::ArrayRef;
use datafusion_common::Result;

use crate::arguments::{Arguments, slices, texts};
use crate::definition::{Definition, Kind, Returns, function};

pub(crate) const DEFINITIONS: &[Definition] = &[
    function("substr", &[TEXT_NUMBER, &[Kind::Text, Kind::Integer, Kind::Integer]], Returns::Text, substr)
        .never_fails()
        .also(&["substring"]),
    function("left", &[TEXT_NUMBER], Returns::Text, |a| end(a, first)).never_fails(),
    function("right", &[TEXT_NUMBER], Returns::Text, |a| end(a, last)).never_fails(),
    function("split_index", &[SPLIT, SPLIT_BY_CODE], Returns::Text, split_index).never_fails(),
    function("reverse", &[&[Kind::Text]], Returns::Text, reverse).never_fails(),
];

const TEXT_NUMBER: &[Kind] = &[Kind::Text, Kind::Integer];
const SPLIT: &[Kind] = &[Kind::Text, Kind::Text, Kind::Integer];
const SPLIT_BY_CODE: &[Kind] = &[Kind::Text, Kind::Integer, Kind::Integer];

/// The first `count` characters.
fn first(text: &str, count: i64) -> &str {
    &text[..offset(text, usize::try_from(count).unwrap_or(0))]
}

/// The last `count` characters.
fn last(text: &str, count: i64) -> &str {
    let Ok(count) = usize::try_from(count) else { return "" };
    &text[offset_from_end(text, count).unwrap_or(0)..]
}

/// The byte where the character number `count` (from 0) begins; the end if the text is shorter.
pub(crate) fn offset(text: &str, count: usize) -> usize {
    if text.is_ascii() {
        return count.min(text.len());
    }
    text.char_indices().nth(count).map_or(text.len(), |(at, _)| at)
}

/// The byte where the last `count` characters begin, if the text has as many.
fn offset_from_end(text: &str, count: usize) -> Option<usize> {
    match count {
        0 => Some(text.len()),
        _ => text.char_indices().nth_back(count - 1).map(|(at, _)| at),
    }
}

fn end(arguments: &Arguments, part: fn(&str, i64) -> &str) -> Result<ArrayRef> {
    let (text, count) = (arguments.text(0), arguments.integer(1));
    slices(arguments.rows, |row| Some(part(text.get(row)?, count.get(row)?)))
}

fn substr(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, start) = (arguments.text(0), arguments.integer(1));
    let length = arguments.integer_or(2, i64::MAX);
    slices(arguments.rows, |row| substring(text.get(row)?, start.get(row)?, length.get(row)?))
}

/// Position 0 is the first character; a negative length gives NULL, a start before the text gives empty text.
fn substring(text: &str, start: i64, length: i64) -> Option<&str> {
    if length < 0 {
        return None;
    }
    let rest = match usize::try_from(start) {
        Ok(start) => &text[offset(text, start.saturating_sub(1))..],
        Err(_) => match offset_from_end(text, usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX)) {
            Some(at) => &text[at..],
            None => "",
        },
    };
    Some(first(rest, length))
}

/// The part of a text at an index that counts from 0; NULL if there is none. An empty separator means each
/// blank character, a number from 1 to 255 means the character with that code.
fn split_index(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, index) = (arguments.text(0), arguments.integer(2));
    if !arguments.array(1).data_type().is_string() {
        let code = arguments.integer(1);
        return slices(arguments.rows, |row| {
            let code = u8::try_from(code.get(row)?).ok().filter(|code| *code > 0).map(char::from)?;
            part(text.get(row)?, code.encode_utf8(&mut [0; 4]), index.get(row)?)
        });
    }
    let separator = arguments.text(1);
    slices(arguments.rows, |row| part(text.get(row)?, separator.get(row)?, index.get(row)?))
}

fn part<'a>(text: &'a str, separator: &str, index: i64) -> Option<&'a str> {
    let index = usize::try_from(index).ok()?;
    match (text, separator) {
        ("", _) => None,
        (text, "") => text.split(char::is_whitespace).nth(index),
        (text, separator) => text.split(separator).nth(index),
    }
}

fn reverse(arguments: &Arguments) -> Result<ArrayRef> {
    let text = arguments.text(0);
    texts(arguments, |row, out| {
        out.extend(text.get(row)?.chars().rev());
        Some(())
    })
}
