//! Event time of a keyed state: windows that fire, and waiting rows that are due.

use anabranch_model::{Error, EventTime, Result};
use arrow::array::RecordBatch;

use super::rows::KeyedRows;
use super::windows::{Slice, unknown};
use super::{KeyedState, LEAST_BYTES, check_at_once};
use crate::Output;
use crate::operator::RESULT_ROWS;
use crate::waiting::{DueRows, Waiting};

impl<R: KeyedRows> KeyedState<R> {
    /// Adds a state in memory for the keys of firing windows that are only on the disk.
    pub(crate) fn with_slice(self, slice: impl FnOnce() -> Result<KeyedState<R>>) -> Result<KeyedState<R>> {
        let fires_from_disk = self.disk.is_some() && self.windows.is_some();
        let slice = if fires_from_disk { Some(Box::new(slice()?)) } else { None };
        Ok(KeyedState { slice, ..self })
    }

    /// Rows wait for event time before they change anything. Their table comes first.
    pub(crate) fn with_waiting(self, waiting: Option<Waiting>) -> KeyedState<R> {
        KeyedState { waiting, ..self }
    }

    /// Event time advances: windows that end fire before the watermark is emitted.
    pub(crate) fn begin_firing(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.end_restore()?;
        let rows = &self.rows;
        match &mut self.windows {
            Some(windows) => windows.begin(watermark, |key| rows.awaits(key)),
            None => out.watermark(watermark),
        }
        Ok(())
    }

    /// Lets `emit` emit a limited number of keys of windows that end, then forgets the keys that no row can
    /// change. Returns false if nothing was left.
    pub(crate) fn go_on_firing(
        &mut self,
        most: usize,
        out: &mut Output,
        emit: impl Fn(&KeyedState<R>, &[usize], &mut Output) -> Result<()>,
    ) -> Result<bool> {
        let Some(windows) = &mut self.windows else { return Ok(false) };
        if let Some(keys) = windows.next_ids(most) {
            emit(self, &keys, out)?;
            self.rows.fired(&keys);
            return Ok(true);
        }
        if let Some(slice) = windows.next_slice().cloned() {
            self.fire_slice(&slice, out, emit)?;
            return Ok(true);
        }
        let Some(watermark) = windows.pass() else { return Ok(false) };
        let (over, first_time) = (windows.take_over(self.rows.forgotten_of()), windows.first_time());
        self.rows.forget(&over)?;
        self.remove_dead()?;
        self.disk.iter_mut().for_each(|disk| disk.forget_all_before(first_time));
        out.watermark(watermark);
        Ok(true)
    }

    /// Emits keys of a window that are only on the disk. Event time tells that they have fired, so nothing is
    /// written.
    fn fire_slice(
        &mut self,
        slice: &Slice,
        out: &mut Output,
        emit: impl Fn(&KeyedState<R>, &[usize], &mut Output) -> Result<()>,
    ) -> Result<()> {
        let (Some(disk), Some(fired)) = (&self.disk, &mut self.slice) else {
            return Err(Error::internal("a window fires from a disk that is not there"));
        };
        let (tables, last) = disk.read(slice)?;
        let unknown = |rows: &RecordBatch| unknown(rows, self.key_types.len(), &self.keys);
        fired.load_rows(&tables.iter().map(unknown).collect::<Result<Vec<_>>>()?, 0)?;
        let bytes = fired.size_bytes();
        let keys: Vec<usize> = (0..fired.keys.len()).filter(|key| fired.rows.awaits(*key)).collect();
        emit(fired, &keys, out)?;
        fired.clear()?;
        self.windows.iter_mut().for_each(|windows| windows.read_to(last));
        check_at_once(self.size_bytes() + bytes, self.bytes_max.max(LEAST_BYTES))
    }

    /// Event time advances: rows that wait for it are due. If no rows can wait, the watermark passes at once.
    pub(crate) fn reach(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.end_restore()?;
        let Some(waiting) = &mut self.waiting else {
            out.watermark(watermark);
            return Ok(());
        };
        // After a restore the inputs may be behind the restored watermark.
        let to = watermark.0.max(self.watermark);
        waiting.reach(to)?;
        self.firing = Some(to);
        Ok(())
    }

    /// The next rows that are due. `None`: there are no more.
    pub(crate) fn next_piece(&mut self) -> Result<Option<DueRows>> {
        match &mut self.waiting {
            Some(waiting) if self.firing.is_some() => waiting.take_due(RESULT_ROWS),
            _ => Ok(None),
        }
    }

    /// All due rows were taken. Returns the watermark that follows them.
    pub(crate) fn pass(&mut self) -> Option<EventTime> {
        let to = self.firing.take()?;
        self.watermark = to;
        Some(EventTime(to))
    }
}
