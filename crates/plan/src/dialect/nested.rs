//! `MAP[key, value, ...]`, and conversions to types that have maps or rows.

use anabranch_dataflow::sql_name;
use datafusion_sql::sqlparser::ast::{
    Array, CastKind, DataType, Expr, Ident, Map, MapEntry, ObjectName, ObjectNamePart,
};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::Token;

use super::{is_keyword, refused_at};
use crate::types::{follows_array, parse_type};

const MAP: &str = "MAP";

type Parsed<T = Expr> = Result<T, ParserError>;

/// Parses a map, if it follows.
pub(super) fn parse_map(parser: &mut Parser) -> Option<Parsed> {
    let begins = parser.peek_keyword(Keyword::MAP) && parser.peek_nth_token_ref(1).token == Token::LBracket;
    begins.then(|| map(parser))
}

fn map(parser: &mut Parser) -> Parsed {
    let word = parser.next_token().span;
    let start = word.start;
    parser.next_token();
    let mut parts = Vec::new();
    if parser.peek_token_ref().token != Token::RBracket {
        parts = parser.parse_comma_separated(Parser::parse_expr)?;
    }
    parser.expect_token(&Token::RBracket)?;
    if parts.is_empty() {
        return Err(refused_at("MAP[] has no type: it needs a key and a value", start));
    }
    if parts.len() % 2 == 1 {
        return Err(refused_at("MAP[...] needs a value after each key", start));
    }
    // This form prints as the user wrote it; DataFusion's form of a map does not.
    let value = Box::new(Expr::Array(Array { elem: parts, named: false }));
    Ok(Expr::Prefixed { prefix: Ident::with_span(word, MAP), value })
}

/// DataFusion's form of a map, if `expr` is one.
pub(crate) fn plain_map(expr: &Expr) -> Option<Expr> {
    let Expr::Prefixed { prefix, value } = expr else { return None };
    let Expr::Array(array) = value.as_ref() else { return None };
    let entry = |pair: &[Expr]| MapEntry { key: Box::new(pair[0].clone()), value: Box::new(pair[1].clone()) };
    let entries = || array.elem.chunks_exact(2).map(entry).collect();
    (prefix.value == MAP).then(|| Expr::Map(Map { entries: entries() }))
}

/// Parses `CAST` or `TRY_CAST`, if it follows. DataFusion's parser does not know Flink's types `MAP` and
/// `ROW`.
pub(super) fn parse_cast(parser: &mut Parser) -> Option<Parsed> {
    let kind = if parser.peek_keyword(Keyword::CAST) {
        CastKind::Cast
    } else if parser.peek_keyword(Keyword::TRY_CAST) {
        CastKind::TryCast
    } else {
        return None;
    };
    (parser.peek_nth_token_ref(1).token == Token::LParen).then(|| cast(parser, kind))
}

fn cast(parser: &mut Parser, kind: CastKind) -> Parsed {
    parser.next_token();
    parser.next_token();
    let expr = Box::new(parser.parse_expr()?);
    parser.expect_keyword_is(Keyword::AS)?;
    let data_type = if is_nested(parser) { nested_type(parser)? } else { parser.parse_data_type()? };
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Cast { kind, expr, data_type, array: false, format: None })
}

/// Whether the next tokens are a type with maps or rows, or an array type such as `INT ARRAY`.
fn is_nested(parser: &Parser) -> bool {
    let word = |place: usize, keyword: Keyword| {
        is_keyword(parser, place, keyword) && parser.peek_nth_token_ref(place + 1).token == Token::Lt
    };
    let mut place = 0;
    while word(place, Keyword::ARRAY) {
        place += 2;
    }
    word(place, Keyword::MAP) || word(place, Keyword::ROW) || is_named_array(parser)
}

/// Whether the next tokens are an array type with the word `ARRAY` after its element: `INT ARRAY`,
/// `DECIMAL(5, 2) ARRAY`.
fn is_named_array(parser: &Parser) -> bool {
    let mut place = 1;
    if parser.peek_nth_token_ref(place).token == Token::LParen {
        while !matches!(parser.peek_nth_token_ref(place).token, Token::RParen | Token::EOF) {
            place += 1;
        }
        place += 1;
    }
    follows_array(parser, place)
}

/// The type as a name that [`crate::types`] parses again.
fn nested_type(parser: &mut Parser) -> Parsed<DataType> {
    let start = parser.peek_token_ref().span.start;
    let data_type = parse_type(parser).map_err(|wrong| refused_at(wrong.message(), start))?;
    let name = Ident::new(sql_name(&data_type));
    Ok(DataType::Custom(ObjectName(vec![ObjectNamePart::Identifier(name)]), Vec::new()))
}
