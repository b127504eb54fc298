//! `MAP[key, value, ...]`, and conversions to types that have maps.

use anabranch_dataflow::sql_name;
use datafusion_sql::sqlparser::ast::{CastKind, DataType, Expr, Ident, Map, MapEntry, ObjectName, ObjectNamePart};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::{Location, Token};

use crate::types::parse_type;

type Parsed<T = Expr> = Result<T, ParserError>;

/// The map that begins here, if it is one.
pub(super) fn parse_map(parser: &mut Parser) -> Option<Parsed> {
    let begins = parser.peek_keyword(Keyword::MAP) && parser.peek_nth_token_ref(1).token == Token::LBracket;
    begins.then(|| map(parser))
}

fn map(parser: &mut Parser) -> Parsed {
    let start = parser.next_token().span.start;
    parser.next_token();
    let mut parts = Vec::new();
    if parser.peek_token_ref().token != Token::RBracket {
        parts = parser.parse_comma_separated(Parser::parse_expr)?;
    }
    parser.expect_token(&Token::RBracket)?;
    if parts.is_empty() {
        return Err(error("MAP[] has no type: it needs a key and a value", start));
    }
    if parts.len() % 2 == 1 {
        return Err(error("MAP[...] needs a value after each key", start));
    }
    let mut entries = Vec::with_capacity(parts.len() / 2);
    let mut parts = parts.into_iter();
    while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
        entries.push(MapEntry { key: Box::new(key), value: Box::new(value) });
    }
    Ok(Expr::Map(Map { entries }))
}

/// The `CAST` or `TRY_CAST` that begins here, if it is one. The library's parser does not know Flink's `MAP`.
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
    let data_type = if is_map(parser) { map_type(parser)? } else { parser.parse_data_type()? };
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Cast { kind, expr, data_type, array: false, format: None })
}

/// Whether a type begins here that is a map, or an array of maps.
fn is_map(parser: &Parser) -> bool {
    let word = |place: usize, keyword: Keyword| match &parser.peek_nth_token_ref(place).token {
        Token::Word(word) => word.keyword == keyword && parser.peek_nth_token_ref(place + 1).token == Token::Lt,
        _ => false,
    };
    let mut place = 0;
    while word(place, Keyword::ARRAY) {
        place += 2;
    }
    word(place, Keyword::MAP)
}

/// The type as a name that [`crate::types`] reads again.
fn map_type(parser: &mut Parser) -> Parsed<DataType> {
    let start = parser.peek_token_ref().span.start;
    let data_type = parse_type(parser).map_err(|wrong| error(wrong.message(), start))?;
    let name = Ident::new(sql_name(&data_type));
    Ok(DataType::Custom(ObjectName(vec![ObjectNamePart::Identifier(name)]), Vec::new()))
}

fn error(message: &str, place: Location) -> ParserError {
    ParserError::ParserError(format!("{message} at Line: {}, Column: {}", place.line, place.column))
}
