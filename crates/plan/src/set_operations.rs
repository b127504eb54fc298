//! Refuses set operations that the planner would give another meaning.

use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{Query, SetExpr, SetOperator, SetQuantifier, Spanned, Visit, Visitor};

use crate::place::at;

/// Refuses `INTERSECT ALL` and `EXCEPT ALL`: the planner forgets how often a row occurs.
pub(crate) fn check(query: &Query) -> Result<()> {
    match query.visit(&mut Check) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Check;

impl Visitor for Check {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        let mut open = vec![query.body.as_ref()];
        while let Some(body) = open.pop() {
            let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { continue };
            let counts = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
            if counts && *op != SetOperator::Union {
                let error = Error::user(format!("{op} ALL is not supported yet")).at(at(right.span().start));
                return ControlFlow::Break(error.remedy(format!("use {op}, which gives each row once")));
            }
            open.extend([left.as_ref(), right.as_ref()]);
        }
        ControlFlow::Continue(())
    }
}
