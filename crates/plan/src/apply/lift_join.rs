//! Moves conditions out of joins.

use std::sync::Arc;

use datafusion_common::{JoinType, NullEquality, Result};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, Operator, binary_expr};

use super::exprs::{substitute, uses};
use super::lift::{Lifted, Substitutions};
use super::{DependentJoin, Interest};
use crate::rel::{Join, Rel, joined_columns};
use crate::varying::varies;

/// The operator that compares the keys of a join.
pub(super) fn operator(join: &Join) -> Operator {
    match join.null_equality {
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
        NullEquality::NullEqualsNothing => Operator::Eq,
    }
}

/// The keys and the condition of a join.
pub(super) fn conditions_of(join: &Join) -> impl Iterator<Item = &Expr> {
    join.on.iter().flat_map(|(left, right)| [left, right]).chain(&join.filter)
}

pub(super) fn rejoined(
    join: &Join,
    inputs: [Rel; 2],
    (on, filter): (Vec<(Expr, Expr)>, Option<Expr>),
    kind: JoinType,
) -> Result<Rel> {
    let [left, right] = inputs.map(Arc::new);
    let columns = joined_columns(left.columns(), right.columns(), kind)?;
    Ok(Rel::Join(Join { left, right, on, filter, join_type: kind, null_equality: join.null_equality, columns }))
}

impl DependentJoin<'_> {
    pub(super) fn lift_join(&self, join: &Join, interest: Interest) -> Result<Option<Lifted>> {
        use JoinType::{Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
        match join.join_type {
            Inner => self.lift_both(join, interest),
            LeftSemi | Left | LeftAnti => match self.lift_side(join, interest, [&join.left, &join.right])? {
                // Without duplicates, one match is as good as several.
                None if interest >= Interest::Values && join.join_type == LeftSemi => self.lift_both(join, interest),
                lifted => Ok(lifted),
            },
            Right | RightSemi | RightAnti => self.lift_side(join, interest, [&join.right, &join.left]),
            _ => Ok(None),
        }
    }

    /// A join that filters or extends the rows of one side. Only this side reads outer columns.
    fn lift_side(&self, join: &Join, interest: Interest, [side, other]: [&Rel; 2]) -> Result<Option<Lifted>> {
        if self.is_correlated(other)? {
            return Ok(None);
        }
        for condition in conditions_of(join) {
            if self.reads_outer(condition)? {
                return Ok(None);
            }
        }
        let Some(mut below) = self.lift(side, interest.in_filtered_input())? else { return Ok(None) };
        if below.empty.is_some() || conditions_of(join).any(|condition| uses(condition, &below.deferred)) {
            return Ok(None);
        }
        let inputs = match join.join_type {
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => [other.clone(), below.plan],
            _ => [below.plan, other.clone()],
        };
        below.plan = rejoined(join, inputs, (join.on.clone(), join.filter.clone()), join.join_type)?;
        Ok(Some(below))
    }

    /// An inner join, or a semi join whose result may have duplicates.
    fn lift_both(&self, join: &Join, interest: Interest) -> Result<Option<Lifted>> {
        let interest = interest.in_filtered_input();
        let Some(mut left) = self.lift(&join.left, interest)? else { return Ok(None) };
        let Some(right) = self.lift(&join.right, interest)? else { return Ok(None) };
        if left.empty.is_some() || right.empty.is_some() {
            return Ok(None);
        }
        let values: Substitutions = left.deferred.iter().chain(&right.deferred).cloned().collect();
        let (mut on, mut filters, mut moved) = (Vec::new(), Vec::new(), Vec::new());
        for (of_left, of_right) in &join.on {
            let pair = (substitute(of_left.clone(), &values)?, substitute(of_right.clone(), &values)?);
            if self.reads_outer(&pair.0)? || self.reads_outer(&pair.1)? {
                moved.push(binary_expr(pair.0, operator(join), pair.1));
            } else {
                on.push(pair);
            }
        }
        for part in join.filter.clone().into_iter().flat_map(split_conjunction_owned) {
            let part = substitute(part, &values)?;
            if self.reads_outer(&part)? { moved.push(part) } else { filters.push(part) }
        }
        if moved.iter().any(varies) {
            return Ok(None);
        }
        left.conditions.extend(right.conditions.into_iter().chain(moved));
        left.plan = rejoined(join, [left.plan, right.plan], (on, conjunction(filters)), JoinType::Inner)?;
        if join.join_type == JoinType::Inner {
            left.deferred.extend(right.deferred);
        }
        Ok(Some(left))
    }
}
