//! The end of a chain that writes a table.

use std::collections::VecDeque;

use anabranch_model::{Epoch, EventTime, Marker, Result};
use anabranch_operators::{Committable, Sink};

/// A sink, and its prepared results that are not visible yet.
pub(crate) struct SinkTail {
    pub(crate) sink: Box<dyn Sink>,
    /// Whether the job has checkpoints: then these make rows visible, not the end of every epoch.
    by_checkpoint: bool,
    prepared: VecDeque<Committable>,
}

impl SinkTail {
    pub(crate) fn new(sink: Box<dyn Sink>, by_checkpoint: bool) -> SinkTail {
        SinkTail { sink, by_checkpoint, prepared: VecDeque::new() }
    }

    /// Event time has reached `watermark`.
    pub(crate) fn watermark(&mut self, watermark: EventTime) -> Result<()> {
        self.sink.watermark(watermark);
        Ok(())
    }

    /// The epoch ends: the sink writes its rows, or prepares the results that a checkpoint will make visible.
    pub(crate) fn epoch_end(&mut self, marker: Marker) -> Result<()> {
        match (self.by_checkpoint, marker.snapshot) {
            (false, _) => self.sink.epoch_end(marker.epoch),
            (true, false) => self.sink.flush(),
            (true, true) => {
                self.prepared.extend(self.sink.prepare_commit(marker.epoch)?);
                Ok(())
            }
        }
    }

    /// Whether prepared results are not visible yet.
    pub(crate) fn is_prepared(&self) -> bool {
        !self.prepared.is_empty()
    }

    /// The prepared results that are not visible yet, oldest first.
    pub(crate) fn prepared(&self) -> Vec<Committable> {
        self.prepared.iter().cloned().collect()
    }

    /// A checkpoint covers everything up to the end of `epoch`.
    pub(crate) fn commit(&mut self, epoch: Epoch) -> Result<()> {
        while let Some(committable) = self.prepared.front().filter(|c| c.epoch <= epoch) {
            self.sink.commit(committable)?;
            self.prepared.pop_front();
        }
        Ok(())
    }

    /// Publishes this task's share of the results that earlier tasks prepared under a completed checkpoint.
    pub(crate) fn restore(&mut self, mut own: impl Iterator<Item = Result<Committable>>) -> Result<()> {
        own.try_for_each(|committable| self.sink.commit(&committable?))
    }

    pub(crate) fn finish(&mut self, done: Option<Epoch>) -> Result<()> {
        done.map_or(Ok(()), |done| self.commit(done))?;
        self.sink.finish()
    }
}
