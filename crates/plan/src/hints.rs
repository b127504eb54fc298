//! `SELECT /*+ STATE_TTL('o' = '1 d') */`: hints after SELECT, by the names of the tables beside it. Others than these are Flink's advice to its
//! optimizer, and mean nothing here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{
    OptimizerHint, OptimizerHintStyle, Query, Select, SetExpr, TableFactor, TableWithJoins, Visit, Visitor,
};
use datafusion_sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::dialect::AnabranchDialect;
use crate::settings::parse_duration;

/// For how many milliseconds state of the rows of a table or alias is kept; `None`: for ever.
pub(crate) type TimesToLive = BTreeMap<String, Option<i64>>;

const STATE_TTL: &str = "STATE_TTL";

/// The times to live that hints of a query ask for.
///
/// # Errors
/// A hint that cannot be read, or that names no table of its SELECT.
pub(crate) fn times_to_live(query: &Query) -> Result<TimesToLive> {
    let mut gathered = Gathered::default();
    match query.visit(&mut gathered) {
        ControlFlow::Continue(()) => {}
        ControlFlow::Break(error) => return Err(error),
    }
    let Gathered { times, selects } = gathered;
    // A name is looked for in the whole statement.
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
    /// In how many SELECTs there is a table of a name.
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
            for (name, value) in arguments(&hint.text)? {
                if !names.contains(&name.to_lowercase()) {
                    let known: Vec<&str> = names.iter().map(String::as_str).collect();
                    return Err(Error::user(format!("{STATE_TTL} names '{name}', which is no table of its SELECT"))
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

/// The names that a table has in its SELECT, in small letters.
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

/// The pairs of all such hints in a comment.
fn arguments(text: &str) -> Result<Vec<(String, String)>> {
    let unreadable = || {
        Error::user(format!("the hint {STATE_TTL} cannot be read"))
            .remedy(format!("write /*+ {STATE_TTL}('a' = '1 d', 'b' = '12 h') */ with names of tables or aliases"))
    };
    let tokens = Tokenizer::new(&AnabranchDialect::default(), text).tokenize().map_err(|_| unreadable())?;
    let mut tokens = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_)));
    let mut pairs = Vec::new();
    while let Some(token) = tokens.next() {
        if !matches!(&token, Token::Word(word) if word.value.eq_ignore_ascii_case(STATE_TTL)) {
            continue;
        }
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
