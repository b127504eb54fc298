//! A job of this process that is changed while it runs, and its table that keeps when rows arrive.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anabranch_dataflow::{ConnectorSpec, SinkSpec, TableTraits};
use anabranch_model::{Epoch, Error, Result};
use anabranch_operators::{Connector, Sink, TaskContext};
use anabranch_server::{Engine, Job, Moves, Plan, Reconfigure, Settings};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{SchemaRef, TimestampMillisecondType};

use crate::trace::{Row, Seen, Trace, between, wall_ms};

/// Time that is observed after a change.
pub(super) const OBSERVED: Duration = Duration::from_millis(1500);
/// Rows of the static table that a change may join.
const NAMES: u64 = 1000;

/// A table that keeps when rows were written to it. Their first column is the time at which they were due.
#[derive(Clone, Default)]
pub(super) struct Arrivals(Arc<Mutex<Trace>>);

impl Arrivals {
    pub(super) fn lock(&self) -> MutexGuard<'_, Trace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connector for Arrivals {
    fn describe(&self, _spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let schema = Some(Arc::clone(columns));
        Ok(TableTraits { writable: true, schema, ..TableTraits::default() })
    }

    fn sink(&self, _spec: &SinkSpec, _context: &TaskContext) -> Result<Box<dyn Sink>> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Arrivals {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let due = batch.column(0).as_primitive_opt::<TimestampMillisecondType>();
        let due = due.ok_or_else(|| Error::internal("the first column is no time in milliseconds"))?;
        let mut trace = self.lock();
        let (at, now_ms) = (Instant::now(), wall_ms());
        trace.0.extend(due.values().iter().map(|due_ms| Row { at, took: between(*due_ms as f64, now_ms) }));
        Ok(())
    }

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }
}

/// What changes of the job: rows as they come, filtered, and a count for each key in a window that stays
/// open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub(super) parallelism: u32,
    /// A constant of the filter of the rows.
    pub(super) filter: u32,
    /// A constant of the function that is applied to the rows.
    pub(super) factor: u32,
    /// Whether the counts have a filter.
    pub(super) filtered: bool,
    /// Whether the rows are joined with a static table.
    pub(super) joined: bool,
    /// Whether another statement reads what the first one reads.
    pub(super) tapped: bool,
}

impl Default for Text {
    fn default() -> Self {
        Text { parallelism: 2, filter: 0, factor: 1, filtered: false, joined: false, tapped: false }
    }
}

/// The job.
pub(super) struct Subject<'a> {
    pub(super) engine: Engine,
    pub(super) arrivals: Arrivals,
    folder: &'a Path,
    rows_per_s: u64,
    checkpoint_interval: &'static str,
    pub(super) text: Text,
}

impl<'a> Subject<'a> {
    pub(super) fn new(folder: &'a Path, rows_per_s: u64, checkpoint_interval: &'static str) -> Result<Subject<'a>> {
        let names: String = (0..NAMES).map(|id| format!("{id},name {id}\n")).collect();
        std::fs::write(folder.join("names.csv"), names).map_err(|error| Error::outside(error.to_string()))?;
        let (mut engine, arrivals) = (Engine::default(), Arrivals::default());
        engine.register("arrivals", Arc::new(arrivals.clone()));
        Ok(Subject { engine, arrivals, folder, rows_per_s, checkpoint_interval, text: Text::default() })
    }

    fn sql(&self) -> String {
        let Text { filter, factor, filtered, joined, tapped, .. } = self.text;
        // Rows that are rare would make gaps of their own.
        let every = if self.rows_per_s < 20_000 { 1 } else { 16 };
        let when = |condition: bool, text: &'static str| if condition { text } else { "" };
        format!(
            "CREATE TABLE bids (WATERMARK FOR dateTime AS dateTime) WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows-per-second' = '{}', 'seed' = '1');
             CREATE TABLE names (id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv');
             CREATE TABLE plain (due TIMESTAMP(3), price BIGINT) WITH ('connector' = 'arrivals');
             CREATE TABLE taps (due TIMESTAMP(3), price BIGINT) WITH ('connector' = 'blackhole');
             CREATE TABLE counts (price BIGINT, bidder BIGINT, auction BIGINT, n BIGINT) WITH ('connector' = 'blackhole');
             CREATE FUNCTION weighted(price BIGINT) RETURNS BIGINT RETURN price * {factor};
             CREATE VIEW passed AS SELECT dateTime, price, bidder FROM bids WHERE price % {every} = 0 AND price > {filter};
             INSERT INTO plain SELECT dateTime, weighted(price) FROM passed {};
             INSERT INTO counts SELECT price, bidder, auction, COUNT(*)
               FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(dateTime), INTERVAL '20' HOUR)) {}
               GROUP BY window_start, window_end, price, bidder, auction;
             {}",
            self.rows_per_s,
            self.folder.join("names.csv").display(),
            when(joined, "JOIN names ON MOD(bidder, 1000) = names.id"),
            when(filtered, "WHERE bidder > 0"),
            when(tapped, "INSERT INTO taps SELECT dateTime, price FROM passed;"),
        )
    }

    pub(super) fn plan(&self) -> Result<Plan> {
        let set = vec![
            ("checkpoint-directory".to_owned(), self.folder.join("checkpoints").display().to_string()),
            ("checkpoint-interval".to_owned(), self.checkpoint_interval.to_owned()),
        ];
        let settings = Settings { parallelism: Some(self.text.parallelism), set, ..Settings::default() };
        let planned = self.engine.plan(&self.sql(), &settings)?;
        planned.plan.ok_or_else(|| Error::internal("there is nothing to run"))
    }

    /// Changes the job while it runs to its present text. What this text has no place for is dropped.
    pub(super) fn reconfigure(&self, job: &Job) -> Result<()> {
        let request = Reconfigure {
            plan: self.plan()?,
            moves: Moves::default(),
            allow_lost_state: true,
            allow_late: true,
            dry_run: false,
        };
        job.reconfigure(request).map(|_| ())
    }

    /// Changes the job while it runs, and observes it.
    pub(super) fn change(&self, job: &Job) -> Result<Seen> {
        let begun = Instant::now();
        self.reconfigure(job)?;
        Ok(self.observe(begun))
    }

    /// Stops the job and starts it with the same change. Returns what [`Subject::change`] does.
    pub(super) fn stop_and_start(&self, job: Job) -> Result<(Job, Seen)> {
        let begun = Instant::now();
        job.stop();
        job.wait()?;
        let job = self.engine.start(&self.plan()?)?;
        Ok((job, self.observe(begun)))
    }

    /// What is seen of a change that was requested at `begun` and is complete.
    fn observe(&self, begun: Instant) -> Seen {
        let time = begun.elapsed();
        std::thread::sleep(OBSERVED);
        self.arrivals.lock().seen(begun, time, Instant::now())
    }
}
