//! Aggregation by keys and event-time window, as three operators: [`CompleteAggregate`] of rows to results,
//! and its two halves, [`PartialAggregate`] of rows to states and [`FinalAggregate`] of states to results.
//!
//! State is one group table per pane ([`Panes`]), so a fired window is dropped as a whole. A batch whose rows
//! are all in one pane, the usual case, is not split. Hopping windows merge the states of their panes when
//! they fire. A pane that was merged once is kept as columns of states until its last window fires, or until
//! a straggler reopens it. Full tables go to the disk as rows of state, which are read back in slices when a
//! window fires.

pub(crate) mod exact;
mod firing;
mod function;
mod groups;
mod on_disk;
mod partial;
mod put_off;
mod sample;
mod snapshot;
pub(crate) mod succession;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use anabranch_dataflow::{AggregatePhase, AggregateSpec, JobOptions, NamedExpr, WindowAggregateSpec};
use anabranch_model::{Error, EventTime, Result};
use anabranch_state::PaneRuns;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use self::firing::Firing;
pub(crate) use self::function::AggregateFunctions;
use self::groups::{Grouped, Groups, Input};
use self::on_disk::{Sizes, states_of};
use self::partial::PartialAggregate;
use self::put_off::PutOff;
use self::snapshot::Snapshots;
use crate::event_time::{WindowTimes, all_within, event_times};
use crate::operator::RESULT_ROWS;
use crate::window_assign::window_fields;
use crate::{CompiledExpr, Dropped, Functions, Operator, Output, State, StateChange, StateShape};

/// A table that takes more than this is not kept for reuse.
const SPARE_BYTES_MAX: usize = 4 << 20;

/// Aggregates rows to results.
pub(crate) struct CompleteAggregate {
    reads: Reads,
    panes: Panes,
}

/// Merges the states of partial halves to results.
pub(crate) struct FinalAggregate {
    panes: Panes,
}

/// The expressions of the event time and the keys of rows.
struct Reads {
    time: Option<CompiledExpr>,
    keys: Vec<CompiledExpr>,
}

/// The groups of all windows that have not fired.
struct Panes {
    times: Option<WindowTimes>,
    time_type: DataType,
    key_types: Vec<DataType>,
    functions: AggregateFunctions,
    /// Schema of results.
    schema: SchemaRef,
    /// Schema of states: from partial halves, in snapshots and on the disk.
    state_schema: SchemaRef,
    snapshots: Snapshots,
    /// Panes by start; the global window is the pane at 0.
    panes: BTreeMap<i64, Pane>,
    watermark: i64,
    dropped: Dropped,
    spare: Spare,
    /// The disk for groups that do not fit into memory.
    disk: Option<PaneRuns>,
    sizes: Sizes,
    firing: Firing,
}

/// One emptied table for the next pane.
#[derive(Default)]
struct Spare(Option<Box<Groups>>);

enum Pane {
    /// Accepts rows.
    Open(OpenPane),
    /// Was merged into a window that fired; other windows still need it.
    Sealed(Grouped),
    /// All of its groups are on the disk.
    Away,
}

struct OpenPane {
    groups: Box<Groups>,
    /// The groups of rows since the last snapshot that are not in `groups`.
    changed: Option<Box<Groups>>,
    /// States that the last snapshot took out, and that are not in `groups` yet.
    put_off: PutOff,
}

/// Rows of a batch by their panes; `None` means all rows.
#[derive(Default)]
struct Split {
    panes: Vec<(i64, Option<Vec<u32>>)>,
    /// Rows whose windows have all fired.
    late: Vec<u32>,
}

impl Reads {
    fn new(spec: &WindowAggregateSpec, functions: &Functions) -> Result<Reads> {
        let compile = |expr| CompiledExpr::new(expr, &spec.input_schema, functions);
        let time = spec.time.as_ref().map(compile).transpose()?;
        if WindowTimes::new(spec.window)?.is_some() && time.is_none() {
            return Err(Error::internal("a window without event time"));
        }
        Ok(Reads { time, keys: spec.keys.iter().map(|key| compile(&key.expr)).collect::<Result<_>>()? })
    }

    /// Keys and values of a batch, and the event time of its rows.
    fn input(&mut self, batch: &RecordBatch, functions: &mut AggregateFunctions) -> Result<(Input, Option<ArrayRef>)> {
        let keys = self.keys.iter_mut().map(|k| k.evaluate(batch)).collect::<Result<_>>()?;
        let (values, filters) = functions.arguments(batch)?;
        let time = self.time.as_mut().map(|t| t.evaluate(batch)).transpose()?;
        Ok((Input { rows: batch.num_rows(), keys, grouped: values, filters: Some(filters) }, time))
    }
}

impl Spare {
    /// An empty table.
    fn take(&mut self, key_types: &[DataType], functions: &AggregateFunctions) -> Result<Box<Groups>> {
        match self.0.take() {
            Some(spare) => Ok(spare),
            None => Ok(Box::new(Groups::new(key_types.to_vec(), functions)?)),
        }
    }

    /// Keeps a table, unless it is so large that emptying it costs more than creating a new one.
    fn recycle(&mut self, mut groups: Box<Groups>) {
        if self.0.is_none() && groups.size_bytes() <= SPARE_BYTES_MAX {
            groups.clear();
            self.0 = Some(groups);
        }
    }
}

/// Panes of rows with these event times, in order of time. Rows without event time are counted and excluded.
fn split(time: &ArrayRef, times: WindowTimes, late_below: i64, dropped: &mut Dropped) -> Result<Split> {
    let values = event_times(time)?;
    if time.null_count() == 0 {
        let Some(first) = values.first() else { return Ok(Split::default()) };
        let pane = times.pane_of(*first);
        let (from, to) = (pane.max(late_below), pane.saturating_add(times.pane - 1));
        if from <= to && all_within(&values, from, to) {
            return Ok(Split { panes: vec![(pane, None)], late: Vec::new() });
        }
    }
    let (mut panes, mut late): (BTreeMap<i64, Vec<u32>>, _) = (BTreeMap::new(), Vec::new());
    for (row, value) in values.iter().enumerate() {
        if time.is_null(row) {
            dropped.rows_without_event_time += 1;
        } else if *value < late_below {
            late.push(row as u32);
        } else {
            panes.entry(times.pane_of(*value)).or_default().push(row as u32);
        }
    }
    Ok(Split { panes: panes.into_iter().map(|(pane, rows)| (pane, Some(rows))).collect(), late })
}

impl Panes {
    fn new(spec: &WindowAggregateSpec, functions: &Functions, options: &JobOptions) -> Result<Panes> {
        let times = WindowTimes::new(spec.window)?;
        let functions = AggregateFunctions::new(&spec.aggregates, &spec.input_schema, functions)?;
        let state_schema = state_schema(spec, times.is_some(), &functions);
        let keys = key_columns(times.is_some(), spec.keys.len());
        Ok(Panes {
            schema: result_schema(spec, times.is_some()),
            times,
            time_type: spec.time_type.clone(),
            key_types: spec.keys.iter().map(|k| k.data_type.clone()).collect(),
            sizes: Sizes::new(options, &functions),
            functions,
            disk: on_disk::disk(&state_schema, keys, options)?,
            state_schema,
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            panes: BTreeMap::new(),
            watermark: i64::MIN,
            dropped: Dropped::default(),
            spare: Spare::default(),
            firing: Firing::default(),
        })
    }

    /// Adds each row to its pane. Late rows are dropped.
    fn add_to_panes(&mut self, input: &Input, time: Option<&ArrayRef>) -> Result<()> {
        let (Some(time), Some(times)) = (time, self.times) else { return self.add(0, input) };
        let Split { panes, late } = split(time, times, times.late_below(self.watermark), &mut self.dropped)?;
        for (pane, rows) in panes {
            match rows {
                None => self.add(pane, input)?,
                Some(rows) => self.add(pane, &input.take(rows)?)?,
            }
        }
        self.dropped.late_rows += late.len() as u64;
        Ok(())
    }

    fn add(&mut self, pane: i64, input: &Input) -> Result<()> {
        self.snapshots.rows(input.rows);
        if !matches!(self.panes.get(&pane), Some(Pane::Open(_))) {
            self.open(pane)?;
        }
        let Some(Pane::Open(open)) = self.panes.get_mut(&pane) else {
            return Err(Error::internal("a pane did not open"));
        };
        let groups = match open.goes_beside(&self.snapshots) {
            true => match &mut open.changed {
                Some(changed) => changed,
                None => open.changed.insert(Box::new(Groups::new(self.key_types.clone(), &self.functions)?)),
            },
            false => &mut open.groups,
        };
        groups.update(input)
    }

    /// Opens a pane that is new, or was sealed.
    fn open(&mut self, pane: i64) -> Result<()> {
        self.times.map_or(Ok(()), |times| times.check(pane))?;
        let mut groups = self.spare.take(&self.key_types, &self.functions)?;
        if let Some(Pane::Sealed(sealed)) = self.panes.get(&pane) {
            groups.merge(sealed)?;
        }
        self.panes.insert(pane, Pane::Open(OpenPane { groups, changed: None, put_off: PutOff::default() }));
        Ok(())
    }

    /// Event time advances: windows that end are emitted before the watermark.
    fn reach(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        // After a restore the inputs may be behind the restored watermark.
        self.begin_firing(watermark.0.max(self.watermark));
        self.go_on_firing(out).map(|_| ())
    }
}

/// The operator of a specification, and the schema of its output.
pub(crate) fn build(
    spec: &WindowAggregateSpec,
    functions: &Functions,
    options: &JobOptions,
) -> Result<(Box<dyn Operator>, SchemaRef)> {
    if spec.phase == AggregatePhase::Partial {
        let partial = PartialAggregate::new(spec, functions, options)?;
        let schema = Arc::clone(partial.schema());
        return Ok((Box::new(partial), schema));
    }
    let panes = Panes::new(spec, functions, options)?;
    let schema = Arc::clone(&panes.schema);
    match spec.phase {
        AggregatePhase::Final => Ok((Box::new(FinalAggregate { panes }), schema)),
        _ => Ok((Box::new(CompleteAggregate { reads: Reads::new(spec, functions)?, panes }), schema)),
    }
}

fn emit_batch(batch: &RecordBatch, out: &mut Output) {
    for first in (0..batch.num_rows()).step_by(RESULT_ROWS) {
        out.batch(batch.slice(first, RESULT_ROWS.min(batch.num_rows() - first)));
    }
}

impl Pane {
    /// Number of groups, without those that are only among the changes.
    fn len(&self) -> usize {
        match self {
            Pane::Open(open) => open.groups.len(),
            Pane::Sealed(grouped) => grouped.len,
            Pane::Away => 0,
        }
    }

    /// Drops the table of changes, whose states were taken. The next snapshots need none.
    fn drop_changes_table(&mut self) {
        if let Pane::Open(open) = self {
            open.changed = None;
        }
    }

    fn size_bytes(&self) -> usize {
        match self {
            Pane::Open(open) => open.size_bytes(),
            Pane::Sealed(grouped) => grouped.size_bytes(),
            Pane::Away => 0,
        }
    }
}

impl OpenPane {
    fn size_bytes(&self) -> usize {
        let OpenPane { groups, changed, put_off } = self;
        groups.size_bytes() + changed.as_ref().map_or(0, |changed| changed.size_bytes()) + put_off.size_bytes(groups)
    }
}

const PANE_TYPE: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

/// The output of the partial half: start of the pane if there are windows, keys, states.
fn state_schema(spec: &WindowAggregateSpec, windowed: bool, functions: &AggregateFunctions) -> SchemaRef {
    let pane = windowed.then(|| Field::new("pane_start", PANE_TYPE, false));
    let keys = spec.keys.iter().map(NamedExpr::field);
    Arc::new(Schema::new(pane.into_iter().chain(keys).chain(functions.state_fields()).collect::<Vec<_>>()))
}

/// The keys among the columns of states.
fn key_columns(windowed: bool, keys: usize) -> Range<usize> {
    let first = usize::from(windowed);
    first..first + keys
}

pub(crate) fn result_schema(spec: &WindowAggregateSpec, windowed: bool) -> SchemaRef {
    let keys = spec.keys.iter().map(NamedExpr::field);
    let window = window_fields(&spec.time_type).into_iter().filter(|_| windowed);
    let aggregates = spec.aggregates.iter().map(AggregateSpec::field);
    Arc::new(Schema::new(keys.chain(window).chain(aggregates).collect::<Vec<_>>()))
}

impl Operator for CompleteAggregate {
    fn batch(&mut self, batch: RecordBatch, _out: &mut Output) -> Result<()> {
        let (input, time) = self.reads.input(&batch, &mut self.panes.functions)?;
        self.panes.add_to_panes(&input, time.as_ref())?;
        self.panes.keep_to_size(&batch)
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.panes.reach(watermark, out)
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        self.panes.go_on_firing(out)
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.panes.dropped)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(&mut self.panes)
    }
}

impl Operator for FinalAggregate {
    fn batch(&mut self, batch: RecordBatch, _out: &mut Output) -> Result<()> {
        let (input, time) = states_of(&batch, self.panes.times.is_some(), &self.panes.functions)?;
        self.panes.add_to_panes(&input, time.as_ref())?;
        self.panes.keep_to_size(&batch)
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.panes.reach(watermark, out)
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        self.panes.go_on_firing(out)
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.panes.dropped)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(&mut self.panes)
    }
}

impl State for Panes {
    fn tables(&self) -> Vec<StateShape> {
        vec![self.shape_of_state()]
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        Ok(vec![self.take_snapshot(adds)?])
    }

    fn catch_up(&mut self) -> Result<bool> {
        let behind = self.panes.values_mut().find_map(|pane| match pane {
            Pane::Open(open) if !open.put_off.is_empty() => Some(open),
            _ => None,
        });
        match behind {
            Some(open) => open.catch_up(&self.snapshots).map(|()| true),
            None => Ok(false),
        }
    }

    fn restore(&mut self, _table: usize, rows: RecordBatch) -> Result<()> {
        self.snapshots.restored(rows.num_rows());
        self.take_up(&rows)?;
        self.keep_to_size(&rows)
    }

    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.watermark = watermark.0;
        if let Some(times) = self.times {
            self.panes.retain(|pane, _| times.expiry(*pane) > watermark.0);
            self.forget_panes_away();
        }
        Ok(())
    }

    fn goes_on(&mut self) {
        // Rows that were restored to the disk are in runs of this operator. A snapshot that continued the
        // restored ones would contain these rows twice.
        if self.disk.as_ref().is_none_or(PaneRuns::is_empty) {
            self.snapshots.go_on(self.panes.values().map(Pane::len).sum());
        }
    }

    fn succeed(&mut self, former: &mut dyn State) -> Result<()> {
        self.take_over(former)
    }
}
