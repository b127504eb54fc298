//! A task whose rows come from a source: polls it, decides the fate of malformed records, derives watermarks, cuts
//! epochs, drives its chain.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anabranch_dataflow::{OnMalformed, SourceSpec};
use anabranch_model::{
    Epoch, Error, EventTime, Marker, MarkerKind, Nanos, PartitionId, PlanVersion, Result, SourceProgress, Stamped,
    TaskCounters, batch_bytes,
};
use anabranch_operators::{Functions, Host, Malformed, Polled, Projection, Rows, Source};
use anabranch_protocol::coordinator::Report;
use arrow::array::{ArrayRef, BinaryArray, RecordBatch, StringArray};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{Schema, SchemaRef};

use crate::chain::SinkTail;
use crate::durable::RestoredSource;
use crate::hold_back::HoldBack;
use crate::inbox_task::{SideEnd, Step, TaskParts};
use crate::snapshot::SourceSnapshot;
use crate::source_time::{Observed, SourceTime};
use crate::watermarks::{Progress, Watermarks};

/// The longest time that a source waits for records before its task checks for other work.
const LOOK_AROUND: Duration = Duration::from_millis(50);

/// How often the positions of partitions are shown to observers.
const PUBLICATION: Duration = Duration::from_millis(200);

/// The further parts of a source task.
pub(crate) struct SourceParts {
    pub(crate) source: Box<dyn Source>,
    /// Rows that leave the source; `None`: as decoded.
    columns: Option<Projection>,
    time: Option<SourceTime>,
    watermarks: Watermarks,
    on_malformed: Fate,
    table: String,
}

enum Fate {
    Fail,
    Skip,
    DeadLetter(SinkTail, SchemaRef),
    Leave,
}

impl SourceParts {
    /// Compiles a source's specification. `dead_letter` is the opened sink of [`OnMalformed::DeadLetter`]; `restored`
    /// is what the source resumes from.
    pub(crate) fn new(
        spec: &SourceSpec,
        source: Box<dyn Source>,
        dead_letter: Option<SinkTail>,
        restored: Option<&RestoredSource>,
        functions: &Functions,
    ) -> Result<Self> {
        let decoded = spec.declared.project(&spec.projection)?;
        let columns = match spec.columns.is_empty() {
            true => None,
            false => Some(Projection::new(&spec.columns, &decoded, functions)?),
        };
        let idle = spec.watermark.as_ref().and_then(|w| w.idle_timeout_ms).map(Duration::from_millis);
        let on_malformed = match (&spec.on_malformed, dead_letter) {
            (OnMalformed::Fail, _) => Fate::Fail,
            (OnMalformed::Skip, _) => Fate::Skip,
            (OnMalformed::Leave, _) => Fate::Leave,
            (OnMalformed::DeadLetter(sink), Some(writer)) => Fate::DeadLetter(writer, Arc::clone(&sink.schema)),
            (OnMalformed::DeadLetter(_), None) => return Err(Error::internal("the dead-letter table is not open")),
        };
        Ok(SourceParts {
            source,
            columns,
            time: spec.watermark.as_ref().map(|w| SourceTime::new(w, &decoded, functions)).transpose()?,
            watermarks: Watermarks::new(idle, restored.map(|state| state.watermarks.clone()).unwrap_or_default()),
            on_malformed,
            table: spec.table.clone(),
        })
    }

    /// Schema of the rows that leave the source.
    pub(crate) fn schema(spec: &SourceSpec, functions: &Functions) -> Result<SchemaRef> {
        let decoded: Schema = spec.declared.project(&spec.projection)?;
        match spec.columns.is_empty() {
            true => Ok(Arc::new(decoded)),
            false => Ok(Arc::clone(Projection::new(&spec.columns, &decoded, functions)?.schema())),
        }
    }

    fn malformed(&mut self, records: &[Malformed], counters: &TaskCounters) -> Result<()> {
        let Some(first) = records.first() else { return Ok(()) };
        if !matches!(self.on_malformed, Fate::Leave) {
            TaskCounters::add(&counters.malformed_rows, records.len() as u64);
        }
        match &mut self.on_malformed {
            Fate::Skip | Fate::Leave => Ok(()),
            Fate::DeadLetter(tail, schema) => tail.sink.write(&dead_letters(&self.table, records, schema)?),
            Fate::Fail => {
                let shown = String::from_utf8_lossy(&first.record[..first.record.len().min(200)]);
                Err(Error::user(format!("malformed record: {}: {}", first.error, shown.trim_end()))
                    .at(first.place.clone())
                    .at(format!("table {}", self.table))
                    .remedy("correct the record, or declare its fate: 'on-malformed' = 'skip' or 'dead-letter'"))
            }
        }
    }

    /// Derives event time from rows of a partition.
    fn observe(&mut self, partition: PartitionId, batch: &RecordBatch) -> Result<Observed> {
        match &mut self.time {
            Some(time) => time.observe(batch, self.watermarks.of(partition)),
            None => Ok(Observed { watermark: None, on_time: None }),
        }
    }
}

/// Malformed records as rows of a dead-letter table: table, place, error, record.
fn dead_letters(table: &str, records: &[Malformed], schema: &SchemaRef) -> Result<RecordBatch> {
    let columns: [ArrayRef; 4] = [
        Arc::new(StringArray::from_iter_values(records.iter().map(|_| table))),
        Arc::new(StringArray::from_iter_values(records.iter().map(|r| &r.place))),
        Arc::new(StringArray::from_iter_values(records.iter().map(|r| &r.error))),
        match schema.field(3).data_type() {
            t if t.is_string() => {
                Arc::new(StringArray::from_iter_values(records.iter().map(|r| String::from_utf8_lossy(&r.record))))
            }
            _ => Arc::new(BinaryArray::from_iter_values(records.iter().map(|r| &r.record))),
        },
    ];
    let columns = columns.iter().zip(schema.fields()).map(|(c, f)| Ok(cast(c, f.data_type())?));
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_>>()?)?)
}

/// When an epoch ends: at the same time for all sources with the same clock.
fn next_cut(now: Nanos, interval: Duration) -> Nanos {
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
    Nanos((now.0 / interval).saturating_add(1).saturating_mul(interval))
}

/// A source task while it runs.
pub(crate) struct SourceTask {
    task: TaskParts,
    parts: SourceParts,
    version: PlanVersion,
    epoch_interval: Duration,
    /// Its rows reach a sink, not only the static side of a join.
    reaches_sink: bool,
    /// The epoch that rows read now belong to.
    epoch: Epoch,
    next_cut: Nanos,
    /// Since when the next cut waits for its grant.
    ungranted_since: Option<Nanos>,
    done: Epoch,
    /// The first partitions have been announced.
    has_opened: bool,
    /// How its static sides ended, once they have.
    sides: Option<SideEnd>,
    /// The last epoch, once it has ended.
    ended: Option<Epoch>,
    host: Arc<dyn Host>,
    next_publication: Nanos,
    hold_back: HoldBack,
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
        let next_cut = next_cut(task.clock.now(), epoch_interval);
        let (epoch, done) = (task.after.next(), task.after);
        SourceTask {
            task,
            parts,
            version,
            epoch_interval,
            reaches_sink,
            epoch,
            next_cut,
            ungranted_since: None,
            done,
            has_opened: false,
            sides: None,
            ended: None,
            host,
            next_publication: Nanos(0),
            hold_back: HoldBack::default(),
        }
    }

    /// Reads until the source ends or the job stops or fails, waiting for input.
    pub(crate) fn run(mut self) -> Result<()> {
        self.sides = Some(self.task.read_sides()?);
        let mut now = self.task.clock.now();
        self.next_cut = next_cut(now, self.epoch_interval);
        while !self.task.control.is_cancelled() {
            now = self.turn(now, true)?;
            if let Some(last) = self.ended {
                return self.finish(last);
            }
        }
        Ok(())
    }

    /// One step without waiting: polls the source once at most.
    pub(crate) fn step(&mut self) -> Result<Step> {
        let now = self.task.clock.now();
        if self.task.control.is_cancelled() {
            return Ok(Step::Ended);
        }
        if self.sides.is_none() {
            self.sides = self.task.read_side(Some(Duration::ZERO))?;
            self.next_cut = next_cut(now, self.epoch_interval);
            return Ok(Step::Goes);
        }
        match self.ended {
            None => self.turn(now, false).map(|_| Step::Goes),
            Some(last) if !self.task.control.is_settled(last) => Ok(Step::Goes),
            Some(last) => self.finish(last).map(|()| Step::Ended),
        }
    }

    pub(crate) fn parts(&self) -> &TaskParts {
        &self.task
    }

    /// Does what is due, then polls the source; waits for it only if `may_wait`. Returns the time until which the
    /// task's time is accounted for.
    fn turn(&mut self, mut now: Nanos, may_wait: bool) -> Result<Nanos> {
        // The first turn only learns which partitions there are: their positions belong to any cut.
        if self.has_opened || self.sides == Some(SideEnd::Cut) {
            if let Some(last) = self.task.control.stop_after() {
                self.stop(last)?;
                return Ok(now);
            }
            if self.sides == Some(SideEnd::Cut) {
                return Err(Error::internal("the static side was cut, but the job does not stop"));
            }
            self.cut_due(now)?;
            self.epochs_done()?;
        }
        if self.has_opened && self.reaches_sink && self.task.control.is_held() {
            return self.hold(now, may_wait);
        }
        // What is already there is taken without waiting; only then the task waits, and counts as idle.
        let mut polled = self.poll(Duration::ZERO)?;
        let mut born = now;
        if may_wait && self.has_opened && matches!(polled, Polled::Pending) {
            now = self.task.chain.account(now);
            polled = self.poll(self.wait(now))?;
            born = self.task.clock.now();
            TaskCounters::add(&self.task.counters.idle_ns, born.since(now));
            now = born;
        }
        self.has_opened = true;
        if matches!(polled, Polled::End) {
            self.exhausted()?;
            return Ok(now);
        }
        self.parts.watermarks.look(born);
        self.take(polled, born)?;
        self.progress(born)?;
        self.publish(born);
        self.task.chain.flush_due(self.task.clock.now())?;
        Ok(self.task.chain.account(now))
    }

    /// Returns what the source returns, but after the partitions that it announces: event time must not advance with
    /// the first of them while a partition that is further behind is still to come.
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        let mut polled = self.parts.source.poll(wait)?;
        while let Polled::Opened { partition, name } = polled {
            self.parts.watermarks.opened(partition, name, self.task.clock.now());
            polled = self.parts.source.poll(Duration::ZERO)?;
        }
        Ok(polled)
    }

    /// Cuts the epoch if its time is over. It also cuts an epoch that another source has cut: a task with both as
    /// inputs holds that source's rows back until then.
    fn cut_due(&mut self, now: Nanos) -> Result<()> {
        if (now >= self.next_cut && self.is_granted(now)) || self.task.control.cuts_early(self.epoch) {
            self.task.control.lead(self.epoch, next_cut(now, self.epoch_interval));
        }
        // The last epoch of a job that stops is not cut here: it ends the source. Its grant is stored after the stop,
        // so a source that has seen the grant sees the stop here.
        while self.epoch <= self.task.control.foremost() && !self.task.control.stops_after(self.epoch) {
            self.cut(MarkerKind::Cut)?;
            self.next_cut = self.task.control.next_cut();
            self.ungranted_since = None;
        }
        Ok(())
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
            false => self.ungranted_since = self.ungranted_since.or(Some(now)),
        }
        granted
    }

    /// How long the source may wait: until the next thing that the task has to do.
    fn wait(&self, now: Nanos) -> Duration {
        self.wait_without_rows(now).min(self.parts.watermarks.next_deadline().unwrap_or(LOOK_AROUND))
    }

    /// How long the task has nothing to do if it does not poll the source.
    fn wait_without_rows(&self, now: Nanos) -> Duration {
        let cut = (self.epoch <= self.task.control.granted()).then_some(self.next_cut);
        let next = [cut, self.task.chain.next_deadline()].into_iter().flatten().min();
        next.map_or(LOOK_AROUND, |deadline| deadline.after(now)).min(LOOK_AROUND)
    }

    /// A sink is full: the source is not polled. Its partitions do not become idle meanwhile. Returns the time until
    /// which the task's time is accounted for.
    fn hold(&mut self, now: Nanos, may_wait: bool) -> Result<Nanos> {
        self.task.chain.flush_due(now)?;
        let now = self.task.chain.account(now);
        if !may_wait {
            return Ok(now);
        }
        self.task.control.wait_held(self.epoch, self.done, self.wait_without_rows(now));
        let after = self.task.clock.now();
        TaskCounters::add(&self.task.counters.backpressured_ns, after.since(now));
        Ok(after)
    }

    fn take(&mut self, polled: Polled, born: Nanos) -> Result<()> {
        match polled {
            Polled::Opened { partition, name } => self.parts.watermarks.opened(partition, name, born),
            Polled::Closed(partition) => self.parts.watermarks.closed(partition),
            Polled::Rows(rows) => self.rows(rows, born)?,
            Polled::Pending | Polled::End => self.task.chain.pause()?,
        }
        Ok(())
    }

    fn rows(&mut self, rows: Rows, born: Nanos) -> Result<()> {
        let Rows { partition, batch, malformed } = rows;
        let counters = &self.task.counters;
        TaskCounters::add(&counters.rows_in, (batch.num_rows() + malformed.len()) as u64);
        TaskCounters::add(&counters.bytes_in, batch_bytes(&batch) as u64);
        self.parts.malformed(&malformed, counters)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let Observed { watermark, on_time } = self.parts.observe(partition, &batch)?;
        let batch = match on_time {
            Some(on_time) => {
                let kept = filter_record_batch(&batch, &on_time)?;
                TaskCounters::add(&counters.late_rows, (batch.num_rows() - kept.num_rows()) as u64);
                kept
            }
            None => batch,
        };
        if batch.num_rows() > 0 {
            let value = match &mut self.parts.columns {
                Some(columns) => columns.apply(&batch)?,
                None => batch,
            };
            self.task.chain.batch(Stamped { value, born })?;
        }
        self.parts.watermarks.rows(partition, watermark, born);
        Ok(())
    }

    /// Passes on the progress of the partitions' watermarks.
    fn progress(&mut self, born: Nanos) -> Result<()> {
        match self.parts.watermarks.progress() {
            // A table without event time has no watermark; only its idleness matters.
            Some(Progress::Watermark(value)) => self.task.chain.watermark(Stamped { value, born }),
            Some(Progress::Idle) => self.task.chain.idle(),
            None => Ok(()),
        }
    }

    /// Shows observers the positions of the partitions from time to time, and notifies the user of a partition that
    /// holds the job back.
    fn publish(&mut self, now: Nanos) {
        if self.parts.time.is_none() || now < self.next_publication {
            return;
        }
        self.next_publication = now.plus(PUBLICATION);
        let (table, watermarks) = (&self.parts.table, &self.parts.watermarks);
        let partitions = watermarks.report();
        let foremost = self.task.control.foremost_time();
        if let Some(held) = self.hold_back.look(table, &partitions, foremost, watermarks.polled(), now) {
            self.host.notify(held.to_string());
        }
        self.task.counters.set_progress(SourceProgress { table: table.clone(), partitions });
    }

    fn cut(&mut self, kind: MarkerKind) -> Result<()> {
        let epoch = self.epoch;
        let durable = self.task.snapshots.is_some();
        let snapshot = durable && (kind.closes() || self.task.control.is_checkpoint(epoch));
        let marker = Marker { epoch, version: self.version, snapshot, kind };
        self.parts.source.epoch_cut(epoch)?;
        let mut state = SourceSnapshot::default();
        if let Fate::DeadLetter(tail, _) = &mut self.parts.on_malformed {
            tail.epoch_end(marker)?;
            state.dead_letters = tail.prepared();
        }
        if snapshot {
            state.positions = self.parts.source.positions()?;
            state.partition_watermarks = self.parts.watermarks.partitions();
        }
        self.task.marker(marker, state)?;
        self.task.control.cut(self.task.id, epoch);
        self.epoch = epoch.next();
        Ok(())
    }

    /// Notifies the source when every sink has written its epochs.
    fn epochs_done(&mut self) -> Result<()> {
        if self.task.control.is_cancelled() {
            return Ok(());
        }
        let done = self.task.control.done();
        if done > self.done {
            self.done = done;
            self.parts.source.epoch_done(done.min(Epoch(self.epoch.0 - 1)))?;
            if let Fate::DeadLetter(tail, _) = &mut self.parts.on_malformed {
                tail.commit(done)?;
            }
        }
        self.task.checkpoints_done()
    }

    /// The job stops: all sources end at the end of the same epoch.
    fn stop(&mut self, last: Epoch) -> Result<()> {
        while self.epoch < last {
            self.cut(MarkerKind::Cut)?;
        }
        self.end(MarkerKind::Stop)
    }

    /// No more input will come: event time reaches its end, and with it every window.
    fn exhausted(&mut self) -> Result<()> {
        self.task.chain.watermark(Stamped { value: EventTime::MAX, born: self.task.clock.now() })?;
        self.end(MarkerKind::End)
    }

    /// Cuts the last epoch.
    fn end(&mut self, kind: MarkerKind) -> Result<()> {
        let last = self.epoch;
        let start = self.task.clock.now();
        self.cut(kind)?;
        self.task.chain.account(start);
        self.task.control.report(self.task.id, Report::SourceFinished);
        self.task.counters.epoch.store(last.0, Relaxed);
        self.ended = Some(last);
        Ok(())
    }

    /// The last epoch has ended: waits until it is done, and closes what is open.
    fn finish(&mut self, last: Epoch) -> Result<()> {
        let done = self.task.control.wait_done(last);
        if done {
            self.parts.source.epoch_done(last)?;
        }
        if let Fate::DeadLetter(tail, _) = &mut self.parts.on_malformed {
            tail.finish(done.then_some(last))?;
        }
        self.task.finish(last)
    }
}
