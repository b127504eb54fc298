//! Refuses joins whose shared columns the planner would take from the wrong side.

use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{
    Join, JoinConstraint, JoinOperator, Query, Select, Spanned, TableWithJoins, Visit, Visitor,
};

use crate::place::at;

/// Refuses `RIGHT` and `FULL JOIN` with `USING` or `NATURAL`: the planner takes the left side's column, which is NULL in rows
/// that only the right side has.
pub(crate) fn check(query: &Query) -> Result<()> {
    match query.visit(&mut Check) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Check;

impl Visitor for Check {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        let Some(join) = select.from.iter().find_map(shared) else { return ControlFlow::Continue(()) };
        let error = Error::user("RIGHT and FULL JOIN with USING or NATURAL are not supported yet");
        let remedy = "write the condition: FULL JOIN b ON a.k = b.k, and select COALESCE(a.k, b.k) AS k";
        ControlFlow::Break(error.at(at(join.relation.span().start)).remedy(remedy))
    }
}

fn shared(tables: &TableWithJoins) -> Option<&Join> {
    let shares = |join: &&Join| {
        use JoinConstraint::{Natural, Using};
        use JoinOperator::{FullOuter, Right, RightOuter};
        matches!(
            &join.join_operator,
            FullOuter(Using(_) | Natural) | Right(Using(_) | Natural) | RightOuter(Using(_) | Natural)
        )
    };
    tables.joins.iter().find(shares)
}
