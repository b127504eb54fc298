//! `CREATE TABLE` in Flink's grammar: physical and computed columns, a watermark, a primary key, options, and
//! optionally `LIKE` another table or `AS SELECT`.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Error, Result};
use arrow::datatypes::DataType;
use datafusion_sql::sqlparser::ast::{Expr, Ident, Query};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::Parser;
use datafusion_sql::sqlparser::tokenizer::{Location, Token};

use super::limits::COLUMNS_MAX;
use super::{expression, parsed, query, table_name};
use crate::place::at;
use crate::types::nullable_type;

/// The statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateTable {
    pub(crate) name: Ident,
    pub(crate) if_not_exists: bool,
    pub(crate) or_replace: bool,
    pub(crate) columns: Vec<ColumnDefinition>,
    pub(crate) watermark: Option<WatermarkDefinition>,
    pub(crate) primary_key: Vec<Ident>,
    /// The columns whose values divide the table into directories.
    pub(crate) partitioned_by: Vec<Ident>,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) like: Option<Like>,
    pub(crate) query: Option<Box<Query>>,
    /// Where the statement begins.
    pub(crate) start: Location,
}

impl CreateTable {
    /// An empty declaration.
    pub(super) fn new(name: Ident, start: Location) -> CreateTable {
        CreateTable {
            name,
            if_not_exists: false,
            or_replace: false,
            columns: Vec::new(),
            watermark: None,
            primary_key: Vec::new(),
            partitioned_by: Vec::new(),
            options: BTreeMap::new(),
            like: None,
            query: None,
            start,
        }
    }
}

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnDefinition {
    pub(crate) name: Ident,
    pub(crate) kind: ColumnKind,
}

/// Whether a column is content of the records, metadata, or computed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnKind {
    Physical {
        data_type: DataType,
        nullable: bool,
    },
    /// Metadata of a record: `METADATA FROM 'key' VIRTUAL`.
    Metadata {
        data_type: DataType,
        nullable: bool,
        key: String,
        is_virtual: bool,
    },
    Computed(Box<Expr>),
}

/// `WATERMARK FOR column AS expression`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WatermarkDefinition {
    pub(crate) column: Ident,
    pub(crate) expr: Expr,
    pub(crate) start: Location,
}

/// `LIKE table (...)`: the parts that are taken from another table besides its physical columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Like {
    pub(crate) table: Ident,
    pub(crate) constraints: Merging,
    pub(crate) generated: Merging,
    pub(crate) metadata: Merging,
    pub(crate) options: Merging,
    pub(crate) partitions: Merging,
    pub(crate) watermarks: Merging,
}

/// How a part of the other table is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merging {
    /// The new table must not declare the same.
    Including,
    Excluding,
    /// The new table's declaration has priority.
    Overwriting,
}

/// Parses what follows `CREATE TABLE`.
pub(super) fn create_table(parser: &mut Parser, start: Location, or_replace: bool) -> Result<CreateTable> {
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = table_name(parser)?;
    let mut table = CreateTable { if_not_exists, or_replace, ..CreateTable::new(name, start) };
    let mut names = BTreeSet::new();
    if parser.consume_token(&Token::LParen) {
        loop {
            element(parser, &mut table, &mut names)?;
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parsed(parser.expect_token(&Token::RParen))?;
    }
    comment(parser)?;
    if parser.parse_keywords(&[Keyword::PARTITIONED, Keyword::BY]) {
        table.partitioned_by = super::names(parser)?;
    }
    if parser.parse_keyword(Keyword::WITH) {
        table.options = options(parser)?;
    }
    if parser.parse_keyword(Keyword::LIKE) {
        table.like = Some(like(parser)?);
    } else if parser.parse_keyword(Keyword::AS) {
        table.query = Some(query(parser)?);
    }
    let next = parser.peek_token();
    if !matches!(next.token, Token::EOF | Token::SemiColon) {
        return Err(Error::user(format!("syntax error: {} is not supported in CREATE TABLE", next.token))
            .at(at(next.span.start))
            .remedy("after the columns comes WITH ('connector' = '...', ...)"));
    }
    Ok(table)
}

/// Parses what follows `LIKE`. The default is `(INCLUDING ALL OVERWRITING OPTIONS)`.
fn like(parser: &mut Parser) -> Result<Like> {
    let (table, all) = (table_name(parser)?, Merging::Including);
    let mut like = Like {
        table,
        constraints: all,
        generated: all,
        metadata: all,
        options: Merging::Overwriting,
        partitions: all,
        watermarks: all,
    };
    if !parser.consume_token(&Token::LParen) {
        return Ok(like);
    }
    let mut parts: Vec<(String, Merging)> = Vec::new();
    while !parser.consume_token(&Token::RParen) {
        let (how, what) = (parser.next_token(), parser.next_token());
        let (part, words) = (what.token.to_string().to_uppercase(), format!("{} {}", how.token, what.token));
        let may_overwrite = ["GENERATED", "METADATA", "OPTIONS", "WATERMARKS"].contains(&part.as_str());
        let is_part = may_overwrite || ["ALL", "CONSTRAINTS", "DISTRIBUTION", "PARTITIONS"].contains(&part.as_str());
        let merging = match how.token.to_string().to_uppercase().as_str() {
            "INCLUDING" if is_part => Merging::Including,
            "EXCLUDING" if is_part => Merging::Excluding,
            "OVERWRITING" if may_overwrite => Merging::Overwriting,
            _ => {
                let error = Error::user(format!("syntax error: LIKE has no option {words}")).at(at(how.span.start));
                return Err(error.remedy(
                    "write INCLUDING or EXCLUDING and ALL, CONSTRAINTS, GENERATED, METADATA, OPTIONS, PARTITIONS or WATERMARKS, or \
                     OVERWRITING and GENERATED, METADATA, OPTIONS or WATERMARKS",
                ));
            }
        };
        if parts.iter().any(|(other, _)| *other == part) {
            return Err(Error::user(format!("LIKE has two options for {part}")).at(at(how.span.start)));
        }
        parts.push((part, merging));
    }
    // ALL applies to the parts without an option of their own.
    parts.sort_by_key(|(part, _)| part != "ALL");
    for (part, merging) in parts {
        let Like { constraints, generated, metadata, options, partitions, watermarks, .. } = &mut like;
        let targets: &mut [&mut Merging] = match part.as_str() {
            "ALL" => &mut [constraints, generated, metadata, options, partitions, watermarks],
            "CONSTRAINTS" => &mut [constraints],
            "GENERATED" => &mut [generated],
            "METADATA" => &mut [metadata],
            "OPTIONS" => &mut [options],
            "PARTITIONS" => &mut [partitions],
            "WATERMARKS" => &mut [watermarks],
            _ => &mut [],
        };
        targets.iter_mut().for_each(|target| **target = merging);
    }
    Ok(like)
}

/// Parses a column, a watermark or a constraint. `names`: the columns so far.
pub(super) fn element(parser: &mut Parser, table: &mut CreateTable, names: &mut BTreeSet<String>) -> Result<()> {
    let start = parser.peek_token();
    if is_word(&start.token, "WATERMARK") && parser.peek_nth_token_ref(1).token.to_string().eq_ignore_ascii_case("FOR")
    {
        parser.next_token();
        parser.next_token();
        let column = parsed(parser.parse_identifier())?;
        parsed(parser.expect_keyword(Keyword::AS))?;
        let expr = expression(parser)?;
        if table.watermark.is_some() {
            return Err(Error::user("a table has one watermark").at(at(start.span.start)));
        }
        table.watermark = Some(WatermarkDefinition { column, expr, start: start.span.start });
        return Ok(());
    }
    let constraint = parser.parse_keyword(Keyword::CONSTRAINT);
    if constraint {
        parsed(parser.parse_identifier())?;
    }
    if parser.parse_keywords(&[Keyword::PRIMARY, Keyword::KEY]) {
        let key = super::names(parser)?;
        not_enforced(parser)?;
        return set_primary_key(table, key, start.span.start);
    }
    if constraint {
        let found = parser.peek_token();
        return Err(Error::user("the only constraint is PRIMARY KEY (...) NOT ENFORCED").at(at(found.span.start)));
    }
    column(parser, table, names)
}

fn set_primary_key(table: &mut CreateTable, key: Vec<Ident>, start: Location) -> Result<()> {
    if !table.primary_key.is_empty() {
        let error = Error::user("a table has one primary key").at(at(start));
        return Err(error.remedy("name all columns of the key in one: PRIMARY KEY (a, b) NOT ENFORCED"));
    }
    table.primary_key = key;
    Ok(())
}

fn column(parser: &mut Parser, table: &mut CreateTable, names: &mut BTreeSet<String>) -> Result<()> {
    let name = parsed(parser.parse_identifier())?;
    if !names.insert(name.value.clone()) {
        return Err(Error::user(format!("column '{}' is declared twice", name.value)).at(at(name.span.start)));
    }
    if table.columns.len() >= COLUMNS_MAX {
        return Err(Error::user(format!("the table has more than {COLUMNS_MAX} columns"))
            .at(at(name.span.start))
            .remedy("declare only the columns that the query reads"));
    }
    let kind = if parser.parse_keyword(Keyword::AS) {
        ColumnKind::Computed(Box::new(expression(parser)?))
    } else {
        let (data_type, mut nullable) = nullable_type(parser)?;
        if parser.parse_keywords(&[Keyword::PRIMARY, Keyword::KEY]) {
            not_enforced(parser)?;
            set_primary_key(table, vec![name.clone()], name.span.start)?;
            nullable = false;
        }
        match is_word(&parser.peek_token().token, "METADATA") {
            true => metadata(parser, &name.value, data_type, nullable)?,
            false => ColumnKind::Physical { data_type, nullable },
        }
    };
    comment(parser)?;
    table.columns.push(ColumnDefinition { name, kind });
    Ok(())
}

/// Parses `METADATA [FROM 'key'] [VIRTUAL]`. The default key is the column's name.
fn metadata(parser: &mut Parser, name: &str, data_type: DataType, nullable: bool) -> Result<ColumnKind> {
    parser.next_token();
    let key = match parser.parse_keyword(Keyword::FROM) {
        true => parsed(parser.parse_literal_string())?,
        false => name.to_owned(),
    };
    let is_virtual = is_word(&parser.peek_token().token, "VIRTUAL");
    if is_virtual {
        parser.next_token();
    }
    Ok(ColumnKind::Metadata { data_type, nullable, key, is_virtual })
}

fn not_enforced(parser: &mut Parser) -> Result<()> {
    if parser.parse_keyword(Keyword::NOT) {
        parsed(parser.expect_keyword(Keyword::ENFORCED))?;
    }
    Ok(())
}

pub(super) fn comment(parser: &mut Parser) -> Result<()> {
    if parser.parse_keyword(Keyword::COMMENT) {
        parsed(parser.parse_literal_string())?;
    }
    Ok(())
}

pub(super) fn options(parser: &mut Parser) -> Result<BTreeMap<String, String>> {
    parsed(parser.expect_token(&Token::LParen))?;
    let mut options = BTreeMap::new();
    loop {
        let key_token = parser.peek_token();
        let key = option_text(parser)?;
        parsed(parser.expect_token(&Token::Eq))?;
        let value = option_text(parser)?;
        if options.insert(key.clone(), value).is_some() {
            return Err(Error::user(format!("option '{key}' is given twice")).at(at(key_token.span.start)));
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    parsed(parser.expect_token(&Token::RParen))?;
    Ok(options)
}

fn option_text(parser: &mut Parser) -> Result<String> {
    let token = parser.next_token();
    match token.token {
        Token::SingleQuotedString(text) | Token::UnicodeStringLiteral(text) => Ok(text),
        other => Err(Error::user(format!("syntax error: options are text in single quotes, not {other}"))
            .at(at(token.span.start))
            .remedy("write WITH ('name' = 'value', ...)")),
    }
}

pub(super) fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}
