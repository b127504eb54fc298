//! Converts the parser's tree to relational operators. Names have a meaning only here: afterwards a number
//! identifies each column. Each reference to a table, a view or a query of WITH gets new columns. Subqueries
//! become joins: see [`crate::apply`].
//!
//! `scope` resolves names, `expr` converts expressions. `from`, `select`, `results`, `group`, `group_window`,
//! `windows`, `order`, `values` and `set` bind the clauses of a query, `subquery` and `lists` the subqueries
//! in expressions.

mod expr;
mod from;
mod group;
mod group_window;
mod lists;
mod order;
mod results;
mod scope;
mod select;
mod set;
mod subquery;
mod values;
mod windows;

use std::collections::HashSet;

use anabranch_model::Error;
use datafusion_common::Result;
use datafusion_sql::sqlparser::ast::{Query, Spanned, With};

pub(crate) use self::expr::Names;
pub(crate) use self::from::{Rows, is_true};
pub(crate) use self::scope::{Item, Scope, TableName};
use crate::functions::Functions;
use crate::hints::{misplaced, without_options};
use crate::place::{at, through};
use crate::query::Planner;
use crate::rel::Rel;
use crate::settings::RuntimeMode;

/// Binds one statement.
pub(crate) struct Binder<'a> {
    planner: &'a Planner<'a>,
}

/// The environment in which a part of a query is bound.
#[derive(Clone, Copy, Default)]
pub(crate) struct Env<'e> {
    /// The columns of the outer query.
    outer: Option<&'e Scope<'e>>,
    named: Option<&'e Named<'e>>,
}

/// A query of WITH, and the queries declared before it.
struct Named<'e> {
    name: String,
    plan: Rel,
    before: Option<&'e Named<'e>>,
}

impl<'e> Env<'e> {
    /// The scope of a part of a query, nested in the scopes of the outer queries.
    pub(crate) fn scope(&self, items: Vec<Item>) -> Scope<'e> {
        Scope::new(items, self.outer)
    }

    /// The environment of a subquery of a query with this scope.
    fn within<'s>(&self, scope: &'s Scope<'s>) -> Env<'s>
    where
        'e: 's,
    {
        Env { outer: Some(scope), named: self.named }
    }

    /// The query of WITH with this name.
    fn named(&self, name: &str) -> Option<&'e Rel> {
        let mut next = self.named;
        while let Some(named) = next {
            if named.name == name {
                return Some(&named.plan);
            }
            next = named.before;
        }
        None
    }
}

impl<'a> Binder<'a> {
    pub(crate) fn new(planner: &'a Planner<'a>) -> Self {
        Binder { planner }
    }

    pub(crate) fn bind(&self, query: Query) -> Result<Rel> {
        self.query(query, &Env::default())
    }

    fn functions(&self) -> &Functions {
        &self.planner.catalog().functions
    }

    /// Whether results over bounded tables are updated too.
    fn streaming(&self) -> bool {
        self.planner.catalog().settings.runtime_mode == RuntimeMode::Streaming
    }

    fn query(&self, query: Query, env: &Env<'_>) -> Result<Rel> {
        check_clauses(&query)?;
        let Query { with, .. } = &query;
        match with {
            None => self.ordered(query, env),
            Some(With { recursive: true, .. }) => {
                let error = Error::user("WITH RECURSIVE is not supported").at(at(query.span().start));
                Err(through(error.remedy("join the table with itself, once for each step")))
            }
            Some(_) => {
                let mut query = query;
                let tables = query.with.take().map(|with| with.cte_tables).unwrap_or_default();
                let mut tables: Vec<_> = tables.into_iter().rev().collect();
                self.with(&mut tables, query, env, &mut HashSet::new())
            }
        }
    }

    /// Binds the queries of WITH, which are in reverse order, and then the query itself.
    fn with(
        &self,
        tables: &mut Vec<datafusion_sql::sqlparser::ast::Cte>,
        query: Query,
        env: &Env<'_>,
        seen: &mut HashSet<String>,
    ) -> Result<Rel> {
        let Some(table) = tables.pop() else { return self.ordered(query, env) };
        let name = table.alias.name.value.clone();
        let start = table.alias.name.span.start;
        if !seen.insert(name.clone()) {
            let error = Error::user(format!("WITH names two queries '{name}'")).at(at(start));
            return Err(through(error.remedy("give each a name of its own")));
        }
        let plan = self.query(*table.query, env)?;
        let names: Vec<_> = table.alias.columns.iter().map(|column| column.name.clone()).collect();
        let plan = if names.is_empty() { plan } else { self.renamed(plan, &names, start)? };
        let named = Named { name, plan, before: env.named };
        self.with(tables, query, &Env { outer: env.outer, named: Some(&named) }, seen)
    }

    /// Refuses an OPTIONS hint after the name of a query of WITH.
    fn check_hint(
        &self,
        name: &str,
        env: &Env<'_>,
        start: datafusion_sql::sqlparser::tokenizer::Location,
    ) -> Result<()> {
        match without_options(name).is_some_and(|base| env.named(base).is_some()) {
            true => Err(through(misplaced(start))),
            false => Ok(()),
        }
    }
}

/// Refuses clauses of other databases.
fn check_clauses(query: &Query) -> Result<()> {
    let (clause, remedy) = match (query.locks.first(), &query.for_clause) {
        (Some(lock), _) => (lock.to_string(), "leave it out: a query locks nothing"),
        (_, Some(form)) => (form.to_string(), "leave it out; JSON_OBJECT writes JSON"),
        (None, None) => return Ok(()),
    };
    let error = Error::user(format!("{clause} is not supported")).at(at(query.span().start));
    Err(through(error.remedy(remedy)))
}
