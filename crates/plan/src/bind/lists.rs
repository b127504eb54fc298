//! Binds `IN` and `NOT IN`. With NULL on either side the result may be NULL.

use datafusion_common::{JoinType, Result, ScalarValue, internal_err};
use datafusion_expr::utils::disjunction;
use datafusion_expr::{Expr, ExprSchemable, lit, when};

use super::Binder;
use super::subquery::{
    AggregateColumn, EXISTS, IS_NULL, LISTED, ROWS, columns_of, distinct_values, is_positive, outer_of, reads_outer,
};
use crate::rel::{Rel, computed};

impl Binder<'_> {
    /// The rows whose values are not in a list. A row does not pass if a NULL makes its comparison with an
    /// element unknown.
    pub(super) fn without_listed(&self, plan: Rel, left: Vec<Expr>, rows: Rel) -> Result<Rel> {
        let rows = self.listed(rows)?;
        let own = columns_of(&rows);
        let mut may_be_null = false;
        for (left, own) in left.iter().zip(&own) {
            may_be_null |= left.nullable(plan.columns())? || own.nullable(rows.columns())?;
        }
        if left.len() > 1 {
            let on = left.into_iter().zip(own).map(|(left, own)| {
                let equal = own.clone().eq(left.clone());
                if may_be_null { equal.or(own.is_null()).or(left.is_null()) } else { equal }
            });
            return self.apply(plan, rows, JoinType::LeftAnti, on.collect());
        }
        let (Some(left), Some(own)) = (left.into_iter().next(), own.into_iter().next()) else {
            return internal_err!("IN has a left side");
        };
        let others = self.apply(plan, rows.clone(), JoinType::LeftAnti, vec![own.clone().eq(left.clone())])?;
        if !may_be_null {
            return Ok(others);
        }
        // An uncorrelated list needs at most two rows here.
        let correlated = reads_outer(&rows);
        let nulls = rows.project([computed(IS_NULL, own.is_null())])?;
        let nulls = if correlated { nulls } else { nulls.distinct() }.instance()?;
        let is_null = columns_of(&nulls).swap_remove(0);
        self.apply(others, nulls, JoinType::LeftAnti, vec![is_null.or(left.is_null())])
    }

    /// Gives the columns of a list new identities.
    pub(super) fn listed(&self, rows: Rel) -> Result<Rel> {
        let columns = columns_of(&rows).into_iter().enumerate();
        rows.project(columns.map(|(index, column)| computed(&format!("{LISTED}_{index}"), column)))
    }

    /// Whether a value is in an uncorrelated list. The result is NULL if the value or an element is NULL and
    /// no element is equal.
    pub(super) fn in_list(&self, plan: Rel, value: Expr, list: Rel) -> Result<(Rel, Expr)> {
        let listed = columns_of(&list).swap_remove(0);
        let nullable = value.nullable(plan.columns())? || listed.nullable(list.columns())?;
        let rows = list.clone().aggregate([listed.clone()], [])?;
        let (of_list, there) = (computed(LISTED, listed), computed(EXISTS, lit(true)));
        let (matches, is_there) = (Expr::Column(of_list.0.clone()), Expr::Column(there.0.clone()));
        let rows = rows.project([of_list, there])?;
        let joined = self.apply(plan, rows, JoinType::Left, vec![value.clone().eq(matches)])?;
        let there = is_there.is_not_null();
        if !nullable {
            return Ok((joined, there));
        }
        let [all, known] = ROWS;
        let list = list.instance()?;
        let listed = columns_of(&list).swap_remove(0);
        let (counts, [all, known]) =
            self.aggregated(list, [AggregateColumn::count(all, lit(1_i64)), AggregateColumn::count(known, listed)])?;
        let counts = distinct_values(counts, vec![(EXISTS, is_positive(all.clone())), (IS_NULL, known.lt(all))])?;
        let has_null = columns_of(&counts).swap_remove(1);
        let (joined, any) = self.join_row(joined, counts)?;
        let unknown = any.is_true().and(value.is_null().or(has_null));
        let unknown = when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))?;
        Ok((joined, when(there, lit(true)).otherwise(unknown)?))
    }

    /// [`Binder::in_list`] of a correlated list.
    pub(super) fn in_list_of_row(&self, plan: Rel, value: Expr, list: Rel) -> Result<(Rel, Expr)> {
        let list = self.listed(list)?;
        let listed = columns_of(&list).swap_remove(0);
        let (list_nullable, value_nullable) = (listed.nullable(list.columns())?, value.nullable(plan.columns())?);
        let is = outer_of(listed.clone().eq(value.clone()), &plan)?;
        let equal = list.clone().filter(is)?;
        let (mut plan, there) = self.exists(plan, equal)?;
        let mut unknown = Vec::new();
        if value_nullable {
            let some;
            (plan, some) = self.exists(plan, list.clone().instance()?)?;
            unknown.push(value.is_null().and(some));
        }
        if list_nullable {
            let nulls = list.filter(listed.is_null())?.instance()?;
            let some;
            (plan, some) = self.exists(plan, nulls)?;
            unknown.push(some);
        }
        let value = match disjunction(unknown) {
            Some(unknown) => {
                when(there, lit(true)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))?
            }
            None => there,
        };
        Ok((plan, value))
    }
}
