//! What kinds of characters a text has. NULL is of none.

use std::sync::LazyLock;

use arrow::array::ArrayRef;
use datafusion_common::Result;
use regex::Regex;

use crate::arguments::{Arguments, booleans};
use crate::definition::{Definition, Kind, Returns, function};

const VALUE: &[&[Kind]] = &[&[Kind::Text], &[Kind::Number]];

pub(crate) const DEFINITIONS: &[Definition] = &[
    function("is_alpha", VALUE, Returns::Boolean, |a| test(a, is_alpha, |_| false)).never_fails(),
    function("is_digit", VALUE, Returns::Boolean, |a| test(a, is_digit, arrow::datatypes::DataType::is_integer))
        .never_fails(),
    // A DECIMAL is none, as in Flink.
    function("is_decimal", VALUE, Returns::Boolean, |a| {
        test(a, is_decimal, |data_type| data_type.is_integer() || data_type.is_floating())
    })
    .never_fails(),
];

/// Of numbers, the type decides.
fn test(
    arguments: &Arguments,
    holds: fn(&str) -> bool,
    of_type: fn(&arrow::datatypes::DataType) -> bool,
) -> Result<ArrayRef> {
    let data_type = arguments.array(0).data_type();
    if !data_type.is_string() {
        let holds = of_type(data_type);
        return booleans(arguments.rows, |_| Some(holds));
    }
    let text = arguments.text(0);
    booleans(arguments.rows, |row| Some(text.get(row).is_some_and(holds)))
}

fn pattern(regex: &str) -> Option<Regex> {
    Regex::new(regex).ok()
}

/// Letters, as Java counts them: in units of UTF-16, so none beyond the basic plane.
fn is_alpha(text: &str) -> bool {
    static LETTERS: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^\p{L}+$"));
    matches(&LETTERS, text) && is_basic(text)
}

fn is_digit(text: &str) -> bool {
    static DIGITS: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^\p{Nd}+$"));
    matches(&DIGITS, text) && is_basic(text)
}

/// What Java reads as a whole number or as a DOUBLE.
fn is_decimal(text: &str) -> bool {
    static WHOLE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^[+-]?\p{Nd}{1,18}$"));
    static DOUBLE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"^[+-]?(NaN|Infinity|(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|0[xX]([0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)$",
        )
    });
    matches(&WHOLE, text) || matches(&DOUBLE, text.trim_matches(|c: char| c <= ' '))
}

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    LazyLock::force(pattern).as_ref().is_some_and(|pattern| pattern.is_match(text))
}

fn is_basic(text: &str) -> bool {
    text.chars().all(|c| u32::from(c) <= 0xFFFF)
}
