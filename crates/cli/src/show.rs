//! `anabranch show`: a job of a coordinator, with its plan, its tasks, its checkpoints and its failures.

use anabranch_model::{Clock, SystemClock};
use serde_json::Value;

use crate::arguments::Job;
use crate::autoscale::mode;
use crate::client::{client, path};
use crate::console::Console;
use crate::failure::Failure;
use crate::jobs::{items, since, string, table, text};
use crate::view::text::{bytes, count, grouped};

/// Number of failures that are shown.
const FAILURES: usize = 5;

pub(crate) fn show(arguments: &Job) -> Result<(), Failure> {
    let client = client(&arguments.client)?;
    let path = path(&arguments.job);
    let job = client.get(&path)?;
    let [plan, tasks, checkpoints] = ["plan", "tasks", "checkpoints"].map(|what| client.get(&format!("{path}/{what}")));
    let now = SystemClock::new().wall_ms();
    let mut lines = of_job(&job, now);
    lines.extend(of_checkpoints(&checkpoints?, now));
    lines.extend(of_autoscale(&client.get(&format!("{path}/autoscale"))?, now));
    lines.push(String::new());
    lines.extend(string(&plan?["text"]).trim_end().lines().map(str::to_owned));
    lines.push(String::new());
    lines.extend(of_tasks(&tasks?));
    let mut output = Console::output();
    Ok(lines.iter().try_for_each(|line| output.line(line))?)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn rate(value: &Value) -> String {
    count(value.as_f64().unwrap_or(0.0))
}

fn of_job(job: &Value, now: i64) -> Vec<String> {
    let state = string(&job["state"]);
    let started = since(now, job["started_at_ms"].as_i64());
    let restarts = number(&job["restarts"]);
    let incarnation = number(&job["incarnation"]);
    let mut lines = vec![
        format!(
            "job {}: {state}, started {started}, incarnation {incarnation}, {restarts} restarts",
            string(&job["name"])
        ),
        format!(
            "rows read {} ({}/s), written {} ({}/s)",
            grouped(number(&job["rows_read"])),
            rate(&job["rows_read_per_second"]),
            grouped(number(&job["rows_written"])),
            rate(&job["rows_written_per_second"]),
        ),
    ];
    lines.extend(text(&job["waits_for"]).map(|what| format!("it waits for workers: {what}")));
    lines.extend(text(&job["failure"]).map(|why| format!("failure: {why}")));
    lines.extend(job["watermark_lag_ms"].as_i64().map(|ms| format!("event time is {:.1} s behind", ms as f64 / 1e3)));
    lines
}

fn of_checkpoints(checkpoints: &Value, now: i64) -> Vec<String> {
    let Some(place) = text(&checkpoints["place"]) else { return vec!["it takes no checkpoints".to_owned()] };
    let completed = number(&checkpoints["completed"]);
    let mut lines =
        vec![format!("checkpoints at {place}: {completed} completed, {} abandoned", number(&checkpoints["abandoned"]))];
    let last = &checkpoints["last"];
    if last.is_object() {
        lines.push(format!(
            "the last one, of epoch {}: {}, took {:.0} ms, {}",
            number(&last["epoch"]),
            since(now, last["completed_at_ms"].as_i64()),
            last["took_ms"].as_f64().unwrap_or(0.0),
            bytes(number(&last["bytes"])),
        ));
    }
    lines.extend(items(&checkpoints["history"]).filter_map(of_phases).last());
    let failures: Vec<String> = items(&checkpoints["failures"]).map(|failure| string(&failure["text"])).collect();
    let newest = failures.len().saturating_sub(FAILURES);
    lines.extend(failures[newest..].iter().map(|failure| format!("restarted after: {}", failure.replace('\n', " "))));
    lines
}

/// The phases of a checkpoint, if they were measured.
fn of_phases(mark: &Value) -> Option<String> {
    let (epoch, phases) = (mark["epoch"].as_u64()?, Some(&mark["phases"]).filter(|phases| phases.is_object())?);
    let phase = |name: &str| format!("{name} {:.0} ms", phases[format!("{name}_ms")].as_f64().unwrap_or(0.0));
    let slowest = &phases["slowest"];
    Some(format!(
        "the time of epoch {epoch}: {}; the slowest: stage {} task {} at {}, {} {:.0} ms",
        ["request", "alignment", "write", "commit"].map(phase).join(", "),
        slowest["stage"],
        slowest["task"],
        string(&slowest["worker"]),
        string(&slowest["phase"]),
        slowest["took_ms"].as_f64().unwrap_or(0.0),
    ))
}

/// The newest autoscaling decision, if autoscaling is on.
fn of_autoscale(document: &Value, now: i64) -> Vec<String> {
    if document["mode"] == "off" {
        return Vec::new();
    }
    let mut lines = vec![mode(document)];
    if let Some(newest) = items(&document["decisions"]).last() {
        let at = since(now, newest["at_ms"].as_i64());
        lines.extend(format!("decided {at}: {}", string(&newest["text"])).lines().map(str::to_owned));
    }
    lines
}

fn of_tasks(tasks: &Value) -> Vec<String> {
    let head = ["STAGE", "TASK", "WORKER", "ROWS IN", "IN/S", "OUT/S", "BUSY", "BLOCKED", "IDLE", "QUEUE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for task in items(&tasks["tasks"]) {
        let share = |field: &str| {
            task[field].as_f64().map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0))
        };
        rows.push(vec![
            format!("{} {}", task["stage"], string(&task["stage_name"])),
            task["task"].to_string(),
            string(&task["worker"]),
            grouped(number(&task["rows_in"])),
            rate(&task["rows_in_per_second"]),
            rate(&task["rows_out_per_second"]),
            share("busy_share"),
            share("backpressured_share"),
            share("idle_share"),
            bytes(number(&task["queue_bytes"])),
        ]);
    }
    if rows.len() == 1 { vec!["no task runs".to_owned()] } else { table(&rows) }
}
