//! Positions of one text in another. Positions count characters from 1; 0 means not found.

use arrow::array::ArrayRef;
use arrow::datatypes::Int32Type;
use datafusion_common::Result;

use crate::arguments::{Arguments, booleans, primitives, try_primitives};
use crate::definition::{Definition, Kind, Returns, failure, function};
use crate::substring::offset;

const TWO: &[Kind] = &[Kind::Text, Kind::Text];
const FROM: &[Kind] = &[Kind::Text, Kind::Text, Kind::Integer];
const NTH: &[Kind] = &[Kind::Text, Kind::Text, Kind::Integer, Kind::Integer];

pub(crate) const DEFINITIONS: &[Definition] = &[
    // POSITION(a IN b), written as a call.
    function("locate", &[TWO, FROM], Returns::Int, locate).never_fails().also(&["position"]),
    function("instr", &[TWO, FROM, NTH], Returns::Int, instr),
    function("startswith", &[TWO], Returns::Boolean, |a| test(a, |text, part| text.starts_with(part))).never_fails(),
    function("endswith", &[TWO], Returns::Boolean, |a| test(a, |text, part| text.ends_with(part))).never_fails(),
];

fn test(arguments: &Arguments, holds: fn(&str, &str) -> bool) -> Result<ArrayRef> {
    let (text, part) = (arguments.text(0), arguments.text(1));
    booleans(arguments.rows, |row| Some(holds(text.get(row)?, part.get(row)?)))
}

/// The number of the character that begins at byte `at`.
fn position(text: &str, at: usize) -> i32 {
    let before = &text[..at];
    let count = if before.is_ascii() { before.len() } else { before.chars().count() };
    i32::try_from(count + 1).unwrap_or(i32::MAX)
}

fn locate(arguments: &Arguments) -> Result<ArrayRef> {
    let (part, text) = (arguments.text(0), arguments.text(1));
    let from = arguments.integer_or(2, 1);
    primitives::<Int32Type>(arguments.rows, |row| {
        let (part, text, from) = (part.get(row)?, text.get(row)?, from.get(row)?);
        if part.is_empty() {
            return Some(1);
        }
        let start = offset(text, usize::try_from(from.saturating_sub(1)).unwrap_or(0));
        Some(text[start..].find(part).map_or(0, |at| position(text, start + at)))
    })
}

/// The `nth` match at or after a position. A position that counts from the end searches backwards.
fn instr(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, part) = (arguments.text(0), arguments.text(1));
    let (from, nth) = (arguments.integer_or(2, 1), arguments.integer_or(3, 1));
    try_primitives::<Int32Type>(arguments.rows, |row| {
        let (Some(text), Some(part), Some(from), Some(nth)) =
            (text.get(row), part.get(row), from.get(row), nth.get(row))
        else {
            return Ok(None);
        };
        if nth <= 0 {
            return Err(failure(format!("INSTR counts occurrences from 1: there is none of number {nth}")));
        }
        Ok(Some(nth_place(text, part, from, nth).map_or(0, |at| position(text, at))))
    })
}

fn nth_place(text: &str, part: &str, from: i64, nth: i64) -> Option<usize> {
    if part.is_empty() {
        return (from != 0).then_some(0);
    }
    let count = usize::try_from(from.unsigned_abs()).ok()?.checked_sub(1)?;
    let mut rest = usize::try_from(nth).ok()?.checked_sub(1)?;
    if from > 0 {
        let mut start = offset(text, count);
        loop {
            let at = start + text[start..].find(part)?;
            if rest == 0 {
                return Some(at);
            }
            rest -= 1;
            start = at + part.chars().next()?.len_utf8();
        }
    }
    // The match may begin at the last character that counts, and end after it.
    let (begin, _) = text.char_indices().nth_back(count)?;
    let mut end = (begin + part.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    loop {
        let at = text[..end].rfind(part)?;
        if rest == 0 {
            return Some(at);
        }
        rest -= 1;
        end = at + part.len() - part.chars().next_back()?.len_utf8();
    }
}
