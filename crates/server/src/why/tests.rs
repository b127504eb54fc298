//! The answer for readings that are made up. `tests/all/why.rs` has jobs that make them.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_model::{EventTime, Incarnation, Nanos, PartitionProgress, SourceProgress, TaskId};
use anabranch_protocol::coordinator::Phase;
use anabranch_runtime::{Coordination, Status};

use super::*;
use crate::http::{History, Placed};
use crate::{Engine, Settings};

const SECOND: u64 = 1_000_000_000;
const NOW: Nanos = Nanos(100 * SECOND);

/// Two stages: the source, and windows that are written.
fn plan() -> Plan {
    plan_into("WITH ('connector' = 'blackhole')", &[])
}

/// [`plan`] with this end of the declaration of the table for the results.
fn plan_into(end: &str, set: &[(String, String)]) -> Plan {
    let sql = format!(
        "CREATE TABLE ads (id BIGINT, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at)
           WITH ('connector' = 'filesystem', 'path' = '/tmp', 'format' = 'json');
         CREATE TABLE results (id BIGINT PRIMARY KEY NOT ENFORCED, n BIGINT) {end};
         INSERT INTO results SELECT id, COUNT(*) FROM TABLE(TUMBLE(TABLE ads, DESCRIPTOR(at), INTERVAL '10' SECOND))
           WHERE id > 5 GROUP BY id, window_start, window_end;"
    );
    let settings = Settings { parallelism: Some(2), set: set.to_vec(), ..Settings::default() };
    Engine::default().plan(&sql, &settings).expect("a plan").plan.expect("a job")
}

fn task(stage: u32, index: u32) -> TaskMetrics {
    TaskMetrics {
        at: NOW,
        task: TaskId { stage: StageId(stage), index },
        stage_name: ["source ads", "aggregate"][stage as usize].into(),
        is_source: stage == 0,
        is_sink: stage == 1,
        keeps_windows: stage == 1,
        is_prepared: true,
        rows_in: 100,
        rows_out: if stage == 1 { 0 } else { 100 },
        watermark: EventTime(0),
        epoch: 7,
        ..TaskMetrics::default()
    }
}

fn reading(at: Nanos, tasks: Vec<TaskMetrics>) -> Reading {
    let placed = |metrics: TaskMetrics| Placed { worker: "local".into(), metrics: TaskMetrics { at, ..metrics } };
    Reading {
        at,
        wall_ms: 1_700_000_000_000,
        started_ms: 1_699_999_000_000,
        status: Status { phase: Phase::Running, ..Status::default() },
        coordination: Coordination::default(),
        failures: Vec::new(),
        checkpoints: None,
        tasks: tasks.into_iter().map(placed).collect(),
    }
}

/// The answer, given the tasks some seconds before.
fn with_before(before: Vec<TaskMetrics>, tasks: Vec<TaskMetrics>) -> Why {
    let mut history = History::default();
    history.push(&reading(Nanos(NOW.0 - 2 * SECOND), before));
    let now = reading(NOW, tasks);
    why(&Look { plan: &plan(), reading: &now, rates: &history.rates(&now), notices: &[] })
}

fn of(tasks: Vec<TaskMetrics>) -> Why {
    with_before(tasks.clone(), tasks)
}

fn explain(first: TaskMetrics) -> Why {
    of(vec![first, task(1, 0)])
}

fn partition(name: &str, ms: i64, advanced_s: u64, rows_s: Option<u64>) -> PartitionProgress {
    let rows_at = rows_s.map(|at| Nanos(at * SECOND));
    let (watermark, advanced_at) = (EventTime(ms), Nanos(advanced_s * SECOND));
    PartitionProgress { name: name.into(), watermark, advanced_at, rows_at, is_idle: false }
}

fn source(partitions: Vec<PartitionProgress>) -> TaskMetrics {
    let progress = SourceProgress { table: "ads".into(), partitions };
    TaskMetrics { progress: Some(Arc::new(progress)), ..task(0, 0) }
}

#[test]
fn a_silent_partition_is_the_end_of_the_chain_and_has_a_change_as_its_remedy() {
    let partitions =
        vec![partition("ads/0", 1_700_000_000_000, 99, Some(99)), partition("ads/1", 1_600_000_000_000, 40, Some(40))];
    let why = explain(source(partitions));
    assert_eq!((why.verdict, why.stage), (Verdict::SilentPartition, Some(0)));
    assert!(why.text.starts_with("partition 'ads/1' of table ads holds event time back"), "{}", why.text);
    let names: Vec<&str> = why.chain.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["aggregate", "source ads", "partition ads/1"]);
    assert_eq!(why.chain.iter().map(|link| link.cause).collect::<Vec<_>>(), [false, false, true]);
    let change = why.remedies[0].change.as_ref().expect("a change");
    assert_eq!((change.options[0].table.as_str(), change.options[0].name.as_str()), ("ads", "scan.idle-timeout"));
    assert_eq!(why.next.expect("a window").at_ms, 10_000);
}

#[test]
fn partitions_side_by_side_leave_the_window_open() {
    for (ahead_s, own_s) in [(99, 99), (99, 92), (40, 39), (40, 40)] {
        let why = explain(source(vec![
            partition("ads/0", 1_700_000_000_900, ahead_s, Some(ahead_s)),
            partition("ads/1", 1_700_000_000_100, own_s, Some(own_s)),
        ]));
        assert_eq!(why.verdict, Verdict::WindowOpen);
        assert!(why.text.starts_with("event time has reached 2023-11-14 22:13:20"), "{}", why.text);
    }
}

#[test]
fn a_job_with_results_is_explained_only_when_it_stands_still() {
    let results = TaskMetrics { rows_out: 5, ..task(1, 0) };
    let before = TaskMetrics { rows_out: 1, ..task(1, 0) };
    let of = |advanced_s| {
        let partitions = vec![partition("ads/0", 9, 99, Some(99)), partition("ads/1", 5, advanced_s, Some(advanced_s))];
        let earlier = TaskMetrics { rows_in: 50, ..task(0, 0) };
        with_before(vec![earlier, before.clone()], vec![source(partitions), results.clone()])
    };
    assert_eq!((of(95).verdict, of(95).text.as_str()), (Verdict::Well, ""));
    assert!(of(80).text.contains("no row for 20 s"));
}

#[test]
fn rows_that_never_come_or_are_all_dropped_are_told() {
    let none = explain(TaskMetrics { rows_in: 0, rows_out: 0, ..task(0, 0) });
    assert_eq!((none.verdict, none.chain.last().map(|link| link.name.as_str())), (Verdict::NoInput, Some("table ads")));
    assert!(none.text.starts_with("no row has been read by 'source ads'"));
    let at_end = explain(TaskMetrics { rows_in: 0, rows_out: 0, lag_rows: Some(0), ..task(0, 0) });
    assert!(at_end.text.contains("no rows after the place where reading began"), "{}", at_end.text);
    let malformed = explain(TaskMetrics { malformed_rows: 70, ..task(0, 0) });
    assert_eq!(malformed.verdict, Verdict::Malformed);
    let untimed = explain(TaskMetrics { rows_without_event_time: 90, ..task(0, 0) });
    assert_eq!(untimed.verdict, Verdict::WithoutEventTime);
    assert!(untimed.text.starts_with("90 of 100 rows have NULL as event time"));
    let late = explain(TaskMetrics { late_rows: 60, ..task(0, 0) });
    assert_eq!(late.verdict, Verdict::Late);
    assert!(late.text.starts_with("60 of 100 rows are late and count in no result"));
    let filtered = explain(TaskMetrics { rows_out: 0, ..task(0, 0) });
    assert_eq!(filtered.verdict, Verdict::AllDropped);
    assert!(filtered.text.contains("has taken 100 rows and passed none on"));
    assert!(
        filtered.chain.last().is_some_and(|link| link.name == "condition" && link.text == "(id > 5)"),
        "{filtered:?}"
    );
}

#[test]
fn results_that_wait_for_a_checkpoint_are_told_for_each_sink_that_commits_with_it() {
    let folder = tempfile::tempdir().expect("folder");
    let set = [("checkpoint-directory".to_owned(), folder.path().display().to_string())];
    let check = |end: &str, waits: bool| {
        let plan = plan_into(end, &set);
        let now = reading(NOW, vec![task(0, 0), TaskMetrics { rows_out: 5, ..task(1, 0) }]);
        let rates = History::default().rates(&now);
        let found = why(&Look { plan: &plan, reading: &now, rates: &rates, notices: &[] });
        assert_eq!(found.verdict == Verdict::SinkWaitsForCheckpoint, waits, "{end}: {found:?}");
    };
    let files = format!("'connector' = 'filesystem', 'format' = 'json', 'path' = '{}'", folder.path().display());
    let kafka = "'topic' = 'results', 'properties.bootstrap.servers' = 'localhost:9'";
    let jdbc = "'connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost:9/shop', 'table-name' = 'results'";
    for (options, waits) in [
        (format!("'connector' = 'kafka', 'format' = 'json', {kafka}"), true),
        (
            format!("'connector' = 'kafka', 'format' = 'json', {kafka}, 'sink.delivery-guarantee' = 'at-least-once'"),
            false,
        ),
        (format!("'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json', {kafka}"), true),
        (jdbc.to_owned(), true),
        (format!("{jdbc}, 'sink.delivery-guarantee' = 'at-least-once'"), false),
        (files.clone(), true),
        ("'connector' = 'blackhole'".to_owned(), false),
        ("'connector' = 'print'".to_owned(), false),
    ] {
        check(&format!("WITH ({options})"), waits);
    }
    check(&format!("PARTITIONED BY (n) WITH ({files})"), true);
}

#[test]
fn a_slow_stage_or_an_open_window_is_told() {
    let one = || source(vec![partition("ads/0", 5000, 80, Some(80))]);
    let slow = |oldest_queued_ns| {
        let watermark = EventTime(-1);
        let slow = TaskMetrics { queue_bytes: 9, queue_batches: 3, oldest_queued_ns, watermark, ..task(1, 0) };
        of(vec![one(), slow])
    };
    let why = slow(2 * SECOND);
    assert!(why.text.starts_with("'aggregate' holds event time back: 3 batches wait"), "{}", why.text);
    let why = slow(SECOND / 100);
    assert!(why.text.starts_with("event time has reached"), "batches on their way are no reason: {}", why.text);
    let why = explain(one());
    assert!(
        why.text.starts_with("event time has reached 1970-01-01 00:00:05; no row has come for 20 s"),
        "{}",
        why.text
    );
    let why = explain(source(vec![partition("a", i64::MIN, 0, None)]));
    assert!(why.text.starts_with("no event time has come: final results come when all tables have been read"));
    assert_eq!(explain(source(Vec::new())).text, "the tables have no open partition");
}

/// Nanoseconds of two seconds: busy, idle, back-pressured.
fn spent(task: TaskMetrics, [busy, idle, backpressured]: [u64; 3]) -> TaskMetrics {
    let ns = |percent: u64| percent * 2 * SECOND / 100;
    TaskMetrics { busy_ns: ns(busy), idle_ns: ns(idle), backpressured_ns: ns(backpressured), ..task }
}

#[test]
fn the_cause_of_back_pressure_is_named_and_not_those_that_wait_for_it() {
    let tasks = |of: [[u64; 3]; 4]| {
        let places = [(0, 0), (0, 1), (1, 0), (1, 1)];
        places.iter().zip(of).map(|((stage, index), shares)| spent(task(*stage, *index), shares)).collect::<Vec<_>>()
    };
    let before = || tasks([[0; 3]; 4]);
    let why = with_before(before(), tasks([[10, 10, 80], [10, 5, 85], [97, 3, 0], [95, 5, 0]]));
    assert_eq!((why.verdict, why.stage), (Verdict::Busy, Some(1)), "{}", why.text);
    let change = why.remedies[0].change.as_ref().expect("more tasks");
    assert_eq!((change.stage, change.parallelism.map(u32::from)), (Some(1), Some(4)));
    let why = with_before(before(), tasks([[10, 10, 80], [10, 5, 85], [97, 3, 0], [10, 90, 0]]));
    assert_eq!((why.verdict, why.stage), (Verdict::Skewed, Some(1)), "{}", why.text);
    assert!(why.remedies[0].change.as_ref().expect("a balance").balance.is_some());
    // Without keys, an uneven stage is only busy.
    let mut unkeyed = plan();
    unkeyed.exchanges.iter_mut().for_each(|exchange| exchange.kind = anabranch_dataflow::ExchangeKind::Rebalance);
    let now = reading(NOW, tasks([[10, 10, 80], [10, 5, 85], [97, 3, 0], [10, 90, 0]]));
    let mut history = History::default();
    history.push(&reading(Nanos(NOW.0 - 2 * SECOND), before()));
    let look = Look { plan: &unkeyed, reading: &now, rates: &history.rates(&now), notices: &[] };
    assert_eq!(super::why(&look).verdict, Verdict::Busy);
    // A source that reads more slowly than rows come.
    let behind = || tasks([[95, 5, 0], [95, 5, 0], [10, 90, 0], [10, 90, 0]]);
    let lagging: Vec<_> =
        behind().into_iter().map(|task| TaskMetrics { lag_rows: task.is_source.then_some(5000), ..task }).collect();
    let why = with_before(before(), lagging);
    assert_eq!((why.verdict, why.stage), (Verdict::SourceBehind, Some(0)), "{}", why.text);
    assert!(why.text.contains("10000 rows"), "{}", why.text);
}

#[test]
fn a_job_that_does_not_run_says_why() {
    let of_status = |change: fn(&mut Status)| {
        let mut reading = reading(NOW, vec![task(0, 0), task(1, 0)]);
        change(&mut reading.status);
        let rates = Rates::default();
        why(&Look { plan: &plan(), reading: &reading, rates: &rates, notices: &[] })
    };
    let failed = of_status(|status| (status.ended, status.failure) = (true, Some("disk full".into())));
    assert_eq!((failed.verdict, failed.text.as_str()), (Verdict::Failed, "the job has failed: disk full"));
    let waiting = of_status(|status| status.waits_for = Some("2 slots".into()));
    assert_eq!((waiting.verdict, waiting.text.as_str()), (Verdict::Waiting, "the job waits for workers: 2 slots"));
    assert_eq!(of_status(|status| status.ended = true).verdict, Verdict::Over);
    let restoring = |incarnation| {
        let mut reading = reading(NOW, vec![task(0, 0), TaskMetrics { is_prepared: false, ..task(1, 0) }]);
        (reading.status.phase, reading.status.incarnation) = (Phase::Restoring, Incarnation(incarnation));
        why(&Look { plan: &plan(), reading: &reading, rates: &Rates::default(), notices: &[] })
    };
    assert_eq!((restoring(2).verdict, restoring(2).text.as_str()), (Verdict::Starting, "the job restores its state"));
    assert_eq!(restoring(1).text, "the job begins: 'aggregate' is not ready yet", "there is no state yet");
    let unready = explain(TaskMetrics { is_prepared: false, rows_in: 0, ..task(0, 0) });
    assert_eq!((unready.verdict, unready.stage), (Verdict::Starting, Some(0)), "not that it reads no rows");
}

#[test]
fn each_verdict_has_a_word_of_its_own() {
    let words: BTreeMap<String, ()> = [Verdict::Well, Verdict::NoInput, Verdict::HeldBackByAlignment]
        .iter()
        .map(|verdict| (serde_json::to_string(verdict).expect("a word"), ()))
        .collect();
    assert_eq!(words.into_keys().collect::<Vec<_>>(), ["\"held-back-by-alignment\"", "\"no-input\"", "\"well\""]);
}

#[test]
fn a_job_that_has_just_begun_and_sources_that_never_meet_raise_no_alarm() {
    let mut young = reading(NOW, vec![TaskMetrics { rows_in: 0, rows_out: 0, ..task(0, 0) }, task(1, 0)]);
    young.started_ms = young.wall_ms - 1000;
    let rates = Rates::default();
    assert_eq!(why(&Look { plan: &plan(), reading: &young, rates: &rates, notices: &[] }).verdict, Verdict::Well);
    // Nothing waits for event time.
    let partitions = vec![partition("ads/0", 1_700_000_000_000, 99, Some(99)), partition("ads/1", 0, 40, Some(40))];
    let sink = TaskMetrics { keeps_windows: false, rows_out: 9, ..task(1, 0) };
    let earlier = TaskMetrics { rows_out: 1, ..sink.clone() };
    let before = TaskMetrics { rows_in: 50, ..source(partitions.clone()) };
    assert_eq!(with_before(vec![before, earlier], vec![source(partitions), sink]).verdict, Verdict::Well);
}

#[test]
fn a_notice_is_a_reason_only_for_the_table_that_it_names() {
    let quiet = reading(NOW, vec![TaskMetrics { rows_in: 0, rows_out: 0, ..task(0, 0) }, task(1, 0)]);
    let rates = Rates::default();
    let of = |text: &str| {
        let notices = [Notice { number: 1, at: NOW, times: 1, text: text.into() }];
        why(&Look { plan: &plan(), reading: &quiet, rates: &rates, notices: &notices }).text
    };
    assert!(of("table ads: the broker is away").contains("the broker is away"));
    assert!(!of("the job restarted").contains("restarted"));
}

#[test]
fn a_notice_about_a_table_that_is_written_is_a_reason_until_the_table_answers_again() {
    let tasks = || vec![task(0, 0), TaskMetrics { rows_out: 5, ..task(1, 0) }];
    let mut history = History::default();
    history.push(&reading(Nanos(NOW.0 - 2 * SECOND), tasks()));
    let now = reading(NOW, tasks());
    let of = |texts: &[&str]| {
        let notice =
            |(number, text): (usize, &&str)| Notice { number: number as u64, at: NOW, times: 1, text: (*text).into() };
        let notices: Vec<Notice> = texts.iter().enumerate().map(notice).collect();
        why(&Look { plan: &plan(), reading: &now, rates: &history.rates(&now), notices: &notices })
    };
    let away = "table results: the database does not answer";
    let why = of(&[away]);
    assert_eq!((why.verdict, why.stage), (Verdict::NoOutput, Some(1)));
    assert_eq!(why.text, format!("'aggregate' writes no rows: {away}"));
    assert_eq!(why.chain.last().map(|link| (link.name.as_str(), link.cause)), Some(("table results", true)));
    let without_effect = "table results: option 'x' has no effect";
    for others in [
        &["table results2: does not answer"][..],
        &["old_results does not answer"],
        &[without_effect],
        &[away, "results answers again, after 3 s"],
    ] {
        assert_ne!(of(others).verdict, Verdict::NoOutput, "{others:?}");
    }
    // Rows are written.
    let earlier = vec![task(0, 0), task(1, 0)];
    let (mut history, notices) = (History::default(), [Notice { number: 1, at: NOW, times: 1, text: away.into() }]);
    history.push(&reading(Nanos(NOW.0 - 2 * SECOND), earlier));
    let look = Look { plan: &plan(), reading: &now, rates: &history.rates(&now), notices: &notices };
    assert_ne!(super::why(&look).verdict, Verdict::NoOutput);
}

#[test]
fn rows_that_are_dropped_now_count_and_those_of_long_ago_do_not() {
    let results = |rows_out| TaskMetrics { rows_out, ..task(1, 0) };
    let late = |rows_in, late_rows| TaskMetrics { rows_in, late_rows, ..task(0, 0) };
    let long_ago = with_before(vec![late(1000, 900), results(1)], vec![late(2000, 900), results(9)]);
    assert_eq!(long_ago.verdict, Verdict::Well);
    let now = with_before(vec![late(1000, 0), results(1)], vec![late(2000, 900), results(9)]);
    assert_eq!(now.verdict, Verdict::Late, "{now:?}");
    assert!(now.text.starts_with("90 % of the rows"), "{}", now.text);
}
