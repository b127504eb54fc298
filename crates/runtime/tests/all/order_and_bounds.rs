//! Invariants of channels and epochs on real threads: 2 (order), 5 (bounds), 7 (declared fates), and what
//! stops a job.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Tables, plan, sink_spec};
use anabranch_dataflow::{Exchange, ExchangeKind, JobOptions, OnMalformed, Plan, Port, Stage};
use anabranch_model::{Rng, StageId, SystemClock};
use anabranch_operators::Connectors;
use anabranch_runtime::{Job, Summary};
use arrow::datatypes::{DataType, Field, Schema};

const LIMIT: Duration = Duration::from_secs(60);

fn start(tables: &Tables, plan: &Plan) -> Job {
    let mut connectors = Connectors::default();
    connectors.register("log", Arc::new(tables.clone()));
    Job::start(plan, &connectors, Arc::new(SystemClock::new()), None, None).expect("the plan starts")
}

fn finish(job: Job) -> anabranch_model::Result<Summary> {
    assert!(job.handle().wait_timeout(LIMIT), "the job hangs");
    job.wait()
}

fn random_options(rng: &mut Rng) -> JobOptions {
    JobOptions {
        epoch_interval: Duration::from_micros(200 + rng.below(3000)),
        buffer_timeout: Duration::from_micros([0, 100, 5000, 1_000_000][rng.below(4) as usize]),
        batch_rows: 1 + rng.below(200) as usize,
        channel_bytes: 1 + rng.below(4000) as usize,
        ..JobOptions::default()
    }
}

/// Invariant 2: the rows of a sink before the end of an epoch are exactly those that the sources cut into it.
fn check_epochs(tables: &Tables, copies: usize, what: &str) {
    let log = tables.log.lock().expect("no panic");
    let epochs: BTreeSet<u64> = log.written.keys().map(|(_, epoch)| *epoch).collect();
    assert_eq!(epochs.iter().copied().collect::<Vec<_>>(), (1..=epochs.len() as u64).collect::<Vec<_>>(), "{what}");
    let tasks: BTreeSet<u32> = log.cut.keys().map(|(task, _)| *task).collect();
    for epoch in epochs {
        let mut written: Vec<(i64, i64)> =
            log.written.iter().filter(|((_, e), _)| *e == epoch).flat_map(|(_, rows)| rows.clone()).collect();
        written.sort_unstable();
        let mut expected = Vec::new();
        for task in &tasks {
            let end = |epoch: u64| log.cut.range((*task, 0)..=(*task, epoch)).next_back().map_or(0, |(_, end)| *end);
            let rows = (end(epoch - 1)..end(epoch)).map(|seq| (i64::from(*task), seq));
            expected.extend(rows.flat_map(|row| std::iter::repeat_n(row, copies)));
        }
        assert_eq!(written, expected, "{what}: epoch {epoch}");
    }
}

#[test]
fn no_record_overtakes_a_marker_and_no_marker_a_record() {
    let base = std::env::var("ANABRANCH_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut notified = 0;
    for seed in base..base + 40 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let (sources, sinks) = (1 + rng.below(3) as u32, 1 + rng.below(3) as u32);
        let (kind, sinks) = match rng.below(4) {
            0 => (ExchangeKind::Forward, sources),
            1 => (ExchangeKind::Broadcast, sinks),
            2 => (ExchangeKind::Rebalance, sinks),
            _ => (ExchangeKind::Hash { keys: vec![1] }, sinks),
        };
        let copies = if kind == ExchangeKind::Broadcast { sinks as usize } else { 1 };
        let tables = Tables::new(seed, Some(3000));
        let plan = plan(sources, kind, sinks, random_options(&mut rng), OnMalformed::Fail);
        let summary = finish(start(&tables, &plan)).expect("the job ends");
        let written: u64 = summary.tasks.iter().filter(|t| t.is_sink).map(|t| t.rows_out).sum();
        assert_eq!(written, 3000 * u64::from(sources) * copies as u64, "seed {seed}");
        check_epochs(&tables, copies, &format!("seed {seed}"));
        let log = tables.log.lock().expect("no panic");
        assert_eq!(log.finished_sinks, sinks);
        for (task, done) in &log.done {
            assert!(done.is_sorted_by(|a, b| a < b), "seed {seed}: source {task} was notified of {done:?}");
            let last = log.written.keys().map(|(_, epoch)| *epoch).max();
            assert!(
                done.last().copied() <= last,
                "seed {seed}: source {task} was notified of {done:?}, written is {last:?}"
            );
        }
        notified += log.done.len();
    }
    assert!(notified > 0, "no source was notified of an epoch");
}

/// A source whose rows take ways of different lengths to one stage: the channel of the short way is blocked
/// between the marker that came there and the one that comes the long way. Channels are so small that the
/// source waits for room in both.
#[test]
fn a_shared_source_neither_blocks_itself_nor_mixes_epochs() {
    for seed in 1..=25 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let (sources, sinks) = (1 + rng.below(3) as u32, 1 + rng.below(3) as u32);
        let mut kind = || match rng.below(3) {
            0 => ExchangeKind::Rebalance,
            1 => ExchangeKind::Hash { keys: vec![1] },
            _ => ExchangeKind::Hash { keys: Vec::new() },
        };
        let ends = [kind(), kind()];
        let tables = Tables::new(seed, Some(2000));
        let plan = diamond(sources, ends, sinks, random_options(&mut rng));
        assert_eq!(plan.shared_sources().count(), 1);
        let summary = finish(start(&tables, &plan)).expect("the job ends");
        let read: u64 = summary.tasks.iter().filter(|task| task.is_source).map(|task| task.rows_out).sum();
        assert_eq!(read, 2000 * u64::from(sources), "seed {seed}: it is read once");
        check_epochs(&tables, 2, &format!("seed {seed}"));
    }
}

/// A source, two readers of its rows, a stage behind one of them, and a sink of both.
fn diamond(sources: u32, [short, long]: [ExchangeKind; 2], sinks: u32, options: JobOptions) -> Plan {
    let two = plan(sources, ExchangeKind::Forward, sinks, options, OnMalformed::Fail);
    let stage = |id: u32, of: &Stage| Stage { id: StageId(id), ..of.clone() };
    let between = |id: u32| Stage { source: None, name: "pass".into(), ..stage(id, &two.stages[0]) };
    let exchange = |from: u32, to: u32, kind| Exchange { from: StageId(from), to: StageId(to), port: Port::Main, kind };
    let exchanges = vec![
        exchange(0, 1, ExchangeKind::Forward),
        exchange(0, 2, ExchangeKind::Forward),
        exchange(2, 3, ExchangeKind::Rebalance),
        exchange(1, 4, short),
        exchange(3, 4, long),
    ];
    let stages = vec![two.stages[0].clone(), between(1), between(2), between(3), stage(4, &two.stages[1])];
    Plan::new(two.key_groups, two.options, stages, exchanges)
}

#[test]
fn rows_of_one_key_stay_in_order_and_meet_in_one_task() {
    let tables = Tables::new(3, Some(5000));
    let plan = plan(2, ExchangeKind::Hash { keys: vec![0] }, 3, JobOptions::default(), OnMalformed::Fail);
    finish(start(&tables, &plan)).expect("the job ends");
    let log = tables.log.lock().expect("no panic");
    for source in 0..2_i64 {
        let receivers: BTreeSet<u32> = log
            .written
            .iter()
            .filter(|(_, rows)| rows.iter().any(|(task, _)| *task == source))
            .map(|((sink, _), _)| *sink)
            .collect();
        assert_eq!(receivers.len(), 1, "key {source} went to {receivers:?}");
        let rows = log.written.values().flatten().filter(|(task, _)| *task == source).map(|(_, seq)| *seq);
        assert!(rows.is_sorted());
    }
}

/// Waits for a condition, which is checked every `slice`.
fn wait_for(job: &Job, slice: Duration, what: &str, mut so: impl FnMut(&Job) -> bool) {
    const LIMIT: Duration = Duration::from_secs(120);
    for _ in 0..LIMIT.as_millis() / slice.as_millis() {
        assert!(!job.handle().wait_timeout(slice), "the job ended by itself, before {what}");
        if so(job) {
            return;
        }
    }
    panic!("{what} did not come about");
}

#[test]
fn a_slow_sink_stops_the_source_within_the_bound_of_the_channels() {
    let tables = Tables::new(5, None);
    tables.set_gate(false);
    let options = JobOptions { channel_bytes: 10_000, batch_rows: 64, ..JobOptions::default() };
    let plan = plan(2, ExchangeKind::Hash { keys: vec![1] }, 2, options, OnMalformed::Fail);
    let job = start(&tables, &plan);
    let rows_read = |job: &Job| job.handle().metrics().iter().filter(|t| t.is_source).map(|t| t.rows_in).sum::<u64>();
    let mut before = 0;
    // Until nothing moves any more and every sink has rows to write.
    wait_for(&job, Duration::from_millis(300), "a full queue at each sink", |job| {
        let now = rows_read(job);
        let mut sinks = job.handle().metrics().into_iter().filter(|task| task.is_sink);
        let waits = sinks.all(|task| task.queue_batches > 0 && task.oldest_queued_ns > 0);
        std::mem::replace(&mut before, now) == now && now > 0 && waits
    });
    // 2 sources x 2 sinks channels of 10,000 bytes, one batch at each sink and buffers of 64 rows at the
    // sources.
    let bound = (4 * 10_000) / 16 + 4 * 64 + 4 * 64 + 2 * 64;
    assert!(before <= bound, "{before} rows were read against a closed sink, the bound is {bound}");
    let metrics = job.handle().metrics();
    for task in metrics.iter().filter(|t| t.is_sink) {
        assert!(task.queue_bytes <= 2 * 10_000, "{task:?}");
    }
    tables.set_gate(true);
    wait_for(&job, Duration::from_millis(5), "a source that continues when the sink does", |job| {
        rows_read(job) > before && job.handle().metrics().iter().any(|task| task.backpressured_ns > 0)
    });
    job.handle().stop();
    finish(job).expect("the job stops");
    check_epochs(&tables, 1, "after back-pressure");
}

#[test]
fn a_stopped_job_has_written_all_that_it_read() {
    for seed in 0..8 {
        let tables = Tables::new(seed, None);
        let plan = plan(2, ExchangeKind::Hash { keys: vec![1] }, 2, JobOptions::default(), OnMalformed::Fail);
        let job = start(&tables, &plan);
        assert!(!job.handle().wait_timeout(Duration::from_millis(20 * seed)));
        job.handle().stop();
        let summary = finish(job).expect("the job stops");
        let rows = |source: bool| -> u64 {
            summary
                .tasks
                .iter()
                .filter(|t| t.is_source == source)
                .map(|t| if source { t.rows_in } else { t.rows_out })
                .sum()
        };
        assert_eq!(rows(true), rows(false), "seed {seed}");
        check_epochs(&tables, 1, &format!("seed {seed}"));
    }
}

#[test]
fn a_malformed_record_has_the_fate_that_was_declared() {
    let run = |fate: OnMalformed| {
        let tables = Tables { malformed_every: Some(7), ..Tables::new(9, Some(2000)) };
        let plan = plan(1, ExchangeKind::Forward, 1, JobOptions::default(), fate);
        let outcome = finish(start(&tables, &plan));
        let dead_letters = tables.log.lock().unwrap().dead_letters as u64;
        (outcome, dead_letters)
    };
    let error = run(OnMalformed::Fail).0.expect_err("the job fails").to_string();
    for part in ["stage 0 task 0 (read)", "table log", "log record", "not a record", "{broken", "on-malformed"] {
        assert!(error.contains(part), "{error}");
    }
    let (summary, dead_letters) = run(OnMalformed::Leave);
    let tasks = summary.expect("the job ends").tasks;
    assert_eq!((tasks[0].malformed_rows, dead_letters, tasks[1].rows_out), (0, 0, 2000));
    let (summary, dead_letters) = run(OnMalformed::Skip);
    let tasks = summary.expect("the job ends").tasks;
    assert!(tasks[0].malformed_rows > 10 && dead_letters == 0);
    assert_eq!(tasks[1].rows_out, 2000);
    let fields = ["table", "place", "error", "record"].map(|name| Field::new(name, DataType::Utf8View, false));
    let spec = sink_spec("dead_letters", Arc::new(Schema::new(fields.to_vec())));
    let (summary, dead_letters) = run(OnMalformed::DeadLetter(Box::new(spec)));
    assert_eq!(summary.expect("the job ends").tasks[0].malformed_rows, dead_letters);
}

#[test]
fn an_error_or_a_panic_in_a_task_stops_the_job_with_cause_and_place() {
    for (fail_at, panic_at, cause) in [(Some(500), None, "the disk is full"), (None, Some(500), "a bug at 500")] {
        let tables = Tables { fail_at, panic_at, ..Tables::new(2, None) };
        let plan = plan(2, ExchangeKind::Rebalance, 2, JobOptions::default(), OnMalformed::Fail);
        let error = finish(start(&tables, &plan)).expect_err("the job fails").to_string();
        assert!(error.contains(cause) && error.contains("stage 1 task") && error.contains("(write)"), "{error}");
    }
}

#[test]
fn a_dropped_job_leaves_no_thread() {
    let tables = Tables::new(1, None);
    let plan = plan(2, ExchangeKind::Rebalance, 2, JobOptions::default(), OnMalformed::Fail);
    let job = start(&tables, &plan);
    drop(job);
    // The tables' log is shared with every source and sink; when their threads are gone this is its only
    // owner left.
    assert_eq!(Arc::strong_count(&tables.log), 1);
}
