//! Aggregation by keys and event-time window, whole or as one half of two phases.
//!
//! State is one group table per pane, so a fired window is dropped as a whole. A batch whose rows are all in one pane,
//! the usual case, is not split. Hopping windows merge the states of their panes when they fire. A pane that was merged
//! once is kept as columns of states until its last window fires, or until a straggler reopens it. Full tables are
//! given to the state backend, whose contents are read back in slices when a window fires.

mod backed;
pub(crate) mod exact;
mod firing;
mod former;
mod function;
mod groups;
mod partial;
mod put_off;
mod sample;
mod snapshot;
pub(crate) mod succession;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{AggregatePhase, JobOptions, WindowAggregateSpec};
use anabranch_model::{Error, EventTime, Result};
use anabranch_state::StateBackend;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use self::backed::{Sizes, states_of};
use self::firing::Firing;
pub(crate) use self::function::AggregateFunctions;
use self::groups::{Grouped, Groups, Input};
use self::partial::PassOn;
use self::put_off::PutOff;
use self::snapshot::Snapshots;
use crate::event_time::{WindowTimes, all_within, event_times};
use crate::operator::RESULT_ROWS;
use crate::window_assign::window_fields;
use crate::{CompiledExpr, Dropped, Functions, Operator, Output, State, StateChange, StateShape};

/// A table that takes more than this is not kept for reuse.
const SPARE_BYTES_MAX: usize = 4 << 20;

pub(crate) struct WindowAggregate {
    phase: AggregatePhase,
    times: Option<WindowTimes>,
    time: Option<CompiledExpr>,
    time_type: DataType,
    keys: Vec<CompiledExpr>,
    key_types: Vec<DataType>,
    functions: AggregateFunctions,
    schema: SchemaRef,
    /// Schema of states in transit: the output of the partial half, and the contents of snapshots.
    state_schema: SchemaRef,
    snapshots: Snapshots,
    /// Panes by start; the global window is the pane at 0.
    panes: BTreeMap<i64, Pane>,
    watermark: i64,
    /// The event time that the receivers of the partial half's states may have reached.
    ahead: i64,
    dropped: Dropped,
    spare: Option<Groups>,
    pass_on: PassOn,
    /// Number of groups at which the partial half emits all of them.
    partial_groups_max: usize,
    backend: Box<dyn StateBackend>,
    sizes: Sizes,
    firing: Firing,
}

enum Pane {
    /// Accepts rows.
    Open(OpenPane),
    /// Was merged into a window that fired; other windows still need it.
    Sealed(Grouped),
    /// Nothing of it is in memory: the backend has it.
    Away,
}

struct OpenPane {
    groups: Box<Groups>,
    /// Rows since the last snapshot that are not in `groups`.
    changed: Option<Box<Groups>>,
    /// States that the last snapshot has, and that are not in `groups` yet.
    put_off: PutOff,
}

/// Rows of a batch by their panes; `None` means all rows.
#[derive(Default)]
struct Split {
    panes: Vec<(i64, Option<Vec<u32>>)>,
    /// Rows whose windows have all fired.
    late: Vec<u32>,
}

impl WindowAggregate {
    pub(crate) fn new(spec: &WindowAggregateSpec, functions: &Functions, options: &JobOptions) -> Result<Self> {
        let input = &spec.input_schema;
        let times = WindowTimes::new(spec.window)?;
        let keys = match spec.phase {
            AggregatePhase::Final => Vec::new(),
            _ => spec.keys.iter().map(|k| CompiledExpr::new(&k.expr, input, functions)).collect::<Result<_>>()?,
        };
        let time = match (spec.phase, &spec.time) {
            (AggregatePhase::Final, _) | (_, None) => None,
            (_, Some(time)) => Some(CompiledExpr::new(time, input, functions)?),
        };
        if times.is_some() && time.is_none() && spec.phase != AggregatePhase::Final {
            return Err(Error::internal("a window without event time"));
        }
        let functions = AggregateFunctions::new(&spec.aggregates, input, functions)?;
        let state_schema = state_schema(spec, times.is_some(), &functions);
        let sizes = Sizes::new(options, &functions);
        let backend = backed::backend(spec.phase, &state_schema, options)?;
        let schema = match spec.phase {
            AggregatePhase::Partial => Arc::clone(&state_schema),
            _ => result_schema(spec, times.is_some()),
        };
        Ok(WindowAggregate {
            phase: spec.phase,
            times,
            time,
            time_type: spec.time_type.clone(),
            keys,
            key_types: spec.keys.iter().map(|k| k.data_type.clone()).collect(),
            functions,
            schema,
            state_schema,
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            panes: BTreeMap::new(),
            watermark: i64::MIN,
            ahead: i64::MIN,
            dropped: Dropped::default(),
            spare: None,
            pass_on: PassOn::default(),
            partial_groups_max: options.thresholds.partial_groups,
            backend,
            sizes,
            firing: Firing::default(),
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Keys and values of a batch, and the event time of its rows or the start of its panes.
    fn input(&mut self, batch: &RecordBatch) -> Result<(Input, Option<ArrayRef>)> {
        if self.phase == AggregatePhase::Final {
            return states_of(batch, self.times.is_some(), &self.functions);
        }
        let keys = self.keys.iter_mut().map(|k| k.evaluate(batch)).collect::<Result<_>>()?;
        let (values, filters) = self.functions.arguments(batch)?;
        let time = self.time.as_mut().map(|t| t.evaluate(batch)).transpose()?;
        Ok((Input { rows: batch.num_rows(), keys, grouped: values, filters: Some(filters) }, time))
    }

    /// Panes of the rows, in order of time. Rows without event time are counted and excluded.
    fn split(&mut self, time: &ArrayRef, times: WindowTimes) -> Result<Split> {
        let values = event_times(time)?;
        let late_below = times.late_below(self.watermark.max(self.ahead));
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
                self.dropped.rows_without_event_time += 1;
            } else if *value < late_below {
                late.push(row as u32);
            } else {
                panes.entry(times.pane_of(*value)).or_default().push(row as u32);
            }
        }
        Ok(Split { panes: panes.into_iter().map(|(pane, rows)| (pane, Some(rows))).collect(), late })
    }

    /// Adds each row to its pane. Late rows are dropped; the partial half leaves that to the final half.
    fn add_to_panes(&mut self, input: &Input, time: Option<&ArrayRef>, out: Option<&mut Output>) -> Result<()> {
        let (Some(time), Some(times)) = (time, self.times) else { return self.add(0, input) };
        let Split { panes, late } = self.split(time, times)?;
        for (pane, rows) in panes {
            match rows {
                None => self.add(pane, input)?,
                Some(rows) => self.add(pane, &input.take(rows)?)?,
            }
        }
        match out.filter(|_| self.phase == AggregatePhase::Partial && !late.is_empty()) {
            Some(out) => self.pass_late_on(late, input, time, out)?,
            None => self.dropped.late_rows += late.len() as u64,
        }
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
        let before = groups.len();
        groups.update(input)?;
        self.pass_on.groups += (groups.len() - before) as u64;
        Ok(())
    }

    /// Opens a pane that is new, or was sealed.
    fn open(&mut self, pane: i64) -> Result<()> {
        self.times.map_or(Ok(()), |times| times.check(pane))?;
        let mut groups = match self.spare.take() {
            Some(spare) => Box::new(spare),
            None => Box::new(Groups::new(self.key_types.clone(), &self.functions)?),
        };
        if let Some(Pane::Sealed(sealed)) = self.panes.get(&pane) {
            groups.merge(sealed)?;
        }
        self.panes.insert(pane, Pane::Open(OpenPane { groups, changed: None, put_off: PutOff::default() }));
        Ok(())
    }

    /// Keeps one emptied table for the next pane, unless it is so large that emptying it costs more than creating a new
    /// one.
    fn recycle(&mut self, mut groups: Groups) {
        if self.spare.is_none() && groups.size_bytes() <= SPARE_BYTES_MAX {
            groups.clear();
            self.spare = Some(groups);
        }
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

    /// The changes were taken, and there will be none for a while.
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
        groups.size_bytes() + changed.as_ref().map_or(0, |of| of.size_bytes()) + put_off.size_bytes(groups)
    }
}

const PANE_TYPE: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

/// The output of the partial half: start of the pane if there are windows, keys, states.
fn state_schema(spec: &WindowAggregateSpec, windowed: bool, functions: &AggregateFunctions) -> SchemaRef {
    let pane = windowed.then(|| Field::new("pane_start", PANE_TYPE, false));
    let keys = spec.keys.iter().map(|k| Field::new(&k.name, k.data_type.clone(), k.nullable));
    Arc::new(Schema::new(pane.into_iter().chain(keys).chain(functions.state_fields()).collect::<Vec<_>>()))
}

pub(crate) fn result_schema(spec: &WindowAggregateSpec, windowed: bool) -> SchemaRef {
    let keys = spec.keys.iter().map(|k| Field::new(&k.name, k.data_type.clone(), k.nullable));
    let window = window_fields(&spec.time_type).into_iter().filter(|_| windowed);
    let aggregates = spec.aggregates.iter().map(|a| Field::new(&a.name, a.data_type.clone(), a.nullable));
    Arc::new(Schema::new(keys.chain(window).chain(aggregates).collect::<Vec<_>>()))
}

impl Operator for WindowAggregate {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let rows = batch.num_rows();
        let (input, time) = self.input(&batch)?;
        let all_timed = time.as_ref().is_none_or(|t| t.null_count() == 0);
        if self.phase == AggregatePhase::Partial && self.pass_on.rows_left > 0 && all_timed {
            return self.pass_rows_on(input, time.as_ref(), out);
        }
        self.pass_on.rows += rows as u64;
        self.add_to_panes(&input, time.as_ref(), Some(out))?;
        match self.phase {
            AggregatePhase::Partial => self.after_partial(out),
            _ => self.keep_to_size(&batch),
        }
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        // After a restore the inputs may be behind the restored watermark.
        let watermark = EventTime(watermark.0.max(self.watermark));
        match (self.phase, self.times) {
            (AggregatePhase::Partial, _) if watermark == EventTime::MAX => self.give_out(i64::MAX, out)?,
            (AggregatePhase::Partial, Some(times)) => {
                // The last instant of a pane is `start + pane - 1`: panes that start before this are closed.
                self.give_out(watermark.0.saturating_add(2).saturating_sub(times.pane), out)?;
            }
            (AggregatePhase::Partial, None) => {}
            _ => {
                self.begin_firing(watermark.0);
                return self.more(out).map(|_| ());
            }
        }
        self.watermark = watermark.0;
        out.watermark(watermark);
        Ok(())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        self.go_on_firing(out)
    }

    fn flush(&mut self, out: &mut Output) -> Result<()> {
        match self.phase {
            AggregatePhase::Partial => self.give_out(i64::MAX, out),
            _ => Ok(()),
        }
    }

    fn event_time_ahead(&mut self, time: EventTime) {
        if self.phase == AggregatePhase::Partial {
            self.ahead = time.0;
        }
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        if self.phase == AggregatePhase::Partial { None } else { Some(self) }
    }
}

impl State for WindowAggregate {
    fn tables(&self) -> Vec<StateShape> {
        self.shape_of_state().into_iter().collect()
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
        // Runs are of this operator alone.
        if self.backend.runs().is_empty() {
            self.snapshots.go_on(self.panes.values().map(Pane::len).sum());
        }
    }

    fn succeed(&mut self, former: &mut dyn State) -> Result<()> {
        self.take_over(former)
    }
}
