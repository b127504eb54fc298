//! UNION, INTERSECT and EXCEPT.

use std::sync::Arc;

use anabranch_model::Error;
use datafusion_common::{Column, Result, not_impl_err};
use datafusion_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder, lit, when};
use datafusion_sql::sqlparser::ast::{SetExpr, SetOperator, SetQuantifier, Spanned};

use super::from::distinct_names;
use super::{Binder, Env};
use crate::copies::Copies;
use crate::place::{at, through};
use crate::projection::project;

/// Columns that say how often a row is on the left and on the right.
const SIDES: [&str; 2] = ["$left", "$right"];

impl Binder<'_> {
    /// The rows of a query without its order.
    pub(super) fn body(&self, body: SetExpr, env: &Env<'_>) -> Result<LogicalPlan> {
        match body {
            SetExpr::Select(select) => self.select(*select, None, env),
            SetExpr::Query(query) => self.query(*query, env),
            SetExpr::Values(values) => self.values(values, env),
            SetExpr::SetOperation { .. } => self.operation(body, env),
            other => not_impl_err!("Query {other} not implemented yet"),
        }
    }

    /// Many queries joined by UNION ALL are a tree that is as deep as they are many.
    fn operation(&self, body: SetExpr, env: &Env<'_>) -> Result<LogicalPlan> {
        let mut next = body;
        let mut rest = Vec::new();
        let first = loop {
            match next {
                SetExpr::SetOperation { op, left, right, set_quantifier } => {
                    rest.push((op, set_quantifier, right));
                    next = *left;
                }
                other => break other,
            }
        };
        let mut plan = self.body(first, env)?;
        while let Some((op, quantifier, right)) = rest.pop() {
            let start = right.span().start;
            let right = self.body(*right, env)?;
            let by_name =
                matches!(quantifier, SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName);
            let widths = [&plan, &right].map(|side| side.schema().fields().len());
            if widths[0] != widths[1] && !by_name {
                let all = if quantifier == SetQuantifier::All { " ALL" } else { "" };
                let error = Error::user(format!("the sides of {op}{all} have {} and {} columns", widths[0], widths[1]));
                return Err(through(error.at(at(start)).remedy("select the same columns on both sides")));
            }
            plan = combined(op, quantifier, plan, right, self, start)?;
        }
        Ok(plan)
    }

    /// Rows of the left side as often as they count, in its columns.
    fn counted(&self, left: LogicalPlan, right: LogicalPlan, excepted: bool) -> Result<LogicalPlan> {
        let names: Vec<String> = left.schema().fields().iter().map(|field| field.name().clone()).collect();
        let numbered: Vec<String> = (0..names.len()).map(|place| format!("${place}")).collect();
        let side = |plan: LogicalPlan, counts: [i64; 2]| {
            let columns = plan.schema().columns().into_iter().zip(&numbered);
            let columns = columns.map(|(of, name)| Expr::Column(of).alias(name));
            let counts = SIDES.iter().zip(counts).map(|(name, count)| lit(count).alias(*name));
            let columns: Vec<Expr> = columns.chain(counts).collect();
            project(plan, columns)
        };
        let rows = LogicalPlanBuilder::from(side(left, [1, 0])?).union(side(right, [0, 1])?)?;
        let column = |name: &str| Expr::Column(Column::from_name(name));
        let Some(sum) = self.functions().aggregate("sum") else { return not_impl_err!("there is no SUM") };
        let keys: Vec<Expr> = numbered.iter().map(|name| column(name)).collect();
        let sums: Vec<Expr> = SIDES.iter().map(|name| sum.call(vec![column(name)]).alias(*name)).collect();
        let [on_left, on_right] = SIDES.map(column);
        let copies = match excepted {
            true => on_left - on_right,
            false => when(on_left.clone().lt(on_right.clone()), on_left).otherwise(on_right)?,
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let named = numbered.iter().zip(distinct_names(&names)).map(|(number, name)| column(number).alias(name));
        let columns: Vec<Expr> = named.chain([copies.alias("$copies")]).collect();
        let rows = rows.aggregate(keys, sums)?.project(columns)?;
        let counts = rows.filter(column("$copies").gt(lit(0_i64)))?.build()?;
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(Copies::new(counts)?) }))
    }
}

fn combined(
    op: SetOperator,
    quantifier: SetQuantifier,
    left: LogicalPlan,
    right: LogicalPlan,
    binder: &Binder<'_>,
    start: datafusion_sql::sqlparser::tokenizer::Location,
) -> Result<LogicalPlan> {
    use SetQuantifier::{All, AllByName, ByName, Distinct, DistinctByName, None};
    let plan = |plan: LogicalPlan| LogicalPlanBuilder::from(plan);
    match (op, quantifier) {
        (SetOperator::Union, All) => plan(left).union(right)?.build(),
        (SetOperator::Union, AllByName) => plan(left).union_by_name(right)?.build(),
        (SetOperator::Union, Distinct | None) => plan(left).union_distinct(right)?.build(),
        (SetOperator::Union, ByName | DistinctByName) => plan(left).union_by_name_distinct(right)?.build(),
        (SetOperator::Intersect, All) => binder.counted(left, right, false),
        (SetOperator::Except, All) => binder.counted(left, right, true),
        (SetOperator::Intersect, Distinct | None) => LogicalPlanBuilder::intersect(left, right, false),
        (SetOperator::Except, Distinct | None) => LogicalPlanBuilder::except(left, right, false),
        (op, quantifier) => {
            let error = Error::user(format!("{op} {quantifier} is not supported"));
            Err(through(error.at(at(start)).remedy("select the columns in the same order")))
        }
    }
}
