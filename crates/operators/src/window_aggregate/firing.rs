//! Windows whose end the watermark has reached, in order of their ends. A window in memory is emitted at
//! once. A window with panes on the disk is emitted bucket by bucket, so it is never in memory as a whole.

use std::ops::Range;
use std::sync::Arc;

use anabranch_model::{EventTime, Result};
use anabranch_state::{BUCKETS, Merge, Ordered};
use arrow::array::{RecordBatch, RecordBatchOptions};

use super::groups::{Grouped, Groups};
use super::on_disk::no_disk;
use super::{Pane, Panes, emit_batch};
use crate::Output;
use crate::event_time::WindowTimes;
use crate::window_assign::window_columns;

/// The progress in firing the windows of a watermark.
#[derive(Default)]
pub(super) struct Firing {
    /// The watermark, until all of its windows have been emitted.
    to: Option<i64>,
    /// Windows that start before this have been handled.
    from: Option<i64>,
    slices: Option<Slices>,
}

/// A window that is emitted bucket by bucket.
struct Slices {
    /// The start of the window. `None`: the global window.
    window: Option<(i64, WindowTimes)>,
    /// The range of the starts of its panes.
    panes: Range<i64>,
    /// The in-memory part of panes whose last window this is.
    in_memory: Vec<Ordered>,
    next_bucket: usize,
    /// Empty between two buckets.
    groups: Groups,
}

impl Panes {
    pub(super) fn begin_firing(&mut self, watermark: i64) {
        self.firing = Firing { to: Some(watermark), from: None, slices: None };
    }

    /// Emits the next piece. False if everything had been emitted.
    pub(super) fn go_on_firing(&mut self, out: &mut Output) -> Result<bool> {
        let Some(to) = self.firing.to else { return Ok(false) };
        loop {
            if let Some(slices) = self.firing.slices.take_if(|slices| slices.next_bucket < BUCKETS) {
                self.fire_bucket(slices, out)?;
                return Ok(true);
            }
            if let Some(Slices { window: Some((start, times)), .. }) = self.firing.slices.take() {
                self.forget_panes(start.saturating_add(times.size - 1), times);
            }
            if !self.fire_next(to, out)? {
                break;
            }
            if !out.is_empty() {
                return Ok(true);
            }
        }
        match self.times {
            Some(times) => self.forget_panes(to, times),
            None => self.forget_panes_away(),
        }
        self.firing.to = None;
        self.watermark = to;
        out.watermark(EventTime(to));
        Ok(true)
    }

    /// Removes panes whose last window ends at or before `end`.
    fn forget_panes(&mut self, end: i64, times: WindowTimes) {
        while let Some(entry) = self.panes.first_entry().filter(|e| times.expiry(*e.key()) <= end) {
            entry.remove();
        }
        self.forget_panes_away();
    }

    /// Fires the next window that ends at or before `to`, or begins to emit it bucket by bucket. False if
    /// there is none.
    fn fire_next(&mut self, to: i64, out: &mut Output) -> Result<bool> {
        let Some(times) = self.times else {
            // A task that resumes after its end has emitted the result already.
            let due = to == i64::MAX && self.watermark != i64::MAX && self.firing.from.replace(0).is_none();
            return if due { self.fire_global(out).map(|()| true) } else { Ok(false) };
        };
        let first = match self.firing.from {
            None => self.panes.keys().next().map(|pane| times.first_start(*pane)),
            // Windows without any pane are skipped.
            Some(from) => self.panes.range(from..).find_map(|(pane, _)| times.next_start(*pane, from)),
        };
        let Some(start) = first.filter(|start| start.saturating_add(times.size - 1) <= to) else { return Ok(false) };
        self.firing.from = Some(start.saturating_add(times.slide));
        if start.saturating_add(times.size) - 1 > self.watermark {
            self.fire_window(start, times, out)?;
        }
        Ok(true)
    }

    fn fire_window(&mut self, start: i64, times: WindowTimes, out: &mut Output) -> Result<()> {
        let panes = times.span(start);
        if self.are_away(panes.clone()) {
            return self.begin_slices(panes, Some((start, times)));
        }
        if times.size == times.pane {
            if let Some(Pane::Open(open)) = self.panes.remove(&start) {
                let mut groups = open.whole()?;
                let results = groups.results()?;
                self.spare.recycle(groups);
                return self.emit(results, Some((start, times)), out);
            }
            return Ok(());
        }
        let common_start = times.common_start(panes.start);
        let mut merged = Groups::new(self.key_types.clone(), &self.functions)?;
        for (at, pane) in self.panes.range_mut(panes.clone()) {
            if let Pane::Open(open) = pane {
                self.snapshots.keep(common_start.unwrap_or(*at), open)?;
                *pane = Pane::Sealed(open.groups.states()?);
            }
            if let Pane::Sealed(sealed) = pane {
                merged.merge(sealed)?;
            }
        }
        if let Some(first) = common_start {
            merged = self.fold(panes, first, merged)?;
        }
        self.emit(merged.results()?, Some((start, times)), out)
    }

    /// For cumulating windows. All later windows of these panes contain all of them, so their states are
    /// merged into the first pane.
    fn fold(&mut self, panes: Range<i64>, first: i64, mut merged: Groups) -> Result<Groups> {
        let states = merged.states()?;
        merged.clear();
        merged.merge(&states)?;
        let folded: Vec<i64> = self.panes.range(panes).map(|(start, _)| *start).collect();
        for start in folded {
            self.panes.remove(&start);
        }
        self.panes.insert(first, Pane::Sealed(states));
        Ok(merged)
    }

    /// The one window of a bounded stream. Without keys it has a result even if there was no row.
    fn fire_global(&mut self, out: &mut Output) -> Result<()> {
        if self.are_away(0..1) {
            return self.begin_slices(0..1, None);
        }
        let mut groups = match self.panes.remove(&0) {
            Some(Pane::Open(open)) => open.whole()?,
            _ => Box::new(Groups::new(self.key_types.clone(), &self.functions)?),
        };
        if self.key_types.is_empty() && groups.len() == 0 {
            groups.add_empty_group(&self.functions)?;
        }
        self.emit(groups.results()?, None, out)
    }

    fn begin_slices(&mut self, panes: Range<i64>, window: Option<(i64, WindowTimes)>) -> Result<()> {
        let mut in_memory = Vec::new();
        let starts: Vec<i64> = self.panes.range(panes.clone()).map(|(start, _)| *start).collect();
        for start in starts {
            let is_last = window.is_none_or(|(begin, times)| times.expiry(start) < begin.saturating_add(times.size));
            if !is_last {
                self.put_away(start)?;
            } else if let Some(rows) = self.take_rows(start)? {
                let disk = self.disk.as_ref().ok_or_else(no_disk)?;
                in_memory.push(disk.in_order(&rows)?);
            }
        }
        let groups = Groups::new(self.key_types.clone(), &self.functions)?;
        self.firing.slices = Some(Slices { window, panes, in_memory, next_bucket: 0, groups });
        Ok(())
    }

    fn fire_bucket(&mut self, slices: Slices, out: &mut Output) -> Result<()> {
        let Slices { window, panes, in_memory, next_bucket, groups } = slices;
        let mut merge = self.merge(groups);
        if let Some(disk) = &self.disk {
            disk.read(panes.clone(), next_bucket, &mut merge)?;
        }
        for rows in &in_memory {
            merge.add(&rows.bucket(next_bucket)?)?;
        }
        let mut groups = merge.groups;
        self.emit(groups.results()?, window, out)?;
        groups.clear();
        let next_bucket = next_bucket + 1;
        if next_bucket == BUCKETS && window.is_none() {
            self.panes.clear();
        }
        self.firing.slices = Some(Slices { window, panes, in_memory, next_bucket, groups });
        Ok(())
    }

    fn emit(&self, results: Grouped, window: Option<(i64, WindowTimes)>, out: &mut Output) -> Result<()> {
        let rows = results.len;
        if rows == 0 {
            return Ok(());
        }
        let mut columns = results.keys;
        if let Some((start, times)) = window {
            columns.extend(window_columns(&vec![start; rows], &times, &self.time_type)?);
        }
        columns.extend(results.values.into_iter().flatten());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        emit_batch(&RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?, out);
        Ok(())
    }
}
