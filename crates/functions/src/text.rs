//! Functions that convert and measure text.

use arrow::array::ArrayRef;
use arrow::datatypes::Int32Type;
use datafusion_common::Result;

use crate::arguments::{Arguments, Column, primitives, slices, texts, try_texts};
use crate::definition::{Definition, Kind, Returns, failure, function};
use crate::pad::{LONGEST_TEXT, Limit};

const TEXT: &[&[Kind]] = &[&[Kind::Text]];
const THREE: &[&[Kind]] = &[&[Kind::Text, Kind::Text, Kind::Text]];

pub(crate) const DEFINITIONS: &[Definition] = &[
    function("char_length", TEXT, Returns::Int, char_length).never_fails().also(&["character_length"]),
    function("initcap", TEXT, Returns::Text, initcap).never_fails(),
    function("repeat", &[&[Kind::Text, Kind::Integer]], Returns::Text, repeat),
    function("replace", THREE, Returns::Text, replace).fails_if(|call| !call.is_short(2)),
    function("translate", THREE, Returns::Text, translate).never_fails(),
    function("ascii", TEXT, Returns::Int, ascii).never_fails(),
    function("chr", &[&[Kind::Integer]], Returns::Text, chr).never_fails(),
    function("concat", TEXT, Returns::Text, concat).never_fails().variadic(),
    function("concat_ws", &[&[Kind::Text, Kind::Text]], Returns::Text, concat_ws)
        .fails_if(|call| !call.is_short(0))
        .variadic(),
    function("elt", &[&[Kind::Integer, Kind::Text]], Returns::Text, elt).never_fails().variadic(),
];

/// Counts characters: Unicode code points.
fn char_length(arguments: &Arguments) -> Result<ArrayRef> {
    let text = arguments.text(0);
    primitives::<Int32Type>(arguments.rows, |row| i32::try_from(text.get(row)?.chars().count()).ok())
}

/// The first letter of each word in upper case, the others in lower case. Letters are ASCII letters; all
/// other characters separate words and are unchanged.
fn initcap(arguments: &Arguments) -> Result<ArrayRef> {
    let text = arguments.text(0);
    texts(arguments, |row, out| {
        let mut within = false;
        for c in text.get(row)?.chars() {
            out.push(if within { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() });
            within = c.is_ascii_alphanumeric();
        }
        Some(())
    })
}

fn repeat(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, times) = (arguments.text(0), arguments.integer(1));
    try_texts(arguments, |row, out| {
        let (Some(text), Some(times)) = (text.get(row), times.get(row)) else { return Ok(None) };
        let times = usize::try_from(times).unwrap_or(0);
        if text.len().saturating_mul(times) > LONGEST_TEXT {
            return Err(failure(format!(
                "REPEAT of {} bytes, {times} times: the limit is {LONGEST_TEXT} bytes",
                text.len()
            )));
        }
        if !text.is_empty() {
            (0..times).for_each(|_| out.push_str(text));
        }
        Ok(Some(()))
    })
}

fn replace(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, old, new) = (arguments.text(0), arguments.text(1), arguments.text(2));
    try_texts(arguments, |row, out| {
        let (Some(text), Some(old), Some(new)) = (text.get(row), old.get(row), new.get(row)) else { return Ok(None) };
        let limit = Limit::new("REPLACE", text.len() + new.len());
        let mut rest = 0;
        for (at, found) in text.match_indices(old) {
            out.push_str(&text[rest..at]);
            out.push_str(new);
            limit.check(out)?;
            rest = at + found.len();
        }
        out.push_str(&text[rest..]);
        Ok(Some(()))
    })
}

/// Replaces each character of the second text by the character at the same place in the third, or removes it.
fn translate(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, from, to) = (arguments.text(0), arguments.text(1), arguments.text(2));
    texts(arguments, |row, out| {
        let (text, from, to) = (text.get(row)?, from.get(row)?, to.get(row)?);
        out.extend(text.chars().filter_map(|c| match from.chars().position(|f| f == c) {
            Some(index) => to.chars().nth(index),
            None => Some(c),
        }));
        Some(())
    })
}

/// The first byte, with a sign; 0 of an empty text.
fn ascii(arguments: &Arguments) -> Result<ArrayRef> {
    let text = arguments.text(0);
    primitives::<Int32Type>(arguments.rows, |row| {
        Some(text.get(row)?.bytes().next().map_or(0, |byte| i32::from(byte.cast_signed())))
    })
}

/// The character of a code from 0 to 255; greater codes are taken modulo 256; negative ones give empty text.
fn chr(arguments: &Arguments) -> Result<ArrayRef> {
    let code = arguments.integer(0);
    texts(arguments, |row, out| {
        let code = code.get(row)?;
        if code >= 0 {
            out.push(char::from(u8::try_from(code & 0xff).ok()?));
        }
        Some(())
    })
}

fn all_texts(arguments: &Arguments, from: usize) -> Vec<Column<arrow::array::StringViewArray>> {
    (from..arguments.len()).map(|index| arguments.text(index)).collect()
}

fn concat(arguments: &Arguments) -> Result<ArrayRef> {
    let parts = all_texts(arguments, 0);
    texts(arguments, |row, out| parts.iter().try_for_each(|part| part.get(row).map(|part| out.push_str(part))))
}

/// NULL parts are omitted.
fn concat_ws(arguments: &Arguments) -> Result<ArrayRef> {
    let (separator, parts) = (arguments.text(0), all_texts(arguments, 1));
    texts(arguments, |row, out| {
        let separator = separator.get(row)?;
        for (index, part) in parts.iter().filter_map(|part| part.get(row)).enumerate() {
            if index > 0 {
                out.push_str(separator);
            }
            out.push_str(part);
        }
        Some(())
    })
}

/// The argument with this number, from 1.
fn elt(arguments: &Arguments) -> Result<ArrayRef> {
    let (index, parts) = (arguments.integer(0), all_texts(arguments, 1));
    slices(arguments.rows, |row| parts.get(usize::try_from(index.get(row)?).ok()?.checked_sub(1)?)?.get(row))
}
