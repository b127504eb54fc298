use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{Epoch, EventTime, Incarnation, Nanos, PlanVersion, StageId, TaskId, TaskMetrics};
use anabranch_protocol::coordinator::Phase;
use anabranch_protocol::membership::{Process, WorkerId};
use anabranch_runtime::{Committed, Completed, Coordination, Phases, Restart, Slowest, Status, TaskPhase};

use super::*;
use crate::http::jobs::{Placed, Reading};
use crate::http::rates::Rates;
use crate::{Engine, Settings};

fn plan() -> Plan {
    let sql = "CREATE TABLE a (x BIGINT) WITH ('connector' = 'datagen'); CREATE TABLE b (x BIGINT) WITH ('connector' = 'blackhole');
               INSERT INTO b SELECT x FROM a";
    let planned = Engine::default().plan(sql, &Settings { parallelism: Some(2), ..Settings::default() });
    planned.expect("a plan").plan.expect("a job")
}

/// A reading of this many tasks, so many seconds after the begin.
fn reading(second: u64, tasks: u32) -> Reading {
    let at = Nanos(second * 1_000_000_000);
    let task = |index: u32| Placed {
        worker: format!("worker {}", index % 3),
        metrics: TaskMetrics {
            at,
            task: TaskId { stage: StageId(0), index },
            rows_in: second * 10,
            is_source: true,
            is_sink: true,
            is_prepared: true,
            stage_name: "a".into(),
            watermark: EventTime(0),
            epoch: 1,
            ..TaskMetrics::default()
        },
    };
    Reading {
        at,
        wall_ms: 1_000_000 + second as i64 * 1000,
        started_ms: 1_000_000,
        status: Status { phase: Phase::Running, ..Status::default() },
        coordination: Coordination::default(),
        failures: Vec::new(),
        checkpoints: None,
        tasks: (0..tasks).map(task).collect(),
    }
}

fn well() -> Why {
    let reading = reading(0, 1);
    why(&Look { plan: &plan(), reading: &reading, rates: &Rates::default(), notices: &[] })
}

fn filled(seconds: u64, tasks: u32, bytes: usize) -> Rings {
    let (plan, mut rings) = (plan(), Rings::default());
    for second in 0..seconds {
        rings.push(Frame::of(second, &plan, &reading(second, tasks), &Rates::default(), well()), bytes);
    }
    rings
}

#[test]
fn the_past_is_coarser_the_older_it_is() {
    let rings = filled(5000, 2, 16 << 20);
    let all: Vec<Value> = rings.between(i64::MIN, i64::MAX).map(|frame| json!(frame.point())).collect();
    let count = |seconds: u64| all.iter().filter(|point| point["seconds"] == json!(seconds)).count();
    assert_eq!(count(1), 300);
    assert_eq!(count(10), 330, "an hour without the last five minutes");
    assert!((20..=24).contains(&count(60)), "{}", count(60));
    let times: Vec<i64> = all.iter().filter_map(|point| point["at_ms"].as_i64()).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "each moment once");
    let at = |second: i64| rings.at(1_000_000 + second * 1000).map(|frame| (frame.seconds, frame.at_ms / 1000 - 1000));
    assert_eq!(at(4990), Some((1, 4990)));
    assert_eq!(at(4000), Some((10, 4009)));
    assert_eq!(at(100), Some((60, 119)));
    assert_eq!(at(-5).map(|(seconds, _)| seconds), Some(60), "the oldest");
    assert_eq!(at(9999), Some((1, 4999)), "the newest");
}

#[test]
fn samples_take_no_more_bytes_than_they_may() {
    for tasks in [2, 300] {
        let rings = filled(400, tasks, 1 << 19);
        assert!(rings.bytes() <= 1 << 19, "{}", rings.bytes());
        assert!(rings.between(i64::MIN, i64::MAX).count() > 10);
    }
}

#[test]
fn a_stage_is_the_sum_of_its_tasks() {
    let (plan, mut history) = (plan(), History::default());
    history.push(&reading(0, 3));
    let now = reading(2, 3);
    let document = Frame::of(1, &plan, &now, &history.rates(&now), well()).document();
    let stage = &document["stages"]["0"];
    assert_eq!(
        (&stage["tasks"], &stage["rows_in"], &stage["rows_in_per_second"]),
        (&json!(3), &json!(60), &json!(30.0))
    );
    let tasks = Frame::of(1, &plan, &now, &history.rates(&now), well()).tasks_of(0);
    assert_eq!((&tasks["2"]["worker"], &tasks["2"]["rows_in_per_second"]), (&json!("worker 2"), &json!(10.0)));
    assert_eq!(document["job"]["rows_read"], json!(60));
}

#[test]
fn plans_are_kept_as_long_as_there_are_samples_of_them() {
    let (plan, mut plans) = (plan(), Plans::default());
    let mut kept = |version: u32, sampled: &[u32], bytes: usize| {
        let plan = Plan { version: PlanVersion(version), ..plan.clone() };
        plans.note(&plan, || sampled.iter().copied().collect(), bytes);
        let documents: Vec<Bytes> = plans.versions().filter_map(|version| plans.get(version)).collect();
        let version = |document: &Bytes| serde_json::from_slice::<Value>(document).expect("JSON")["version"].as_u64();
        assert!(documents.len() < 2 || documents.iter().map(Bytes::len).sum::<usize>() <= bytes);
        documents.iter().filter_map(version).collect::<Vec<_>>()
    };
    assert_eq!(kept(1, &[], 1 << 20), [1], "the one that runs, even before there is a sample");
    assert_eq!(kept(2, &[1, 2], 1 << 20), [1, 2]);
    assert_eq!(kept(4, &[1, 2, 4], 1 << 20), [1, 2, 4]);
    assert_eq!(kept(4, &[2, 4], 1 << 20), [2, 4]);
    let one = serde_json::to_string(&crate::http::documents::PlanDocument::of_job(&plan)).expect("JSON").len();
    assert_eq!(kept(5, &[2, 4, 5], 2 * one + 100), [4, 5], "the newest ones");
    assert_eq!(kept(6, &[4, 5, 6], 0), [6]);
}

#[test]
fn the_newest_marks_of_all_jobs_are_told_together() {
    let mut samples = Samples::default();
    for (job, begin) in [("a", 0), ("b", 1)] {
        let (plan, kept) = (plan(), samples.jobs.entry(job.to_owned()).or_default());
        for second in 0..40 {
            let failure = Restart { at: Nanos(0), failure: format!("{job} {second}") };
            let now = Reading { failures: vec![failure], ..reading(begin + 2 * second, 1) };
            let status = Status { restarts: second, ..now.status.clone() };
            let now = Reading { status, ..now };
            let frame = Frame::of(second, &plan, &now, &Rates::default(), well());
            kept.marks.note(kept.rings.newest(), &frame, &now, &[]);
            kept.rings.push(frame, 1 << 20);
        }
    }
    let marks = samples.marks(1_000_000 + 79_000);
    let marks = marks.as_array().expect("marks");
    let told: Vec<_> = marks.iter().filter_map(|mark| mark["text"].as_str()?.rsplit(": ").next()).collect();
    assert_eq!(told.len(), MARKS_MAX);
    assert_eq!(told[..4], ["b 39", "a 39", "b 38", "a 38"]);
    assert_eq!((&marks[0]["job"], &marks[0]["kind"]), (&json!("b"), &json!("restart")));
    assert_eq!(samples.marks(1_000_000 + 79_000 + MARKS_MS).as_array().map(Vec::len), Some(1), "an hour later");
}

#[test]
fn a_checkpoint_is_kept_with_its_phases_and_its_slowest_task() {
    let (plan, mut now, mut kept) = (plan(), reading(1, 2), Checkpoints::default());
    let ms = Duration::from_millis;
    let (task, process) = (TaskId { stage: StageId(0), index: 1 }, Process { worker: WorkerId(7), life: 2 });
    let slowest = Slowest { task, process, phase: TaskPhase::Write, took: ms(4) };
    let phases = Phases { request: ms(1), alignment: ms(2), write: ms(5), commit: ms(3), slowest };
    let mut note = |epoch, incarnation, phases| {
        let committed = Committed { incarnation: Incarnation(1), epoch: Epoch(epoch) };
        let last = Completed { committed, at: now.at, took: ms(11), phases, bytes: 5 };
        (now.status.last_checkpoint, now.status.incarnation) = (Some(last), Incarnation(incarnation));
        let frame = Frame::of(1, &plan, &now, &Rates::default(), well());
        kept.note(None, &frame, &now, |process| format!("worker {}", process.worker.0));
        json!(kept.all().last())
    };
    let mark = note(3, 1, Some(phases));
    let name = plan.stages[0].name.as_str();
    let slowest = json!({
        "stage": 0, "stage_name": name, "task": 1, "worker": "worker 7", "phase": "write", "took_ms": 4.0,
    });
    let expected = json!({
        "request_ms": 1.0, "alignment_ms": 2.0, "write_ms": 5.0, "commit_ms": 3.0, "slowest": slowest,
    });
    assert_eq!((&mark["outcome"], &mark["phases"]), (&json!("completed"), &expected));
    // The stages may be those of another plan.
    assert_eq!(note(4, 2, Some(phases))["phases"]["slowest"]["stage_name"], Value::Null);
    assert_eq!(note(5, 2, None)["phases"], Value::Null);
}
