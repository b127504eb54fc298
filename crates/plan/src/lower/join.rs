//! Joins with static tables. The static side becomes separate stages. Their rows are broadcast into the chain
//! of the other side before that side reads its first row.

use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_dataflow::{ExchangeKind, Expr, JoinKind, OperatorSpec, Port, StaticJoinSpec};
use anabranch_model::{Error, Result};
use arrow::datatypes::Field;
use datafusion_common::{JoinType, NullEquality};
use datafusion_expr::Expr as Logical;

use super::expr::convert;
use super::stream::{LogicalColumn, Stream};
use super::windowed::Windowed;
use super::{Lowering, Needed, Want, columns_of};
use crate::maps::check_comparable;
use crate::place::planning_error;
use crate::rel::{Columns, Join, Rel, joined_columns};
use crate::settings::RuntimeMode;
use crate::table::static_sides;
use crate::varying::check_repeatable;

/// A join as seen from its probe side: each probe row is joined with the build rows that match it.
pub(super) struct Sides<'a> {
    pub(super) kind: JoinKind,
    pub(super) probe: &'a Rel,
    pub(super) build: &'a Rel,
    /// Pairs of (probe, build) keys.
    pub(super) keys: Vec<(&'a Logical, &'a Logical)>,
    /// Whether the build columns come first in the output.
    pub(super) build_first: bool,
    /// Whether the output has build columns.
    pub(super) with_build: bool,
}

impl Sides<'_> {
    /// The columns of both sides that are needed for the output and for the join.
    pub(super) fn needed(&self, output: &[Needed; 2], filter: Option<&Logical>) -> Result<[Needed; 2]> {
        let indexes = [self.probe.columns(), self.build.columns()];
        let mut needed = output.clone();
        needed[0].extend(columns_of(self.keys.iter().map(|(probe, _)| *probe), indexes[0])?);
        needed[1].extend(columns_of(self.keys.iter().map(|(_, build)| *build), indexes[1])?);
        add_condition(&mut needed, filter, indexes)?;
        Ok(needed)
    }
}

/// The needed columns of a join's output, by side.
pub(super) fn needed_of_sides(needed: &Needed, left: &Rel) -> [Needed; 2] {
    let mut sides = [Needed::new(), Needed::new()];
    for index in needed {
        match index.checked_sub(left.width()) {
            Some(index) => sides[1].insert(index),
            None => sides[0].insert(*index),
        };
    }
    sides
}

/// Adds the columns that a join's condition reads.
pub(super) fn add_condition(
    needed: &mut [Needed; 2],
    condition: Option<&Logical>,
    [left, right]: [&Columns; 2],
) -> Result<()> {
    for column in condition.iter().flat_map(|condition| condition.column_refs()) {
        match left.find(column) {
            Some(index) => needed[0].insert(index),
            None => needed[1].insert(right.place(column)?),
        };
    }
    Ok(())
}

impl Lowering<'_> {
    pub(super) fn join(&mut self, join: &Join, needed: &Needed) -> Result<Stream> {
        let nulls_equal = join.null_equality == NullEquality::NullEqualsNull;
        let sides = match sides(join)? {
            Some(sides) if self.mode != RuntimeMode::Streaming && !nulls_equal => sides,
            _ => return self.stream_join(join, needed),
        };
        let first = if sides.build_first { sides.build } else { sides.probe };
        let mut output_needed = needed_of_sides(needed, first);
        if sides.build_first {
            output_needed.reverse();
        }
        let [probe_needed, build_needed] = sides.needed(&output_needed, join.filter.as_ref())?;
        let build = self.build_side(sides.build, &Want::columns(build_needed))?;
        // The build side is read to its end, so only its final rows matter.
        let build = self.final_rows(build)?;
        let probe = self.plan(sides.probe, &probe_needed)?;
        let (mut joined, spec) = fuse(join.filter.as_ref(), &sides, probe, &build, &output_needed)?;
        joined.operators.push(OperatorSpec::StaticJoin(spec));
        let port = Port::Side(joined.operators.len() - 1);
        let build = self.close(build);
        Ok(joined.fed_by(build, port, ExchangeKind::Broadcast))
    }

    /// Lowers the static side, with its needed columns only.
    pub(super) fn build_side(&mut self, plan: &Rel, want: &Want) -> Result<Stream> {
        let mut build = self.wanted(plan, want)?;
        if build.waits {
            build.assign_windows()?;
        }
        (build.window, build.stamps) = (None, Vec::new());
        // A single task reads it, because its rows go to every task.
        if let Some(label) = build.narrow() {
            self.give_up_label(&label);
        }
        build.materialize();
        Ok(build)
    }
}

/// Adds the join to the end of the probe side's chain. Returns the joined rows and the join.
pub(super) fn fuse(
    filter: Option<&Logical>,
    sides: &Sides,
    mut probe: Stream,
    build: &Stream,
    output_needed: &[Needed; 2],
) -> Result<(Stream, StaticJoinSpec)> {
    // Windows are assigned first, because that moves the physical columns.
    let read: Vec<&Logical> = sides.keys.iter().map(|(probe_key, _)| *probe_key).chain(filter).collect();
    let probe_index = sides.probe.columns();
    let build_index = sides.build.columns();
    probe.assign_windows_for(&read, probe_index)?;
    let mut probe_keys = Vec::new();
    let mut build_keys = Vec::new();
    for (probe_key, build_key) in &sides.keys {
        check_comparable(probe_key, probe_index, "the join")?;
        probe_keys.push(probe.expr(probe_key, probe_index)?);
        build_keys.push(build_value(build_key, build_index, build)?);
    }
    let filter = match filter {
        Some(filter) => Some(join_filter(filter, sides, &probe, build)?),
        None => None,
    };
    let offset = probe.physical.len();
    let mut probe_columns = keep_values(&probe.columns, &output_needed[0]);
    let mut build_columns = keep_values(&build.columns, &output_needed[1]);
    for column in &mut build_columns {
        column.value = column.value.as_ref().map(|value| value.with_columns_at(&|index| index + offset));
        column.window = None;
        column.nullable |= sides.kind == JoinKind::Left;
    }
    let output = keep_read_columns(&mut probe_columns, &mut build_columns, &mut probe.window, &mut probe.weight);
    let (probe_schema, build_schema) = (probe.physical_schema(), build.physical_schema());
    let fields: Vec<Field> = output
        .iter()
        .map(|index| match index.checked_sub(offset) {
            None => probe.physical[*index].clone(),
            Some(index) if sides.kind == JoinKind::Left => build.physical[index].clone().with_nullable(true),
            Some(index) => build.physical[index].clone(),
        })
        .collect();
    let spec = StaticJoinSpec { kind: sides.kind, probe_keys, build_keys, filter, probe_schema, build_schema, output };
    // A row may have several matches.
    (probe.unique, probe.stamps) = (None, Vec::new());
    let first = if sides.build_first { build_columns.len() } else { 0 };
    probe.times = std::mem::take(&mut probe.times).into_iter().map(|(column, ms)| (column + first, ms)).collect();
    probe.physical = fields;
    probe.columns = match (sides.with_build, sides.build_first) {
        (false, _) => probe_columns,
        (true, false) => probe_columns.into_iter().chain(build_columns).collect(),
        (true, true) => build_columns.into_iter().chain(probe_columns).collect(),
    };
    Ok((probe, spec))
}

/// Chooses the static side that is read first and kept in memory. Of two static sides it is the right one,
/// unless the join keeps the rows of the right side. `None`: the join is lowered as one of two streams.
fn sides(join: &Join) -> Result<Option<Sides<'_>>> {
    let (left, right) = (join.left.as_ref(), join.right.as_ref());
    let (left_static, right_static) = static_sides(left, right);
    let build_right = right_static;
    if !left_static && !right_static {
        return Ok(None);
    }
    let (kind, swapped) = match join.join_type {
        JoinType::Inner => (JoinKind::Inner, !build_right),
        JoinType::Left if build_right => (JoinKind::Left, false),
        JoinType::Right if left_static => (JoinKind::Left, true),
        JoinType::LeftSemi if build_right => (JoinKind::LeftSemi, false),
        JoinType::RightSemi if left_static => (JoinKind::LeftSemi, true),
        JoinType::LeftAnti if build_right => (JoinKind::LeftAnti, false),
        JoinType::RightAnti if left_static => (JoinKind::LeftAnti, true),
        _ => return Ok(None),
    };
    let with_build = kind.gives_pairs();
    Ok(Some(Sides {
        kind,
        probe: if swapped { right } else { left },
        build: if swapped { left } else { right },
        keys: join.on.iter().map(|(l, r)| if swapped { (r, l) } else { (l, r) }).collect(),
        build_first: swapped && with_build,
        with_build,
    }))
}

pub(super) fn both(left: &Rel, right: &Rel) -> Result<Arc<Columns>> {
    joined_columns(left.columns(), right.columns(), JoinType::Inner).map_err(planning_error)
}

/// The join's condition over the probe columns followed by the build columns.
fn join_filter(filter: &Logical, sides: &Sides, probe: &Stream, build: &Stream) -> Result<Expr> {
    if probe.weight.is_some() {
        check_repeatable(filter)?;
    }
    let columns = both(sides.probe, sides.build)?;
    let probe_len = sides.probe.width();
    let offset = probe.physical.len();
    let missing = || Error::internal("a column of a join's condition was not needed");
    convert(filter, &columns, &|index| match index.checked_sub(probe_len) {
        None => probe.columns[index].value.clone().ok_or_else(missing),
        Some(index) => match build.columns[index].value {
            Some(Expr::Column(physical)) => Ok(Expr::Column(physical + offset)),
            _ => Err(missing()),
        },
    })
}

/// The indexes of the physical columns that the values read. The values are changed to the columns' positions
/// in this list.
pub(super) fn keep_read_columns(
    probe_columns: &mut [LogicalColumn],
    build_columns: &mut [LogicalColumn],
    window: &mut Option<Windowed>,
    weight: &mut Option<usize>,
) -> Vec<usize> {
    let mut output: BTreeSet<usize> = weight.iter().copied().collect();
    let values = probe_columns.iter().chain(&*build_columns).filter_map(|c| c.value.as_ref());
    for value in values.chain(window.as_ref().map(|w| &w.time)) {
        value.for_each_column(&mut |index| {
            output.insert(index);
        });
    }
    let output: Vec<usize> = output.into_iter().collect();
    let position = |index: usize| output.binary_search(&index).unwrap_or_default();
    for column in probe_columns.iter_mut().chain(build_columns) {
        column.value = column.value.as_ref().map(|value| value.with_columns_at(&position));
    }
    if let Some(window) = window {
        window.time = window.time.with_columns_at(&position);
    }
    *weight = weight.map(position);
    output
}

/// The columns, with values only where they are needed.
pub(super) fn keep_values(columns: &[LogicalColumn], needed: &Needed) -> Vec<LogicalColumn> {
    let mut columns = columns.to_vec();
    for (index, column) in columns.iter_mut().enumerate() {
        if !needed.contains(&index) {
            column.value = None;
        }
    }
    columns
}

/// A key over the rows of the static side.
fn build_value(key: &Logical, schema: &Columns, build: &Stream) -> Result<Expr> {
    convert(key, schema, &|index| {
        build.columns[index].value.clone().ok_or_else(|| Error::internal("a key of a join was not needed"))
    })
}
