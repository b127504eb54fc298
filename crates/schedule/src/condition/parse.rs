//! The text of a condition.

use anabranch_model::{Error, Result, nearest};

use super::{Comparison, Condition, QUANTITIES, Unit};

/// A piece of the text with the place of its first character, from 1.
#[derive(Clone, Debug, PartialEq)]
struct Token {
    text: String,
    column: usize,
}

pub(super) fn condition(text: &str) -> Result<Condition> {
    let tokens = tokens(text);
    let mut rest = tokens.as_slice();
    let at = |error: Error| error.at(format!("condition \"{text}\""));
    let mut any = vec![vec![comparison(&mut rest, text).map_err(at)?]];
    while let Some((joint, behind)) = rest.split_first() {
        rest = behind;
        let next = match joint.text.as_str() {
            "and" | "or" => comparison(&mut rest, text).map_err(at)?,
            other => {
                return Err(at(expected(joint, &format!("unexpected '{other}'"), "join comparisons by 'and' or 'or'")));
            }
        };
        match any.last_mut() {
            Some(all) if joint.text == "and" => all.push(next),
            _ => any.push(vec![next]),
        }
    }
    Ok(Condition { text: text.to_string(), any })
}

fn comparison(rest: &mut &[Token], text: &str) -> Result<Comparison> {
    let name = take(rest, text, "a quantity")?;
    let Some(quantity) = QUANTITIES.iter().position(|quantity| quantity.name == name.text) else {
        let names = QUANTITIES.iter().map(|quantity| quantity.name);
        let remedy = match nearest(&name.text, names.clone()) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("use one of: {}", names.collect::<Vec<_>>().join(", ")),
        };
        return Err(expected(&name, &format!("unknown quantity '{}'", name.text), &remedy));
    };
    let sign = take(rest, text, "a comparison")?;
    let (above, or_equal) = match sign.text.as_str() {
        ">" => (true, false),
        ">=" => (true, true),
        "<" => (false, false),
        "<=" => (false, true),
        other => return Err(expected(&sign, &format!("unknown comparison '{other}'"), "use one of: >, >=, <, <=")),
    };
    let threshold = threshold(rest, text, QUANTITIES[quantity].unit)?;
    Ok(Comparison { quantity, above, or_equal, threshold, holds: false })
}

/// A number with its unit, written together (`500ms`) or apart (`500 ms`).
fn threshold(rest: &mut &[Token], text: &str, unit: Unit) -> Result<f64> {
    let token = take(rest, text, "a number")?;
    let digits = token.text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(token.text.len());
    let (number, mut suffix) = token.text.split_at(digits);
    let Ok(number) = number.parse::<f64>() else {
        return Err(expected(
            &token,
            &format!("'{}' is no number", token.text),
            "write a number of zero or more, as 0.05",
        ));
    };
    if let (true, Some((next, behind))) = (suffix.is_empty(), rest.split_first())
        && !matches!(next.text.as_str(), "and" | "or")
    {
        suffix = &next.text;
        *rest = behind;
    }
    let factor = match (unit, suffix) {
        (_, "") => 1.0,
        (Unit::Share, "%") => 0.01,
        (Unit::Rows, "rows") | (Unit::Milliseconds, "ms") => 1.0,
        (Unit::Milliseconds, "s") => 1e3,
        (Unit::Milliseconds, "min") => 6e4,
        (Unit::Share, _) => {
            return Err(wrong_unit(&token, suffix, "a share is a number from 0 to 1, or has the unit %"));
        }
        (Unit::Rows, _) => return Err(wrong_unit(&token, suffix, "a number of rows has no unit")),
        (Unit::Milliseconds, _) => return Err(wrong_unit(&token, suffix, "a time has the unit ms, s or min")),
    };
    let value = number * factor;
    if unit == Unit::Share && value > 1.0 {
        return Err(expected(
            &token,
            &format!("{value} is no share"),
            "a share is a number from 0 to 1: write 5% or 0.05",
        ));
    }
    Ok(value)
}

fn wrong_unit(token: &Token, suffix: &str, remedy: &str) -> Error {
    expected(token, &format!("unexpected '{suffix}' after a number"), remedy)
}

fn take(rest: &mut &[Token], text: &str, what: &str) -> Result<Token> {
    let Some((token, behind)) = rest.split_first() else {
        let end = Token { text: String::new(), column: text.chars().count() + 1 };
        return Err(expected(&end, &format!("{what} is missing"), "write a condition as: pressure > 0.05"));
    };
    *rest = behind;
    Ok(token.clone())
}

fn expected(token: &Token, message: &str, remedy: &str) -> Error {
    Error::user(message).at(format!("column {}", token.column)).remedy(remedy)
}

/// Words, signs of comparison, and `%`. A number and a unit behind it are one word.
fn tokens(text: &str) -> Vec<Token> {
    let class = |c: char| match c {
        c if c.is_whitespace() => 0,
        '<' | '>' | '=' | '!' => 1,
        _ => 2,
    };
    let mut tokens: Vec<Token> = Vec::new();
    let mut former = 0;
    for (place, character) in text.chars().enumerate() {
        match (class(character), tokens.last_mut()) {
            (0, _) => {}
            (now, Some(token)) if now == former => token.text.push(character),
            _ => tokens.push(Token { text: character.to_string(), column: place + 1 }),
        }
        former = class(character);
    }
    tokens
}
