//! Rows from memory at a steady rate, as from a network: at every tick the rows that have arrived since the
//! last one.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, SourceSpec, TableTraits};
use anabranch_model::{Clock, Error, Nanos, PartitionId, Result, pause};
use anabranch_operators::{Connector, Polled, Positions, Rows, Source, TaskContext};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

/// Time between two ticks.
const TICK: Duration = Duration::from_micros(500);

/// A table that returns its batches round-robin until it has returned its number of rows.
pub(super) struct PacedSource {
    /// Returned before, as fast as they are polled, divided among the readers.
    first: Vec<RecordBatch>,
    batches: Vec<RecordBatch>,
    rows_per_s: u64,
    rows: u64,
    partitions: u32,
    /// At the beginning, rows come at a tenth of the rate for this time.
    slow: Duration,
    /// How long after its tick each piece was returned, in nanoseconds: latency from the reading does not
    /// include this.
    late_ns: Arc<Mutex<Vec<u64>>>,
    /// Where each reader leaves its lags.
    lags: Option<PathBuf>,
}

/// How long after it was due a row was returned, in milliseconds: the one in the middle, and the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lags {
    pub(super) half_ms: f64,
    pub(super) end_ms: f64,
}

impl Lags {
    /// Of all readers that have left theirs in a folder.
    pub(super) fn latest(folder: &Path) -> Result<Lags> {
        let outside = |error: std::io::Error| Error::outside(error.to_string()).at(folder.display().to_string());
        let mut latest = Lags::default();
        for file in std::fs::read_dir(folder).map_err(outside)? {
            let text = std::fs::read_to_string(file.map_err(outside)?.path()).map_err(outside)?;
            let of = text.split_once(' ').and_then(|(half, end)| half.parse::<f64>().ok().zip(end.parse().ok()));
            let (half_ms, end_ms) = of.ok_or_else(|| Error::internal(format!("no lags: '{text}'")))?;
            latest = Lags { half_ms: latest.half_ms.max(half_ms), end_ms: latest.end_ms.max(end_ms) };
        }
        Ok(latest)
    }
}

impl PacedSource {
    /// `rows` rows in all, `rows_per_s` of them per second, evenly over `partitions`. `batches` is not empty.
    pub(super) fn new(batches: Vec<RecordBatch>, rows_per_s: u64, rows: u64, partitions: u32) -> Self {
        PacedSource {
            first: Vec::new(),
            batches,
            rows_per_s,
            rows,
            partitions,
            slow: Duration::ZERO,
            late_ns: Arc::default(),
            lags: None,
        }
    }

    /// The same, after these.
    pub(super) fn after(self, first: Vec<RecordBatch>) -> Self {
        PacedSource { first, ..self }
    }

    /// The same, but at a tenth of the rate for this time: a latency that is measured from the start on has
    /// few rows of the start in it.
    pub(super) fn slow_for(self, slow: Duration) -> Self {
        PacedSource { slow, ..self }
    }

    /// The same, but each reader leaves a file in this folder when it has returned its rows: its [`Lags`].
    pub(super) fn with_lags(self, folder: Option<PathBuf>) -> Self {
        PacedSource { lags: folder, ..self }
    }

    /// How late the pieces since the last call were returned.
    pub(super) fn take_late_ns(&self) -> Vec<u64> {
        std::mem::take(&mut *self.late_ns.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Connector for PacedSource {
    fn describe(&self, _spec: &ConnectorSpec, _columns: &SchemaRef) -> Result<TableTraits> {
        Ok(TableTraits {
            bounded: true,
            readable: true,
            max_readers: Some(self.partitions),
            schema: self.batches.first().map(RecordBatch::schema),
            ..TableTraits::default()
        })
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, _: Option<&Positions>) -> Result<Box<dyn Source>> {
        let project = |batch: &RecordBatch| Ok(batch.project(&spec.projection)?);
        let partitions = u64::from(self.partitions);
        Ok(Box::new(Reader {
            partition: PartitionId(context.index),
            announced: false,
            first: self
                .first
                .iter()
                .skip(context.index as usize)
                .step_by(partitions as usize)
                .map(project)
                .collect::<Result<_>>()?,
            batches: self.batches.iter().map(project).collect::<Result<_>>()?,
            batch: context.index as usize % self.batches.len().max(1),
            offset: 0,
            ns_per_row: 1e9 * partitions as f64 / self.rows_per_s as f64,
            given: 0,
            slow_ns: self.slow.as_nanos() as f64,
            rows: self.rows / partitions,
            rows_max: context.batch_rows,
            started: context.clock.now(),
            tick: context.clock.now().plus(TICK),
            late_ns: Arc::clone(&self.late_ns),
            lags_path: self.lags.as_ref().map(|folder| folder.join(context.index.to_string())),
            lags: Lags::default(),
            clock: Arc::clone(&context.clock),
        }))
    }
}

struct Reader {
    partition: PartitionId,
    announced: bool,
    first: VecDeque<RecordBatch>,
    batches: Vec<RecordBatch>,
    batch: usize,
    offset: usize,
    ns_per_row: f64,
    given: u64,
    slow_ns: f64,
    rows: u64,
    rows_max: usize,
    started: Nanos,
    tick: Nanos,
    late_ns: Arc<Mutex<Vec<u64>>>,
    lags_path: Option<PathBuf>,
    lags: Lags,
    clock: Arc<dyn Clock>,
}

impl Reader {
    /// Rows that have arrived by `now` and have not been returned.
    fn due(&self, now: Nanos) -> u64 {
        let elapsed_ns = now.since(self.started) as f64;
        let elapsed_ns = elapsed_ns - elapsed_ns.min(self.slow_ns) * 0.9;
        ((elapsed_ns / self.ns_per_row) as u64).min(self.rows) - self.given
    }

    /// How long ago the last row that was returned was due.
    fn lag_ms(&self, now: Nanos) -> f64 {
        let at_rate_ns = self.given as f64 * self.ns_per_row;
        let due_ns = (at_rate_ns * 10.0).min(at_rate_ns + self.slow_ns * 0.9);
        (now.since(self.started) as f64 - due_ns) / 1e6
    }

    /// Rows were returned after `before` others.
    fn note_lag(&mut self, before: u64, now: Nanos) -> Result<()> {
        let passes = |rows: u64| before < rows && rows <= self.given;
        if passes(self.rows / 2) {
            self.lags.half_ms = self.lag_ms(now);
        }
        let Some(path) = self.lags_path.as_ref().filter(|_| passes(self.rows)) else { return Ok(()) };
        let text = format!("{} {}", self.lags.half_ms, self.lag_ms(now));
        std::fs::write(path, text).map_err(|error| Error::outside(error.to_string()).at(path.display().to_string()))
    }
}

impl Source for Reader {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        if !self.announced {
            self.announced = true;
            return Ok(Polled::Opened { partition: self.partition, name: String::new() });
        }
        if let Some(batch) = self.first.pop_front() {
            self.started = self.clock.now();
            self.tick = self.started.plus(TICK);
            return Ok(Polled::Rows(Rows { partition: self.partition, batch, malformed: Vec::new() }));
        }
        if self.given >= self.rows {
            return Ok(Polled::End);
        }
        let mut now = self.clock.now();
        if now < self.tick {
            pause(wait.min(self.tick.after(now)));
            now = self.clock.now();
        }
        if now < self.tick {
            return Ok(Polled::Pending);
        }
        let due = usize::try_from(self.due(now)).unwrap_or(usize::MAX);
        let batch = &self.batches[self.batch];
        let rows = due.min(self.rows_max).min(batch.num_rows() - self.offset);
        if rows == due {
            // Everything that has arrived is returned now. A late reader does not catch up on the missed
            // ticks one by one.
            self.late_ns.lock().unwrap_or_else(PoisonError::into_inner).push(now.since(self.tick));
            let missed = now.since(self.tick) / TICK.as_nanos() as u64;
            self.tick = Nanos(self.tick.0 + (missed + 1) * TICK.as_nanos() as u64);
        }
        if rows == 0 {
            return Ok(Polled::Pending);
        }
        let batch = batch.slice(self.offset, rows);
        self.offset += rows;
        if self.offset == self.batches[self.batch].num_rows() {
            self.offset = 0;
            self.batch = (self.batch + 1) % self.batches.len();
        }
        let before = self.given;
        self.given += rows as u64;
        self.note_lag(before, now)?;
        Ok(Polled::Rows(Rows { partition: self.partition, batch, malformed: Vec::new() }))
    }

    fn positions(&self) -> Result<Positions> {
        Ok(Positions::new())
    }
}
