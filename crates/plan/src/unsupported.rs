//! Refuses clauses of other databases that DataFusion's grammar accepts.

use std::fmt::Display;
use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{Distinct, Expr, Ident, Query, Select, Spanned, TableFactor, Visitor};
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::dialect::PARTITIONED;
use crate::place::at;
use crate::walk::see_syntax;

pub(crate) fn check(query: &Query) -> Result<()> {
    match see_syntax(query, &mut Checking) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Checking;

fn refused(what: impl Display, start: Location, remedy: &str) -> ControlFlow<Error> {
    ControlFlow::Break(Error::user(format!("{what} is not supported")).at(at(start)).remedy(remedy))
}

impl Visitor for Checking {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        let start = query.span().start;
        match (&query.locks.first(), &query.for_clause) {
            (Some(lock), _) => refused(lock, start, "leave it out: a query locks nothing"),
            (_, Some(form)) => refused(form, start, "leave it out; JSON_OBJECT writes JSON"),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        let start = select.select_token.0.span.start;
        if matches!(select.distinct, Some(Distinct::On(_))) {
            return refused(
                "DISTINCT ON",
                start,
                "take the first row of each key: SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM t) \
                 WHERE n = 1",
            );
        }
        match select.connect_by.is_empty() {
            true => ControlFlow::Continue(()),
            false => refused("CONNECT BY", start, "join the table with itself, once for each step"),
        }
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<Error> {
        let TableFactor::Table { name, with_hints, partitions, .. } = table else { return ControlFlow::Continue(()) };
        let start = name.span().start;
        if !with_hints.is_empty() {
            let remedy = "write options of a table as a hint: t /*+ OPTIONS('name' = 'value') */";
            return refused(format!("{name} WITH (...)"), start, remedy);
        }
        match partitions.is_empty() {
            true => ControlFlow::Continue(()),
            false => refused(format!("{name} PARTITION (...)"), start, "select its rows with WHERE"),
        }
    }

    /// Refuses quoted names of the planner's own functions, which the planner calls without quotes.
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let own = |part: &Ident| part.quote_style.is_some() && part.value.starts_with('$') && part.value != PARTITIONED;
        match function.name.0.iter().filter_map(|part| part.as_ident()).find(|part| own(part)) {
            Some(name) => {
                let error = Error::user(format!("unknown function {}", name.value)).at(at(name.span.start));
                ControlFlow::Break(error.remedy("names of functions begin with a letter"))
            }
            None => ControlFlow::Continue(()),
        }
    }
}
