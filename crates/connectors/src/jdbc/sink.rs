//! The writers of one task: at least once, and exactly once.

use anabranch_dataflow::SinkSpec;
use anabranch_model::{Epoch, Nanos, Result};
use anabranch_operators::{Committable, Sink, TaskContext};
use arrow::array::RecordBatch;

use super::content::{HeldRows, RowBuffer};
use super::writer::Writer;
use crate::room::Room;

fn gathered(writer: &Writer, spec: &SinkSpec) -> RowBuffer {
    RowBuffer::new(writer.layout.clone(), spec.updating.then(|| spec.schema.fields().len()))
}

/// Writes rows as they arrive.
pub(super) struct JdbcSink {
    writer: Writer,
    gathered: RowBuffer,
    /// When the oldest unwritten row arrived.
    since: Option<Nanos>,
}

impl JdbcSink {
    pub(super) fn new(writer: Writer, spec: &SinkSpec) -> JdbcSink {
        JdbcSink { gathered: gathered(&writer, spec), writer, since: None }
    }
}

impl Sink for JdbcSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.gathered.push(batch)?;
        let now = self.writer.attempts.clock.now();
        let since = *self.since.get_or_insert(now);
        let (rows_max, interval) = (self.writer.table.flush_rows, self.writer.table.flush_interval);
        let is_full = rows_max > 0 && self.gathered.rows() >= rows_max;
        let is_late = !interval.is_zero() && now >= since.plus(interval);
        if is_full || is_late { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.since = None;
        self.gathered.take().map_or(Ok(()), |content| self.writer.write(&content))
    }

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        self.flush()
    }

    /// Commits committables from a time when the table was written exactly once.
    fn commit(&mut self, committable: &Committable) -> Result<()> {
        let content = HeldRows::parse(&committable.content)?;
        self.writer.commit(&content, (committable.task, committable.epoch), true)
    }

    fn finish(&mut self) -> Result<()> {
        self.flush()
    }
}

/// Holds rows until their checkpoint is complete.
pub(super) struct ExactJdbcSink {
    writer: Writer,
    gathered: RowBuffer,
    room: Room,
    task: u32,
    /// Whether committables of earlier incarnations are being committed.
    is_restoring: bool,
}

impl ExactJdbcSink {
    pub(super) fn new(writer: Writer, spec: &SinkSpec, context: &TaskContext) -> ExactJdbcSink {
        let room = Room::new(context.host.clone(), writer.table.buffer_bytes);
        ExactJdbcSink { gathered: gathered(&writer, spec), writer, room, task: context.index, is_restoring: true }
    }
}

impl Sink for ExactJdbcSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.is_restoring = false;
        self.gathered.push(batch)?;
        self.room.wrote(self.gathered.bytes())
    }

    /// No checkpoint covers the epoch: its rows wait for the next one.
    fn flush(&mut self) -> Result<()> {
        self.room.flushed();
        Ok(())
    }

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        self.flush()
    }

    fn prepare_commit(&mut self, epoch: Epoch) -> Result<Option<Committable>> {
        self.is_restoring = false;
        self.room.prepared(epoch);
        let content = self.gathered.take();
        Ok(content.map(|content| Committable { epoch, task: self.task, content: content.to_bytes() }))
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        let content = HeldRows::parse(&committable.content)?;
        self.writer.commit(&content, (committable.task, committable.epoch), self.is_restoring)?;
        if committable.task == self.task {
            self.room.committed(committable.epoch);
        }
        Ok(())
    }
}
