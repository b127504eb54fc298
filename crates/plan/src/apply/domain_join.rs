//! Joins within a subquery, for all values of its domain.

use datafusion_common::{Column, JoinType, Result};
use datafusion_expr::expr::Case;
use datafusion_expr::utils::conjunction;
use datafusion_expr::{Expr, binary_expr};

use super::domain::DomainRows;
use super::lift_join::{operator, rejoined};
use super::{DependentJoin, Interest};
use crate::rel::{Join, Rel, kept};

/// A side of a join, with its copy of the domain if it has one.
struct Side {
    plan: Rel,
    domain: Option<Vec<Column>>,
}

impl DependentJoin<'_> {
    /// Correlated sides get a copy of the domain. So does the side whose rows an outer, semi or anti join
    /// keeps, because the domain's values decide which of its rows have a match.
    pub(super) fn domain_of_join(&self, join: &Join, interest: Interest) -> Result<DomainRows> {
        use JoinType::{Full, Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
        let (mut on_left, mut on_right) = (self.is_correlated(&join.left)?, self.is_correlated(&join.right)?);
        match join.join_type {
            Inner => on_left |= !on_right,
            Left | LeftSemi | LeftAnti => on_left = true,
            Right | RightSemi | RightAnti => on_right = true,
            Full => (on_left, on_right) = (true, true),
            _ => return Err(self.unsupported()),
        }
        let chooses = matches!(join.join_type, LeftSemi | LeftAnti | RightSemi | RightAnti);
        let is_right = matches!(join.join_type, Right | RightSemi | RightAnti);
        let side = |plan: &Rel, needs_domain: bool, is_only_matched: bool| -> Result<Side> {
            if !needs_domain {
                return Ok(Side { plan: plan.clone(), domain: None });
            }
            let DomainRows { plan, domain } =
                self.domain(plan, if is_only_matched { Interest::Values } else { interest.in_filtered_input() })?;
            Ok(Side { plan, domain: Some(domain) })
        };
        let left = side(&join.left, on_left, chooses && is_right)?;
        let right = side(&join.right, on_right, chooses && !is_right)?;
        let (first, other) = if is_right { (&right.domain, &left.domain) } else { (&left.domain, &right.domain) };
        let Some(domain) = first.clone().or_else(|| other.clone()) else { return Err(self.unsupported()) };
        let (mut on, mut filters) = (Vec::new(), Vec::new());
        for (of_left, of_right) in &join.on {
            if self.reads_outer(of_left)? || self.reads_outer(of_right)? {
                let condition = binary_expr(of_left.clone(), operator(join), of_right.clone());
                filters.push(self.over_domain(condition, &domain)?);
            } else {
                on.push((of_left.clone(), of_right.clone()));
            }
        }
        if let Some(filter) = &join.filter {
            filters.push(self.over_domain(filter.clone(), &domain)?);
        }
        let both = left.domain.zip(right.domain);
        if let Some((of_left, of_right)) = &both {
            filters.extend(self.equal_domains(of_left, of_right)?);
        }
        let plan = rejoined(join, [left.plan, right.plan], (on, conjunction(filters)), join.join_type)?;
        let Some((of_left, of_right)) = both.filter(|_| !chooses) else { return Ok(DomainRows { plan, domain }) };
        // One copy of the domain stays. The columns of the other copy are NULL in rows without a match.
        let (domain, values) = match join.join_type {
            Full => {
                let values = of_left.into_iter().zip(of_right).map(|(left, right)| either(left, right));
                (self.domain_columns(), values.collect())
            }
            _ => (domain.clone(), domain.into_iter().map(Expr::Column).collect::<Vec<_>>()),
        };
        let own = join.columns.ids().into_iter().map(kept);
        let plan = plan.project(own.chain(domain.iter().cloned().zip(values)))?;
        Ok(DomainRows { plan, domain })
    }
}

/// The first column that is not NULL.
fn either(left: Column, right: Column) -> Expr {
    let left = Expr::Column(left);
    let when = vec![(Box::new(left.clone().is_not_null()), Box::new(left))];
    Expr::Case(Case::new(None, when, Some(Box::new(Expr::Column(right)))))
}
