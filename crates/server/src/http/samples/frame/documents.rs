//! The documents that are made of a sample.

use anabranch_model::EventTime;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::super::super::description::OpenObject;
use super::super::super::documents::known_ms;
use super::super::super::jobs::JobState;
use super::{Frame, JobFrame, LoadFrame, StageFrame, TaskFrame};
use crate::why::Verdict;

/// A sample.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct HistoryFrame {
    /// Its end, in milliseconds since 1970.
    at_ms: i64,
    /// How many seconds it stands for.
    seconds: u8,
    state: JobState,
    rows_read_per_second: f64,
    rows_written_per_second: f64,
    /// How far event time is behind the wall clock.
    lag_ms: Option<i64>,
    /// Null before the first result.
    result_p99_ms: Option<f64>,
    /// Part of its time for which the busiest task works.
    busiest: f64,
    verdict: Verdict,
    /// The numbers of the stage that the request names. Null: the plan had no such stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OpenObject>")]
    stage: Option<Value>,
}

impl Frame {
    fn busiest(&self) -> f64 {
        f64::from(self.stages.iter().map(|stage| stage.busiest).max().unwrap_or_default()) / 100.0
    }

    /// For a chart.
    pub(in crate::http) fn point(&self) -> HistoryFrame {
        HistoryFrame {
            at_ms: self.at_ms,
            seconds: self.seconds,
            state: self.job.state,
            rows_read_per_second: rounded(self.job.rows_read_per_second),
            rows_written_per_second: rounded(self.job.rows_written_per_second),
            lag_ms: known_ms(self.job.watermark).map(|ms| self.at_ms.saturating_sub(ms)),
            result_p99_ms: self.job.result_p99_ms.map(rounded),
            busiest: self.busiest(),
            verdict: self.why.verdict,
            stage: None,
        }
    }

    /// For a chart of a stage.
    pub(in crate::http) fn point_of(&self, stage: u32) -> HistoryFrame {
        let of_stage = self.stages.get(stage as usize).zip(self.names.get(stage as usize));
        let document = of_stage.map_or(Value::Null, |(stage, name)| stage.document(name));
        HistoryFrame { stage: Some(document), ..self.point() }
    }

    /// For the list of jobs.
    pub(in crate::http) fn overview(&self) -> Value {
        let mut document = self.job.document(self.names.len(), self.task_count());
        document["verdict"] = json!(self.why.verdict);
        document["why"] = if self.why.text.is_empty() { Value::Null } else { json!(self.why.text) };
        document["since_ms"] = json!(self.why.since_ms);
        document
    }

    fn task_count(&self) -> u32 {
        self.stages.iter().map(|stage| stage.tasks).sum()
    }

    /// Everything but the tasks.
    pub(in crate::http) fn document(&self) -> Value {
        let stage = |(at, stage): (usize, &StageFrame)| (at.to_string(), stage.document(&self.names[at]));
        let stages: Map<String, Value> = self.stages.iter().enumerate().map(stage).collect();
        json!({
            "number": self.number,
            "at_ms": self.at_ms,
            "job": self.overview(),
            "stages": stages,
            "checkpoints": {
                "completed": self.job.completed,
                "abandoned": self.job.abandoned,
                "last": self.job.checkpoint.map(|last| json!({
                    "epoch": last.epoch, "completed_at_ms": last.at_ms, "took_ms": rounded(last.took_ms), "bytes": last.bytes,
                })),
            },
            "why": *self.why,
        })
    }

    /// The tasks of a stage.
    pub(in crate::http) fn tasks_of(&self, stage: u32) -> Value {
        let of_stage = self.tasks.iter().filter(|task| task.stage == stage);
        let task = |task: &TaskFrame| {
            let worker = self.workers.get(task.worker as usize).map_or("", String::as_str);
            (task.task.to_string(), task.document(worker))
        };
        Value::Object(of_stage.map(task).collect::<Map<_, _>>())
    }
}

impl JobFrame {
    fn document(&self, stages: usize, tasks: u32) -> Value {
        let last = self.checkpoint;
        json!({
            "state": self.state,
            "ready": self.ready,
            "waits_for": self.waits_for.as_deref(),
            "failure": self.failure.as_deref(),
            "changing": self.changing.as_deref(),
            "started_at_ms": self.started_at_ms,
            "plan_version": self.plan_version,
            "incarnation": self.incarnation,
            "restarts": self.restarts,
            "stages": stages,
            "tasks": tasks,
            "epoch": self.epoch,
            "watermark_ms": watermark(self.watermark),
            "rows_read": self.rows_read,
            "rows_written": self.rows_written,
            "rows_read_per_second": rounded(self.rows_read_per_second),
            "bytes_read_per_second": rounded(self.bytes_read_per_second),
            "rows_written_per_second": rounded(self.rows_written_per_second),
            "late_rows": self.late_rows,
            "malformed_rows": self.malformed_rows,
            "rows_without_event_time": self.rows_without_event_time,
            "rows_with_null": self.rows_with_null,
            "result_p50_ms": self.result_p50_ms.map(rounded),
            "result_p99_ms": self.result_p99_ms.map(rounded),
            "group_epochs": self.group_epochs,
            "coordination_share": self.coordination_share.map(rounded),
            "checkpoint_at_ms": last.map(|last| last.at_ms),
            "checkpoint_took_ms": last.map(|last| rounded(last.took_ms)),
            "checkpoint_bytes": last.map(|last| last.bytes),
        })
    }
}

impl StageFrame {
    fn document(&self, name: &str) -> Value {
        let mut document = self.load.document();
        document["name"] = json!(name);
        document["tasks"] = json!(self.tasks);
        document["rows_in"] = json!(self.rows_in);
        document["rows_out"] = json!(self.rows_out);
        document["malformed_rows"] = json!(self.malformed_rows);
        document["busiest"] = json!(share(self.busiest));
        document
    }
}

impl TaskFrame {
    fn document(&self, worker: &str) -> Value {
        let mut document = self.load.document();
        (document["worker"], document["thread"]) = (json!(worker), json!(self.thread));
        document
    }
}

impl LoadFrame {
    fn document(&self) -> Value {
        json!({
            "rows_in_per_second": rounded(self.rows_in_per_second),
            "rows_out_per_second": rounded(self.rows_out_per_second),
            "busy": share(self.busy),
            "idle": share(self.idle),
            "backpressured": share(self.backpressured),
            "queue_share": share(self.queue),
            "queue_rows": self.queue_rows,
            "oldest_queued_ms": self.oldest_queued_ms,
            "watermark_ms": watermark(self.watermark),
            "late_rows": self.late_rows,
            "epoch": self.epoch,
            "p99_ms": rounded(self.p99_ms),
            "cpu_share": rounded(self.cpu),
        })
    }
}

fn share(percent: u8) -> f64 {
    f64::from(percent) / 100.0
}

/// Three digits are enough for people, and fewer bytes for each of them.
fn rounded(number: f32) -> f64 {
    // The sum of nothing is -0.0.
    let number = f64::from(number) + 0.0;
    match number.abs() {
        100.0.. => number.round(),
        10.0..100.0 => (number * 10.0).round() / 10.0,
        _ => (number * 100.0).round() / 100.0,
    }
}

/// `null` before the first one, "end" after the last.
fn watermark(time: EventTime) -> Value {
    match time {
        EventTime::MIN => Value::Null,
        EventTime::MAX => json!("end"),
        EventTime(ms) => json!(ms),
    }
}
