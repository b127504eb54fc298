//! Orders inner joins. `FROM a, b, c WHERE a.x = c.x AND c.y = b.y` would pair all rows of `a` and `b`, so
//! `c` moves before `b`. Joins that have keys in the written order stay as they are.

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, JoinType, NullEquality, Result};
use datafusion_expr::Expr;
use datafusion_expr::utils::{conjunction, split_conjunction};

use crate::rel::{Join, Rel, kept};
use crate::rewrite::is_key;

pub(super) fn connect(plan: Rel) -> Result<Rel> {
    let connected = plan.walk_down(&mut |node| {
        let mut joins = Joins::default();
        match &node {
            Rel::Filter(_) | Rel::Join(_) => joins.add(&node),
            _ => return Ok(Transformed::no(node)),
        }
        if joins.tables.len() < 3 || joins.conditions.iter().any(Expr::is_volatile) || joins.has_keys() {
            return Ok(Transformed::no(node));
        }
        Ok(match joins.ordered()? {
            Some(plan) => Transformed::yes(plan),
            None => Transformed::no(node),
        })
    });
    connected.map(|plan| plan.data)
}

/// Nested inner joins.
#[derive(Default)]
struct Joins<'a> {
    tables: Vec<&'a Rel>,
    joins: Vec<&'a Join>,
    conditions: Vec<Expr>,
}

impl<'a> Joins<'a> {
    fn add(&mut self, plan: &'a Rel) {
        match plan {
            Rel::Filter(filter) if is_inner(&filter.input) => {
                self.conditions.extend(split_conjunction(&filter.predicate).into_iter().cloned());
                self.add(&filter.input);
            }
            Rel::Join(join) if is_inner(plan) => {
                self.joins.push(join);
                self.conditions.extend(join.on.iter().map(|(left, right)| left.clone().eq(right.clone())));
                let of_on = join.filter.iter().flat_map(split_conjunction);
                self.conditions.extend(of_on.cloned());
                self.add(&join.left);
                self.add(&join.right);
            }
            table => self.tables.push(table),
        }
    }

    /// Whether a condition compares a value of one side with a value of the other.
    fn compares(&self, one: &[&Rel], other: &Rel) -> bool {
        let of_one = |column: &Column| one.iter().any(|plan| plan.columns().has(column));
        let of_other = |column: &Column| other.columns().has(column);
        self.conditions.iter().any(|condition| is_key(condition, &of_one, &of_other))
    }

    /// Whether each join has a key in the written order.
    fn has_keys(&self) -> bool {
        self.joins.iter().all(|join| self.compares(&[&join.left], &join.right))
    }

    /// The joins in an order in which each has a key, as far as possible, with the conditions above them.
    /// `None`: the order is the written one.
    fn ordered(&self) -> Result<Option<Rel>> {
        let mut left = self.tables.clone();
        let mut order = vec![left.remove(0)];
        while !left.is_empty() {
            let next = left.iter().position(|table| self.compares(&order, table)).unwrap_or_default();
            order.push(left.remove(next));
        }
        let is_same = order.iter().zip(&self.tables).all(|(one, other)| std::ptr::eq(*one, *other));
        let mut tables = order.into_iter().cloned();
        let (Some(first), false) = (tables.next(), is_same) else { return Ok(None) };
        let mut plan = first;
        for table in tables {
            plan = plan.cross_join(table)?;
        }
        if let Some(conditions) = conjunction(self.conditions.iter().cloned()) {
            plan = plan.filter(conditions)?;
        }
        let columns = self.tables.iter().flat_map(|table| table.ids()).map(kept);
        plan.project(columns).map(Some)
    }
}

fn is_inner(plan: &Rel) -> bool {
    matches!(plan, Rel::Join(join) if join.join_type == JoinType::Inner
        && (join.on.is_empty() || join.null_equality == NullEquality::NullEqualsNothing))
}
