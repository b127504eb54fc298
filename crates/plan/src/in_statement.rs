//! Completes an error by the statement's text: adds the place of a constant, or explains double quotes around
//! a text.

use anabranch_model::Error;
use datafusion_sql::sqlparser::tokenizer::{Location, Token};

use crate::place::{at, or_at};
use crate::text::{StatementText, tokenize};

/// Adds a place to the error of a statement: the place of the cause if it is known, else `start`.
pub(crate) fn in_statement(error: Error, statement: &StatementText, start: (u64, u64)) -> Error {
    let tokens = tokenize(&statement.text, statement.line, statement.column).unwrap_or_default();
    let start_of = |is: &dyn Fn(&Token, Location) -> bool| {
        tokens.iter().map(|token| (&token.token, token.span.start)).find(|(token, start)| is(token, *start))
    };
    if let Some(name) = between(error.message(), "there is no column '", "'") {
        let is_quoted = |token: &Token, start: Location| {
            let is_name = matches!(token, Token::Word(word) if word.quote_style == Some('"') && word.value == name);
            is_name && error.place() == Some(at(start))
        };
        if let Some((_, start)) = start_of(&is_quoted) {
            let remedy = format!("a text is in single quotes: '{name}'; double quotes are for names");
            return Error::user(error.message()).at(at(start)).remedy(remedy);
        }
    }
    let said = error.message();
    let pattern =
        said.split_once(" in the date pattern '").and_then(|(_, rest)| rest.split_once('\'')).map(|(text, _)| text);
    let of_type = between(said, "'", "' is not of type ").or_else(|| between(said, "'", "' is not a time: "));
    if let Some(constant) = of_type.or(pattern).filter(|_| error.place().is_none()) {
        let is_constant = |token: &Token, _| matches!(token, Token::SingleQuotedString(text) if text == constant);
        if let Some((_, start)) = start_of(&is_constant) {
            return error.at(at(start));
        }
    }
    or_at(error, start.0, start.1)
}

/// The text between a prefix and the next occurrence of `end`.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    text.strip_prefix(begin)?.split_once(end).map(|(between, _)| between)
}
