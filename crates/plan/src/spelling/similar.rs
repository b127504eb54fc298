//! Patterns of `SIMILAR TO`.

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{Expr, Spanned};

use super::like::{constant, escape_of};
use crate::place::at;

/// Checks a constant pattern.
pub(super) fn check(expr: &Expr) -> Result<()> {
    let Expr::SimilarTo { pattern, escape_char, .. } = expr else { return Ok(()) };
    let Some(constant) = constant(pattern) else { return Ok(()) };
    let escape = escape_char.as_ref().map(escape_of).transpose();
    let checked = escape.and_then(|escape| similar_regex(constant, escape));
    checked.map(|_| ()).map_err(|error| error.at(at(pattern.span().start)))
}

/// The regular expression for a pattern. It matches the whole value. As in Flink, a dot matches any
/// character.
pub(crate) fn similar_regex(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut regex = String::from("(?s)^(?:");
    let mut characters = pattern.chars();
    let mut brackets = 0_usize;
    while let Some(c) = characters.next() {
        match c {
            '[' => brackets += 1,
            ']' => brackets = brackets.saturating_sub(1),
            '%' | '_' if brackets > 0 && Some(c) != escape => {
                let message = format!("the pattern '{pattern}' of SIMILAR TO has '{c}' in brackets");
                return Err(Error::user(message).remedy("use an alternative, as in (a|b), or REGEXP(text, pattern)"));
            }
            _ => {}
        }
        match c {
            c if Some(c) == escape => match characters.next() {
                Some(next) => regex.push_str(&regex_literal(next)),
                None => {
                    let error = Error::user(format!("the pattern '{pattern}' ends with its escape character"));
                    return Err(error.remedy("write the escape character twice to match the character itself"));
                }
            },
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '$' | '\\' => regex.push_str(&regex_literal(c)),
            c => regex.push(c),
        }
    }
    regex.push_str(")$");
    // Classes have names in lower case.
    for class in ["ALPHA", "UPPER", "LOWER", "DIGIT", "ALNUM", "SPACE"] {
        regex = regex.replace(&format!("[:{class}:]"), &format!("[:{}:]", class.to_lowercase()));
    }
    anabranch_functions::check_library_regex(&regex).map_err(|what| {
        Error::user(format!("the pattern '{pattern}' of SIMILAR TO is wrong: {what}"))
            .remedy("write a bracket that stands for itself with an escape character: SIMILAR TO '![%' ESCAPE '!'")
    })?;
    Ok(regex)
}

fn regex_literal(c: char) -> String {
    // An escaped `<` or `>` would match a word boundary.
    if c.is_ascii_punctuation() && !matches!(c, '<' | '>') { format!("\\{c}") } else { c.to_string() }
}
