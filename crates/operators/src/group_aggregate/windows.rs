//! Groups of windows whose results are emitted before their window ends, or change after that: each group is there until no row can
//! change it any more. All of them are in memory: nothing else finds those whose window ends.

use std::collections::BTreeMap;

use anabranch_dataflow::EmissionSpec;
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};

use super::{GroupAggregate, Groups};
use crate::event_time::event_times;
use crate::operator::RESULT_ROWS;
use crate::{Dropped, Output};

/// Groups are forgotten when they are at least this share of all: all values of all groups are looked through.
const WORTH: usize = 8;

/// The windows of groups.
pub(super) struct Windows {
    spec: EmissionSpec,
    watermark: i64,
    /// The last instant of each group's window.
    times: Vec<i64>,
    /// Whether the result of a group was emitted.
    pub(super) emitted: Vec<bool>,
    /// Groups by the last instants of their windows.
    by_time: BTreeMap<i64, Vec<usize>>,
    /// All windows up to here have fired, and up to there they are over.
    fired: i64,
    over: i64,
    /// Groups whose windows fire now, and the watermark that follows their results.
    firing: Vec<usize>,
    passing: Option<EventTime>,
    dropped: Dropped,
}

impl Windows {
    pub(super) fn new(spec: EmissionSpec) -> Windows {
        Windows {
            spec,
            watermark: i64::MIN,
            times: Vec::new(),
            emitted: Vec::new(),
            by_time: BTreeMap::new(),
            fired: i64::MIN,
            over: i64::MIN,
            firing: Vec::new(),
            passing: None,
            dropped: Dropped::default(),
        }
    }

    /// Groups with these ids have come, of which those that are new have not been seen.
    pub(super) fn add(&mut self, ids: &[usize], keys: &[ArrayRef]) -> Result<()> {
        let times = event_times(&keys[self.spec.time])?;
        for (id, time) in ids.iter().zip(times.iter()) {
            // New ids are given in order.
            if *id >= self.times.len() {
                self.times.resize(id + 1, *time);
                self.emitted.resize(id + 1, false);
                self.by_time.entry(*time).or_default().push(*id);
            }
        }
        Ok(())
    }

    /// Whether the result of a group is emitted when it changes.
    pub(super) fn shows(&self, group: usize) -> bool {
        self.spec.early || self.times[group] <= self.watermark
    }

    /// Keeps these groups only; the first of them becomes group 0.
    pub(super) fn keep(&mut self, groups: &[usize]) {
        self.times = groups.iter().map(|group| self.times[*group]).collect();
        self.emitted = groups.iter().map(|group| self.emitted[*group]).collect();
        self.by_time.clear();
        for (group, time) in self.times.iter().enumerate() {
            self.by_time.entry(*time).or_default().push(group);
        }
    }

    pub(super) fn reached(&mut self, watermark: EventTime) {
        self.watermark = self.watermark.max(watermark.0);
    }

    /// Goes on with the windows of another plan version.
    pub(super) fn follow(self, former: Windows) -> Windows {
        Windows { spec: self.spec, ..former }
    }

    fn is_late(&self, time: i64) -> bool {
        time <= self.over || time.saturating_add(self.spec.lateness_ms) <= self.watermark
    }

    /// The groups that fire at a watermark.
    fn begin(&mut self, watermark: EventTime) {
        self.reached(watermark);
        let due = Some(self.fired.saturating_add(1)..=self.watermark).filter(|due| !due.is_empty());
        let groups = due.into_iter().flat_map(|due| self.by_time.range(due)).flat_map(|(_, groups)| groups);
        self.firing = groups.filter(|group| !self.emitted[**group]).copied().collect();
        self.firing.reverse();
        (self.fired, self.passing) = (self.watermark, Some(watermark));
    }

    /// Takes the groups that no row changes any more, once they are worth it, of so many.
    fn over(&mut self, live: usize) -> Vec<usize> {
        self.over = self.over.max(self.watermark.saturating_sub(self.spec.lateness_ms));
        let over = self.by_time.range(..=self.over).map(|(_, groups)| groups.len()).sum::<usize>();
        if over * WORTH < live {
            return Vec::new();
        }
        let stay = self.by_time.split_off(&self.over.saturating_add(1));
        std::mem::replace(&mut self.by_time, stay).into_values().flatten().collect()
    }

    pub(super) fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.times.capacity() * (2 * size_of::<i64>() + 1)
    }
}

impl GroupAggregate {
    /// Which rows of a batch are not late, unless all of them are on time. Counts the others.
    pub(super) fn rows_on_time(&mut self, keys: &[ArrayRef]) -> Result<Option<BooleanArray>> {
        let Some(windows) = &mut self.groups.windows else { return Ok(None) };
        let times = event_times(&keys[windows.spec.time])?;
        let late = times.iter().filter(|time| windows.is_late(**time)).count();
        if late == 0 {
            return Ok(None);
        }
        windows.dropped.late_rows += late as u64;
        Ok(Some(times.iter().map(|time| Some(!windows.is_late(*time))).collect()))
    }

    /// Event time goes on: results of windows that end are emitted before it.
    pub(super) fn fire(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        // What was gathered came before.
        if let Some(batch) = self.gathered.take()? {
            self.take_in(&batch, out)?;
        }
        match &mut self.groups.windows {
            Some(windows) => windows.begin(watermark),
            None => out.watermark(watermark),
        }
        self.go_on_firing(out).map(|_| ())
    }

    /// Emits a piece of the results of windows that end, then forgets what no row changes any more. Returns false if nothing was left.
    pub(super) fn go_on_firing(&mut self, out: &mut Output) -> Result<bool> {
        let Some(windows) = &mut self.groups.windows else { return Ok(false) };
        if !windows.firing.is_empty() {
            let groups = windows.firing.split_off(windows.firing.len().saturating_sub(RESULT_ROWS));
            for group in &groups {
                windows.emitted[*group] = true;
                self.groups.changes.add(*group);
            }
            out.batch(self.first_results(&groups)?);
            return Ok(true);
        }
        let Some(watermark) = windows.passing.take() else { return Ok(false) };
        let over = windows.over(self.groups.live);
        self.groups.forget_groups(&over)?;
        self.remove_dead()?;
        out.watermark(watermark);
        Ok(true)
    }

    /// Results of groups that had none.
    fn first_results(&self, groups: &[usize]) -> Result<RecordBatch> {
        let mut columns = self.groups.keys.keys_of(groups)?;
        columns.extend(self.groups.results(groups)?);
        columns.push(std::sync::Arc::new(Int64Array::from(vec![1; groups.len()])));
        Ok(RecordBatch::try_new(std::sync::Arc::clone(&self.schema), columns)?)
    }
}

impl Groups {
    /// Whether the result of each of these groups was emitted before a batch, and whether it is there after it.
    pub(super) fn shown(&mut self, groups: &[usize], existed: &[bool]) -> Vec<(bool, bool)> {
        let shown = groups.iter().zip(existed).map(|(group, existed)| {
            let exists = self.rows[*group] > 0;
            match &mut self.windows {
                Some(windows) => {
                    let shows = exists && windows.shows(*group);
                    (std::mem::replace(&mut windows.emitted[*group], shows), shows)
                }
                None => (*existed, exists),
            }
        });
        shown.collect()
    }

    /// Takes from rows of state whether the results of groups were emitted.
    pub(super) fn restore_emitted(&mut self, groups: &[usize], column: Option<&ArrayRef>) -> Result<()> {
        let Some(windows) = &mut self.windows else { return Ok(()) };
        let column =
            column.ok_or_else(|| Error::internal("groups of windows that do not say whether they were emitted"))?;
        let emitted = crate::keyed_state::numbers(std::slice::from_ref(column), 0)?;
        for (row, group) in groups.iter().enumerate().take(emitted.len()) {
            windows.emitted[*group] = emitted.value(row) != 0;
        }
        Ok(())
    }
}
