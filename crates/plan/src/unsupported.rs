//! Words of other databases that the library's grammar takes and its planner forgets.

use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{Distinct, Query, Select, Spanned, TableFactor, Visit, Visitor};

use crate::place::at;

/// Refuses them.
pub(crate) fn check(query: &Query) -> Result<()> {
    match query.visit(&mut Checking) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Checking;

impl Visitor for Checking {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        match query.locks.first() {
            Some(lock) => {
                let error = Error::user(format!("{lock} is not supported")).at(at(query.span().start));
                ControlFlow::Break(error.remedy("leave it out: a query locks nothing"))
            }
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        match &select.distinct {
            Some(Distinct::On(_)) => {
                let error = Error::user("DISTINCT ON is not supported").at(at(select.select_token.0.span.start));
                ControlFlow::Break(error.remedy(
                    "take the first row of each key: SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM t) \
                     WHERE n = 1",
                ))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<Error> {
        match table {
            TableFactor::Table { name, with_hints, .. } if !with_hints.is_empty() => {
                let error = Error::user(format!("{name} WITH (...) is not supported")).at(at(name.span().start));
                ControlFlow::Break(
                    error.remedy("write options of a table as a hint: t /*+ OPTIONS('name' = 'value') */"),
                )
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
