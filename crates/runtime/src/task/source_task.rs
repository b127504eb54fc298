//! A task whose rows come from a source: decides the fate of malformed records and late rows, derives
//! watermarks, cuts epochs, drives its chain.

mod parts;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::AlignmentSpec;
use anabranch_model::{
    Epoch, Error, EventTime, Marker, MarkerKind, Nanos, PartitionId, PlanVersion, Result, SourceProgress, Stamped,
    TaskCounters, batch_bytes,
};
use anabranch_operators::{Host, Polled, Rows};
use anabranch_protocol::coordinator::Report;

use crate::task::advance::{Advance, Input, SideEnd, TaskParts};
use crate::task::chain::{ChainSnapshot, Progress, SinkTail};
use crate::task::cut_times::CutTimes;
use crate::task::hold_back::HoldBack;
use crate::task::merged_time::TimeProgress;
use crate::task::phases::Boundary;
use crate::task::processing_time::ProcessingTime;
use crate::task::snapshot::SourceSnapshot;
use crate::task::source_time::Observed;

use parts::LOOK;
pub(crate) use parts::{SideTails, SourceParts};

/// How long a task waits while sources are held before it checks for work that nothing announces.
const LOOK_HELD: Duration = Duration::from_millis(50);

/// How often the lag of the source and the progress of its partitions are shown to observers.
const PUBLICATION: Duration = Duration::from_millis(200);

pub(crate) struct SourceTask {
    task: TaskParts,
    parts: SourceParts,
    version: PlanVersion,
    cut_times: CutTimes,
    /// Whether its rows reach a sink, not only the static side of a join.
    reaches_sink: bool,
    /// The epoch that rows read now belong to.
    epoch: Epoch,
    next_cut: Nanos,
    /// The newest epoch in which it had output.
    active: Epoch,
    /// Since when the next cut waits for its grant.
    ungranted_since: Option<Nanos>,
    /// The last epoch that was reported to the source as done.
    done: Epoch,
    /// The first partitions have been announced.
    has_opened: bool,
    /// The last epoch that may be cut before the source is polled again.
    may_cut: Epoch,
    /// When the newest input was read.
    born: Nanos,
    /// Its part of the snapshot at the marker that is passing the chain.
    cutting: SourceSnapshot,
    /// Whether the source has ended, so that the last epoch must be cut.
    is_exhausted: bool,
    /// The last epoch, once it has ended.
    ended: Option<Epoch>,
    host: Arc<dyn Host>,
    next_publication: Nanos,
    /// Whether rows were read since the last publication.
    has_unpublished: bool,
    hold_back: HoldBack,
    /// How far it may be ahead of others.
    alignment: Option<AlignmentSpec>,
    /// Its partitions that are too far ahead, as far as it knows.
    held: BTreeSet<PartitionId>,
    /// Whether the source can omit them, so that other partitions can be read.
    leaves_out: bool,
    /// If no other partition has rows: the event time of the slowest source of the group.
    ahead_of: Option<EventTime>,
    /// When other partitions are polled again.
    next_look: Nanos,
    /// All partitions are idle. This is announced once the last watermark has passed the chain.
    becomes_idle: bool,
}

impl SourceTask {
    pub(crate) fn new(
        task: TaskParts,
        parts: SourceParts,
        version: PlanVersion,
        epoch_interval: Duration,
        reaches_sink: bool,
        host: Arc<dyn Host>,
    ) -> Self {
        let (epoch, done) = (task.after.next(), task.after);
        let cut_times = CutTimes::new(task.clock.as_ref(), epoch_interval);
        let alignment = parts.alignment.clone().filter(|_| reaches_sink);
        SourceTask {
            task,
            parts,
            version,
            cut_times,
            reaches_sink,
            epoch,
            next_cut: Nanos(0),
            active: Epoch(0),
            ungranted_since: None,
            done,
            has_opened: false,
            may_cut: Epoch(0),
            born: Nanos(0),
            cutting: SourceSnapshot::default(),
            is_exhausted: false,
            ended: None,
            host,
            next_publication: Nanos(0),
            has_unpublished: false,
            hold_back: HoldBack::default(),
            alignment,
            held: BTreeSet::new(),
            leaves_out: false,
            ahead_of: None,
            next_look: Nanos(0),
            becomes_idle: false,
        }
    }

    pub(crate) fn parts(&self) -> &TaskParts {
        &self.task
    }

    pub(crate) fn parts_mut(&mut self) -> &mut TaskParts {
        &mut self.task
    }

    /// Its partitions are known: the former plan version has read the source.
    pub(crate) fn goes_on(mut self) -> Self {
        self.has_opened = true;
        self
    }

    /// The task is prepared, and its first epoch begins.
    pub(crate) fn begin(&mut self, now: Nanos) {
        self.next_cut = self.cut_times.after(now);
    }

    /// Handles the input of the source, moves its output, and does what is due: one step per call.
    pub(crate) fn advance(&mut self, now: Nanos, input: Option<Input>) -> Result<Advance> {
        if let Some(last) = self.ended {
            return self.finish(last);
        }
        if self.task.control.is_cancelled() {
            return Ok(Advance::Ended);
        }
        match input {
            Some(Input::Polled(polled)) => self.process(polled, now)?,
            Some(_) => return Err(Error::internal("a source was given the input of channels")),
            None => {}
        }
        self.align(now)?;
        match self.task.chain.advance()? {
            Progress::Full => return Ok(Advance::Room),
            Progress::Marked(marker, taken) => {
                self.marked(marker, taken);
                return Ok(Advance::Continue);
            }
            Progress::Ready => {}
        }
        if self.next(now)? {
            return Ok(Advance::Continue);
        }
        self.publish(now);
        if !self.task.chain.flush_due(self.task.clock.now())? {
            return Ok(Advance::Room);
        }
        if self.has_opened && self.is_held() {
            // Partitions that are too far ahead do not become idle meanwhile. Idle ones may have rows again.
            if self.leaves_out && !self.task.control.is_held() && now >= self.next_look {
                self.next_look = now.plus(LOOK_HELD);
                return Ok(Advance::Input(Some(now)));
            }
            return Ok(Advance::Release(now.plus(self.wait_without_rows(now).min(LOOK_HELD))));
        }
        // The first poll finds the partitions. An epoch that is due may wait for it.
        let waits = self.has_opened && self.epoch <= self.may_cut && !self.parts.watermarks.may_end();
        let wait = if waits { self.wait(now) } else { Duration::ZERO };
        Ok(Advance::Input(Some(now.plus(wait))))
    }

    /// Whether rows must wait: a sink is full, or all partitions with rows are too far ahead.
    fn is_held(&self) -> bool {
        self.reaches_sink && self.task.control.is_held() || self.ahead_of.is_some()
    }

    /// Reports its event time to its group, and determines which partitions are too far ahead.
    fn align(&mut self, now: Nanos) -> Result<()> {
        let Some(alignment) = self.alignment.as_ref().filter(|_| self.has_opened) else { return Ok(()) };
        // A source that has ended holds no other one back.
        let time = self.parts.watermarks.least().filter(|_| !self.is_exhausted).unwrap_or(EventTime::MAX);
        let least = self.task.control.reached(&alignment.group, self.task.id, time, now);
        let bound = EventTime(least.0.saturating_add(alignment.max_drift_ms));
        let held = self.parts.watermarks.ahead_of(bound);
        if held != self.held {
            self.leaves_out = self.parts.source.hold(&held)?;
            self.held = held;
        }
        self.ahead_of = self.parts.watermarks.are_all_ahead().then_some(least);
        Ok(())
    }

    /// Gives the chain its next input, if anything but rows is due. Returns whether it did. Event time comes
    /// first: rows that were read belong to the epoch that may be cut next. A task whose static sides were
    /// cut short announces nothing: it only ends.
    fn next(&mut self, now: Nanos) -> Result<bool> {
        let sides_were_cut = self.task.side_end == Some(SideEnd::Cut);
        if !self.has_opened && !sides_were_cut {
            return Ok(false);
        }
        if self.is_exhausted {
            self.cut(MarkerKind::End)?;
            return Ok(true);
        }
        if !sides_were_cut && self.progress(now)? {
            return Ok(true);
        }
        // All sources end at the end of the same epoch.
        if let Some(last) = self.task.control.stop_after() {
            self.cut(if self.epoch < last { MarkerKind::Cut } else { MarkerKind::Stop })?;
            return Ok(true);
        }
        if sides_were_cut {
            return Err(Error::internal("the static side was cut, but the job does not stop"));
        }
        if self.is_cut_due(now) {
            self.cut(MarkerKind::Cut)?;
            return Ok(true);
        }
        self.epochs_done()?;
        Ok(false)
    }

    /// Passes on the progress of the partitions' watermarks, if there is any.
    fn progress(&mut self, now: Nanos) -> Result<bool> {
        if let Some(processing) = &mut self.parts.processing
            && let Some(watermark) = processing.progress(now, self.task.clock.wall_ms())
        {
            self.parts.watermarks.advance(watermark, now);
            self.born = now;
        }
        if std::mem::take(&mut self.becomes_idle) {
            self.task.chain.idle()?;
            return Ok(true);
        }
        // A table without event time has no watermark; only its idleness matters.
        let (watermark, is_idle) = match self.parts.progress() {
            Some(TimeProgress::Watermark(watermark)) => (Some(watermark), false),
            Some(TimeProgress::Idle(watermark)) => (watermark, true),
            None => return Ok(false),
        };
        match watermark {
            Some(watermark) => {
                self.task.chain.watermark(Stamped { born: self.born, ..watermark })?;
                self.becomes_idle = is_idle;
            }
            None => self.task.chain.idle()?,
        }
        self.active = self.epoch;
        Ok(true)
    }

    /// Receives from the source. Rows come after all partitions that the source announces first: event time
    /// must not advance with the first partition while one that is further behind is yet to be announced.
    pub(crate) fn receive(&mut self, timeout: Option<Duration>) -> Result<Polled> {
        let mut polled = self.parts.source.poll(timeout.unwrap_or(LOOK))?;
        while let Polled::Opened { partition, name } = polled {
            self.parts.watermarks.opened(partition, name, self.task.clock.now());
            polled = self.parts.source.poll(Duration::ZERO)?;
        }
        Ok(polled)
    }

    /// Whether the epoch ends: its time is over, or another source has cut it. A task with both as inputs
    /// holds that source's rows back until this one cuts it.
    fn is_cut_due(&mut self, now: Nanos) -> bool {
        // Markers that take longer than an epoch would leave no time for rows. A held source reads none.
        if self.epoch > self.may_cut && !self.is_held() {
            return false;
        }
        if (now >= self.next_cut && self.is_granted(now)) || self.task.control.cuts_early(self.epoch) {
            let last = self.epoch.max(self.task.control.at_once());
            self.task.control.lead(last, self.cut_times.after(now));
        }
        // The last epoch of a job that stops is not cut here: it ends the source. A grant and its stop are
        // published together.
        self.epoch <= self.task.control.foremost() && !self.task.control.stops_after(self.epoch)
    }

    /// Whether the current epoch may be cut. The time spent waiting for the grant is reported as a cost of
    /// coordination.
    fn is_granted(&mut self, now: Nanos) -> bool {
        let granted = self.epoch <= self.task.control.granted();
        match granted {
            true => {
                if let Some(since) = self.ungranted_since.take() {
                    self.task.control.waited_for_grant(now.since(since));
                }
            }
            // Its output waits for the end of the epoch; an epoch without output may last.
            false if self.active == self.epoch => {
                self.ungranted_since = self.ungranted_since.or(Some(now));
                self.task.control.tell_active(self.task.id, self.epoch);
            }
            false => {}
        }
        granted
    }

    /// How long the source may wait: until the task has something to do.
    fn wait(&self, now: Nanos) -> Duration {
        let wait = self.wait_without_rows(now);
        self.parts.watermarks.next_deadline().map_or(wait, |deadline| wait.min(deadline))
    }

    /// How long the task has nothing to do if it does not poll the source.
    fn wait_without_rows(&self, now: Nanos) -> Duration {
        let asks = self.active == self.epoch && self.ungranted_since.is_none();
        let cut = (self.epoch <= self.task.control.granted() || asks).then_some(self.next_cut);
        let publication = self.has_unpublished.then_some(self.next_publication);
        let clock = self.parts.processing.as_ref().and_then(ProcessingTime::next_progress);
        let next = [cut, self.task.chain.next_deadline(), publication, clock].into_iter().flatten().min();
        let wait_max = self.parts.wait_max(self.task.chain.waits_for_checkpoint());
        // No notification tells a reader that waits for other partitions that slower sources have caught up.
        let wait_max = if self.held.is_empty() { wait_max } else { wait_max.min(LOOK_HELD) };
        let interval = |alignment: &AlignmentSpec| Duration::from_millis(alignment.update_interval_ms);
        let update = self.alignment.as_ref().map_or(Duration::MAX, interval);
        let wait_max = wait_max.min(update);
        next.map_or(wait_max, |deadline| deadline.after(now)).min(wait_max)
    }

    /// Waits while sources are held, at most for `timeout`.
    pub(crate) fn wait_held(&self, timeout: Duration) {
        let group = self.alignment.as_ref().map_or("", |alignment| &alignment.group);
        let ahead_of = self.ahead_of.map(|least| (group, least));
        self.task.control.wait_held((self.epoch, self.done), ahead_of, timeout);
    }

    fn process(&mut self, polled: Polled, now: Nanos) -> Result<()> {
        (self.has_opened, self.born) = (true, now);
        self.may_cut = self.epoch.max(self.task.control.foremost());
        self.parts.watermarks.note_poll(now);
        match polled {
            Polled::Opened { partition, name } => self.parts.watermarks.opened(partition, name, now),
            Polled::Closed(partition) => self.parts.watermarks.closed(partition),
            Polled::Rows(rows) => self.rows(rows, now)?,
            Polled::Pending => {
                self.parts.watermarks.waits();
                self.task.chain.pause()?;
            }
            // No more input follows: event time ends, and with it every window.
            Polled::End => {
                self.is_exhausted = true;
                self.task.chain.watermark(Stamped { value: EventTime::MAX, born: now })?;
            }
        }
        Ok(())
    }

    fn rows(&mut self, rows: Rows, born: Nanos) -> Result<()> {
        self.has_unpublished = true;
        let Rows { partition, batch, malformed } = rows;
        if batch.num_rows() + malformed.len() > 0 {
            self.active = self.epoch;
        }
        let counters = &self.task.counters;
        TaskCounters::add(&counters.rows_in, (batch.num_rows() + malformed.len()) as u64);
        TaskCounters::add(&counters.bytes_in, batch_bytes(&batch) as u64);
        self.parts.malformed(&malformed, counters)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = match &mut self.parts.processing {
            Some(processing) => processing.stamp(&batch, self.task.clock.wall_ms())?,
            None => batch,
        };
        let batch = self.parts.with_watermark(batch)?;
        let Observed { watermark, on_time } = self.parts.observe(partition, &batch)?;
        let batch = self.parts.on_time(batch, on_time, counters)?;
        if batch.num_rows() > 0 {
            let value = match &mut self.parts.columns {
                Some(columns) => columns.apply(&batch)?,
                None => batch,
            };
            self.task.chain.batch(Stamped { value, born }, 0)?;
        }
        self.parts.watermarks.rows(partition, watermark, born);
        Ok(())
    }

    /// Publishes lag and progress when due, and notifies the user of a partition that holds the job back.
    fn publish(&mut self, now: Nanos) {
        if now < self.next_publication {
            return;
        }
        self.next_publication = now.plus(PUBLICATION);
        self.has_unpublished = false;
        self.task.counters.set_lag(self.parts.source.lag_rows());
        if self.parts.time.is_none() {
            return;
        }
        let (table, watermarks) = (&self.parts.table, &self.parts.watermarks);
        let partitions = watermarks.report();
        let foremost = self.task.control.foremost_time();
        if let Some(held) = self.hold_back.check(table, &partitions, foremost, watermarks.polled(), now) {
            self.host.notify(held.to_string());
        }
        self.task.counters.set_progress(SourceProgress { table: table.clone(), partitions });
    }

    fn cut(&mut self, kind: MarkerKind) -> Result<()> {
        let epoch = self.epoch;
        let durable = self.task.snapshots.is_some();
        let snapshot = durable && (kind.closes() || self.task.control.is_checkpoint(epoch));
        let marker = Marker { epoch, version: self.version, snapshot, kind };
        if snapshot {
            let entered = self.task.clock.now();
            let due = match kind {
                MarkerKind::Cut if epoch > self.task.control.at_once() => self.next_cut,
                MarkerKind::End => entered,
                _ => Nanos(0),
            };
            self.task.boundary = Some(Boundary { epoch, due: Some(due), entered });
        }
        self.parts.source.epoch_cut(epoch)?;
        let mut state = SourceSnapshot::default();
        self.parts.tails.each().try_for_each(|tail| tail.epoch_end(marker))?;
        if snapshot {
            state.positions = self.parts.source.positions()?;
            state.partition_watermarks = self.parts.watermarks.partitions();
            state.event_time.clone_from(&self.parts.event_time);
            let prepared = |tail: &Option<SinkTail>| tail.as_ref().map(SinkTail::prepared).unwrap_or_default();
            state.dead_letters = prepared(&self.parts.tails.malformed);
            state.late_rows = prepared(&self.parts.tails.late);
        }
        self.cutting = state;
        self.task.chain.marker(marker)
    }

    /// The marker has passed.
    fn marked(&mut self, marker: Marker, taken: Option<ChainSnapshot>) {
        let state = std::mem::take(&mut self.cutting);
        self.task.marked(marker, taken, state);
        self.task.control.cut(self.task.id, marker.epoch, self.active);
        self.epoch = marker.epoch.next();
        if marker.kind.closes() {
            // The end of event time may fire windows.
            self.task.control.tell_active(self.task.id, marker.epoch);
            self.task.control.report(self.task.id, Report::SourceFinished);
            self.ended = Some(marker.epoch);
        } else {
            self.next_cut = self.task.control.next_cut();
            self.ungranted_since = None;
        }
    }

    /// Passes the epochs that are done to the source, and to the tables for malformed records and late rows.
    fn epochs_done(&mut self) -> Result<()> {
        if self.task.control.is_cancelled() {
            return Ok(());
        }
        let done = self.task.control.done();
        if done > self.done {
            self.done = done;
            self.parts.source.epoch_done(done.min(Epoch(self.epoch.0 - 1)))?;
            self.parts.tails.each().try_for_each(|tail| tail.commit(done))?;
        }
        self.task.checkpoints_done()
    }

    /// The last epoch has ended: once it is settled, closes the tables that the task does not leave.
    fn finish(&mut self, last: Epoch) -> Result<Advance> {
        let control = &self.task.control;
        if !control.is_settled(last) {
            return Ok(Advance::Settled(last));
        }
        let done = control.is_done(last);
        if done {
            self.parts.source.epoch_done(last)?;
        }
        let leaves = control.leaves_parts();
        self.parts.tails.each().try_for_each(|tail| match (leaves, done) {
            (false, done) => tail.finish(done.then_some(last)),
            (true, true) => tail.commit(last),
            (true, false) => Ok(()),
        })?;
        self.task.finish(last)
    }

    /// The parts that it leaves for the next plan version.
    pub(crate) fn leave(self) -> (TaskParts, Option<SourceParts>) {
        (self.task, Some(self.parts))
    }
}
