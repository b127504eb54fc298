//! A task whose rows come from channels: receives, aligns, drives its chain.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anabranch_model::{Clock, Envelope, Epoch, Marker, MarkerKind, Result, TaskCounters, TaskId, batch_bytes};
use anabranch_protocol::coordinator::Report;

use crate::alignment::{Alignment, Event};
use crate::chain::{Chain, ChainSnapshot};
use crate::control::Control;
use crate::inbox::{Inbox, Received};
use crate::recorder::Work;
use crate::snapshot::{Snapshot, SourceSnapshot};

/// The static side of one operator: an inbox that is read to its end before the main input.
pub(crate) struct Side {
    pub(crate) operator: usize,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) channels: usize,
}

/// What every task has, whatever its input.
pub(crate) struct TaskParts {
    pub(crate) id: TaskId,
    pub(crate) chain: Chain,
    pub(crate) sides: Vec<Side>,
    pub(crate) counters: Arc<TaskCounters>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) control: Arc<Control>,
    /// Where snapshots go, if the job has checkpoints.
    pub(crate) snapshots: Option<Sender<Work>>,
    /// The epoch behind which the job begins.
    pub(crate) after: Epoch,
    /// The last epoch that was granted when a sink last told of an ended one.
    pub(crate) told_under: Epoch,
}

/// Whether a static side was read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideEnd {
    Complete,
    /// The job stops or has failed: no row may be joined with a part of the table.
    Cut,
}

impl TaskParts {
    /// Reads the static sides to their ends. Their rows are not counted: the counters tell of the stream. If that is cut
    /// short, rows of the stream will be dropped unprocessed: nothing from here on counts as done, and no snapshot says so.
    pub(crate) fn read_sides(&mut self) -> Result<SideEnd> {
        let sides = std::mem::take(&mut self.sides);
        for side in &sides {
            if self.read_side(side)? == SideEnd::Cut {
                self.control.report(self.id, Report::Dropped);
                self.snapshots = None;
                // Nobody will read the others; who sends there must not wait for it.
                sides.iter().for_each(|side| side.inbox.close());
                return Ok(SideEnd::Cut);
            }
        }
        Ok(SideEnd::Complete)
    }

    fn read_side(&mut self, side: &Side) -> Result<SideEnd> {
        let mut alignment = Alignment::new(side.channels, self.after);
        loop {
            let start = self.clock.now();
            let received = side.inbox.receive(alignment.blocked(), None, self.clock.as_ref());
            TaskCounters::add(&self.counters.idle_ns, self.clock.now().since(start));
            let Received::Envelope(channel, envelope) = received else { return Ok(SideEnd::Cut) };
            match alignment.receive(channel, envelope)? {
                Event::Batch(batch) => self.chain.side_batch(side.operator, batch.value)?,
                Event::Marker(marker) if marker.kind == MarkerKind::End => break,
                Event::Marker(marker) if marker.kind == MarkerKind::Stop => return Ok(SideEnd::Cut),
                _ => {}
            }
        }
        self.chain.side_end(side.operator)?;
        Ok(SideEnd::Complete)
    }

    /// The epoch ends here: the chain is told, and its snapshot sent off with what the source adds to it.
    pub(crate) fn marker(&mut self, marker: Marker, source: SourceSnapshot) -> Result<()> {
        let taken = self.chain.marker(marker)?;
        if let (Some(ChainSnapshot { watermark, operators, prepared }), Some(snapshots)) = (taken, &self.snapshots) {
            let (task, epoch, finished) = (self.id, marker.epoch, marker.kind.closes());
            let snapshot = Snapshot { task, epoch, finished, watermark, source, operators, prepared };
            // Whoever took snapshots is gone only when the job has failed.
            let _ = snapshots.send(Work::Snapshot(Box::new(snapshot)));
        }
        self.tell_ended(marker);
        Ok(())
    }

    /// Lets the sink make visible what complete checkpoints cover.
    pub(crate) fn checkpoints_done(&mut self) -> Result<()> {
        match self.chain.waits_for_checkpoint() {
            true => self.chain.checkpoint_done(self.control.done()),
            false => Ok(()),
        }
    }

    /// The last epoch has ended: waits until it is done, if that lets the sink make something visible, and closes it.
    pub(crate) fn finish(&mut self, last: Epoch) -> Result<()> {
        let done = self.chain.waits_for_checkpoint() && self.control.wait_done(last);
        self.chain.finish(done.then_some(last))
    }

    /// A sink has handed over an epoch. Of those that end under one grant, the coordinator hears of the first.
    fn tell_ended(&mut self, marker: Marker) {
        if !self.chain.is_sink() {
            return;
        }
        let granted = self.control.granted();
        if marker.kind.closes() {
            self.control.report(self.id, Report::SinkFinished);
        } else if granted > self.told_under {
            self.told_under = granted;
            self.control.report(self.id, Report::EpochEnded(marker.epoch));
        }
    }

    fn count_in(&self, envelope: &Envelope) {
        if let Envelope::Batch(batch) = envelope {
            TaskCounters::add(&self.counters.rows_in, batch.value.num_rows() as u64);
            TaskCounters::add(&self.counters.bytes_in, batch_bytes(&batch.value) as u64);
        }
    }
}

/// Runs a task that is fed by channels until their end.
pub(crate) fn run(mut task: TaskParts, inbox: &Inbox, channels: usize) -> Result<()> {
    let mut alignment = Alignment::new(channels, task.after);
    let cut = task.read_sides()? == SideEnd::Cut;
    let mut now = task.clock.now();
    loop {
        // What is there is taken at once; only then the task pauses, and waits.
        let mut received = inbox.receive(alignment.blocked(), Some(Duration::ZERO), task.clock.as_ref());
        if matches!(received, Received::Timeout) {
            task.chain.pause()?;
            task.checkpoints_done()?;
            now = task.chain.account(now);
            let timeout = task.chain.next_deadline().map(|deadline| deadline.after(now));
            received = inbox.receive(alignment.blocked(), timeout, task.clock.as_ref());
        }
        let start = task.clock.now();
        TaskCounters::add(&task.counters.idle_ns, start.since(now));
        match received {
            Received::Closed => return Ok(()),
            Received::Timeout => {}
            Received::Envelope(channel, envelope) => {
                task.count_in(&envelope);
                match alignment.receive(channel, envelope)? {
                    // Without its static side the task must not join; it only passes the stop on.
                    Event::Batch(_) | Event::Watermark(_) | Event::Idle(_) if cut => {}
                    Event::Batch(batch) => task.chain.batch(batch)?,
                    Event::Watermark(watermark) => task.chain.watermark(watermark)?,
                    Event::Idle(watermark) => {
                        watermark.map_or(Ok(()), |watermark| task.chain.watermark(watermark))?;
                        task.chain.idle()?;
                    }
                    Event::Marker(marker) => {
                        task.marker(marker, SourceSnapshot::default())?;
                        if marker.kind.closes() {
                            task.chain.account(start);
                            return task.finish(marker.epoch);
                        }
                    }
                    Event::None => {}
                }
            }
        }
        task.checkpoints_done()?;
        task.chain.flush_due(start)?;
        now = task.chain.account(start);
    }
}
