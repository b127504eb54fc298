//! A start that takes longer than `checkpoint-timeout`: opening tables takes as long as it needs, and a
//! restore without progress ends with its own reason.

#![expect(clippy::unwrap_used, reason = "a test stops at the first error")]

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Log, Tables, plan, schema};
use anabranch_dataflow::{
    AggregatePhase, ConnectorSpec, ExchangeKind, Expr, GroupOptions, JobOptions, NamedExpr, OnMalformed, OperatorSpec,
    Plan, SinkSpec, SourceSpec, TableTraits, Window, WindowAggregateSpec,
};
use anabranch_model::{Clock, ManualClock, Result};
use anabranch_operators::{Connector, Connectors, Positions, Sink, Source, TaskContext};
use anabranch_runtime::Checkpointing;
use anabranch_runtime::stepped::{Parts, SteppedJob};
use anabranch_state::{Access, Store};
use arrow::datatypes::{DataType, SchemaRef};

const TIMEOUT: Duration = Duration::from_secs(1);
const EPOCH: Duration = Duration::from_millis(10);

/// Tables whose sinks take their time to open, as those of transactions do.
struct Slow {
    tables: Tables,
    clock: Arc<ManualClock>,
    opening: Duration,
}

impl Connector for Slow {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        self.tables.describe(spec, columns)
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        // These tables begin again, and so do the epochs that they have seen.
        *self.tables.log.lock().unwrap() = Log::default();
        self.tables.source(spec, context, from)
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        self.clock.advance(self.opening);
        self.tables.sink(spec, context)
    }
}

fn options() -> JobOptions {
    let group = GroupOptions { epochs: Some(1), ..GroupOptions::default() };
    JobOptions { epoch_interval: EPOCH, channel_bytes: usize::MAX, group, ..JobOptions::default() }
}

/// A job with checkpoints, on one thread.
struct Bench {
    clock: Arc<ManualClock>,
    job: SteppedJob,
}

impl Bench {
    fn start(plan: &Plan, tables: &Tables, opening: Duration, folder: &tempfile::TempDir, attempts: u32) -> Bench {
        let clock = Arc::new(ManualClock::default());
        let shared: Arc<dyn Clock> = clock.clone();
        let mut connectors = Connectors::default();
        connectors.register("log", Arc::new(Slow { tables: tables.clone(), clock: Arc::clone(&clock), opening }));
        let checkpointing = Checkpointing {
            store: Store::open(folder.path().to_str().unwrap(), &Access::default()).unwrap(),
            interval: EPOCH,
            timeout: TIMEOUT,
            restart_attempts: attempts,
            new_job: "job".into(),
            seed: 1,
        };
        let parts = Parts {
            plan,
            connectors: &connectors,
            clock: &shared,
            checkpointing: Some(&checkpointing),
            origin: None,
            workers: None,
        };
        let job = SteppedJob::start(parts).unwrap().unwrap();
        Bench { clock, job }
    }

    fn step_tasks(&mut self) {
        self.clock.advance(EPOCH);
        for task in 0..self.job.tasks().count() {
            for channel in 0..self.job.tasks().channels(task).max(1) {
                self.job.tasks().step(task, channel);
            }
        }
    }

    fn turns(&mut self, turns: u32) -> Option<Result<()>> {
        for _ in 0..turns {
            self.step_tasks();
            while self.job.coordinate() || self.job.tasks().record() || self.job.write() {}
            if let Some(outcome) = self.job.outcome() {
                return Some(outcome);
            }
        }
        None
    }
}

#[test]
fn opening_many_sinks_may_take_longer_than_the_timeout() {
    let plan = plan(1, ExchangeKind::Rebalance, 4, options(), OnMalformed::Fail);
    let folder = tempfile::tempdir().unwrap();
    let tables = Tables { fail_at: Some(400), ..Tables::new(1, None) };
    let mut bench = Bench::start(&plan, &tables, TIMEOUT / 2, &folder, 1);
    // The job fails once by itself, and opens its sinks again: the source begins again in these tables, so
    // the same failure comes back and ends the job.
    let outcome = bench.turns(2_000).expect("the second failure ends the job");
    let error = outcome.expect_err("a sink fails").to_string();
    assert!(error.contains("the disk is full"), "{error}");
    let restarts = bench.job.handle().restarts();
    assert!(restarts.len() == 1 && restarts[0].failure.contains("the disk is full"), "{restarts:?}");
}

#[test]
fn a_restore_without_progress_is_named_even_if_its_tasks_get_further_when_they_are_cancelled() {
    let key = |name: &str, index| NamedExpr {
        name: name.into(),
        expr: Expr::Column(index),
        data_type: DataType::Int64,
        nullable: false,
    };
    let mut plan = plan(1, ExchangeKind::Hash { keys: vec![0] }, 1, options(), OnMalformed::Fail);
    let counts = WindowAggregateSpec {
        phase: AggregatePhase::Complete,
        window: Window::Global,
        time: None,
        time_type: DataType::Null,
        keys: vec![key("task", 0), key("seq", 1)],
        aggregates: Vec::new(),
        input_schema: schema(),
        zone: None,
    };
    plan.stages[1].operators.push(OperatorSpec::WindowAggregate(counts));
    let plan = Plan::new(plan.key_groups, plan.options, plan.stages, plan.exchanges);
    let folder = tempfile::tempdir().unwrap();
    let tables = Tables::new(1, None);
    let mut first = Bench::start(&plan, &tables, Duration::ZERO, &folder, 0);
    assert!(first.turns(50).is_none(), "the job runs");
    drop(first);
    let mut again = Bench::start(&plan, &tables, Duration::ZERO, &folder, 0);
    again.clock.advance(TIMEOUT);
    while again.job.coordinate() {}
    let error = again.turns(50).expect("the job has failed").expect_err("no progress").to_string();
    assert!(error.contains("restoring state makes no progress in stage 1 task 0 (write)"), "{error}");
}

/// A worker takes no report of a task that is gone: without the snapshot, the job would never end.
#[test]
fn a_task_is_there_until_its_last_snapshot_is_written() {
    let plan = plan(1, ExchangeKind::Rebalance, 2, options(), OnMalformed::Fail);
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Bench::start(&plan, &Tables::new(1, Some(20)), Duration::ZERO, &folder, 0);
    // The recorder is slow.
    for _ in 0..50 {
        bench.step_tasks();
        while bench.job.coordinate() || bench.job.write() {}
    }
    let tasks = bench.job.tasks();
    assert!((0..tasks.count()).all(|task| !tasks.has_ended(task)));
    bench.turns(50).expect("the job ends").unwrap();
}
