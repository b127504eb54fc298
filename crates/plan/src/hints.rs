//! Hints. `SELECT /*+ STATE_TTL('o' = '1 d') */` sets the time to live for tables of this SELECT. `t /*+
//! OPTIONS('name' = 'value') */` reads or writes a table with other options, as a variant of its own: see
//! [`with_options`]. Other hints are advice to Flink's optimizer, and have no effect.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use anabranch_model::{Error, Result, hash_bytes};
use datafusion_sql::sqlparser::ast::{
    Ident, OptimizerHint, OptimizerHintStyle, Query, Select, SetExpr, TableFactor, TableWithJoins, Visitor,
};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace, Word};

use crate::databases::{joined, parts_of};
use crate::dialect::AnabranchDialect;
use crate::place::at;
use crate::settings::parse_duration;
use crate::walk::see_syntax;

/// Times to live in milliseconds by tables or aliases. `None`: state is kept for ever.
pub(crate) type TimesToLive = BTreeMap<String, Option<i64>>;

const STATE_TTL: &str = "STATE_TTL";
const OPTIONS: &str = "OPTIONS";

/// The times to live of a query's hints.
///
/// # Errors
/// A hint that cannot be parsed, or that names no table of its SELECT.
pub(crate) fn times_to_live(query: &Query) -> Result<TimesToLive> {
    let mut gathered = Gathered::default();
    see_syntax(query, &mut gathered)?;
    let Gathered { times, selects } = gathered;
    // The hint applies to the name in the whole statement.
    match times.keys().find(|name| selects.get(*name).is_some_and(|selects| *selects > 1)) {
        Some(name) => {
            Err(Error::user(format!("{STATE_TTL} names '{name}', which is in several SELECTs of the statement"))
                .remedy("give the table another alias where it is hinted"))
        }
        None => Ok(times),
    }
}

#[derive(Default)]
struct Gathered {
    times: TimesToLive,
    /// The number of SELECTs that have a table of a name.
    selects: BTreeMap<String, usize>,
}

impl Visitor for Gathered {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        match self.of_body(&query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl Gathered {
    fn of_body(&mut self, body: &SetExpr) -> Result<()> {
        match body {
            SetExpr::Select(select) => self.of_select(select),
            SetExpr::SetOperation { left, right, .. } => {
                self.of_body(left)?;
                self.of_body(right)
            }
            _ => Ok(()),
        }
    }

    fn of_select(&mut self, select: &Select) -> Result<()> {
        let mut names = BTreeSet::new();
        select.from.iter().for_each(|table| add_names(table, &mut names));
        names.iter().for_each(|name| *self.selects.entry(name.clone()).or_default() += 1);
        let is_hint = |hint: &&OptimizerHint| hint.style == OptimizerHintStyle::MultiLine && hint.prefix.is_empty();
        for hint in select.optimizer_hints.iter().filter(is_hint) {
            for (name, value) in arguments(&hint.text, STATE_TTL)?.into_iter().flatten() {
                if !names.contains(&name.to_lowercase()) {
                    let known: Vec<&str> = names.iter().map(String::as_str).collect();
                    return Err(Error::user(format!("{STATE_TTL} names '{name}', which is not a table of its SELECT"))
                        .remedy(format!("use a name or an alias after FROM: {}", known.join(", "))));
                }
                let time = parse_duration(&value).map_err(|error| error.at(format!("hint {STATE_TTL}('{name}')")))?;
                let ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
                self.times.insert(name.to_lowercase(), Some(ms).filter(|ms| *ms > 0));
            }
        }
        Ok(())
    }
}

/// The names of a table in its SELECT, in lower case.
fn add_names(table: &TableWithJoins, names: &mut BTreeSet<String>) {
    for factor in std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)) {
        let (name, alias) = match factor {
            TableFactor::Table { name, alias, .. } => (name.0.last().and_then(|part| part.as_ident()), alias),
            TableFactor::Derived { alias, .. } => (None, alias),
            TableFactor::NestedJoin { table_with_joins, .. } => {
                add_names(table_with_joins, names);
                continue;
            }
            _ => continue,
        };
        let name = alias.as_ref().map(|alias| &alias.name).or(name);
        names.extend(name.map(|name| name.value.to_lowercase()));
    }
}

/// Declares a variant of this table with these options. Returns the variant's name.
pub(crate) type DeclareWith<'a> = dyn FnMut(&Ident, BTreeMap<String, String>) -> Result<String> + 'a;

/// Replaces the names of tables before OPTIONS hints by the names of their variants. Returns the place of the
/// first hint, if there is one.
///
/// # Errors
/// A hint that follows no name or cannot be parsed, and errors of `declare`.
pub(crate) fn name_tables_with_options(
    tokens: &mut [TokenWithSpan],
    declare: &mut DeclareWith<'_>,
) -> Result<Option<Location>> {
    // The last two tokens except white space.
    let mut before: [Option<usize>; 2] = [None, None];
    let mut first = None;
    for index in 0..tokens.len() {
        let start = tokens[index].span.start;
        let text = match &tokens[index].token {
            Token::Whitespace(Whitespace::MultiLineComment(text)) if text.starts_with('+') => text,
            Token::Whitespace(_) => continue,
            _ => {
                before = [before[1], Some(index)];
                continue;
            }
        };
        let Some(options) = arguments(text, OPTIONS).map_err(|error| error.at(at(start)))? else { continue };
        first = first.or(Some(start));
        let is_keyword = |index: usize, keywords: &[Keyword]| matches!(&tokens[index].token, Token::Word(word) if keywords.contains(&word.keyword));
        let is_alias = before[0].is_some_and(|index| is_keyword(index, &[Keyword::AS]));
        let is_name = |index: &usize| !is_alias && !is_keyword(*index, &[Keyword::SELECT, Keyword::EXPLAIN]);
        let database = before[1].map(|index| database_before(&tokens[..index])).unwrap_or_default();
        let named = before[1].filter(is_name).map(|index| &mut tokens[index]);
        let named = named.and_then(|token| match &mut token.token {
            Token::Word(word) => Some((word, token.span)),
            _ => None,
        });
        let Some((word, span)) = named else { return Err(misplaced(start)) };
        let parts = database.iter().map(String::as_str).chain([word.value.as_str()]);
        let name = Ident { value: joined(parts), quote_style: word.quote_style, span };
        let value = declare(&name, options.into_iter().collect()).map_err(|error| error.at(at(span.start)))?;
        let value = parts_of(&value).pop().unwrap_or_default();
        *word = Word { value, quote_style: Some('`'), keyword: Keyword::NoKeyword };
    }
    Ok(first)
}

/// The parts of a name before its last part.
fn database_before(tokens: &[TokenWithSpan]) -> Vec<String> {
    match tokens {
        [before @ .., part, point] if point.token == Token::Period => match &part.token {
            Token::Word(word) => {
                let mut parts = database_before(before);
                parts.push(word.value.clone());
                parts
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The error for a hint that does not follow the name of a table.
pub(crate) fn misplaced(start: Location) -> Error {
    let error = Error::user(format!("the hint {OPTIONS} does not follow the name of a table that is read or written"));
    error.at(at(start)).remedy("write it after the name: FROM t /*+ OPTIONS('name' = 'value') */ AS a")
}

/// Follows the table's name in the name of a variant, before the hash of the options.
const WITH_OPTIONS: &str = " (options ";

/// The name of the variant of a table with these options. It depends only on the table's name and the
/// options, because checkpoints identify the variant by it.
pub(crate) fn with_options(name: &str, options: &BTreeMap<String, String>) -> String {
    let hash = |hash, text: &String| hash_bytes(hash, text.as_bytes());
    let number = options.iter().flat_map(|(name, value)| [name, value]).fold(0, hash);
    let mut parts = parts_of(name);
    if let Some(own) = parts.last_mut() {
        own.push_str(&format!("{WITH_OPTIONS}{:012x})", number >> 16));
    }
    joined(parts.iter().map(String::as_str))
}

/// The name of the table that a variant belongs to.
pub(crate) fn without_options(name: &str) -> Option<&str> {
    let (name, number) = name.strip_suffix(')')?.rsplit_once(WITH_OPTIONS)?;
    (number.len() == 12 && number.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(name)
}

/// The pairs of all hints with this name in a comment. `None`: there is no such hint.
fn arguments(text: &str, hint: &str) -> Result<Option<Vec<(String, String)>>> {
    let unreadable = || {
        Error::user(format!("the hint {hint} cannot be read")).remedy(match hint {
            OPTIONS => "write /*+ OPTIONS('name' = 'value', 'other' = 'value') */ with names of options of the table",
            _ => "write /*+ STATE_TTL('a' = '1 d', 'b' = '12 h') */ with names of tables or aliases",
        })
    };
    let tokens = Tokenizer::new(&AnabranchDialect::default(), text).tokenize().map_err(|_| unreadable())?;
    let mut tokens = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_)));
    let mut pairs = None;
    while let Some(token) = tokens.next() {
        if !matches!(&token, Token::Word(word) if word.value.eq_ignore_ascii_case(hint)) {
            continue;
        }
        let pairs = pairs.get_or_insert_with(Vec::new);
        let mut next = Some(Token::Comma);
        if tokens.next() != Some(Token::LParen) {
            return Err(unreadable());
        }
        while next == Some(Token::Comma) {
            match (tokens.next(), tokens.next(), tokens.next()) {
                (Some(Token::SingleQuotedString(name)), Some(Token::Eq), Some(Token::SingleQuotedString(value))) => {
                    pairs.push((name, value));
                }
                _ => return Err(unreadable()),
            }
            next = tokens.next();
        }
        if next != Some(Token::RParen) {
            return Err(unreadable());
        }
    }
    Ok(pairs)
}
