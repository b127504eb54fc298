//! A task whose rows come from channels: receives, aligns, drives its chain.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anabranch_model::{
    Clock, Envelope, Epoch, EventTime, Marker, MarkerKind, Nanos, Result, Stamped, TaskCounters, TaskId, batch_bytes,
};
use anabranch_protocol::coordinator::Report;

use crate::alignment::{Alignment, Event};
use crate::chain::{Chain, ChainSnapshot, Restore};
use crate::control::Control;
use crate::inbox::{Inbox, Received};
use crate::recorder::Work;
use crate::snapshot::{Snapshot, SourceSnapshot};

/// The static side of one operator: an inbox that is read to its end before the main input.
pub(crate) struct Side {
    operator: usize,
    inbox: Arc<Inbox>,
    alignment: Alignment,
}

impl Side {
    /// For the operator at this place, over this number of channels, which begin after the epoch `after`.
    pub(crate) fn new(operator: usize, inbox: Arc<Inbox>, channels: usize, after: Epoch) -> Side {
        Side { operator, inbox, alignment: Alignment::new(channels, after) }
    }
}

/// The parts that every task has, whatever its input.
pub(crate) struct TaskParts {
    pub(crate) id: TaskId,
    pub(crate) chain: Chain,
    /// What it resumes from, until it has restored it.
    pub(crate) restore: Option<Restore>,
    /// How often it reports meanwhile that it gets further.
    pub(crate) progress_interval: Duration,
    /// The sides that have not been read to their ends.
    pub(crate) sides: Vec<Side>,
    pub(crate) counters: Arc<TaskCounters>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) control: Arc<Control>,
    /// The recorder's queue, if the job has checkpoints.
    pub(crate) snapshots: Option<Sender<Work>>,
    /// The epoch after which the job resumes.
    pub(crate) after: Epoch,
    /// The last granted epoch when a sink last reported an ended one.
    pub(crate) told_under: Epoch,
}

/// The result of a step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There may be more to do.
    Goes,
    /// The task has nothing more to do.
    Ended,
}

/// Whether a task's static sides were read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideEnd {
    Complete,
    /// The job stops or has failed: no row may be joined with a part of the table.
    Cut,
}

impl TaskParts {
    /// Restores its state and reads the static sides to their ends. Their rows are not counted: the counters are those
    /// of the stream.
    pub(crate) fn read_sides(&mut self) -> Result<SideEnd> {
        loop {
            if let Some(end) = self.read_side(None)? {
                return Ok(end);
            }
        }
    }

    /// Restores its state, if it has not done so, then takes the next input of the static side that is being read;
    /// waits at most `timeout` for it. `None` as long as there may be more. If reading is cut short, rows of the stream
    /// will be dropped unprocessed: from here on no epoch counts as done, and no snapshot is acknowledged.
    pub(crate) fn read_side(&mut self, timeout: Option<Duration>) -> Result<Option<SideEnd>> {
        if let Some(restore) = self.restore.take() {
            let mut reported = self.clock.now();
            let wanted = || {
                if self.clock.now() >= reported.plus(self.progress_interval) {
                    reported = self.clock.now();
                    self.control.report(self.id, Report::Restoring);
                }
                !self.control.is_cancelled()
            };
            self.chain.restore(&restore, wanted)?;
            if !restore.operators.is_empty() {
                self.control.report(self.id, Report::Started);
            }
        }
        let Some(side) = self.sides.first_mut() else { return Ok(Some(SideEnd::Complete)) };
        let start = self.clock.now();
        let received = side.inbox.receive(side.alignment.blocked(), timeout, self.clock.as_ref());
        TaskCounters::add(&self.counters.idle_ns, self.clock.now().since(start));
        let event = match received {
            Received::Envelope(channel, envelope) => side.alignment.receive(channel, envelope)?,
            Received::Timeout => return Ok(None),
            Received::Closed => return Ok(Some(self.cut_sides())),
        };
        let operator = side.operator;
        match event {
            Event::Batch(batch) => self.chain.side_batch(operator, batch.value)?,
            Event::Marker(marker) if marker.kind == MarkerKind::End => {
                self.sides.remove(0);
                self.chain.side_end(operator)?;
            }
            Event::Marker(marker) if marker.kind == MarkerKind::Stop => return Ok(Some(self.cut_sides())),
            _ => {}
        }
        Ok(None)
    }

    fn cut_sides(&mut self) -> SideEnd {
        self.control.report(self.id, Report::Dropped);
        self.snapshots = None;
        // No task will read the others; their senders must not wait for that.
        self.sides.drain(..).for_each(|side| side.inbox.close());
        SideEnd::Cut
    }

    /// The epoch ends here: the chain handles the marker, and the snapshot is sent off with the source's part.
    pub(crate) fn marker(&mut self, marker: Marker, source: SourceSnapshot) -> Result<()> {
        let taken = self.chain.marker(marker)?;
        if let (Some(ChainSnapshot { operators, prepared }), Some(snapshots)) = (taken, &self.snapshots) {
            let (task, epoch, finished) = (self.id, marker.epoch, marker.kind.closes());
            let control = Arc::clone(&self.control);
            let snapshot = Snapshot { control, task, epoch, finished, source, operators, prepared };
            // The recorder ends before the task only if the job has failed.
            let _ = snapshots.send(Work::Snapshot(Box::new(snapshot)));
        }
        self.tell_ended(marker);
        Ok(())
    }

    /// Lets the sink make visible what complete checkpoints cover. A task that was cancelled leaves that to the next
    /// incarnation, which may have begun.
    pub(crate) fn checkpoints_done(&mut self) -> Result<()> {
        match self.chain.waits_for_checkpoint() && !self.control.is_cancelled() {
            true => self.chain.checkpoint_done(self.control.done()),
            false => Ok(()),
        }
    }

    /// Whether [`TaskParts::finish`] would have to wait.
    pub(crate) fn must_wait(&self, last: Epoch) -> bool {
        self.chain.waits_for_checkpoint() && !self.control.is_settled(last)
    }

    /// The last epoch has ended: waits until it is done, if the sink then makes something visible, and closes the sink.
    pub(crate) fn finish(&mut self, last: Epoch) -> Result<()> {
        let done = self.chain.waits_for_checkpoint() && self.control.wait_done(last);
        self.chain.finish(done.then_some(last))
    }

    /// A sink has ended an epoch. Of those that end under one grant, only the first is reported to the coordinator.
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

/// A task that is fed by channels.
pub(crate) struct InboxTask {
    task: TaskParts,
    inbox: Arc<Inbox>,
    alignment: Alignment,
    /// How its static sides ended, once they have.
    sides: Option<SideEnd>,
    /// The last epoch, once it has ended.
    ended: Option<Epoch>,
}

impl InboxTask {
    pub(crate) fn new(task: TaskParts, inbox: Arc<Inbox>, channels: usize) -> Self {
        let alignment = Alignment::new(channels, task.after);
        // Operators continue with the watermark that they had.
        let operators = task.restore.iter().flat_map(|restore| restore.operators.values());
        operators.for_each(|operator| inbox.set_reached(operator.watermark));
        InboxTask { task, inbox, alignment, sides: None, ended: None }
    }

    /// Runs the task until its channels end, waiting for its input.
    pub(crate) fn run(mut self) -> Result<()> {
        self.sides = Some(self.task.read_sides()?);
        let mut now = self.task.clock.now();
        loop {
            // What is already there is taken without waiting; only then the task pauses and waits.
            let mut received = self.receive(Some(Duration::ZERO));
            if matches!(received, Received::Timeout) {
                self.pause()?;
                now = self.task.chain.account(now);
                let timeout = self.task.chain.next_deadline().map(|deadline| deadline.after(now));
                received = self.receive(timeout);
            }
            let start = self.task.clock.now();
            TaskCounters::add(&self.task.counters.idle_ns, start.since(now));
            if matches!(received, Received::Closed) {
                return Ok(());
            }
            if let Received::Envelope(channel, envelope) = received {
                self.take(channel, envelope)?;
            }
            if let Some(last) = self.ended {
                self.task.chain.account(start);
                return self.task.finish(last);
            }
            self.look_around(start)?;
            now = self.task.chain.account(start);
        }
    }

    /// One step without waiting: receives at most one envelope, and only of this channel of its main input. `tap` may
    /// replace that envelope.
    pub(crate) fn step(&mut self, channel: usize, tap: impl FnOnce(Envelope) -> Vec<Envelope>) -> Result<Step> {
        if self.sides.is_none() {
            self.sides = self.task.read_side(Some(Duration::ZERO))?;
            return Ok(Step::Goes);
        }
        if let Some(last) = self.ended {
            return match self.task.must_wait(last) {
                true => Ok(Step::Goes),
                false => self.task.finish(last).map(|()| Step::Ended),
            };
        }
        let start = self.task.clock.now();
        let others = self.alignment.blocked().iter().enumerate().map(|(index, blocked)| *blocked || index != channel);
        let received = self.inbox.receive(&others.collect::<Vec<_>>(), Some(Duration::ZERO), self.task.clock.as_ref());
        match received {
            Received::Closed => return Ok(Step::Ended),
            Received::Timeout => self.pause()?,
            Received::Envelope(channel, envelope) => {
                tap(envelope).into_iter().try_for_each(|envelope| self.take(channel, envelope))?;
            }
        }
        if self.ended.is_none() {
            self.look_around(start)?;
        }
        Ok(Step::Goes)
    }

    pub(crate) fn parts(&self) -> &TaskParts {
        &self.task
    }

    pub(crate) fn channels(&self) -> usize {
        self.alignment.blocked().len()
    }

    fn receive(&self, timeout: Option<Duration>) -> Received {
        self.inbox.receive(self.alignment.blocked(), timeout, self.task.clock.as_ref())
    }

    fn pause(&mut self) -> Result<()> {
        self.task.chain.pause()?;
        self.task.checkpoints_done()
    }

    fn take(&mut self, channel: usize, envelope: Envelope) -> Result<()> {
        self.task.count_in(&envelope);
        match self.alignment.receive(channel, envelope)? {
            // Without its static side the task must not join; it only passes the stop on.
            Event::Batch(_) | Event::Watermark(_) | Event::Idle(_) if self.sides == Some(SideEnd::Cut) => Ok(()),
            Event::Batch(batch) => self.task.chain.batch(batch),
            Event::Watermark(watermark) => self.watermark(watermark),
            Event::Idle(watermark) => {
                watermark.map_or(Ok(()), |watermark| self.watermark(watermark))?;
                self.task.chain.idle()
            }
            Event::Marker(marker) => {
                self.ended = marker.kind.closes().then_some(marker.epoch);
                self.task.marker(marker, SourceSnapshot::default())
            }
            Event::None => Ok(()),
        }
    }

    fn watermark(&mut self, watermark: Stamped<EventTime>) -> Result<()> {
        self.inbox.set_reached(watermark.value);
        self.task.chain.watermark(watermark)
    }

    fn look_around(&mut self, now: Nanos) -> Result<()> {
        self.task.checkpoints_done()?;
        self.task.chain.flush_due(now)
    }
}
