//! `SELECT /*+ STATE_TTL('o' = '1 d') */`: hints after SELECT, by the names of the tables beside it. Others than these are Flink's advice to its
//! optimizer, and mean nothing here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{Query, Select, SetExpr, TableFactor, TableWithJoins, Visit, Visitor};

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
        ControlFlow::Continue(()) => Ok(gathered.0),
        ControlFlow::Break(error) => Err(error),
    }
}

#[derive(Default)]
struct Gathered(TimesToLive);

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
        for hint in &select.optimizer_hints {
            let Some(arguments) = arguments(&hint.text)? else { continue };
            let mut names = BTreeSet::new();
            select.from.iter().for_each(|table| add_names(table, &mut names));
            for (name, value) in arguments {
                if !names.contains(&name.to_lowercase()) {
                    let known: Vec<&str> = names.iter().map(String::as_str).collect();
                    return Err(Error::user(format!("{STATE_TTL} names '{name}', which is no table of its SELECT"))
                        .remedy(format!("use a name or an alias after FROM: {}", known.join(", "))));
                }
                let time = parse_duration(&value).map_err(|error| error.at(format!("hint {STATE_TTL}('{name}')")))?;
                let ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
                let former = self.0.insert(name.to_lowercase(), Some(ms).filter(|ms| *ms > 0));
                if former.is_some_and(|former| former != Some(ms).filter(|ms| *ms > 0)) {
                    return Err(Error::user(format!("{STATE_TTL} gives two times for '{name}'"))
                        .remedy("give the tables of the two SELECTs different aliases"));
                }
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

/// The pairs of the hint, if it is among those of a comment.
fn arguments(text: &str) -> Result<Option<Vec<(String, String)>>> {
    let Some(start) = text.to_uppercase().find(STATE_TTL) else { return Ok(None) };
    let unreadable = || {
        Error::user(format!("the hint {STATE_TTL} cannot be read"))
            .remedy(format!("write /*+ {STATE_TTL}('a' = '1 d', 'b' = '12 h') */ with names of tables or aliases"))
    };
    let rest = text.get(start + STATE_TTL.len()..).unwrap_or_default().trim_start();
    let inner = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(unreadable)?.0;
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let text = |text: &str| Some(text.trim().strip_prefix('\'')?.strip_suffix('\'')?.to_owned());
        Some((text(name)?, text(value)?))
    };
    inner.split(',').map(pair).collect::<Option<_>>().map(Some).ok_or_else(unreadable)
}
