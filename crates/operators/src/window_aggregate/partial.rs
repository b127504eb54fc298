//! The partial half: groups rows before they are sent to the final half, and holds them only as long as that
//! saves work.
//!
//! Rows are held only within an epoch and while their windows are open. Their states are emitted when the
//! watermark passes a pane, when the epoch ends, when the input is idle, and when there are too many groups.
//! Where keys hardly repeat, grouping twice is a waste. Then each row becomes a state of its own, and
//! grouping is tried again after a while (compare "adaptive partial aggregation" in the literature on
//! parallel databases, Larson 1997).
//!
//! The final half decides which rows are late, and counts them. A row that may be late there is never grouped
//! here: it is sent as a state of its own, so that the final half counts rows and not groups.

use std::collections::BTreeMap;

use anabranch_dataflow::{JobOptions, WindowAggregateSpec};
use anabranch_model::{EventTime, Result};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};

use super::function::AggregateFunctions;
use super::groups::{Grouped, Groups, Input};
use super::on_disk::batch_of;
use super::{Reads, Spare, Split, emit_batch, split, state_schema};
use crate::event_time::{WindowTimes, all_within, event_times};
use crate::{Dropped, Functions, Operator, Output};

/// Rows after which a partial aggregate that passes rows on tries grouping again.
const PASS_ON_ROWS: u64 = 1 << 22;
/// Number of rows after which the ratio of groups to rows is significant.
pub(super) const SAMPLE_ROWS: u64 = 1 << 15;

/// Whether the partial half groups rows or passes them on as states.
#[derive(Default)]
pub(super) struct PassOn {
    /// Rows grouped since the last decision.
    pub(super) rows: u64,
    /// Groups that these rows added.
    pub(super) groups: u64,
    /// Rows still to pass on before grouping is tried again.
    pub(super) rows_left: u64,
}

/// The partial half. It holds nothing across an epoch, so it has no state that must survive.
pub(crate) struct PartialAggregate {
    reads: Reads,
    times: Option<WindowTimes>,
    key_types: Vec<DataType>,
    functions: AggregateFunctions,
    /// Schema of the states that it emits.
    state_schema: SchemaRef,
    /// Panes by start; the global window is the pane at 0.
    pub(super) panes: BTreeMap<i64, Box<Groups>>,
    watermark: i64,
    /// The event time that the receivers of the states may have reached.
    ahead: i64,
    dropped: Dropped,
    spare: Spare,
    pub(super) pass_on: PassOn,
    /// Number of groups at which it emits all of them.
    groups_max: usize,
}

impl PartialAggregate {
    pub(super) fn new(spec: &WindowAggregateSpec, functions: &Functions, options: &JobOptions) -> Result<Self> {
        let times = WindowTimes::new(spec.window)?;
        let aggregates = AggregateFunctions::new(&spec.aggregates, &spec.input_schema, functions)?;
        Ok(PartialAggregate {
            reads: Reads::new(spec, functions)?,
            times,
            key_types: spec.keys.iter().map(|k| k.data_type.clone()).collect(),
            state_schema: state_schema(spec, times.is_some(), &aggregates),
            functions: aggregates,
            panes: BTreeMap::new(),
            watermark: i64::MIN,
            ahead: i64::MIN,
            dropped: Dropped::default(),
            spare: Spare::default(),
            pass_on: PassOn::default(),
            groups_max: options.thresholds.partial_groups,
        })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.state_schema
    }

    /// Groups each row in its pane. Rows that may be late are passed on.
    fn add_to_panes(&mut self, input: &Input, time: Option<&ArrayRef>, out: &mut Output) -> Result<()> {
        let (Some(time), Some(times)) = (time, self.times) else { return self.add(0, input) };
        let late_below = times.late_below(self.watermark.max(self.ahead));
        let Split { panes, late } = split(time, times, late_below, &mut self.dropped)?;
        for (pane, rows) in panes {
            match rows {
                None => self.add(pane, input)?,
                Some(rows) => self.add(pane, &input.take(rows)?)?,
            }
        }
        if late.is_empty() { Ok(()) } else { self.pass_late_on(late, input, (time, times), out) }
    }

    fn add(&mut self, pane: i64, input: &Input) -> Result<()> {
        let groups = match self.panes.entry(pane) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                self.times.map_or(Ok(()), |times| times.check(pane))?;
                entry.insert(self.spare.take(&self.key_types, &self.functions)?)
            }
        };
        let before = groups.len();
        groups.update(input)?;
        self.pass_on.groups += (groups.len() - before) as u64;
        Ok(())
    }

    /// Emits the states of the panes before `end`.
    fn give_out(&mut self, end: i64, out: &mut Output) -> Result<()> {
        while let Some(entry) = self.panes.first_entry().filter(|e| *e.key() < end) {
            let (start, mut groups) = entry.remove_entry();
            let states = groups.states()?;
            let panes = self.times.map(|_| vec![start; states.len]);
            emit_batch(&batch_of(&self.state_schema, panes, states)?, out);
            self.spare.recycle(groups);
        }
        Ok(())
    }

    /// Emits each row as a state of its own.
    fn pass_rows_on(&mut self, input: Input, time: Option<&ArrayRef>, out: &mut Output) -> Result<()> {
        let rows = input.rows;
        self.pass_on.rows_left = self.pass_on.rows_left.saturating_sub(rows as u64);
        let panes = match (time, self.times) {
            (Some(time), Some(times)) => Some(panes_of(&event_times(time)?, times)),
            _ => None,
        };
        let values = self.functions.states_of_rows(&input)?;
        emit_batch(&batch_of(&self.state_schema, panes, Grouped { len: rows, keys: input.keys, values })?, out);
        Ok(())
    }

    /// Emits rows that may be late, each as a state of its own, for any functions.
    fn pass_late_on(
        &mut self,
        late: Vec<u32>,
        input: &Input,
        (time, times): (&ArrayRef, WindowTimes),
        out: &mut Output,
    ) -> Result<()> {
        let values = event_times(time)?;
        let panes: Vec<i64> = late.iter().map(|row| times.pane_of(values[*row as usize])).collect();
        if self.functions.rows_have_states() {
            let input = input.take(late)?;
            let values = self.functions.states_of_rows(&input)?;
            let states = Grouped { len: input.rows, keys: input.keys, values };
            emit_batch(&batch_of(&self.state_schema, Some(panes), states)?, out);
            return Ok(());
        }
        let mut groups = Groups::new(self.key_types.clone(), &self.functions)?;
        for (row, pane) in late.into_iter().zip(panes) {
            groups.update(&input.take(vec![row])?)?;
            emit_batch(&batch_of(&self.state_schema, Some(vec![pane]), groups.states()?)?, out);
            groups.clear();
        }
        Ok(())
    }

    /// After rows were grouped: emits the groups if there are too many, and decides whether to continue
    /// grouping.
    fn after_rows(&mut self, out: &mut Output) -> Result<()> {
        let groups: usize = self.panes.values().map(|groups| groups.len()).sum();
        if groups >= self.groups_max {
            self.give_out(i64::MAX, out)?;
        }
        let PassOn { rows, groups, .. } = self.pass_on;
        if rows >= SAMPLE_ROWS {
            // More than one group for two rows: the first grouping saves the second one less than half of its
            // work.
            let rows_left = if groups * 2 > rows && self.functions.rows_have_states() { PASS_ON_ROWS } else { 0 };
            if rows_left > 0 {
                self.give_out(i64::MAX, out)?;
            }
            self.pass_on = PassOn { rows: 0, groups: 0, rows_left };
        }
        Ok(())
    }
}

impl Operator for PartialAggregate {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let (input, time) = self.reads.input(&batch, &mut self.functions)?;
        let all_timed = time.as_ref().is_none_or(|t| t.null_count() == 0);
        if self.pass_on.rows_left > 0 && all_timed {
            return self.pass_rows_on(input, time.as_ref(), out);
        }
        self.pass_on.rows += batch.num_rows() as u64;
        self.add_to_panes(&input, time.as_ref(), out)?;
        self.after_rows(out)
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        let watermark = EventTime(watermark.0.max(self.watermark));
        match self.times {
            _ if watermark == EventTime::MAX => self.give_out(i64::MAX, out)?,
            // The last instant of a pane is `start + pane - 1`: panes that start before this are closed.
            Some(times) => self.give_out(watermark.0.saturating_add(2).saturating_sub(times.pane), out)?,
            None => {}
        }
        self.watermark = watermark.0;
        out.watermark(watermark);
        Ok(())
    }

    fn flush(&mut self, out: &mut Output) -> Result<()> {
        self.give_out(i64::MAX, out)
    }

    fn event_time_ahead(&mut self, time: EventTime) {
        self.ahead = time.0;
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }
}

/// The pane of each time. Divisions are expensive: one is enough if all times are in the same pane.
fn panes_of(values: &[i64], times: WindowTimes) -> Vec<i64> {
    let pane = values.first().map_or(0, |first| times.pane_of(*first));
    match all_within(values, pane, pane.saturating_add(times.pane - 1)) {
        true => vec![pane; values.len()],
        false => values.iter().map(|time| times.pane_of(*time)).collect(),
    }
}
