//! What a user sees of a change of a running job: how long no result comes, beside a stop and a start of the same job.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec, TableTraits};
use anabranch_model::{Epoch, Error, Result};
use anabranch_operators::{Connector, Positions, Sink, Source, TaskContext};
use anabranch_server::{Engine, Job, Moves, Plan, Reconfigure, Settings};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::Scale;
use crate::report::{Bounded, Section, Table};

/// The longest time without a result around a change of the parallelism, in milliseconds.
const GAP_BOUND_MS: f64 = 100.0;
/// From the request to a checkpoint by the new version, in milliseconds.
const EFFECT_BOUND_MS: f64 = 1000.0;
/// Time that is observed after a change.
const OBSERVED: Duration = Duration::from_millis(1500);

/// A table that keeps when rows were written to it.
#[derive(Clone, Default)]
struct Arrivals(Arc<Mutex<Vec<Instant>>>);

impl Arrivals {
    /// The longest time between two writes from a moment on.
    fn longest_gap(&self, from: Instant) -> Duration {
        let mut arrived = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.sort();
        let first = arrived.partition_point(|at| *at < from).saturating_sub(1);
        arrived[first..].windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(Duration::ZERO)
    }
}

impl Connector for Arrivals {
    fn describe(&self, _spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let schema = Some(Arc::clone(columns));
        Ok(TableTraits { bounded: false, readable: false, writable: true, max_readers: None, schema })
    }

    fn source(&self, _: &SourceSpec, _: &TaskContext, _: Option<&Positions>) -> Result<Box<dyn Source>> {
        Err(Error::user("this table can only be written"))
    }

    fn sink(&self, _spec: &SinkSpec, _context: &TaskContext) -> Result<Box<dyn Sink>> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Arrivals {
    fn write(&mut self, _batch: &RecordBatch) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        Ok(())
    }

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }
}

/// The job: rows as they come, filtered, and a count for each key in a window that stays open.
struct Subject<'a> {
    engine: Engine,
    arrivals: Arrivals,
    folder: &'a Path,
    rows_per_s: u64,
    filter: u32,
    parallelism: u32,
}

impl Subject<'_> {
    fn plan(&self) -> Result<Plan> {
        let sql = format!(
            "CREATE TABLE bids (WATERMARK FOR dateTime AS dateTime) WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows-per-second' = '{}', 'seed' = '1');
             CREATE TABLE plain (price BIGINT) WITH ('connector' = 'arrivals');
             CREATE TABLE counts (price BIGINT, bidder BIGINT, auction BIGINT, n BIGINT) WITH ('connector' = 'blackhole');
             INSERT INTO plain SELECT price FROM bids WHERE price % 16 = 1 AND price > {};
             INSERT INTO counts SELECT price, bidder, auction, COUNT(*)
               FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(dateTime), INTERVAL '20' HOUR))
               GROUP BY window_start, window_end, price, bidder, auction;",
            self.rows_per_s, self.filter
        );
        let set = vec![
            ("checkpoint-directory".to_owned(), self.folder.join("checkpoints").display().to_string()),
            ("checkpoint-interval".to_owned(), "1 s".to_owned()),
        ];
        let settings = Settings { parallelism: Some(self.parallelism), set, ..Settings::default() };
        let planned = self.engine.plan(&sql, &settings)?;
        planned.plan.ok_or_else(|| Error::internal("there is nothing to run"))
    }

    /// Changes the job while it runs. Returns the longest time without a row, and the time until the change was complete.
    fn change(&self, job: &Job) -> Result<(Duration, Duration)> {
        let (plan, begun) = (self.plan()?, Instant::now());
        job.reconfigure(Reconfigure { plan, moves: Moves::default(), allow_lost_state: false, dry_run: false })?;
        let took = begun.elapsed();
        std::thread::sleep(OBSERVED);
        Ok((self.arrivals.longest_gap(begun), took))
    }

    /// Stops the job and starts it with the same change. Returns what [`Subject::change`] does.
    fn stop_and_start(&self, job: Job) -> Result<(Job, (Duration, Duration))> {
        let begun = Instant::now();
        job.stop();
        job.wait()?;
        let job = self.engine.start(&self.plan()?)?;
        let took = begun.elapsed();
        std::thread::sleep(OBSERVED);
        Ok((job, (self.arrivals.longest_gap(begun), took)))
    }
}

/// A running job is changed, without keys in its state and with many.
pub(crate) fn changes(scale: Scale) -> Result<Vec<Section>> {
    let (keys, filling) = (scale.distinct_keys, Duration::from_secs(10).min(scale.latency_duration * 2));
    // Ten times the state, at a rate that half of the machine can take.
    let sizes = [(keys / 100, filling), (keys, filling), (keys * 10, filling * 5)];
    sizes.into_iter().map(|(keys, filling)| changes_at(scale, keys, filling)).collect()
}

fn changes_at(scale: Scale, keys: u64, filling: Duration) -> Result<Section> {
    let folder = tempfile::tempdir().map_err(|error| Error::outside(error.to_string()))?;
    let rows_per_s = (keys as f64 / filling.as_secs_f64()) as u64;
    let arrivals = Arrivals::default();
    let mut engine = Engine::default();
    engine.register("arrivals", Arc::new(arrivals.clone()));
    let mut subject = Subject { engine, arrivals, folder: folder.path(), rows_per_s, filter: 0, parallelism: 2 };
    let mut job = subject.engine.start(&subject.plan()?)?;
    std::thread::sleep(filling);
    let quiet = Instant::now();
    std::thread::sleep(OBSERVED);
    let mut values = vec![Bounded::plain("longest gap without a change", ms(subject.arrivals.longest_gap(quiet)))];
    let rounds = scale.repetitions.min(3);
    let mut state_bytes = 0;
    for (what, parallelisms) in [("filter changed", &[2][..]), ("rescaled 2, 4, 3", &[4, 3, 2])] {
        let (mut live, mut stopped) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            for parallelism in parallelisms {
                (subject.parallelism, subject.filter) = (*parallelism, 2 * round + 1);
                live.push(subject.change(&job)?);
                state_bytes = job.status().last_checkpoint.map_or(state_bytes, |last| state_bytes.max(last.bytes));
            }
            for parallelism in parallelisms {
                (subject.parallelism, subject.filter) = (*parallelism, 2 * round + 2);
                let measured;
                (job, measured) = subject.stop_and_start(job)?;
                stopped.push(measured);
            }
        }
        for (how, measured, bounded) in [("while it runs", live, true), ("stop and start", stopped, false)] {
            let (gaps, times): (Vec<_>, Vec<_>) = measured.into_iter().unzip();
            // State that moves takes the time to copy it.
            let effect_bound = (parallelisms.len() == 1).then_some(EFFECT_BOUND_MS);
            for (name, times, bound) in [("longest gap", gaps, Some(GAP_BOUND_MS)), ("time", times, effect_bound)] {
                let (median, worst) = median_and_worst(times);
                for (which, value) in [("median", median), ("worst", worst)] {
                    let name = format!("{what}, {how}: {name}, {which}");
                    values.push(match bound.filter(|_| bounded) {
                        Some(bound) => Bounded::new(name, value.as_secs_f64() * 1e3, bound, "ms"),
                        None => Bounded::plain(name, ms(value)),
                    });
                }
            }
        }
    }
    let note = format!(
        "A generator of {rows_per_s} rows per second; statement 1 filters and writes rows as they come, statement 2 counts for each of \
         about {keys} keys in a window that stays open: up to {} MB in a checkpoint. Parallelism 2, a checkpoint each second, {rounds} rounds. The longest time \
         without a row of statement 1, and the time from the request until a checkpoint by the new version; beside it the same change by \
         stopping the job with a checkpoint and starting it with the other text, in the same process.",
        state_bytes >> 20
    );
    Ok(Section { title: format!("Changes of a running job, {keys} keys"), note, table: Table::Bounds(values) })
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn median_and_worst(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[times.len() - 1])
}
