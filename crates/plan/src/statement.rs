//! Parsed statements. Names are not resolved.

mod alter_table;
mod create_function;
mod create_table;
mod databases;
mod limits;
mod show;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{Expr, Ident, ObjectName, Query, Value};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

pub(crate) use self::alter_table::AlterTable;
pub(crate) use self::create_function::CreateFunction;
pub(crate) use self::create_table::{ColumnDefinition, ColumnKind, CreateTable, Like, Merging, WatermarkDefinition};
pub(crate) use self::databases::{DatabaseStatement, QualifiedName};
pub(crate) use self::show::{Pattern, Show};
use crate::databases::plain;
use crate::dialect::{AnabranchDialect, NO_PARAMETERS, is_keyword};
use crate::hints::{DeclareWith, misplaced, name_tables_with_options};
use crate::place::{at, syntax_error};
use crate::text::{StatementText, tokenize};

/// A statement.
#[derive(Debug)]
pub(crate) enum Statement {
    CreateTable(Box<CreateTable>),
    AlterTable(Box<AlterTable>),
    CreateFunction(Box<CreateFunction>),
    CreateView {
        name: Ident,
        if_not_exists: bool,
        or_replace: bool,
        columns: Vec<Ident>,
        query: Box<Query>,
        /// The statement as it was written.
        text: String,
    },
    Drop {
        kind: &'static str,
        name: Ident,
        if_exists: bool,
    },
    /// A statement set has several.
    Insert(Vec<Insert>),
    Set {
        name: String,
        value: String,
    },
    /// Restores the initial value of an option. `None`: of all.
    Reset(Option<String>),
    Show(Show),
    Database(DatabaseStatement),
    AddJar,
    Explain {
        explained: Box<Statement>,
        /// With the logical plan after each pass.
        verbose: bool,
    },
    Query(Box<Query>),
}

impl Statement {
    /// Whether it reads tables.
    fn has_query(&self) -> bool {
        match self {
            Statement::CreateTable(create) => create.query.is_some(),
            Statement::CreateView { .. } | Statement::Insert(_) | Statement::Query(_) | Statement::Explain { .. } => {
                true
            }
            _ => false,
        }
    }
}

/// `INSERT INTO table PARTITION (column = value) (columns) query`.
#[derive(Debug)]
pub(crate) struct Insert {
    pub(crate) table: Ident,
    /// Columns with a constant value, in addition to the query's columns.
    pub(crate) partition: Vec<(Ident, Value)>,
    pub(crate) columns: Vec<Ident>,
    pub(crate) query: Box<Query>,
    /// The table keeps the latest of several rows with its primary key.
    pub(crate) deduplicates: bool,
    pub(crate) start: Location,
}

/// Parses one statement. Places are those of the file. `declare` declares variants of tables for OPTIONS
/// hints.
pub(crate) fn parse(text: &StatementText, declare: &mut DeclareWith<'_>) -> Result<Statement> {
    let mut tokens = tokenize(&text.text, text.line, text.column)?;
    limits::check_tokens(&tokens)?;
    let hint = name_tables_with_options(&mut tokens, declare)?;
    if let Some(parameter) = tokens.iter().find(|token| matches!(token.token, Token::Placeholder(_))) {
        let error = Error::user(format!("syntax error: {NO_PARAMETERS}")).at(at(parameter.span.start));
        return Err(error.remedy("write the value in its place"));
    }
    refuse_match_recognize(&tokens)?;
    let dialect = AnabranchDialect::for_tokens(tokens.len());
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let statement = statement(&mut parser, &text.text)?;
    let _ = parser.consume_token(&Token::SemiColon);
    let rest = parser.peek_token();
    if rest.token != Token::EOF {
        return Err(Error::user(format!("syntax error: the statement should end before {}", rest.token))
            .at(at(rest.span.start))
            .remedy("separate statements with a semicolon"));
    }
    match hint {
        Some(hint) if !statement.has_query() => Err(misplaced(hint)),
        _ => Ok(statement),
    }
}

/// Refuses `MATCH_RECOGNIZE (`, which a query may have in many places.
fn refuse_match_recognize(tokens: &[TokenWithSpan]) -> Result<()> {
    let is_word = |token: &Token| matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("MATCH_RECOGNIZE"));
    let mut said = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).peekable();
    while let Some(token) = said.next() {
        if is_word(&token.token) && said.peek().is_some_and(|next| next.token == Token::LParen) {
            let error = Error::user("MATCH_RECOGNIZE is not supported yet").at(at(token.span.start));
            return Err(error.remedy("filter and aggregate in windows: TUMBLE or HOP"));
        }
    }
    Ok(())
}

/// `text`: the whole statement.
fn statement(parser: &mut Parser, text: &str) -> Result<Statement> {
    let first = parser.peek_token();
    let keyword = match &first.token {
        Token::Word(word) => word.keyword,
        Token::LParen => Keyword::SELECT,
        _ => Keyword::NoKeyword,
    };
    match keyword {
        Keyword::CREATE => create(parser, text),
        Keyword::ALTER => alter(parser),
        Keyword::DROP => drop_declared(parser),
        Keyword::INSERT => Ok(Statement::Insert(vec![insert(parser)?])),
        Keyword::EXECUTE if !is_keyword(parser, 1, Keyword::STATEMENT) => {
            parser.next_token();
            match parser.peek_one_of_keywords(&[Keyword::INSERT, Keyword::SELECT, Keyword::WITH]) {
                Some(_) => statement(parser, text),
                None => Err(Error::user("syntax error: EXECUTE is followed by INSERT INTO, SELECT or STATEMENT SET")
                    .at(at(parser.peek_token().span.start))),
            }
        }
        Keyword::EXECUTE | Keyword::BEGIN => statement_set(parser),
        Keyword::SET => set(parser),
        Keyword::RESET => reset(parser),
        Keyword::USE => databases::use_database(parser).map(Statement::Database),
        Keyword::ADD => add_jar(parser),
        Keyword::EXPLAIN => explain(parser, text),
        Keyword::SHOW => show::show(parser).map(Statement::Show),
        Keyword::DESCRIBE | Keyword::DESC => show::describe(parser).map(Statement::Show),
        Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::FROM => Ok(Statement::Query(query(parser)?)),
        _ => Err(Error::user(format!("syntax error: a statement cannot begin with {}", first.token))
            .at(at(first.span.start))
            .remedy(
                "use SELECT, INSERT INTO, CREATE TABLE, CREATE VIEW, CREATE FUNCTION, ALTER TABLE, DROP, SET, RESET, EXPLAIN, SHOW TABLES \
                 or DESCRIBE",
            )),
    }
}

fn query(parser: &mut Parser) -> Result<Box<Query>> {
    limits::flatten(parsed(parser.parse_query())?)
}

/// Parses an expression of a declaration.
pub(crate) fn expression(parser: &mut Parser) -> Result<Expr> {
    limits::flatten(parsed(parser.parse_expr())?)
}

/// Converts the parser's errors to ours.
pub(crate) fn parsed<T>(result: std::result::Result<T, ParserError>) -> Result<T> {
    result.map_err(|error| syntax_error(&error))
}

fn create(parser: &mut Parser, text: &str) -> Result<Statement> {
    let start = parser.next_token().span.start;
    if let Some(created) = databases::create(parser)? {
        return Ok(Statement::Database(created));
    }
    let or_replace = parser.parse_keywords(&[Keyword::OR, Keyword::REPLACE]);
    let _ = parser.parse_one_of_keywords(&[Keyword::TEMPORARY, Keyword::TEMP]);
    skip_system(parser);
    if parser.parse_keyword(Keyword::TABLE) {
        return Ok(Statement::CreateTable(Box::new(create_table::create_table(parser, start, or_replace)?)));
    }
    if parser.parse_keyword(Keyword::FUNCTION) {
        let function = create_function::create_function(parser, or_replace, text)?;
        return Ok(Statement::CreateFunction(Box::new(function)));
    }
    if !parser.parse_keyword(Keyword::VIEW) {
        let found = parser.peek_token();
        return Err(Error::user(format!("syntax error: CREATE {} is not supported", found.token))
            .at(at(found.span.start))
            .remedy("use CREATE TABLE, CREATE VIEW, CREATE FUNCTION or CREATE DATABASE"));
    }
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = table_name(parser)?;
    let columns = if parser.peek_token_ref().token == Token::LParen { names(parser)? } else { Vec::new() };
    parsed(parser.expect_keyword(Keyword::AS))?;
    let query = query(parser)?;
    let text = text.trim().to_owned();
    Ok(Statement::CreateView { name, if_not_exists, or_replace, columns, query, text })
}

/// Skips `SYSTEM` before `FUNCTION`. Like Flink's system functions, our functions belong to no catalog.
fn skip_system(parser: &mut Parser) {
    let is_system =
        matches!(&parser.peek_token_ref().token, Token::Word(word) if word.value.eq_ignore_ascii_case("SYSTEM"));
    if is_system && is_keyword(parser, 1, Keyword::FUNCTION) {
        parser.next_token();
    }
}

fn alter(parser: &mut Parser) -> Result<Statement> {
    parser.next_token();
    let what = parser.peek_token();
    if !parser.parse_keyword(Keyword::TABLE) {
        return Err(Error::user(format!("syntax error: ALTER {} is not supported", what.token))
            .at(at(what.span.start))
            .remedy("use ALTER TABLE, or CREATE OR REPLACE VIEW or FUNCTION"));
    }
    Ok(Statement::AlterTable(Box::new(alter_table::alter_table(parser)?)))
}

fn drop_declared(parser: &mut Parser) -> Result<Statement> {
    parser.next_token();
    if let Some(dropped) = databases::drop_database(parser)? {
        return Ok(Statement::Database(dropped));
    }
    let _ = parser.parse_keyword(Keyword::TEMPORARY);
    skip_system(parser);
    let kind = match parsed(parser.expect_one_of_keywords(&[Keyword::TABLE, Keyword::VIEW, Keyword::FUNCTION]))? {
        Keyword::TABLE => "table",
        Keyword::FUNCTION => "function",
        _ => "view",
    };
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    Ok(Statement::Drop { kind, name: table_name(parser)?, if_exists })
}

fn insert(parser: &mut Parser) -> Result<Insert> {
    let start = parser.next_token().span.start;
    let into = parser.peek_token();
    if !parser.parse_keyword(Keyword::INTO) {
        return Err(Error::user(format!("syntax error: INSERT {} is not supported", into.token))
            .at(at(into.span.start))
            .remedy("write INSERT INTO table SELECT ..."));
    }
    let _ = parser.parse_keyword(Keyword::TABLE);
    let table = table_name(parser)?;
    let partition = static_partition(parser)?;
    let next = &parser.peek_nth_token_ref(1).token;
    let query_follows = match next {
        Token::Word(word) => matches!(word.keyword, Keyword::SELECT | Keyword::WITH | Keyword::VALUES),
        _ => *next == Token::LParen,
    };
    let has_columns = parser.peek_token_ref().token == Token::LParen && !query_follows;
    let columns = if has_columns { names(parser)? } else { Vec::new() };
    let query = query(parser)?;
    let deduplicates = deduplicates(parser)?;
    Ok(Insert { table, partition, columns, query, deduplicates, start })
}

/// `PARTITION (dt = '2024-01-01', hm = '10')`.
fn static_partition(parser: &mut Parser) -> Result<Vec<(Ident, Value)>> {
    if !parser.parse_keyword(Keyword::PARTITION) {
        return Ok(Vec::new());
    }
    let value = |parser: &mut Parser| {
        let column = parser.parse_identifier()?;
        parser.expect_token(&Token::Eq)?;
        Ok((column, parser.parse_value()?.value))
    };
    parsed(parser.parse_parenthesized(|parser| parser.parse_comma_separated(value)))
}

/// `(a, b)`.
fn names(parser: &mut Parser) -> Result<Vec<Ident>> {
    parsed(parser.parse_parenthesized(|parser| parser.parse_comma_separated(Parser::parse_identifier)))
}

/// Parses `ON CONFLICT DO ...`: the treatment of rows with the same key. The default is `DEDUPLICATE`.
fn deduplicates(parser: &mut Parser) -> Result<bool> {
    if !parser.parse_keywords(&[Keyword::ON, Keyword::CONFLICT, Keyword::DO]) {
        return Ok(true);
    }
    let what = parser.next_token();
    match what.token.to_string().to_uppercase().as_str() {
        "DEDUPLICATE" => Ok(true),
        "NOTHING" | "ERROR" => Ok(false),
        _ => Err(Error::user(format!("syntax error: ON CONFLICT DO {}", what.token))
            .at(at(what.span.start))
            .remedy("write NOTHING, ERROR or DEDUPLICATE")),
    }
}

/// `EXECUTE STATEMENT SET BEGIN INSERT ..; INSERT ..; END`, also `BEGIN STATEMENT SET; .. END`.
fn statement_set(parser: &mut Parser) -> Result<Statement> {
    let _ = parser.parse_keyword(Keyword::EXECUTE);
    let begun = parser.parse_keyword(Keyword::BEGIN);
    parsed(parser.expect_keywords(&[Keyword::STATEMENT, Keyword::SET]))?;
    if !begun {
        parsed(parser.expect_keyword(Keyword::BEGIN))?;
    }
    let _ = parser.consume_token(&Token::SemiColon);
    let mut inserts = Vec::new();
    while !parser.parse_keyword(Keyword::END) {
        let token = parser.peek_token();
        if !parser.peek_keyword(Keyword::INSERT) {
            return Err(Error::user(format!(
                "syntax error: a statement set contains INSERT INTO, not {}",
                token.token
            ))
            .at(at(token.span.start))
            .remedy("end the statement set with END;"));
        }
        inserts.push(insert(parser)?);
        let _ = parser.consume_token(&Token::SemiColon);
    }
    Ok(Statement::Insert(inserts))
}

fn set(parser: &mut Parser) -> Result<Statement> {
    parser.next_token();
    if matches!(parser.peek_token_ref().token, Token::EOF | Token::SemiColon) {
        return Ok(Statement::Show(Show::Settings));
    }
    let name = option_name(parser)?;
    parsed(parser.expect_token(&Token::Eq))?;
    let value = option_value(parser)?;
    Ok(Statement::Set { name, value })
}

/// Parses the value of an option: a quoted text, or all tokens before a blank or a comment, as in Flink.
fn option_value(parser: &mut Parser) -> Result<String> {
    let is_end = |token: &Token| matches!(token, Token::Whitespace(_) | Token::SemiColon | Token::EOF);
    let first = &parser.peek_token_ref().token;
    if is_end(first) || matches!(first, Token::SingleQuotedString(_) | Token::DoubleQuotedString(_)) {
        return word_or_string(parser);
    }
    let mut value = parser.next_token().token.to_string();
    while !is_end(&parser.peek_token_no_skip().token) {
        value.extend(parser.next_token_no_skip().map(|token| token.token.to_string()));
    }
    let next = parser.peek_token_ref();
    if !matches!(next.token, Token::SemiColon | Token::EOF) {
        return Err(Error::user(format!("syntax error: the value {value} is followed by {}", next.token))
            .at(at(next.span.start))
            .remedy("write a value with a blank in single quotes: SET 'name' = '1 h'"));
    }
    Ok(value)
}

fn reset(parser: &mut Parser) -> Result<Statement> {
    parser.next_token();
    match parser.peek_token_ref().token {
        Token::EOF | Token::SemiColon => Ok(Statement::Reset(None)),
        _ => option_name(parser).map(|name| Statement::Reset(Some(name))),
    }
}

fn option_name(parser: &mut Parser) -> Result<String> {
    let mut name = word_or_string(parser)?;
    while matches!(parser.peek_token_ref().token, Token::Period | Token::Minus) {
        name.push_str(&parser.next_token().token.to_string());
        name.push_str(&word_or_string(parser)?);
    }
    Ok(name)
}

/// The name or value of an option, quoted or not.
fn word_or_string(parser: &mut Parser) -> Result<String> {
    let token = parser.next_token();
    match token.token {
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => Ok(text),
        Token::Word(word) => Ok(word.value),
        Token::Number(number, _) => Ok(number),
        other => Err(Error::user(format!("syntax error: a name or a value in single quotes is expected, not {other}"))
            .at(at(token.span.start))
            .remedy("write SET 'name' = 'value'")),
    }
}

fn explain(parser: &mut Parser, text: &str) -> Result<Statement> {
    parser.next_token();
    let is_plan_for = parser.peek_nth_token_ref(1).token.to_string().eq_ignore_ascii_case("FOR");
    let verbose = if is_plan_for {
        parser.next_token();
        parser.next_token();
        false
    } else {
        details(parser)?
    };
    let inner = match parser.peek_keyword(Keyword::STATEMENT) {
        true => statement_set(parser)?,
        false => statement(parser, text)?,
    };
    match inner {
        inner @ (Statement::Query(_) | Statement::Insert(_)) => {
            Ok(Statement::Explain { explained: Box::new(inner), verbose })
        }
        _ => Err(Error::user("only SELECT and INSERT INTO can be explained")
            .remedy("write EXPLAIN SELECT ... or EXPLAIN INSERT INTO ...")),
    }
}

/// Parses the details after `EXPLAIN`. Returns whether it is `VERBOSE`. Flink's `ESTIMATED_COST,
/// CHANGELOG_MODE, ...` have no effect.
fn details(parser: &mut Parser) -> Result<bool> {
    if parser.parse_keyword(Keyword::VERBOSE) {
        return Ok(true);
    }
    loop {
        let token = parser.peek_token();
        match token.token.to_string().to_uppercase().as_str() {
            "ESTIMATED_COST" | "CHANGELOG_MODE" | "PLAN_ADVICE" => drop(parser.next_token()),
            detail @ "JSON_EXECUTION_PLAN" => {
                let error = Error::user(format!("EXPLAIN {detail} is not supported")).at(at(token.span.start));
                return Err(error.remedy("write EXPLAIN without it: the plan is a text"));
            }
            _ => return Ok(false),
        }
        if !parser.consume_token(&Token::Comma) {
            return Ok(false);
        }
    }
}

fn table_name(parser: &mut Parser) -> Result<Ident> {
    let start = parser.peek_token().span.start;
    let name: ObjectName = parsed(parser.parse_object_name(false))?;
    plain(&name).ok_or_else(|| {
        let error = Error::user(format!("the name '{name}' has too many parts")).at(at(start));
        error.remedy("a table has at most the names of its catalog and its database before its own")
    })
}

/// `ADD JAR 'path'`.
fn add_jar(parser: &mut Parser) -> Result<Statement> {
    parser.next_token();
    parsed(parser.expect_keyword(Keyword::JAR))?;
    parsed(parser.parse_literal_string())?;
    Ok(Statement::AddJar)
}
