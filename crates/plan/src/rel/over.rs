//! Window functions with several partitions and orders: a chain of operators, one for each.

use std::cmp::Ordering;

use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, internal_err};
use datafusion_expr::Expr;
use datafusion_expr::expr::Sort as SortKey;

use super::{Columns, Output, Rel};
use crate::walk::Walk;

/// The partition keys and the order, and for each whether it is a partition key.
type Order = Vec<(SortKey, bool)>;

impl Rel {
    /// Adds the values of window functions. Those that read earlier columns are computed first. If one order
    /// is the beginning of another, the longer one is first.
    pub(crate) fn over_all(self, calls: Vec<Output>) -> Result<Rel> {
        let mut groups: Vec<(Order, Vec<Output>)> = Vec::new();
        for call in calls {
            let order = order_of(&call.1)?;
            match groups.iter_mut().find(|(known, _)| *known == order) {
                Some((_, calls)) => calls.push(call),
                None => groups.push((order, vec![call])),
            }
        }
        groups.sort_by(|(one, _), (other, _)| compare(one, other, self.columns()));
        groups.into_iter().try_fold(self, |rows, (_, calls)| rows.over(calls))
    }
}

fn order_of(call: &Expr) -> Result<Order> {
    let Expr::WindowFunction(call) = call else { return internal_err!("{call} is no function over rows") };
    let mut order: Order = Vec::new();
    for key in &call.params.partition_by {
        let ordered = call.params.order_by.iter().find(|by| by.expr == *key);
        let key = ordered.cloned().unwrap_or_else(|| key.clone().sort(true, false));
        if !order.iter().any(|(of, _)| *of == key) {
            order.push((key, true));
        }
    }
    for key in &call.params.order_by {
        if !order.iter().any(|(of, _)| of == key) {
            order.push((key.clone(), false));
        }
    }
    Ok(order)
}

fn compare(one: &Order, other: &Order, columns: &Columns) -> Ordering {
    let keys = one.iter().zip(other).map(|((one, _), (other, _))| compare_keys(one, other, columns));
    keys.fold(Ordering::Equal, Ordering::then).then(other.len().cmp(&one.len()))
}

/// Compares the positions of the columns that the keys read, and then the directions.
fn compare_keys(one: &SortKey, other: &SortKey, columns: &Columns) -> Ordering {
    let (read_by_one, read_by_other) = (places(&one.expr, columns), places(&other.expr, columns));
    let by_place = read_by_one.iter().zip(&read_by_other).map(|(one, other)| one.cmp(other));
    let by_place = by_place.fold(Ordering::Equal, Ordering::then);
    by_place
        .then(read_by_other.len().cmp(&read_by_one.len()))
        .then(one.asc.cmp(&other.asc))
        .then(other.nulls_first.cmp(&one.nulls_first))
}

/// The positions of the columns that an expression reads. A constant is after all columns.
fn places(expr: &Expr, columns: &Columns) -> Vec<usize> {
    let mut places = Vec::new();
    // A walk that only reads does not fail.
    let _ = expr.see(&mut |expr| {
        match expr {
            Expr::Column(column) => places.extend(columns.find(column)),
            Expr::Literal(..) => places.push(usize::MAX),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    places
}
