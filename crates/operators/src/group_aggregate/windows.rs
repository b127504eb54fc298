//! Groups of windows whose rows are updated, or whose results are emitted before their window ends or change after that: each group is
//! there until no row can change it any more.

use std::sync::Arc;

use anabranch_model::{Error, EventTime, Result};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};

use super::{GroupAggregate, Groups};
use crate::Output;
use crate::keyed_state::{LEAST_BYTES, OnDisk, Slice, check_size, numbers, unknown};
use crate::operator::RESULT_ROWS;

impl GroupAggregate {
    /// Event time goes on: results of windows that end are emitted before it.
    pub(super) fn begin_firing(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.disk.as_mut().map_or(Ok(()), OnDisk::restored)?;
        let Groups { windows, emitted, rows, .. } = &mut self.groups;
        match windows {
            Some(windows) => windows.begin(watermark, |group| rows[group] > 0 && !emitted[group]),
            None => out.watermark(watermark),
        }
        Ok(())
    }

    /// Emits a piece of the results of windows that end, then forgets what no row changes any more. Returns false if nothing was left.
    pub(super) fn go_on_firing(&mut self, out: &mut Output) -> Result<bool> {
        let Some(windows) = &mut self.groups.windows else { return Ok(false) };
        if let Some(groups) = windows.next_ids(RESULT_ROWS) {
            out.batch(self.first_results(&self.groups, &groups)?);
            for group in groups {
                self.groups.emitted[group] = true;
                self.groups.changes.add(group);
            }
            return Ok(true);
        }
        if let Some(slice) = windows.next_slice().cloned() {
            self.fire_slice(&slice, out)?;
            return Ok(true);
        }
        let Some(watermark) = windows.pass() else { return Ok(false) };
        let (over, first_time) = (windows.take_over(self.groups.live), windows.first_time());
        self.groups.forget_groups(&over)?;
        self.remove_dead()?;
        self.disk.iter_mut().for_each(|disk| disk.forget_all_before(first_time));
        out.watermark(watermark);
        Ok(true)
    }

    /// Emits results of groups of a window that are on the disk only. That they were emitted follows from event time, so nothing is written.
    fn fire_slice(&mut self, slice: &Slice, out: &mut Output) -> Result<()> {
        let (Some(disk), Some(fired)) = (&self.disk, &mut self.of_slice) else {
            return Err(Error::internal("a window fires from a disk that is not there"));
        };
        let (tables, last) = disk.read(slice)?;
        for (table, rows) in tables.iter().enumerate() {
            let rows = unknown(rows, self.groups.key_types.len(), &self.groups.keys)?;
            let ids = fired.intern(&rows)?;
            fired.take_in(table, &ids, &rows, None)?;
        }
        check_size(self.groups.size_bytes() + fired.size_bytes(), self.bytes_max.max(LEAST_BYTES))?;
        let groups: Vec<usize> = (0..fired.rows.len()).filter(|group| fired.awaits(*group)).collect();
        let fired = self.of_slice.as_ref().map(|fired| self.first_results(fired, &groups)).transpose()?;
        fired.iter().for_each(|results| super::emit(results, out));
        self.of_slice.iter_mut().try_for_each(|fired| fired.clear())?;
        self.groups.windows.iter_mut().for_each(|windows| windows.read_to(last));
        Ok(())
    }

    /// Results of groups that had none.
    fn first_results(&self, of: &Groups, groups: &[usize]) -> Result<RecordBatch> {
        let mut columns = of.keys.keys_of(groups)?;
        columns.extend(of.results(groups)?);
        if self.is_updating {
            columns.push(Arc::new(Int64Array::from(vec![1; groups.len()])));
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// Everything was restored: event time had reached this, so windows up to there have fired.
    pub(super) fn windows_restored(&mut self, watermark: EventTime) {
        let Groups { windows, emitted, rows, .. } = &mut self.groups;
        if let Some(windows) = windows {
            windows.restored(watermark);
            let groups = emitted.iter_mut().zip(rows).enumerate();
            groups.for_each(|(group, (emitted, rows))| *emitted |= *rows > 0 && windows.has_fired(group));
        }
    }
}

impl Groups {
    /// Whether a group has a result that was not emitted.
    pub(super) fn awaits(&self, group: usize) -> bool {
        self.rows[group] > 0 && !self.emitted[group]
    }

    /// Whether the result of each of these groups was emitted before a batch, and whether it is there after it.
    pub(super) fn shown(&mut self, groups: &[usize], existed: &[bool]) -> Vec<(bool, bool)> {
        let shown = groups.iter().zip(existed).map(|(group, existed)| {
            let exists = self.rows[*group] > 0;
            match &self.windows {
                Some(windows) => {
                    let shows = exists && (self.early || windows.has_ended(*group));
                    (std::mem::replace(&mut self.emitted[*group], shows), shows)
                }
                None => (*existed, exists),
            }
        });
        shown.collect()
    }

    /// Takes from rows of state whether the results of groups were emitted.
    pub(super) fn restore_emitted(&mut self, groups: &[usize], column: Option<&ArrayRef>) -> Result<()> {
        let Some(windows) = &self.windows else { return Ok(()) };
        let column =
            column.ok_or_else(|| Error::internal("groups of windows that do not say whether they were emitted"))?;
        let emitted = numbers(std::slice::from_ref(column), 0)?;
        for (row, group) in groups.iter().enumerate().take(emitted.len()) {
            let has_fired = self.rows[*group] > 0 && windows.has_fired(*group);
            self.emitted[*group] = has_fired || emitted.value(row) != 0;
        }
        Ok(())
    }
}
