//! A sink that holds rows until a checkpoint covers them is emptied in time, however fast its sources are.

#![expect(clippy::unwrap_used, reason = "a test stops at the first error")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Tables, in_one_stage, plan};
use anabranch_dataflow::{
    ConnectorSpec, ExchangeKind, GroupOptions, JobOptions, OnMalformed, Plan, SinkSpec, SourceSpec, TableTraits,
};
use anabranch_model::{Epoch, Result, SystemClock};
use anabranch_operators::{Committable, Connector, Connectors, Host, Positions, Sink, Source, TaskContext};
use anabranch_runtime::{Checkpointing, Job};
use anabranch_state::{Access, Store};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

/// Number of rows at which a sink requests a checkpoint, and at which it is full.
const REQUEST: usize = 500;
const FULL: usize = 2_000;
const ROWS: i64 = 60_000;

/// A log that is read, and a table whose sinks hold rows.
struct Holding {
    tables: Tables,
    seen: Arc<Mutex<Seen>>,
}

/// What all sinks have done together.
#[derive(Default)]
struct Seen {
    held_max: usize,
    committed: usize,
    commits: usize,
    times_full: usize,
}

impl Connector for Holding {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        self.tables.describe(spec, columns)
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        self.tables.source(spec, context, from)
    }

    fn sink(&self, _: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let (seen, host, task) = (Arc::clone(&self.seen), Arc::clone(&context.host), context.index);
        Ok(Box::new(HoldingSink { seen, host, task, held: 0, prepared: 0, requested: false, full: false }))
    }
}

struct HoldingSink {
    seen: Arc<Mutex<Seen>>,
    host: Arc<dyn Host>,
    task: u32,
    held: usize,
    prepared: usize,
    requested: bool,
    full: bool,
}

impl HoldingSink {
    fn look(&mut self) {
        let mut seen = self.seen.lock().unwrap();
        seen.held_max = seen.held_max.max(self.held);
        if self.held >= REQUEST && !self.requested {
            self.requested = true;
            self.host.request_checkpoint();
        }
        let full = self.held + self.prepared >= FULL;
        if full != self.full {
            self.full = full;
            seen.times_full += usize::from(full);
            self.host.set_full(full);
        }
    }
}

impl Sink for HoldingSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.held += batch.num_rows();
        self.look();
        Ok(())
    }

    fn epoch_end(&mut self, _: Epoch) -> Result<()> {
        Ok(())
    }

    fn prepare_commit(&mut self, epoch: Epoch) -> Result<Option<Committable>> {
        let content = self.held.to_string().into_bytes().into();
        self.prepared += self.held;
        (self.held, self.requested) = (0, false);
        self.look();
        Ok(Some(Committable { epoch, task: self.task, content }))
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        let rows: usize = std::str::from_utf8(&committable.content).unwrap().parse().unwrap();
        let mut seen = self.seen.lock().unwrap();
        seen.committed += rows;
        seen.commits += 1;
        drop(seen);
        self.prepared -= rows;
        self.look();
        Ok(())
    }
}

/// Runs a plan over a backlog with checkpoints an hour apart.
fn run(plan: &Plan) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    let checkpointing = Checkpointing {
        store: Store::open(folder.path().to_str().unwrap(), &Access::default()).unwrap(),
        interval: Duration::from_secs(3600),
        timeout: Duration::from_secs(60),
        restart_attempts: 0,
        new_job: "job".into(),
        seed: 1,
    };
    let seen = Arc::<Mutex<Seen>>::default();
    let mut connectors = Connectors::default();
    connectors.register("log", Arc::new(Holding { tables: Tables::new(1, Some(ROWS)), seen: Arc::clone(&seen) }));
    let job = Job::start(plan, &connectors, Arc::new(SystemClock::new()), Some(&checkpointing), None).expect("a job");
    assert!(job.handle().wait_timeout(Duration::from_secs(60)), "the job hangs");
    job.wait().expect("the job ends");
    let mut seen = seen.lock().unwrap();
    std::mem::take(&mut *seen)
}

fn options(epoch_interval: Duration, epochs: u64) -> JobOptions {
    let group = GroupOptions { epochs: Some(epochs), ..GroupOptions::default() };
    JobOptions { epoch_interval, channel_bytes: 4 << 10, batch_rows: 50, group, ..JobOptions::default() }
}

/// Neither the interval of checkpoints, nor that of epochs, nor a group of many epochs makes a full sink
/// wait.
#[test]
fn sources_wait_for_a_full_sink_and_cut_the_checkpoint_that_empties_it_at_once() {
    for (epoch_interval, epochs) in [(Duration::from_millis(10), 1), (Duration::from_secs(600), 5)] {
        let two_stages =
            plan(2, ExchangeKind::Hash { keys: vec![1] }, 2, options(epoch_interval, epochs), OnMalformed::Fail);
        let one_stage = in_one_stage(&two_stages);
        for (plan, in_flight) in [(one_stage, 0), (two_stages, 4 * ((4 << 10) / 16) + 200)] {
            let seen = run(&plan);
            assert_eq!(seen.committed, 2 * ROWS as usize);
            let most = FULL + 100 + in_flight;
            assert!(seen.held_max < most, "{} of {most} rows were held, {} commits", seen.held_max, seen.commits);
            if epoch_interval > Duration::from_secs(1) {
                assert!(seen.times_full > 1, "an epoch of ten minutes fills a sink");
            }
        }
    }
}
