//! `CREATE FUNCTION f(a BIGINT, b STRING) RETURNS STRING RETURN expression`.
//!
//! sqlparser's rule is not used: it has other types than Flink, and no places of parameters.

use std::collections::BTreeSet;

use anabranch_model::{Error, Result};
use arrow::datatypes::DataType;
use datafusion_sql::sqlparser::ast::{Expr, Ident};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::Parser;
use datafusion_sql::sqlparser::tokenizer::{Location, Token};

use super::{expression, parsed, table_name};
use crate::place::{at, or_at};
use crate::types::nullable_type;

/// The statement.
#[derive(Debug)]
pub(crate) struct CreateFunction {
    pub(crate) name: Ident,
    pub(crate) if_not_exists: bool,
    pub(crate) or_replace: bool,
    pub(crate) parameters: Vec<(Ident, DataType)>,
    pub(crate) returns: DataType,
    pub(crate) body: Expr,
    /// Where the body begins.
    pub(crate) body_start: Location,
    /// The whole statement as it was written.
    pub(crate) text: String,
}

/// Parses what follows `CREATE FUNCTION`. `text` is the whole statement.
pub(super) fn create_function(parser: &mut Parser, or_replace: bool, text: &str) -> Result<CreateFunction> {
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = table_name(parser)?;
    let form = format!("write CREATE FUNCTION {name}(a BIGINT, ...) RETURNS BIGINT RETURN expression");
    let next = parser.peek_token();
    if parser.parse_keyword(Keyword::AS) {
        let error = Error::user("a function of a Java or Python class is not supported");
        return Err(error.at(at(next.span.start)).remedy(form));
    }
    parsed(parser.expect_token(&Token::LParen))?;
    let mut parameters: Vec<(Ident, DataType)> = Vec::new();
    let mut names = BTreeSet::new();
    while !parser.consume_token(&Token::RParen) {
        if !parameters.is_empty() {
            parsed(parser.expect_token(&Token::Comma))?;
        }
        let parameter = parsed(parser.parse_identifier())?;
        if !names.insert(parameter.value.clone()) {
            let error = Error::user(format!("parameter '{}' is declared twice", parameter.value));
            return Err(error.at(at(parameter.span.start)));
        }
        parameters.push((parameter, any_value(parser)?));
    }
    parsed(parser.expect_keyword(Keyword::RETURNS))?;
    let returns = any_value(parser)?;
    let next = parser.peek_token();
    if !parser.parse_keyword(Keyword::RETURN) {
        let error = Error::user(format!("syntax error: RETURN and an expression are expected, not {}", next.token));
        return Err(error.at(at(next.span.start)).remedy(form));
    }
    let body_start = parser.peek_token_ref().span.start;
    let body = expression(parser).map_err(|e| or_at(e, body_start.line, body_start.column))?;
    let text = text.to_owned();
    Ok(CreateFunction { name, if_not_exists, or_replace, parameters, returns, body, body_start, text })
}

/// Parses a nullable type.
fn any_value(parser: &mut Parser) -> Result<DataType> {
    let start = parser.peek_token_ref().span.start;
    let (data_type, nullable) = nullable_type(parser)?;
    if !nullable {
        let error = Error::user("NOT NULL is not supported for a parameter or the result of a function");
        return Err(error.at(at(start)).remedy("omit NOT NULL"));
    }
    Ok(data_type)
}
