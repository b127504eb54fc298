//! The SQL dialect: the parser's permissive generic dialect, plus the few places where Flink's SQL differs.

mod json;
mod nested;

pub(crate) use self::nested::plain_map;

use std::any::TypeId;

use datafusion_sql::sqlparser::ast::Expr;
use datafusion_sql::sqlparser::dialect::{Dialect, GenericDialect};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::Token;

/// The dialect; see the module.
#[derive(Debug)]
pub(crate) struct AnabranchDialect;

impl Dialect for AnabranchDialect {
    // The parser asks for the generic dialect by type in many places.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '"' || ch == '`'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_' || ch == '$'
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn allow_extract_custom(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    /// `TABLE t` as the argument of a window table function means the name `t`.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if let Some(call) = json::parse_call(parser) {
            return Some(call);
        }
        if let Some(nested) = nested::parse_map(parser).or_else(|| nested::parse_cast(parser)) {
            return Some(nested);
        }
        if !parser.peek_keyword(Keyword::TABLE) || !matches!(parser.peek_nth_token(1).token, Token::Word(_)) {
            return None;
        }
        parser.next_token();
        Some(table_argument(parser))
    }

    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        json::parse_is_json(parser, expr)
    }
}

fn table_argument(parser: &mut Parser) -> Result<Expr, ParserError> {
    let mut parts = vec![parser.parse_identifier()?];
    while parser.consume_token(&Token::Period) {
        parts.push(parser.parse_identifier()?);
    }
    if parser.peek_keyword(Keyword::PARTITION) || parser.peek_keyword(Keyword::ORDER) {
        return Err(refused(parser, "PARTITION BY and ORDER BY of a table in a call are not supported yet"));
    }
    Ok(match <[_; 1]>::try_from(parts) {
        Ok([only]) => Expr::Identifier(only),
        Err(parts) => Expr::CompoundIdentifier(parts),
    })
}

/// An error at the next token.
fn refused(parser: &Parser, what: &str) -> ParserError {
    let place = parser.peek_token_ref().span.start;
    ParserError::ParserError(format!("{what} at Line: {}, Column: {}", place.line, place.column))
}
