//! `LIKE` in Flink has no escape character, unless ESCAPE defines one. In DataFusion it is a backslash.

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{Expr, Spanned, Value, ValueWithSpan};

use super::forms::plain_function;
use super::text;
use crate::place::at;

/// Converts the pattern of a `LIKE` to DataFusion's escapes.
pub(super) fn escape(expr: &mut Expr) -> Result<()> {
    let (Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. }) = expr else {
        return Ok(());
    };
    let place = at(pattern.span().start);
    let escape = escape_char.take().map(|escape| escape_of(&escape)).transpose().map_err(|e| e.at(place.clone()))?;
    if let Some(constant) = constant(pattern) {
        **pattern = text(&escaped(constant, escape).map_err(|e| e.at(place))?);
    } else if escape.is_some() {
        return Err(Error::user("LIKE with ESCAPE needs a constant pattern")
            .at(place)
            .remedy("write the pattern as a text in quotes"));
    } else {
        let doubled = vec![std::mem::replace(pattern.as_mut(), text("")), text("\\"), text("\\\\")];
        **pattern = plain_function("replace".into(), doubled);
    }
    Ok(())
}

pub(super) fn constant(pattern: &Expr) -> Option<&str> {
    match pattern {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        Expr::Nested(inner) => constant(inner),
        _ => None,
    }
}

pub(super) fn escape_of(escape: &ValueWithSpan) -> Result<char> {
    let wrong = || Error::user(format!("ESCAPE takes one character, not {escape}")).remedy("write ESCAPE '!'");
    let Value::SingleQuotedString(text) = &escape.value else { return Err(wrong()) };
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none()).ok_or_else(wrong)
}

fn escaped(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut result = String::new();
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        let literal = if Some(c) == escape {
            match characters.next().filter(|next| matches!(next, '%' | '_') || Some(*next) == escape) {
                Some(next) => next,
                None => {
                    return Err(Error::user(format!(
                        "in the pattern '{pattern}', the escape character {c} is followed by none of %, _ and {c}"
                    ))
                    .remedy(format!("write {c}{c} for the character itself")));
                }
            }
        } else if c == '\\' {
            c
        } else {
            result.push(c);
            continue;
        };
        if matches!(literal, '%' | '_' | '\\') {
            result.push('\\');
        }
        result.push(literal);
    }
    Ok(result)
}
