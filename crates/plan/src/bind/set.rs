//! UNION, INTERSECT and EXCEPT.

use anabranch_model::Error;
use datafusion_common::{JoinType, Result, ScalarValue, not_impl_err};
use datafusion_expr::{Expr, lit, when};
use datafusion_sql::sqlparser::ast::{SetExpr, SetOperator, SetQuantifier, Spanned};

use super::subquery::columns_of;
use super::{Binder, Env};
use crate::copies::Copies;
use crate::place::{at, through};
use crate::rel::{Output, Rel, computed, kept, name_of};

/// Columns with the number of occurrences of a row on the left and on the right.
const SIDES: [&str; 2] = ["$left", "$right"];

impl Binder<'_> {
    /// Binds a query without ORDER BY and LIMIT.
    pub(super) fn body(&self, body: SetExpr, env: &Env<'_>) -> Result<Rel> {
        match body {
            SetExpr::Select(select) => self.select(*select, None, env),
            SetExpr::Query(query) => self.query(*query, env),
            SetExpr::Values(values) => self.values(values, env),
            SetExpr::SetOperation { .. } => self.operation(body, env),
            other => not_impl_err!("the query {other}"),
        }
    }

    /// A chain of UNION ALL is a tree as deep as the chain is long, so a loop descends it.
    fn operation(&self, body: SetExpr, env: &Env<'_>) -> Result<Rel> {
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
            let widths = [&plan, &right].map(|side| side.width());
            if widths[0] != widths[1] && !by_name {
                let all = if quantifier == SetQuantifier::All { " ALL" } else { "" };
                let error = Error::user(format!("the sides of {op}{all} have {} and {} columns", widths[0], widths[1]));
                return Err(through(error.at(at(start)).remedy("select the same columns on both sides")));
            }
            plan = combined(op, quantifier, plan, right, self, start)?;
        }
        Ok(plan)
    }

    /// INTERSECT ALL and EXCEPT ALL: counts each row on both sides, and repeats it by the resulting count.
    fn counted(&self, left: Rel, right: Rel, excepted: bool) -> Result<Rel> {
        let names = left.ids();
        let side = |plan: Rel, counts: [i64; 2]| {
            let columns = plan.ids().into_iter().enumerate();
            let columns = columns.map(|(index, id)| computed(&format!("${index}"), Expr::Column(id)));
            let counts = SIDES.iter().zip(counts).map(|(name, count)| computed(name, lit(count)));
            plan.project(columns.chain(counts).collect::<Vec<_>>())
        };
        let rows = Rel::union(vec![side(left, [1, 0])?.into(), side(right, [0, 1])?.into()])?;
        let mut keys = columns_of(&rows);
        let counts = keys.split_off(names.len());
        let Some(sum) = self.functions().aggregate("sum") else { return not_impl_err!("there is no SUM") };
        let sums = SIDES.iter().zip(counts).map(|(name, count)| computed(name, sum.call(vec![count])));
        let sums: Vec<Output> = sums.collect();
        let [on_left, on_right] = [0, 1].map(|side| Expr::Column(sums[side].0.clone()));
        let rows = rows.aggregate(keys.clone(), sums)?;
        let copies = match excepted {
            true => on_left - on_right,
            false => when(on_left.clone().lt(on_right.clone()), on_left).otherwise(on_right)?,
        };
        let (copies, number) = computed("$copies", copies);
        let named = names.iter().zip(keys).map(|(name, key)| computed(name_of(name), key));
        let rows = rows.project(named.chain([(copies.clone(), number)]))?;
        let counts = rows.filter(Expr::Column(copies).gt(lit(0_i64)))?;
        Ok(Rel::Copies(Copies::new(counts)))
    }
}

fn combined(
    op: SetOperator,
    quantifier: SetQuantifier,
    left: Rel,
    right: Rel,
    binder: &Binder<'_>,
    start: datafusion_sql::sqlparser::tokenizer::Location,
) -> Result<Rel> {
    use SetQuantifier::{All, AllByName, ByName, Distinct, DistinctByName, None};
    match (op, quantifier) {
        (SetOperator::Union, All) => united(left, right),
        (SetOperator::Union, AllByName) => united_by_name(left, right),
        (SetOperator::Union, Distinct | None) => united(left, right).map(Rel::distinct),
        (SetOperator::Union, ByName | DistinctByName) => united_by_name(left, right).map(Rel::distinct),
        (SetOperator::Intersect, All) => binder.counted(left, right, false),
        (SetOperator::Except, All) => binder.counted(left, right, true),
        (SetOperator::Intersect, Distinct | None) => left.matched(right, JoinType::LeftSemi),
        (SetOperator::Except, Distinct | None) => left.matched(right, JoinType::LeftAnti),
        (op, quantifier) => {
            let error = Error::user(format!("{op} {quantifier} is not supported"));
            Err(through(error.at(at(start)).remedy("select the columns in the same order")))
        }
    }
}

fn united(left: Rel, right: Rel) -> Result<Rel> {
    Rel::union(vec![left.into(), right.into()])
}

/// Columns of the same name become one column. It is NULL for a side without it.
fn united_by_name(left: Rel, right: Rel) -> Result<Rel> {
    let mut names: Vec<String> = Vec::new();
    for field in left.columns().fields().iter().chain(right.columns().fields()) {
        if !names.contains(field.name()) {
            names.push(field.name().clone());
        }
    }
    let side = |plan: Rel| {
        let index_of = |name: &String| plan.columns().fields().iter().position(|field| field.name() == name);
        let column = |name: &String| match index_of(name) {
            Some(index) => kept(plan.columns().id(index)),
            None => computed(name, lit(ScalarValue::Null)),
        };
        let columns: Vec<Output> = names.iter().map(column).collect();
        plan.project(columns)
    };
    united(side(left)?, side(right)?)
}
