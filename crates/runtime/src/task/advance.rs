//! A task as a value: what it does with its input, and what it needs next.
//!
//! A task never waits. Its driver does: `streaming` runs each task on a thread of its own, and `stepped` runs
//! all of them on one thread for simulations. Both call [`Task::advance`] and give it what it needs; there is
//! no other copy of a task's rules.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anabranch_model::{
    Clock, Envelope, Epoch, Error, Marker, MarkerKind, Nanos, Result, TaskCounters, TaskId, batch_bytes,
};
use anabranch_operators::Polled;
use anabranch_protocol::coordinator::Report;

use crate::task::alignment::{Alignment, Event};
use crate::task::chain::{Chain, ChainSnapshot, Restore};
use crate::task::control::Control;
use crate::task::inbox::{Inbox, Received};
use crate::task::inbox_task::InboxTask;
use crate::task::left::Left;
use crate::task::phases::{Boundary, Passing};
use crate::task::snapshot::{Snapshot, SourceSnapshot};
use crate::task::source_task::SourceTask;

pub(crate) enum Task {
    Source(Box<SourceTask>),
    Inbox(Box<InboxTask>),
}

/// What a task needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advance {
    /// Nothing: it can continue at once.
    Continue,
    /// [Input](Task::receive), or this time to come.
    Input(Option<Nanos>),
    /// Room in a channel downstream.
    Room,
    /// The release of held sources, or this time to come.
    Release(Nanos),
    /// Certainty that this epoch is done, or that it never will be.
    Settled(Epoch),
    /// Nothing: it has ended.
    Ended,
}

/// The input of a task.
#[derive(Debug)]
pub(crate) enum Input {
    /// An envelope from this channel of the inbox that it reads.
    Envelope(usize, Envelope),
    /// What its source returned.
    Polled(Polled),
    /// Nothing came in time.
    Nothing,
    /// The inbox was closed: the job is torn down.
    Closed,
}

impl Input {
    /// Whether it is more than a timeout.
    pub(crate) fn is_there(&self) -> bool {
        !matches!(self, Input::Nothing | Input::Polled(Polled::Pending))
    }
}

impl TryFrom<Received> for Input {
    type Error = Error;

    fn try_from(received: Received) -> Result<Input> {
        match received {
            Received::Envelope(channel, envelope) => Ok(Input::Envelope(channel, envelope)),
            Received::Timeout => Ok(Input::Nothing),
            Received::Closed => Ok(Input::Closed),
            Received::Failed(error) => Err(error),
        }
    }
}

impl Task {
    /// Does what is due, with input if the task needed it and it has arrived. Does not wait.
    pub(crate) fn advance(&mut self, now: Nanos, input: Option<Input>) -> Result<Advance> {
        if !self.parts().is_prepared() {
            let parts = self.parts_mut();
            parts.prepare(input)?;
            if !parts.is_prepared() {
                return Ok(Advance::Input(None));
            }
            parts.counters.is_prepared.store(true, Relaxed);
            // A restore may have taken long.
            let now = parts.clock.now();
            if let Task::Source(task) = self {
                task.begin(now);
            }
            return Ok(Advance::Continue);
        }
        match self {
            Task::Source(task) => task.advance(now, input),
            Task::Inbox(task) => task.advance(now, input),
        }
    }

    /// Receives the next input, waiting at most for `timeout`. `only` restricts an inbox to one channel.
    pub(crate) fn receive(&mut self, timeout: Option<Duration>, only: Option<usize>) -> Result<Input> {
        if let Some(side) = self.parts().sides.first() {
            let clock = self.parts().clock.as_ref();
            return side.inbox.receive(side.alignment.blocked(), timeout, clock).try_into();
        }
        match self {
            Task::Source(task) => task.receive(timeout).map(Input::Polled),
            Task::Inbox(task) => task.receive(timeout, only),
        }
    }

    /// There is no input, and the task is about to wait for it.
    pub(crate) fn pause(&mut self) -> Result<()> {
        match self {
            Task::Inbox(task) if task.parts().is_prepared() => task.pause(),
            _ => Ok(()),
        }
    }

    /// Waits while sources are held, at most until `until`.
    pub(crate) fn wait_held(&self, now: Nanos, until: Nanos) {
        if let Task::Source(task) = self {
            task.wait_held(until.after(now));
        }
    }

    pub(crate) fn parts(&self) -> &TaskParts {
        match self {
            Task::Source(task) => task.parts(),
            Task::Inbox(task) => task.parts(),
        }
    }

    /// The parts that it leaves for the next plan version.
    pub(crate) fn leave(self) -> Left {
        let (mut parts, source) = match self {
            Task::Source(task) => task.leave(),
            Task::Inbox(task) => (task.leave(), None),
        };
        let sides = parts.chain.static_sides();
        let (operators, sink) = parts.chain.leave_parts();
        Left { task: parts.id, operators, sides, source, sink }
    }

    fn parts_mut(&mut self) -> &mut TaskParts {
        match self {
            Task::Source(task) => task.parts_mut(),
            Task::Inbox(task) => task.parts_mut(),
        }
    }
}

/// The static side of one operator: an inbox that is read to its end before the main input.
pub(crate) struct Side {
    operator: usize,
    inbox: Arc<Inbox>,
    alignment: Alignment,
}

impl Side {
    /// For the operator at this index, over this number of channels, which begin after the epoch `after`.
    pub(crate) fn new(operator: usize, inbox: Arc<Inbox>, channels: usize, after: Epoch) -> Side {
        Side { operator, inbox, alignment: Alignment::new(channels, after) }
    }
}

/// The parts that every task has, whatever its input.
pub(crate) struct TaskParts {
    pub(crate) id: TaskId,
    pub(crate) chain: Chain,
    /// The state to restore, until it is restored.
    pub(crate) restore: Option<Restore>,
    /// How often it reports progress during the restore.
    pub(crate) progress_interval: Duration,
    /// The sides that are not yet read to their ends.
    pub(crate) sides: Vec<Side>,
    pub(crate) counters: Arc<TaskCounters>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) control: Arc<Control>,
    /// The recorder's queue, if the job has checkpoints.
    pub(crate) snapshots: Option<Sender<Snapshot>>,
    /// The epoch of the checkpoint that it resumes from.
    pub(crate) after: Epoch,
    /// The last granted epoch when a sink last reported the end of an epoch.
    pub(crate) told_under: Epoch,
    /// The last boundary of a checkpoint that has entered the task.
    pub(crate) boundary: Option<Boundary>,
    /// How its static sides ended, once they have.
    pub(crate) side_end: Option<SideEnd>,
}

/// Whether a task's static sides were read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideEnd {
    Complete,
    /// The job stops or has failed: rows must not be joined with an incomplete table.
    Cut,
}

impl TaskParts {
    /// Whether its state is restored and its static sides have ended.
    pub(crate) fn is_prepared(&self) -> bool {
        self.restore.is_none() && self.side_end.is_some()
    }

    /// Restores its state first, then takes input of the static side that is being read. Rows of sides are
    /// not counted: the counters are those of the stream. If a side is cut short, rows of the stream will be
    /// dropped unprocessed: from here on no epoch counts as done, and no snapshot is acknowledged.
    fn prepare(&mut self, input: Option<Input>) -> Result<()> {
        if let Some(restore) = self.restore.take() {
            self.restore(&restore)?;
        }
        let Some(side) = self.sides.first_mut() else {
            self.side_end = Some(SideEnd::Complete);
            return Ok(());
        };
        let event = match input {
            Some(Input::Envelope(channel, envelope)) => side.alignment.receive(channel, envelope)?,
            Some(Input::Closed) => {
                self.cut_sides();
                return Ok(());
            }
            _ => return Ok(()),
        };
        let operator = side.operator;
        match event {
            Event::Batch(batch) => self.chain.side_batch(operator, batch.value)?,
            Event::Marker(marker, _) if marker.kind == MarkerKind::End => {
                self.sides.remove(0);
                self.chain.side_end(operator)?;
            }
            Event::Marker(marker, _) if marker.kind == MarkerKind::Stop => self.cut_sides(),
            _ => {}
        }
        if self.sides.is_empty() {
            self.side_end.get_or_insert(SideEnd::Complete);
        }
        Ok(())
    }

    fn restore(&mut self, restore: &Restore) -> Result<()> {
        let mut reported = self.clock.now();
        let wanted = || {
            if self.clock.now() >= reported.plus(self.progress_interval) {
                reported = self.clock.now();
                self.control.report(self.id, Report::Restoring);
            }
            !self.control.is_cancelled()
        };
        self.chain.restore(restore, wanted)?;
        if !restore.operators.is_empty() {
            self.control.report(self.id, Report::Started);
        }
        Ok(())
    }

    fn cut_sides(&mut self) {
        self.control.report(self.id, Report::Dropped);
        self.snapshots = None;
        // No task will read the other sides; their senders must not wait.
        self.sides.drain(..).for_each(|side| side.inbox.close());
        self.side_end = Some(SideEnd::Cut);
    }

    /// The epoch has ended here: sends the snapshot, with the source's part.
    pub(crate) fn marked(&mut self, marker: Marker, taken: Option<ChainSnapshot>, source: SourceSnapshot) {
        if let (Some(ChainSnapshot { operators, prepared }), Some(snapshots)) = (taken, &self.snapshots) {
            let (task, epoch, finished) = (self.id, marker.epoch, marker.kind.closes());
            let (control, passing) = (Arc::clone(&self.control), self.passing(epoch));
            let snapshot = Snapshot { control, task, epoch, finished, passing, source, operators, prepared };
            // The recorder ends before the task only if the job has failed.
            let _ = snapshots.send(snapshot);
        }
        self.report_ended(marker);
    }

    /// When the boundary at the end of this epoch went through the task, if it belongs to the last requested
    /// checkpoint.
    fn passing(&self, epoch: Epoch) -> Option<Passing> {
        let requested = self.control.requested_at(epoch)?;
        let boundary = self.boundary.filter(|boundary| boundary.epoch == epoch)?;
        Some(Passing { requested, boundary, taken: self.chain.marked_at() })
    }

    /// Lets the sink publish what complete checkpoints cover. A cancelled task leaves that to the next
    /// incarnation, which may have begun.
    pub(crate) fn checkpoints_done(&mut self) -> Result<()> {
        match self.chain.waits_for_checkpoint() && !self.control.is_cancelled() {
            true => self.chain.checkpoint_done(self.control.done()),
            false => Ok(()),
        }
    }

    /// The last epoch has ended. Once it is settled, the sink publishes its prepared results, if the epoch is
    /// done. Then the sink is closed, unless the task leaves it for the next plan version. A task must not
    /// end before its last snapshot is written: its worker would accept no further report of it.
    pub(crate) fn finish(&mut self, last: Epoch) -> Result<Advance> {
        let waits = self.chain.waits_for_checkpoint();
        if (waits || self.snapshots.is_some()) && !self.control.is_settled(last) {
            return Ok(Advance::Settled(last));
        }
        let done = (waits && self.control.is_done(last)).then_some(last);
        match (self.control.leaves_parts(), done) {
            (false, done) => self.chain.finish(done)?,
            (true, Some(done)) => self.chain.checkpoint_done(done)?,
            (true, None) => {}
        }
        Ok(Advance::Ended)
    }

    /// A sink has ended an epoch. Of the epochs under one grant, only the first and the last are reported to
    /// the coordinator: after the last one, no other may follow soon.
    fn report_ended(&mut self, marker: Marker) {
        if !self.chain.is_sink() {
            return;
        }
        let granted = self.control.granted();
        if marker.kind.closes() {
            self.control.report(self.id, Report::SinkFinished);
        } else if granted > self.told_under || marker.epoch == granted {
            self.told_under = granted;
            self.control.report(self.id, Report::EpochEnded(marker.epoch));
        }
    }

    pub(crate) fn count_in(&self, envelope: &Envelope) {
        if let Envelope::Batch(batch) = envelope {
            TaskCounters::add(&self.counters.rows_in, batch.value.num_rows() as u64);
            TaskCounters::add(&self.counters.bytes_in, batch_bytes(&batch.value) as u64);
        }
    }
}
