//! Parses `ALTER TABLE`, and applies it to a declaration.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Error, Result, nearest};
use datafusion_sql::sqlparser::ast::Ident;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::Parser;
use datafusion_sql::sqlparser::tokenizer::Token;

use super::create_table::{ColumnDefinition, CreateTable, WatermarkDefinition, element, is_word, options};
use super::{names, parsed, table_name};
use crate::databases::{joined, parts_of};
use crate::place::at;

/// The statement.
#[derive(Debug)]
pub(crate) struct AlterTable {
    pub(crate) table: Ident,
    pub(crate) if_exists: bool,
    pub(crate) change: Change,
}

impl AlterTable {
    /// The table's new name, if it is renamed.
    pub(crate) fn new_name(&self) -> Option<&Ident> {
        match &self.change {
            Change::RenameTo(name) => Some(name),
            _ => None,
        }
    }
}

/// What changes.
#[derive(Debug)]
pub(crate) enum Change {
    RenameTo(Ident),
    RenameColumn(Ident, Ident),
    SetOptions(BTreeMap<String, String>),
    ResetOptions(Vec<String>),
    /// Columns with their positions, a watermark or a primary key. The table must not have them.
    Add(Elements),
    /// The table must have them.
    Modify(Elements),
    DropColumns(Vec<Ident>),
    DropWatermark,
    DropPrimaryKey,
}

/// Elements of a declaration.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    columns: Vec<(ColumnDefinition, Option<ColumnPosition>)>,
    watermark: Option<WatermarkDefinition>,
    primary_key: Vec<Ident>,
}

/// The position of a column.
#[derive(Debug)]
enum ColumnPosition {
    First,
    After(Ident),
}

/// Parses what follows `ALTER TABLE`.
pub(super) fn alter_table(parser: &mut Parser) -> Result<AlterTable> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let table = table_name(parser)?;
    let what = parser.next_token();
    let change = match what.token.to_string().to_uppercase().as_str() {
        "RENAME" if parser.parse_keyword(Keyword::TO) => Change::RenameTo(table_name(parser)?),
        "RENAME" => {
            let column = parsed(parser.parse_identifier())?;
            parsed(parser.expect_keyword(Keyword::TO))?;
            Change::RenameColumn(column, parsed(parser.parse_identifier())?)
        }
        "SET" => Change::SetOptions(options(parser)?),
        "RESET" => {
            let names = |parser: &mut Parser| parser.parse_comma_separated(Parser::parse_literal_string);
            Change::ResetOptions(parsed(parser.parse_parenthesized(names))?)
        }
        "ADD" => Change::Add(elements(parser)?),
        "MODIFY" => Change::Modify(elements(parser)?),
        "DROP" => dropped(parser)?,
        other => {
            let error = Error::user(format!("ALTER TABLE {other} is not supported")).at(at(what.span.start));
            return Err(error.remedy("use RENAME, SET, RESET, ADD, MODIFY or DROP"));
        }
    };
    Ok(AlterTable { table, if_exists, change })
}

fn dropped(parser: &mut Parser) -> Result<Change> {
    if parser.parse_keywords(&[Keyword::PRIMARY, Keyword::KEY]) {
        return Ok(Change::DropPrimaryKey);
    }
    if parser.parse_keyword(Keyword::CONSTRAINT) {
        // The only constraint is the primary key.
        parsed(parser.parse_identifier())?;
        return Ok(Change::DropPrimaryKey);
    }
    if is_word(&parser.peek_token_ref().token, "WATERMARK") {
        parser.next_token();
        return Ok(Change::DropWatermark);
    }
    Ok(Change::DropColumns(match parser.peek_token_ref().token == Token::LParen {
        true => names(parser)?,
        false => vec![parsed(parser.parse_identifier())?],
    }))
}

/// Parses one element, or several in parentheses.
fn elements(parser: &mut Parser) -> Result<Elements> {
    let several = parser.consume_token(&Token::LParen);
    let (mut parts, mut names) = (Elements::default(), BTreeSet::new());
    let mut scratch = CreateTable::new(Ident::new(""), parser.peek_token_ref().span.start);
    loop {
        let _ = parser.parse_keyword(Keyword::COLUMN);
        element(parser, &mut scratch, &mut names)?;
        if let Some(column) = scratch.columns.pop() {
            let place = match parser.parse_one_of_keywords(&[Keyword::FIRST, Keyword::AFTER]) {
                Some(Keyword::AFTER) => Some(ColumnPosition::After(parsed(parser.parse_identifier())?)),
                Some(_) => Some(ColumnPosition::First),
                None => None,
            };
            parts.columns.push((column, place));
        }
        if !several || !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    if several {
        parsed(parser.expect_token(&Token::RParen))?;
    }
    (parts.watermark, parts.primary_key) = (scratch.watermark, scratch.primary_key);
    Ok(parts)
}

impl CreateTable {
    /// Applies a change to the declaration.
    pub(crate) fn altered(mut self, change: Change) -> Result<CreateTable> {
        match change {
            Change::RenameTo(name) => {
                // The table stays in its database, unless the new name has one.
                let (mut own, mut new) = (parts_of(&self.name.value), parts_of(&name.value));
                if new.len() == 1 {
                    own.pop();
                    new.splice(..0, own);
                }
                self.name = Ident { value: joined(new.iter().map(String::as_str)), ..name };
            }
            Change::RenameColumn(column, name) => self.rename(&column, name)?,
            Change::SetOptions(options) => self.options.extend(options),
            Change::ResetOptions(names) => names.iter().for_each(|name| drop(self.options.remove(name))),
            Change::Add(parts) => self.add(parts)?,
            Change::Modify(parts) => self.modify(parts)?,
            Change::DropColumns(columns) => {
                for column in &columns {
                    let place = self.place(column)?;
                    self.columns.remove(place);
                }
            }
            Change::DropWatermark if self.watermark.is_some() => self.watermark = None,
            Change::DropPrimaryKey if !self.primary_key.is_empty() => self.primary_key.clear(),
            Change::DropWatermark => return Err(Error::user("the table has no watermark").remedy("omit the statement")),
            Change::DropPrimaryKey => {
                return Err(Error::user("the table has no primary key").remedy("omit the statement"));
            }
        }
        Ok(self)
    }

    fn place(&self, column: &Ident) -> Result<usize> {
        let names = || self.columns.iter().map(|column| column.name.value.as_str());
        names().position(|name| name == column.value).ok_or_else(|| {
            let error = Error::user(format!("there is no column '{}'", column.value)).at(at(column.span.start));
            match nearest(&column.value, names()) {
                Some(near) => error.remedy(format!("did you mean '{near}'?")),
                None => error.remedy(format!("the columns are: {}", names().collect::<Vec<_>>().join(", "))),
            }
        })
    }

    fn rename(&mut self, column: &Ident, name: Ident) -> Result<()> {
        if self.columns.iter().any(|other| other.name.value == name.value) {
            let error = Error::user(format!("there is already a column '{}'", name.value)).at(at(name.span.start));
            return Err(error.remedy("choose another name"));
        }
        let place = self.place(column)?;
        let keys = self.primary_key.iter_mut().chain(&mut self.partitioned_by);
        keys.filter(|key| key.value == column.value).for_each(|key| *key = name.clone());
        self.columns[place].name = name;
        Ok(())
    }

    fn add(&mut self, parts: Elements) -> Result<()> {
        let Elements { columns, watermark, primary_key } = parts;
        let again = |what: &str| Error::user(format!("the table has {what}")).remedy("write MODIFY, or DROP it first");
        if self.watermark.is_some() && watermark.is_some() {
            return Err(again("a watermark"));
        }
        if !self.primary_key.is_empty() && !primary_key.is_empty() {
            return Err(again("a primary key"));
        }
        for (column, place) in columns {
            if self.columns.iter().any(|other| other.name.value == column.name.value) {
                return Err(again(&format!("a column '{}'", column.name.value)).at(at(column.name.span.start)));
            }
            self.insert(column, place)?;
        }
        self.replace(watermark, primary_key);
        Ok(())
    }

    fn modify(&mut self, parts: Elements) -> Result<()> {
        let Elements { columns, watermark, primary_key } = parts;
        let missing = |what: &str| Error::user(format!("the table has no {what}")).remedy("write ADD");
        if self.watermark.is_none() && watermark.is_some() {
            return Err(missing("watermark"));
        }
        if self.primary_key.is_empty() && !primary_key.is_empty() {
            return Err(missing("primary key"));
        }
        for (column, place) in columns {
            let former = self.place(&column.name)?;
            match place {
                None => self.columns[former] = column,
                Some(place) => {
                    self.columns.remove(former);
                    self.insert(column, Some(place))?;
                }
            }
        }
        self.replace(watermark, primary_key);
        Ok(())
    }

    fn insert(&mut self, column: ColumnDefinition, place: Option<ColumnPosition>) -> Result<()> {
        let place = match place {
            None => self.columns.len(),
            Some(ColumnPosition::First) => 0,
            Some(ColumnPosition::After(other)) => self.place(&other)? + 1,
        };
        self.columns.insert(place, column);
        Ok(())
    }

    fn replace(&mut self, watermark: Option<WatermarkDefinition>, primary_key: Vec<Ident>) {
        self.watermark = watermark.or_else(|| self.watermark.take());
        if !primary_key.is_empty() {
            self.primary_key = primary_key;
        }
    }
}
