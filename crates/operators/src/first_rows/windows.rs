//! Partitions of windows: their first rows are emitted when the watermark passes the window's end, and forgotten.

use anabranch_model::{Error, EventTime, Result};

use super::{Emitted, FirstRows};
use crate::Output;
use crate::keyed_state::{LEAST_BYTES, Slice, check_size, unknown};
use crate::operator::RESULT_ROWS;

impl FirstRows {
    /// Event time goes on: partitions whose windows end are emitted before it.
    pub(super) fn fire(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        let Some(windows) = &mut self.windows else {
            out.watermark(watermark);
            return Ok(());
        };
        windows.begin(watermark, |group| self.partitions[group].rows() > 0);
        self.go_on_firing(out).map(|_| ())
    }

    /// Emits the next partitions whose windows have ended, then forgets them. False if everything had been emitted.
    pub(super) fn go_on_firing(&mut self, out: &mut Output) -> Result<bool> {
        let Some(windows) = &mut self.windows else { return Ok(false) };
        let mut emitted = Emitted::default();
        while emitted.len() < RESULT_ROWS
            && let Some(group) = windows.next_id()
        {
            emitted.add_all(group, self.partitions[group].entries())?;
        }
        if emitted.len() > 0 {
            self.emit(&emitted, out)?;
            return Ok(true);
        }
        if let Some(slice) = windows.next_slice().cloned() {
            self.fire_slice(&slice, out)?;
            return Ok(true);
        }
        let Some(watermark) = windows.pass() else { return Ok(false) };
        let (over, first_time) = (windows.take_over(0), windows.first_time());
        over.into_iter().for_each(|group| self.forget_partition(group));
        self.remove_dead()?;
        self.disk.iter_mut().for_each(|disk| disk.forget_all_before(first_time));
        out.watermark(watermark);
        Ok(true)
    }

    /// Emits partitions of a window that are on the disk only. Nothing is written: they are over.
    fn fire_slice(&mut self, slice: &Slice, out: &mut Output) -> Result<()> {
        let (Some(disk), Some(fired)) = (&self.disk, &mut self.of_slice) else {
            return Err(Error::internal("a window fires from a disk that is not there"));
        };
        let (tables, last) = disk.read(slice)?;
        for rows in &tables {
            fired.load_rows(&unknown(rows, self.spec.keys, &self.keys)?, 0)?;
        }
        let mut emitted = Emitted::default();
        for (group, partition) in fired.partitions.iter().enumerate() {
            emitted.add_all(group, partition.entries())?;
        }
        fired.emit(&emitted, out)?;
        let bytes = fired.size_bytes();
        fired.clear()?;
        self.windows.iter_mut().for_each(|windows| windows.read_to(last));
        check_size(self.size_bytes() + bytes, self.bytes_max.max(LEAST_BYTES))
    }
}
