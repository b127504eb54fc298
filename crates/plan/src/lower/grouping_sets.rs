//! Lowers `GROUPING SETS`, `CUBE` and `ROLLUP`: each row is repeated for every grouping set, with NULL for
//! the keys outside of the set, and grouped by all keys and the number of the set.

use std::sync::Arc;

use anabranch_dataflow::{ExpandSpec, Expr, Grouping, NamedExpr, OperatorSpec};
use anabranch_model::{Error, Result};
use arrow::datatypes::Field;
use datafusion_expr::Expr as Logical;
use datafusion_expr::expr::GroupingSet;
use datafusion_expr::utils::grouping_set_to_exprlist;

use super::stream::{LogicalColumn, Stream};
use super::{Lowering, Needed};
use crate::place::planning_error;
use crate::rel::{Aggregate, Col, Rel, fresh};

/// Prefix of the names of keys, which distinguishes them from columns of the input.
const KEY: &str = "$key_";

impl Lowering<'_> {
    /// Lowers an aggregation with grouping sets.
    pub(super) fn grouping_sets(
        &mut self,
        aggregate: &Aggregate,
        needed: &Needed,
        mut stream: Stream,
    ) -> Result<Stream> {
        let below = aggregate.input.columns();
        let keys = grouping_set_to_exprlist(&aggregate.group_expr).map_err(planning_error)?;
        let is_window = |stream: &Stream, key: &Logical| {
            stream.plain_column(key, below).is_some_and(|index| stream.window_column(index).is_some())
        };
        let mut windows: Vec<bool> = keys.iter().map(|key| is_window(&stream, key)).collect();
        let sets = sets(aggregate)?;
        let lacks =
            |set: &Vec<Logical>| keys.iter().zip(&windows).any(|(key, is_window)| *is_window && !set.contains(*key));
        if sets.iter().any(lacks) {
            // A set without a window column makes the window columns ordinary keys.
            windows.fill(false);
        }
        if !windows.contains(&true) {
            stream.leave_window()?;
        }
        let groupings = groupings(sets, &keys, &windows);
        // The window columns stay as they are. Each other key becomes a new column, which is NULL outside of
        // its grouping sets.
        let number = aggregate.columns.field(keys.len()).as_ref().clone();
        let (mut expanded, mut group_expr, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (key, is_window)) in keys.iter().zip(&windows).enumerate() {
            if *is_window {
                group_expr.push((*key).clone());
                continue;
            }
            let name = format!("{KEY}{index}");
            ids.push(fresh(&name));
            group_expr.extend(ids.last().cloned().map(Logical::Column));
            expanded.push(stream.compared(name, key, below, "GROUP BY")?);
        }
        ids.push(fresh(number.name()));
        group_expr.extend(ids.last().cloned().map(Logical::Column));
        let fields: Vec<Field> = expanded.iter().map(NamedExpr::field).chain([number.clone()]).collect();
        for field in &fields {
            let value = Some(Expr::Column(stream.physical.len()));
            stream.physical.push(field.clone());
            stream.columns.push(LogicalColumn { value, ..LogicalColumn::absent(field) });
        }
        stream.operators.push(OperatorSpec::Expand(ExpandSpec { keys: expanded, groupings, number }));
        (stream.unique, stream.stamps) = (None, Vec::new());
        let added = ids.into_iter().zip(fields).map(|(id, field)| Col::new(id, Arc::new(field)));
        // A plan that only declares these columns.
        let input = Rel::nothing(aggregate.input.columns().with(added).map_err(planning_error)?);
        let over = Aggregate { group_expr, input: Arc::new(input), ..aggregate.clone() };
        self.aggregate_rows(&over, needed, stream)
    }
}

/// The keys of each grouping set.
fn sets(aggregate: &Aggregate) -> Result<Vec<Vec<Logical>>> {
    match aggregate.group_expr.as_slice() {
        [Logical::GroupingSet(GroupingSet::GroupingSets(sets))] => Ok(sets.clone()),
        [Logical::GroupingSet(GroupingSet::Rollup(keys))] => {
            Ok((0..=keys.len()).rev().map(|first| keys[..first].to_vec()).collect())
        }
        [Logical::GroupingSet(GroupingSet::Cube(keys))] => Ok(subsets(keys)),
        _ => Err(Error::internal("an aggregation without groupings")),
    }
}

/// The grouping sets by their keys other than window columns. The number of a set has a bit for each missing
/// key, the last key's the lowest. The bits above count equal sets.
fn groupings(sets: Vec<Vec<Logical>>, keys: &[&Logical], windows: &[bool]) -> Vec<Grouping> {
    let mut all: Vec<Grouping> = Vec::with_capacity(sets.len());
    let mut lacking: Vec<u64> = Vec::with_capacity(sets.len());
    for set in sets {
        let mut grouping = Grouping { keys: Vec::new(), number: 0 };
        let mut index = 0;
        for (key, is_window) in keys.iter().zip(windows) {
            grouping.number <<= 1;
            if !set.contains(*key) {
                grouping.number |= 1;
            } else if !is_window {
                grouping.keys.push(index);
            }
            index += usize::from(!is_window);
        }
        let equal = lacking.iter().filter(|other| **other == grouping.number).count() as u64;
        lacking.push(grouping.number);
        grouping.number |= equal << keys.len();
        all.push(grouping);
    }
    all
}

/// All subsets of the keys, the full set first. The planner bounds their number.
fn subsets(keys: &[Logical]) -> Vec<Vec<Logical>> {
    let has = |missing: usize, index: usize| missing >> (keys.len() - 1 - index) & 1 == 0;
    let subset = |missing: usize| {
        keys.iter().enumerate().filter(|(index, _)| has(missing, *index)).map(|(_, key)| key.clone()).collect()
    };
    (0..1 << keys.len()).map(subset).collect()
}
