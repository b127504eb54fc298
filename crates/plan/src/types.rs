//! Converts SQL types in Flink's notation to Arrow types.

use std::sync::Arc;

use anabranch_dataflow::sql_name;
use anabranch_functions::map_type;
use anabranch_model::{Error, Result, nearest};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use datafusion_expr::planner::TypePlanner;
use datafusion_sql::sqlparser::ast;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::Parser;
use datafusion_sql::sqlparser::tokenizer::Token;

use crate::dialect::{AnabranchDialect, is_keyword};
use crate::maps::has_map;
use crate::place::{at, syntax_error, through};
use crate::text::tokenize;

const TYPES: [&str; 24] = [
    "STRING",
    "VARCHAR",
    "CHAR",
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "INTEGER",
    "BIGINT",
    "FLOAT",
    "REAL",
    "DOUBLE",
    "DECIMAL",
    "NUMERIC",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
    "BYTES",
    "BINARY",
    "VARBINARY",
    "ROW",
    "ARRAY",
    "MAP",
];

/// Parses a type of a declaration. `INT ARRAY` is `ARRAY<INT>`.
pub(crate) fn parse_type(parser: &mut Parser) -> Result<DataType> {
    let mut data_type = element_type(parser)?;
    while follows_array(parser, 0) {
        parser.next_token();
        data_type = DataType::List(Arc::new(Field::new("item", data_type, true)));
    }
    Ok(data_type)
}

/// Whether the token at this distance is the word `ARRAY` after an element's type.
pub(crate) fn follows_array(parser: &Parser, place: usize) -> bool {
    is_keyword(parser, place, Keyword::ARRAY) && parser.peek_nth_token_ref(place + 1).token != Token::Lt
}

fn element_type(parser: &mut Parser) -> Result<DataType> {
    let start = parser.peek_token();
    let place = || at(start.span.start);
    let Token::Word(word) = &start.token else {
        return Err(Error::user(format!("a type is expected, not {}", start.token)).at(place()));
    };
    parser.next_token();
    let name = word.value.to_uppercase();
    Ok(match name.as_str() {
        "STRING" => DataType::Utf8View,
        "VARCHAR" | "CHAR" | "CHARACTER" => {
            let _ = parser.parse_keyword(Keyword::VARYING);
            numbers(parser)?;
            DataType::Utf8View
        }
        "BOOLEAN" => DataType::Boolean,
        "TINYINT" => DataType::Int8,
        "SMALLINT" => DataType::Int16,
        "INT" | "INTEGER" => DataType::Int32,
        "BIGINT" => DataType::Int64,
        "FLOAT" | "REAL" => DataType::Float32,
        "DOUBLE" => {
            let _ = parser.parse_keyword(Keyword::PRECISION);
            DataType::Float64
        }
        "DECIMAL" | "DEC" | "NUMERIC" => decimal(&numbers(parser)?).map_err(|e| e.at(place()))?,
        "DATE" => DataType::Date32,
        "TIME" => time(numbers(parser)?.first().copied().unwrap_or(0)).map_err(|e| e.at(place()))?,
        "TIMESTAMP" => {
            let precision = numbers(parser)?.first().copied().unwrap_or(6);
            let zoned = parser.parse_keyword(Keyword::WITH);
            if zoned || parser.parse_keyword(Keyword::WITHOUT) {
                let _ = parser.parse_keyword(Keyword::LOCAL);
                parser.expect_keywords(&[Keyword::TIME, Keyword::ZONE]).map_err(|e| syntax_error(&e))?;
            }
            timestamp(precision, zoned).map_err(|e| e.at(place()))?
        }
        "TIMESTAMP_LTZ" => {
            let precision = numbers(parser)?.first().copied().unwrap_or(6);
            timestamp(precision, true).map_err(|e| e.at(place()))?
        }
        "BYTES" => DataType::Binary,
        "BINARY" | "VARBINARY" => {
            numbers(parser)?;
            DataType::Binary
        }
        "ROW" => DataType::Struct(row(parser)?),
        "MULTISET" | "RAW" => {
            return Err(Error::user(format!("the type {name} is not supported yet"))
                .at(place())
                .remedy("leave the column out; fields with known names can be a ROW"));
        }
        "ARRAY" => {
            expect(parser, &Token::Lt)?;
            let item = nullable_type(parser)?;
            expect(parser, &Token::Gt)?;
            DataType::List(Arc::new(Field::new("item", item.0, item.1)))
        }
        "MAP" => map(parser)?,
        other => {
            let near = nearest(other, TYPES);
            let help = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
            return Err(Error::user(format!("unknown type {}", word.value))
                .at(place())
                .remedy(format!("{help}The types are: {}", TYPES.join(", "))));
        }
    })
}

/// Parses a type with `[NOT] NULL`.
pub(crate) fn nullable_type(parser: &mut Parser) -> Result<(DataType, bool)> {
    let data_type = parse_type(parser)?;
    if parser.parse_keywords(&[Keyword::NOT, Keyword::NULL]) {
        return Ok((data_type, false));
    }
    let _ = parser.parse_keyword(Keyword::NULL);
    Ok((data_type, true))
}

fn map(parser: &mut Parser) -> Result<DataType> {
    expect(parser, &Token::Lt)?;
    let place = at(parser.peek_token_ref().span.start);
    // A key is never NULL.
    let (key, _) = nullable_type(parser)?;
    if has_map(&key) {
        let error = Error::user(format!("{} cannot be the key of a MAP", sql_name(&key)));
        return Err(error.at(place).remedy("use a key that can be compared, such as STRING"));
    }
    expect(parser, &Token::Comma)?;
    let value = nullable_type(parser)?;
    expect(parser, &Token::Gt)?;
    Ok(map_type(key, value.0, value.1))
}

fn row(parser: &mut Parser) -> Result<Fields> {
    let close = if parser.consume_token(&Token::LParen) {
        Token::RParen
    } else {
        expect(parser, &Token::Lt)?;
        Token::Gt
    };
    let mut fields = Vec::new();
    loop {
        let name = parser.parse_identifier().map_err(|e| syntax_error(&e))?;
        let (data_type, nullable) = nullable_type(parser)?;
        if matches!(parser.peek_token_ref().token, Token::SingleQuotedString(_)) {
            parser.next_token(); // the field's description
        }
        fields.push(Field::new(name.value, data_type, nullable));
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    expect(parser, &close)?;
    Ok(fields.into())
}

fn expect(parser: &mut Parser, token: &Token) -> Result<()> {
    parser.expect_token(token).map(|_| ()).map_err(|e| syntax_error(&e))
}

/// `(3)`, `(10, 2)`, `(MAX)` or nothing.
fn numbers(parser: &mut Parser) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    if !parser.consume_token(&Token::LParen) {
        return Ok(numbers);
    }
    loop {
        if !parser.parse_keyword(Keyword::MAX) {
            numbers.push(parser.parse_literal_uint().map_err(|e| syntax_error(&e))?);
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    expect(parser, &Token::RParen)?;
    Ok(numbers)
}

fn invalid_decimal(precision: u64, scale: impl std::fmt::Display) -> Error {
    Error::user(format!("DECIMAL({precision}, {scale}) is not a valid type"))
        .remedy("give a precision of 1 to 38 and a scale of 0 to the precision")
}

fn decimal(numbers: &[u64]) -> Result<DataType> {
    let precision = numbers.first().copied().unwrap_or(10);
    let scale = numbers.get(1).copied().unwrap_or(0);
    if !(1..=38).contains(&precision) || scale > precision {
        return Err(invalid_decimal(precision, scale));
    }
    Ok(DataType::Decimal128(u8::try_from(precision).unwrap_or(38), i8::try_from(scale).unwrap_or(0)))
}

fn time(precision: u64) -> Result<DataType> {
    Ok(match precision {
        0 => DataType::Time32(TimeUnit::Second),
        1..=3 => DataType::Time32(TimeUnit::Millisecond),
        4..=6 => DataType::Time64(TimeUnit::Microsecond),
        7..=9 => DataType::Time64(TimeUnit::Nanosecond),
        other => {
            return Err(Error::user(format!("a time with {other} digits of a second is not supported"))
                .remedy("use a precision of 0 to 9"));
        }
    })
}

fn timestamp(precision: u64, zoned: bool) -> Result<DataType> {
    let unit = match precision {
        0 => TimeUnit::Second,
        3 => TimeUnit::Millisecond,
        6 => TimeUnit::Microsecond,
        9 => TimeUnit::Nanosecond,
        other => {
            return Err(Error::user(format!("a timestamp with {other} digits of a second is not supported"))
                .remedy("use a precision of 0, 3, 6 or 9"));
        }
    };
    Ok(DataType::Timestamp(unit, zoned.then(|| "UTC".into())))
}

/// Types within expressions, as in `CAST(x AS TIMESTAMP_LTZ(3))`, where they differ from DataFusion's.
#[derive(Debug)]
pub(crate) struct FlinkTypes;

impl TypePlanner for FlinkTypes {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> datafusion_common::Result<Option<FieldRef>> {
        let data_type = match sql_type {
            ast::DataType::Timestamp(precision, zone) => {
                let zoned = matches!(zone, ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz);
                timestamp(precision.unwrap_or(6), zoned).map_err(through)?
            }
            ast::DataType::Decimal(ast::ExactNumberInfo::PrecisionAndScale(precision, scale @ ..0))
            | ast::DataType::Dec(ast::ExactNumberInfo::PrecisionAndScale(precision, scale @ ..0))
            | ast::DataType::Numeric(ast::ExactNumberInfo::PrecisionAndScale(precision, scale @ ..0)) => {
                return Err(through(invalid_decimal(*precision, scale)));
            }
            ast::DataType::Time(precision, _) => time(precision.unwrap_or(0)).map_err(through)?,
            ast::DataType::Bytes(_) | ast::DataType::Binary(_) | ast::DataType::Varbinary(_) => DataType::Binary,
            ast::DataType::Custom(name, modifiers) if name.to_string().eq_ignore_ascii_case("TIMESTAMP_LTZ") => {
                timestamp(modifiers.first().and_then(|p| p.parse().ok()).unwrap_or(6), true).map_err(through)?
            }
            // The dialect passes types with maps by name.
            ast::DataType::Custom(name, _)
                if ["MAP<", "ROW<", "ARRAY<"].iter().any(|of| name.to_string().contains(of)) =>
            {
                let tokens = tokenize(&name.to_string(), 1, 1).map_err(through)?;
                parse_type(&mut Parser::new(&AnabranchDialect::default()).with_tokens_with_locations(tokens))
                    .map_err(through)?
            }
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(Field::new("", data_type, true))))
    }
}
