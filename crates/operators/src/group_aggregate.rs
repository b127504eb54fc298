//! Aggregation by keys without a window: the results over all rows so far, as an updating stream.
//!
//! A batch is processed as a whole. The results of the groups that it touches are read before and after it.
//! If they differ, the former row is emitted with weight -1 and the new one with weight 1. So a group that
//! many rows of a batch touch changes once.
//!
//! State is a table of groups and, for functions that keep values, one table each. A row of a snapshot
//! replaces all earlier rows of its key: it has the number of its snapshot. With state on a local disk, a
//! group is in memory with all of its values, or not at all (`keyed_state::OnDisk`).

pub(crate) mod accumulator;
mod count;
mod distinct;
pub(crate) mod entries;
pub(crate) mod extreme;
mod gathered;
mod groups;
mod list;
mod moments;
pub(crate) mod readings;
mod succession;
mod sum;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anabranch_dataflow::{GroupAggregateSpec, JobOptions, StateBackendKind};
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt64Array, make_comparator};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{SortOptions, and, filter_record_batch, interleave, take};
use arrow::datatypes::{Int64Type, SchemaRef};

use self::gathered::Gathered;
use self::groups::Groups;
use crate::key_hash::canonical;
use crate::keyed_state::{KeyedState, Keys, Windows};
use crate::operator::RESULT_ROWS;
use crate::{CompiledExpr, Dropped, Functions, Operator, Output, State};

pub(crate) use succession::goes_on;

/// Gathered rows take about the memory limit of the state, divided by this number.
const GATHERED_SHARE: usize = 8;

pub(crate) struct GroupAggregate {
    schema: SchemaRef,
    /// Whether results may be retracted.
    is_updating: bool,
    keys: Vec<CompiledExpr>,
    weight: Option<usize>,
    state: KeyedState<Groups>,
    gathered: Gathered,
    /// A watermark that has arrived, but has not begun to fire windows.
    arrived: Option<EventTime>,
    touched: Touched,
}

/// The groups that a batch touches, each once.
#[derive(Default)]
struct Touched {
    groups: Vec<usize>,
    /// For each: its first row in the batch.
    rows: Vec<u64>,
    /// For each: whether it existed before.
    existed: Vec<bool>,
    /// For each: its number of rows before.
    counts: Vec<i64>,
}

impl GroupAggregate {
    pub(crate) fn new(spec: &GroupAggregateSpec, functions: &Functions, options: &JobOptions) -> Result<Self> {
        let input = &spec.input_schema;
        let keys = spec.keys.iter().map(|key| CompiledExpr::new(&key.expr, input, functions)).collect::<Result<_>>()?;
        let state = |options: &JobOptions| {
            let keys = Keys {
                types: spec.keys.iter().map(|key| key.data_type.clone()).collect(),
                time_to_live_ms: spec.time_to_live_ms,
                window: spec.emission.map(|emission| (emission.time, emission.lateness_ms)),
                wait_ms: None,
            };
            KeyedState::new(Groups::new(spec, functions)?, keys, options)
        };
        let in_memory = JobOptions { state_backend: StateBackendKind::Memory, ..options.clone() };
        Ok(GroupAggregate {
            schema: Arc::new(spec.output_schema()),
            is_updating: spec.is_updating(),
            keys,
            weight: spec.weight,
            state: state(options)?.with_slice(|| state(&in_memory))?,
            gathered: Gathered::new(spec.mini_batch_rows, options.state_bytes / GATHERED_SHARE),
            arrived: None,
            touched: Touched::default(),
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn weights<'a>(&self, batch: &'a RecordBatch) -> Result<Option<&'a [i64]>> {
        let Some(weight) = self.weight else { return Ok(None) };
        let weights = batch.column(weight).as_primitive_opt::<Int64Type>();
        let weights = weights.ok_or_else(|| Error::internal("the weight of a row is not BIGINT"))?;
        Ok(Some(weights.values()))
    }

    /// Adds the rows of a batch, and emits the results that differ.
    fn add(&mut self, batch: &RecordBatch, out: &mut Output) -> Result<()> {
        let weights = self.weights(batch)?;
        let keys = self.keys.iter_mut().map(|key| Ok(canonical(&key.evaluate(batch)?))).collect::<Result<Vec<_>>>()?;
        if let Some(windows) = &mut self.state.windows
            && let Some(on_time) = windows.rows_on_time(&keys)?
        {
            return self.add(&filter_record_batch(batch, &on_time)?, out);
        }
        if let Some(halves) = self.state.bring(&keys, batch.num_rows())? {
            return self.state.divide(batch, &halves);
        }
        let KeyedState { rows: groups, ids, times, windows, .. } = &mut self.state;
        if let Some(known) = groups.rows_of_known(ids, weights.filter(|_| times.is_some())) {
            return self.add(&filter_record_batch(batch, &known)?, out);
        }
        let touched = &mut self.touched;
        groups.touch(ids, touched);
        groups.write(&touched.groups, times.as_mut());
        let before = match self.is_updating && touched.existed.contains(&true) {
            true => Some(groups.results(&touched.groups)?),
            false => None,
        };
        groups.update(batch, ids, weights)?;
        groups.changed(&touched.groups, &touched.counts);
        let shown = groups.shown(&touched.groups, &touched.existed, windows.as_ref());
        match (self.is_updating, self.state.windows.is_some()) {
            (true, _) => emit(&self.changed(&keys, before.as_deref(), &shown)?, out),
            (false, false) => emit(&self.new_groups(&keys)?, out),
            // Results are emitted when their windows end.
            (false, true) => {}
        }
        self.state.remove_dead()?;
        self.state.keep_to_size(0).map(|_| ())
    }

    /// Emits a piece of the results of windows that end, then forgets groups that can no longer change.
    /// Returns false if nothing was left.
    fn go_on_firing(&mut self, out: &mut Output) -> Result<bool> {
        let (schema, is_updating) = (&self.schema, self.is_updating);
        self.state.go_on_firing(RESULT_ROWS, out, |state, groups, out| {
            let mut columns = state.keys.keys_of(groups)?;
            columns.extend(state.rows.results(groups)?);
            if is_updating {
                columns.push(Arc::new(Int64Array::from(vec![1; groups.len()])));
            }
            emit(&RecordBatch::try_new(Arc::clone(schema), columns)?, out);
            Ok(())
        })
    }
}

impl Operator for GroupAggregate {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        match self.gathered.add(batch)? {
            Some(batch) => self.take_in(&batch, out),
            None => Ok(()),
        }
    }

    fn flush(&mut self, out: &mut Output) -> Result<()> {
        match self.gathered.take()? {
            Some(batch) => self.take_in(&batch, out),
            None => Ok(()),
        }
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        // The gathered rows arrived before the watermark.
        self.flush(out)?;
        self.arrived = Some(watermark);
        self.more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        if let Some(batch) = self.state.divided.pop_front() {
            self.add(&batch, out)?;
            return Ok(true);
        }
        if let Some(watermark) = self.arrived.take() {
            self.state.begin_firing(watermark, out)?;
        }
        self.go_on_firing(out)
    }

    fn take_dropped(&mut self) -> Dropped {
        self.state.windows.as_mut().map(Windows::take_dropped).unwrap_or_default()
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(&mut self.state)
    }
}

impl GroupAggregate {
    fn take_in(&mut self, batch: &RecordBatch, out: &mut Output) -> Result<()> {
        self.state.end_restore()?;
        self.add(batch, out)?;
        self.state.work()
    }

    /// The former and the new rows of the groups whose results differ.
    fn changed(&self, keys: &[ArrayRef], before: Option<&[ArrayRef]>, shown: &[(bool, bool)]) -> Result<RecordBatch> {
        let Touched { groups, rows, .. } = &self.touched;
        let after = self.state.rows.results(groups)?;
        let same = before.map(|before| same(before, &after, groups.len())).transpose()?;
        // Pairs of 0 (before) or 1 (after), and the index of the group.
        let mut order: Vec<(usize, usize)> = Vec::with_capacity(groups.len() * 2);
        for (place, (was, is)) in shown.iter().enumerate() {
            if *was && *is && same.as_ref().is_some_and(|same| same.value(place)) {
                continue;
            }
            if *was {
                order.push((0, place));
            }
            if *is {
                order.push((1, place));
            }
        }
        let at: UInt64Array = order.iter().map(|(_, place)| rows[*place]).collect();
        let mut columns = keys.iter().map(|key| Ok(take(key, &at, None)?)).collect::<Result<Vec<_>>>()?;
        for (index, new) in after.iter().enumerate() {
            let former = before.map_or(new, |before| &before[index]);
            columns.push(interleave(&[former.as_ref(), new.as_ref()], &order)?);
        }
        columns.push(Arc::new(order.iter().map(|(new, _)| if *new == 0 { -1 } else { 1 }).collect::<Int64Array>()));
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// The groups that did not exist before. They have no aggregates, so their rows never change.
    fn new_groups(&self, keys: &[ArrayRef]) -> Result<RecordBatch> {
        let Touched { rows, existed, .. } = &self.touched;
        let new: UInt64Array =
            rows.iter().zip(existed).filter(|(_, existed)| !**existed).map(|(row, _)| *row).collect();
        let columns = keys.iter().map(|key| Ok(take(key, &new, None)?)).collect::<Result<_>>()?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(new.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// Emits rows in pieces: there may be many if batches were gathered.
fn emit(rows: &RecordBatch, out: &mut Output) {
    for first in (0..rows.num_rows()).step_by(RESULT_ROWS) {
        out.batch(rows.slice(first, RESULT_ROWS.min(rows.num_rows() - first)));
    }
}

/// For each group: whether its results are the same.
pub(crate) fn same(before: &[ArrayRef], after: &[ArrayRef], len: usize) -> Result<BooleanArray> {
    let mut same = BooleanArray::from(vec![true; len]);
    for (before, after) in before.iter().zip(after) {
        let equal = match before.data_type().is_nested() {
            true => {
                let compare = make_comparator(before, after, SortOptions::default())?;
                (0..len).map(|row| Some(compare(row, row).is_eq())).collect()
            }
            false => not_distinct(before, after)?,
        };
        same = and(&same, &equal)?;
    }
    Ok(same)
}
