//! Partitions of windows: their first rows are emitted when the watermark passes the window's end, and forgotten.

use std::collections::BTreeSet;

use anabranch_model::{EventTime, Result};
use arrow::array::{Array, ArrayRef};

use super::{Emitted, FirstRows};
use crate::event_time::event_times;
use crate::keyed_state::narrow;
use crate::operator::RESULT_ROWS;
use crate::{Dropped, Output};

/// The windows of partitions.
pub(super) struct Windows {
    /// Partitions by the last instants of their windows.
    open: BTreeSet<(i64, u32)>,
    watermark: i64,
    /// The watermark whose windows are being emitted.
    firing: Option<i64>,
    dropped: Dropped,
}

impl Default for Windows {
    fn default() -> Self {
        Windows { open: BTreeSet::new(), watermark: i64::MIN, firing: None, dropped: Dropped::default() }
    }
}

impl Windows {
    pub(super) fn begin_firing(&mut self, watermark: EventTime) {
        // After a restore the inputs may be behind the restored watermark.
        self.firing = Some(watermark.0.max(self.watermark));
    }

    /// Event time had reached this before the restore.
    pub(super) fn reached(&mut self, watermark: EventTime) {
        self.watermark = watermark.0;
    }

    /// Partitions have other numbers. Those without one have no rows.
    pub(super) fn rename(&mut self, places: &[u32]) {
        let open = std::mem::take(&mut self.open).into_iter();
        let renamed = open.map(|(last, group)| (last, places[group as usize]));
        self.open = renamed.filter(|(_, group)| *group != u32::MAX).collect();
    }

    pub(super) fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }
}

impl FirstRows {
    /// Which rows belong to windows that have not fired; their partitions are open. `None`: there are no windows.
    pub(super) fn on_time(&mut self, keys: &[ArrayRef], groups: &[usize]) -> Result<Option<Vec<bool>>> {
        let Some(window) = self.spec.window else { return Ok(None) };
        let lasts = event_times(&keys[window])?;
        let Windows { open, watermark, dropped, .. } = &mut self.windows;
        let mut on_time = Vec::with_capacity(groups.len());
        for (row, (last, group)) in lasts.iter().zip(groups).enumerate() {
            let (is_null, is_late) = (keys[window].is_null(row), *last <= *watermark);
            on_time.push(!is_null && !is_late);
            match (is_null, is_late) {
                (true, _) => dropped.rows_without_event_time += 1,
                (_, true) => dropped.late_rows += 1,
                _ if self.partitions[*group].rows > 0 => {}
                _ => _ = open.insert((*last, narrow(*group)?)),
            }
        }
        Ok(Some(on_time))
    }

    /// These partitions are restored.
    pub(super) fn opened(&mut self, keys: &[ArrayRef], groups: &[usize]) -> Result<()> {
        let Some(window) = self.spec.window else { return Ok(()) };
        for (last, group) in event_times(&keys[window])?.iter().zip(groups) {
            self.windows.open.insert((*last, narrow(*group)?));
        }
        Ok(())
    }

    /// Emits the next partitions whose windows have ended. False if everything had been emitted.
    pub(super) fn go_on_firing(&mut self, out: &mut Output) -> Result<bool> {
        let Some(to) = self.windows.firing else { return Ok(false) };
        let mut emitted = Emitted::default();
        while emitted.len() < RESULT_ROWS
            && let Some((last, group)) = self.windows.open.first().copied().filter(|(last, _)| *last <= to)
        {
            self.windows.open.remove(&(last, group));
            let partition = std::mem::take(&mut self.partitions[group as usize]);
            self.partition_bytes -= partition.size_bytes();
            self.live -= usize::from(partition.rows > 0);
            self.live_rows -= partition.entries().len();
            emitted.add_all(group as usize, partition.entries())?;
            for entry in partition.entries() {
                self.copies[entry.kept()] = 0;
                self.changes.add(entry.kept());
            }
        }
        self.emit(&emitted, out)?;
        if emitted.len() == 0 {
            (self.windows.watermark, self.windows.firing) = (to, None);
            self.remove_dead()?;
            out.watermark(EventTime(to));
        }
        Ok(true)
    }
}
