//! A query over events that take six seconds, whose results are files, for tests that interfere with it while
//! it runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use anabranch_connectors::AdEventsConnector;
use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec, TableTraits};
use anabranch_model::{Epoch, PartitionId, Result};
use anabranch_operators::{Connector, Polled, Positions, Sink, Source, TaskContext};
use anabranch_server::{Engine, Job, Plan, Settings};
use arrow::datatypes::SchemaRef;

const LIMIT: Duration = Duration::from_secs(120);
/// Rows after which [`Gate`] lets no more through.
const ROWS_BEFORE_GATE: usize = 25_000;

/// Events for six seconds of event time and of the clock; the same in every run, and none is late.
pub(crate) const EVENTS: &str = "
CREATE TABLE events (ad_id STRING, event_type STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3),
  WATERMARK FOR ts AS ts - INTERVAL '0.01' SECOND)
  WITH ('connector' = 'ad_events', 'rows-per-second' = '5000', 'number-of-rows' = '30000', 'seed' = '1',
        'start-time' = '2026-01-01 00:00:00');";

/// Keeps the last sixth of [`EVENTS`] back until it is opened, so that no job ends before it has been
/// changed, however slow the machine is.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    rows: Arc<AtomicUsize>,
    is_open: Arc<AtomicBool>,
}

impl Gate {
    /// An engine whose events it keeps back.
    pub(crate) fn engine(&self) -> Engine {
        let mut engine = Engine::default();
        engine.register("ad_events", Arc::new(self.clone()));
        engine
    }

    fn is_closed(&self) -> bool {
        self.rows.load(SeqCst) >= ROWS_BEFORE_GATE && !self.is_open.load(SeqCst)
    }

    /// Waits for results, or until no more come before it is opened.
    pub(crate) fn wait_for(&self, condition: &dyn Fn() -> bool) {
        wait_for("waited for results", &|| self.is_closed() || condition());
    }

    /// Waits for more rows of a table than this, or until no more come before it is opened.
    pub(crate) fn wait_for_rows(&self, folder: &Path, table: &str, count: usize) {
        self.wait_for(&|| rows(folder, table).len() > count);
    }

    /// Lets all rows through, and waits for the end of the job.
    pub(crate) fn finish(&self, job: Job) {
        assert_eq!(self.finish_with_late_rows(job), 0, "rows were late");
    }

    /// Like [`Gate::finish`], but rows may be late. Returns their number.
    pub(crate) fn finish_with_late_rows(&self, job: Job) -> u64 {
        self.is_open.store(true, SeqCst);
        late_rows(job)
    }
}

impl Connector for Gate {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        AdEventsConnector.describe(spec, columns)
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let source = AdEventsConnector.source(spec, context, from)?;
        Ok(Box::new(Gated { source, gate: self.clone(), context: context.clone(), has_begun: false }))
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        AdEventsConnector.sink(spec, context)
    }
}

/// The reader of one task.
struct Gated {
    source: Box<dyn Source>,
    gate: Gate,
    context: TaskContext,
    /// It has announced its partitions: without them, event time would go on.
    has_begun: bool,
}

impl Source for Gated {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        if self.gate.is_closed() && self.has_begun {
            let wait = wait.min(Duration::from_millis(5));
            if !self.context.host.wait(wait) {
                anabranch_model::pause(wait);
            }
            return Ok(Polled::Pending);
        }
        let polled = self.source.poll(wait)?;
        self.has_begun |= !matches!(polled, Polled::Opened { .. });
        if let Polled::Rows(rows) = &polled {
            self.gate.rows.fetch_add(rows.batch.num_rows(), SeqCst);
        }
        Ok(polled)
    }

    fn epoch_cut(&mut self, epoch: Epoch) -> Result<()> {
        self.source.epoch_cut(epoch)
    }

    fn hold(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<bool> {
        self.source.hold(partitions)
    }

    fn positions(&self) -> Result<Positions> {
        self.source.positions()
    }

    fn lag_rows(&self) -> Option<u64> {
        self.source.lag_rows()
    }

    fn may_go_on(&self) -> bool {
        self.source.may_go_on()
    }

    fn waits_at_host(&self) -> bool {
        self.source.waits_at_host()
    }

    fn epoch_done(&mut self, epoch: Epoch) -> Result<()> {
        self.source.epoch_done(epoch)
    }
}

/// Counts of windows of 200 ms by a column, into files of a folder.
pub(crate) fn counts(folder: &Path, table: &str, by: &str, filter: &str) -> String {
    format!(
        "CREATE TABLE {table} (start_ts TIMESTAMP_LTZ(3), k STRING, n BIGINT)
           WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
         INSERT INTO {table} SELECT window_start, {by}, COUNT(*)
           FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '0.2' SECOND))
           WHERE {filter} GROUP BY window_start, window_end, {by};",
        folder.join(table).display()
    )
}

pub(crate) fn settings(checkpoints: Option<&Path>, parallelism: u32) -> Settings {
    let mut set = vec![("epoch-interval".to_owned(), "5 ms".to_owned())];
    if let Some(directory) = checkpoints {
        set.push(("checkpoint-directory".to_owned(), directory.display().to_string()));
        set.push(("checkpoint-interval".to_owned(), "50 ms".to_owned()));
    }
    Settings { parallelism: Some(parallelism), set, ..Settings::default() }
}

/// The visible rows in a table's folder; none appears twice.
pub(crate) fn rows(folder: &Path, table: &str) -> BTreeSet<String> {
    let files = fs::read_dir(folder.join(table)).into_iter().flatten().map(|entry| entry.expect("entry").path());
    let visible = files.filter(|path| !path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with('.')));
    let mut rows = BTreeSet::new();
    for line in
        visible.flat_map(|path| fs::read_to_string(path).expect("text").lines().map(str::to_owned).collect::<Vec<_>>())
    {
        assert!(rows.insert(line.clone()), "{line} is there twice");
    }
    rows
}

pub(crate) fn finish(job: Job) {
    assert_eq!(late_rows(job), 0, "rows were late");
}

/// Waits for the end of a job. Returns its late rows.
fn late_rows(job: Job) -> u64 {
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    let summary = job.wait().expect("it ends well");
    summary.tasks.iter().map(|task| task.late_rows).sum()
}

pub(crate) fn plan_of(engine: &Engine, sql: &str, settings: &Settings) -> Plan {
    engine.plan(sql, settings).expect("planned").plan.expect("a plan")
}

pub(crate) fn wait_for(what: &str, condition: &dyn Fn() -> bool) {
    for _ in 0..6000 {
        if condition() {
            return;
        }
        anabranch_model::pause(Duration::from_millis(10));
    }
    panic!("{what} in vain");
}
