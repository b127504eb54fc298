//! The partial half: groups rows before they are sent to the final half, and holds them only as long as that saves
//! work.
//!
//! Rows are held only within an epoch and while their windows are open. Their states are emitted when the watermark
//! passes a pane, when the epoch ends, when the input is idle, and when there are too many groups. Where keys hardly
//! repeat, grouping twice is a waste. Then each row becomes a state of its own, and grouping is tried again after a
//! while (compare "adaptive partial aggregation" in the literature on parallel databases, Larson 1997).
//!
//! The final half decides which rows are late, and counts them. A row that may be late there is never grouped here: it
//! is sent as a state of its own, so that the final half counts rows and not groups.

use anabranch_model::Result;
use arrow::array::ArrayRef;

use super::backed::batch_of;
use super::groups::{Grouped, Groups, Input};
use super::{OpenPane, Pane, WindowAggregate, emit_batch};
use crate::Output;
use crate::event_time::{WindowTimes, all_within, event_times};

/// Rows after which a partial aggregate that passes rows on tries grouping again.
const PASS_ON_ROWS: u64 = 1 << 22;
/// Number of rows after which the ratio of groups to rows is significant.
pub(super) const SAMPLE_ROWS: u64 = 1 << 15;

/// Whether the partial half groups rows or passes them on as states.
#[derive(Default)]
pub(super) struct PassOn {
    /// Rows grouped since the last decision, and the resulting groups.
    pub(super) rows: u64,
    pub(super) groups: u64,
    /// Rows still to pass on before grouping is tried again.
    pub(super) rows_left: u64,
}

impl WindowAggregate {
    /// Emits the states of the panes before `end`, and keeps one emptied table for reuse.
    pub(super) fn give_out(&mut self, end: i64, out: &mut Output) -> Result<()> {
        while let Some(entry) = self.panes.first_entry().filter(|e| *e.key() < end) {
            let (start, pane) = entry.remove_entry();
            let Pane::Open(OpenPane { mut groups, .. }) = pane else { continue };
            let states = groups.states()?;
            let panes = self.times.map(|_| vec![start; states.len]);
            emit_batch(&batch_of(&self.state_schema, panes, states)?, out);
            self.recycle(*groups);
        }
        Ok(())
    }

    /// Emits each row as a state of its own.
    pub(super) fn pass_rows_on(&mut self, input: Input, time: Option<&ArrayRef>, out: &mut Output) -> Result<()> {
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
    pub(super) fn pass_late_on(
        &mut self,
        late: Vec<u32>,
        input: &Input,
        time: &ArrayRef,
        out: &mut Output,
    ) -> Result<()> {
        let Some(times) = self.times else { return Ok(()) };
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

    /// After rows were grouped: emits the groups if there are too many, and decides whether to continue grouping.
    pub(super) fn after_partial(&mut self, out: &mut Output) -> Result<()> {
        let groups: usize =
            self.panes.values().map(|p| if let Pane::Open(open) = p { open.groups.len() } else { 0 }).sum();
        if groups >= self.partial_groups_max {
            self.give_out(i64::MAX, out)?;
        }
        let PassOn { rows, groups, .. } = self.pass_on;
        if rows >= SAMPLE_ROWS {
            // More than one group for two rows: the second grouping has as much work as without the first.
            let rows_left = if groups * 2 > rows && self.functions.rows_have_states() { PASS_ON_ROWS } else { 0 };
            if rows_left > 0 {
                self.give_out(i64::MAX, out)?;
            }
            self.pass_on = PassOn { rows: 0, groups: 0, rows_left };
        }
        Ok(())
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
