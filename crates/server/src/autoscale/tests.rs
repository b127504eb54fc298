//! Which stages count, and which decisions follow from the counters of tasks.

use anabranch_model::{EventTime, Incarnation, Nanos};
use anabranch_protocol::autoscale::Stay;
use anabranch_protocol::coordinator::Phase;
use anabranch_runtime::{Coordination, Status};

use super::*;
use crate::http::Placed;
use crate::{Engine, Settings as Given};

const EVENTS: &str = "CREATE TABLE events (ad_id STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3),
    WATERMARK FOR ts AS ts) WITH ('connector' = 'ad_events', 'seed' = '1', 'start-time' = '2026-01-01 00:00:00');
  CREATE TABLE results (ad_id STRING, n BIGINT) WITH ('connector' = 'blackhole');";

fn plan(parallelism: u32, statement: &str) -> Plan {
    let settings = Given { parallelism: Some(parallelism), ..Given::default() };
    Engine::default().plan(&format!("{EVENTS}{statement}"), &settings).expect("a plan").plan.expect("a job")
}

fn counts(keys: &str, columns: &str) -> String {
    format!(
        "INSERT INTO results SELECT {columns}, COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
         GROUP BY {keys} window_start, window_end"
    )
}

fn limits(plan: &Plan, slots: u32) -> Vec<(u32, u32)> {
    graph(plan, slots).stages.iter().map(|stage| (stage.id.0, stage.max)).collect()
}

#[test]
fn stages_have_as_many_tasks_as_their_tables_keys_and_workers_allow() {
    // The generator has four partitions.
    assert_eq!(limits(&plan(2, &counts("ad_id,", "ad_id")), 0), [(0, 4), (1, u32::MAX)]);
    assert_eq!(limits(&plan(8, &counts("ad_id,", "ad_id")), 3), [(0, 3), (1, 3)]);
    assert_eq!(limits(&plan(2, &counts("", "'all'")), 0), [(0, 4), (1, 1)], "all rows have one key");
    assert_eq!(limits(&plan(1, &counts("ad_id,", "ad_id")), 0), [(0, u32::MAX)], "they would be two stages");
    assert_eq!(limits(&plan(1, &counts("", "'all'")), 0), [(0, 4)]);
    let own = format!("SET 'stage-parallelism' = 'aggregate=3'; {}", counts("ad_id,", "ad_id"));
    let own = graph(&plan(2, &own), 0);
    assert_eq!((own.stages[1].min, own.stages[1].max), (3, 3), "a number of its own");
    let joined = "CREATE TABLE names (id STRING, name STRING) WITH ('connector' = 'ad_campaigns', 'seed' = '1');";
    let joined = joined.replace("(id STRING, name STRING) ", "");
    let joined =
        format!("{joined} INSERT INTO results SELECT e.ad_id, 1 FROM events e JOIN names n ON e.ad_id = n.ad_id");
    let plan = plan(2, &joined);
    let graph = graph(&plan, 0);
    assert_eq!(plan.stages.len(), 2, "{plan}");
    assert_eq!(
        (graph.stages.len(), graph.stages[0].id, graph.edges.len()),
        (1, StageId(1), 0),
        "a static side: {plan}"
    );
}

/// A job with one stage, and its clock.
struct Job {
    plan: Plan,
    reading: Reading,
}

impl Job {
    fn new(parallelism: u32) -> Job {
        let plan = plan(parallelism, "INSERT INTO results SELECT ad_id, 1 FROM events");
        let reading = Reading {
            at: Nanos(0),
            wall_ms: 0,
            started_ms: 0,
            status: Status { phase: Phase::Running, incarnation: Incarnation(1), ..Status::default() },
            coordination: Coordination::default(),
            failures: Vec::new(),
            checkpoints: None,
            tasks: (0..parallelism).map(|index| Placed { worker: "one".into(), metrics: task(index) }).collect(),
        };
        Job { plan, reading }
    }

    /// After another second, in which each task was busy with 1,000 rows. Its lag is `lag` then.
    fn passes(&mut self, lag: u64) {
        let at = self.reading.at.plus(Duration::from_secs(1));
        self.reading.at = at;
        for Placed { metrics, .. } in &mut self.reading.tasks {
            metrics.at = at;
            metrics.rows_in += 1_000;
            metrics.rows_out += 1_000;
            metrics.busy_ns += 1_000_000_000;
            metrics.lag_rows = Some(lag);
        }
    }

    fn seen(&self) -> Observed<'_> {
        Observed { reading: &self.reading, plan: &self.plan, sql: "", slots: 8 }
    }
}

fn task(index: u32) -> TaskMetrics {
    TaskMetrics {
        task: TaskId { stage: StageId(0), index },
        stage_name: "source events".into(),
        is_source: true,
        is_sink: true,
        thread: Some(7),
        is_prepared: true,
        watermark: EventTime(0),
        epoch: 1,
        ..TaskMetrics::default()
    }
}

fn options() -> AutoscaleOptions {
    let interval = Duration::from_secs(1);
    AutoscaleOptions { interval, intervals: 2, quiet: Duration::from_secs(5), ..AutoscaleOptions::default() }
}

/// What is decided in each of the next seconds, in which the lag of each task grows by so many rows.
fn decided(scaler: &mut JobScaler, job: &mut Job, grows: u64, seconds: usize) -> Vec<Option<Action>> {
    let mut lag = job.reading.tasks[0].metrics.lag_rows.unwrap_or_default();
    let mut second = || {
        lag += grows;
        job.passes(lag);
        scaler.observe(&job.seen()).expect("decided").map(|decided| decided.decision.action)
    };
    (0..seconds).map(|_| second()).collect()
}

#[test]
fn a_lag_that_grows_gives_the_job_as_many_tasks_as_its_rows_need() {
    let mut job = Job::new(2);
    let mut scaler = JobScaler::new(options(), &job.seen()).expect("a scaler");
    let actions = decided(&mut scaler, &mut job, 200, 4);
    // Two tasks of 1,000 rows per second each, for 2,400 rows per second at 80 %.
    let change = Action::Change([(StageId(0), 3)].into());
    let unknown = Action::Stay(Stay::UnknownArrival { stage: StageId(0) });
    assert_eq!(actions, [None, Some(unknown), Some(Action::Stay(Stay::NoNeed)), Some(change)]);
}

#[test]
fn an_interval_that_a_restart_divides_decides_nothing() {
    let mut job = Job::new(2);
    let mut scaler = JobScaler::new(options(), &job.seen()).expect("a scaler");
    decided(&mut scaler, &mut job, 200, 3);
    job.reading.status.incarnation = Incarnation(2);
    job.reading.tasks.iter_mut().for_each(|task| task.metrics.busy_ns = 0);
    assert_eq!(decided(&mut scaler, &mut job, 200, 1), [None]);
    assert!(decided(&mut scaler, &mut job, 200, 1)[0].is_some());
    job.reading.tasks[1].metrics.is_prepared = false;
    assert_eq!(decided(&mut scaler, &mut job, 200, 2), [None, None], "tasks restore their state");
}

#[test]
fn another_text_begins_a_quiet_time() {
    let mut job = Job::new(2);
    let mut scaler = JobScaler::new(options(), &job.seen()).expect("a scaler");
    decided(&mut scaler, &mut job, 200, 3);
    job.passes(10_000);
    assert!(scaler.observe(&Observed { sql: "another", ..job.seen() }).expect("looked").is_none());
    job.passes(10_200);
    let decided = scaler.observe(&Observed { sql: "another", ..job.seen() }).expect("looked").expect("decided");
    assert!(matches!(decided.decision.action, Action::Stay(Stay::Quiet { .. })), "{}", decided.decision);
}

#[test]
fn a_task_that_was_read_late_counts_for_the_time_between_its_readings() {
    let (before, mut now) = (task(0), task(0));
    (now.at, now.rows_in, now.busy_ns) = (Nanos(2_000_000_000), 3_000, 1_500_000_000);
    let sample = super::task(&before, &now, 1_000_000_000);
    assert_eq!((sample.rows_in, sample.busy_ns), (3_000, 1_500_000_000), "too far apart to say anything");
    now.at = Nanos(1_500_000_000);
    let sample = super::task(&before, &now, 1_000_000_000);
    assert_eq!((sample.rows_in, sample.busy_ns), (2_000, 1_000_000_000));
}
