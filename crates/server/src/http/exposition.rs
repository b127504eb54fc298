//! Metrics in the text format of Prometheus, version 0.0.4: base units, one group of lines per metric.

use std::fmt::Write;

use anabranch_model::{LatencySummary, TaskMetrics};

use super::documents::known_ms;
use super::jobs::Reading;
use crate::process;

/// The content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";
const SUMMARY: &str = "summary";

/// A metric of tasks: its name, its type, its description, its value unless it has none.
type OfTask = (&'static str, &'static str, &'static str, fn(&TaskMetrics, i64) -> Option<f64>);
/// A metric of jobs, likewise.
type OfJob = (&'static str, &'static str, &'static str, fn(&Reading) -> Option<f64>);
/// A latency of tasks.
type Latency = (&'static str, &'static str, fn(&TaskMetrics) -> &LatencySummary);

const OF_TASKS: [OfTask; 17] = [
    ("anabranch_task_input_rows_total", COUNTER, "Rows that entered the task.", |t, _| count(t.rows_in)),
    ("anabranch_task_input_bytes_total", COUNTER, "Bytes of the rows that entered the task.", |t, _| count(t.bytes_in)),
    ("anabranch_task_output_rows_total", COUNTER, "Rows that left the task.", |t, _| count(t.rows_out)),
    ("anabranch_task_output_bytes_total", COUNTER, "Bytes of the rows that left the task.", |t, _| count(t.bytes_out)),
    ("anabranch_task_busy_seconds_total", COUNTER, "Time spent processing.", |t, _| seconds(t.busy_ns)),
    ("anabranch_task_idle_seconds_total", COUNTER, "Time spent waiting for input.", |t, _| seconds(t.idle_ns)),
    ("anabranch_task_backpressured_seconds_total", COUNTER, "Time spent waiting for room downstream.", |t, _| {
        seconds(t.backpressured_ns)
    }),
    ("anabranch_task_late_rows_total", COUNTER, "Late rows that were dropped.", |t, _| count(t.late_rows)),
    ("anabranch_task_malformed_rows_total", COUNTER, "Records that could not be decoded.", |t, _| {
        count(t.malformed_rows)
    }),
    (
        "anabranch_task_rows_without_event_time_total",
        COUNTER,
        "Rows dropped because they have no event time.",
        |t, _| count(t.rows_without_event_time),
    ),
    ("anabranch_task_rows_with_null_total", COUNTER, "Rows dropped for NULL in a NOT NULL column.", |t, _| {
        count(t.rows_with_null)
    }),
    ("anabranch_task_prepared", GAUGE, "1 if the state is restored and the static tables are read.", |t, _| {
        count(u64::from(t.is_prepared))
    }),
    ("anabranch_task_epoch", GAUGE, "The last epoch that the task ended.", |t, _| count(t.epoch)),
    ("anabranch_task_watermark_lag_seconds", GAUGE, "How far the watermark is behind the wall clock.", |t, wall_ms| {
        known_ms(t.watermark).map(|ms| wall_ms.saturating_sub(ms) as f64 / 1e3)
    }),
    ("anabranch_task_queue_batches", GAUGE, "Batches in the input queue.", |t, _| count(t.queue_batches)),
    ("anabranch_task_queue_bytes", GAUGE, "Bytes in the input queue.", |t, _| count(t.queue_bytes)),
    ("anabranch_task_queue_oldest_seconds", GAUGE, "Age of the oldest batch in the input queue.", |t, _| {
        seconds(t.oldest_queued_ns)
    }),
];

const LATENCIES: [Latency; 2] = [
    ("anabranch_task_latency_seconds", "From the reading of a row until the task has processed it.", |t| &t.latency),
    (
        "anabranch_task_result_latency_seconds",
        "From the reading of the row that caused a result until the sink has the result.",
        |t| &t.result_latency,
    ),
];

const OF_JOBS: [OfJob; 14] = [
    ("anabranch_job_ready", GAUGE, "1 if all tasks of the job run.", |r| count(u64::from(r.is_ready()))),
    ("anabranch_job_start_time_seconds", GAUGE, "When the job started in this process, since 1970.", |r| {
        Some(r.started_ms as f64 / 1e3)
    }),
    ("anabranch_job_incarnation", GAUGE, "The present life of the job's tasks.", |r| count(r.status.incarnation.0)),
    ("anabranch_job_restarts_total", COUNTER, "How often the tasks were started again.", |r| count(r.status.restarts)),
    ("anabranch_job_checkpoints_completed_total", COUNTER, "Checkpoints that were committed.", |r| {
        r.checkpoints.as_ref().and_then(|_| count(r.status.checkpoints_completed))
    }),
    ("anabranch_job_checkpoints_failed_total", COUNTER, "Checkpoints that were begun and abandoned.", |r| {
        r.checkpoints.as_ref().and_then(|_| count(r.status.checkpoints_abandoned))
    }),
    ("anabranch_job_last_checkpoint_duration_seconds", GAUGE, "From its request to its commit.", |r| {
        r.status.last_checkpoint.map(|last| last.took.as_secs_f64())
    }),
    ("anabranch_job_last_checkpoint_size_bytes", GAUGE, "Size of the files that it refers to.", |r| {
        r.status.last_checkpoint.and_then(|last| count(last.bytes))
    }),
    ("anabranch_job_last_checkpoint_age_seconds", GAUGE, "Time since its commit.", |r| {
        r.status.last_checkpoint.and_then(|last| seconds(r.at.since(last.at)))
    }),
    ("anabranch_job_last_checkpoint_epoch", GAUGE, "The epoch at whose end it was taken.", |r| {
        r.status.last_checkpoint.and_then(|last| count(last.committed.epoch.0))
    }),
    ("anabranch_job_groups_total", COUNTER, "Groups of epochs that were granted.", |r| count(r.coordination.groups)),
    ("anabranch_job_group_epochs", GAUGE, "Epochs of the next group.", |r| count(r.coordination.group_epochs)),
    ("anabranch_job_coordination_ratio", GAUGE, "Share of the groups' time that coordination takes, 0 to 1.", |r| {
        r.coordination.overhead
    }),
    ("anabranch_job_watermark_lag_seconds", GAUGE, "How far the slowest sink is behind the wall clock.", |r| {
        let sinks = r.tasks.iter().filter(|task| task.metrics.is_sink);
        let slowest = sinks.map(|task| task.metrics.watermark).min().and_then(known_ms);
        slowest.map(|ms| r.wall_ms.saturating_sub(ms) as f64 / 1e3)
    }),
];

/// States of jobs, in the order of a job's life.
const STATES: [&str; 9] =
    ["waiting", "starting", "restoring", "running", "restarting", "stopping", "stopped", "ended", "failed"];

#[expect(clippy::unnecessary_wraps, reason = "the tables above have values that may be missing")]
fn count(value: u64) -> Option<f64> {
    Some(value as f64)
}

#[expect(clippy::unnecessary_wraps, reason = "the tables above have values that may be missing")]
fn seconds(nanos: u64) -> Option<f64> {
    Some(nanos as f64 / 1e9)
}

/// All metrics of these jobs and of the process.
pub(super) fn text(jobs: &[(String, Reading)]) -> String {
    let mut text = String::new();
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    family(&mut text, "anabranch_build_info", GAUGE, "The version of the engine.", [sample(&version, 1.0)]);
    for (name, kind, help, value) in OF_JOBS {
        let samples = jobs.iter().filter_map(|(job, reading)| Some(sample(&[("job", job)], value(reading)?)));
        family(&mut text, name, kind, help, samples);
    }
    let states = jobs.iter().flat_map(|(job, reading)| {
        let state = reading.state();
        STATES.map(|name| sample(&[("job", job), ("state", name)], f64::from(u8::from(name == state))))
    });
    family(&mut text, "anabranch_job_state", GAUGE, "1 for the state that the job is in.", states);
    let tasks = || jobs.iter().flat_map(|(job, reading)| reading.tasks.iter().map(move |task| (job, reading, task)));
    for (name, kind, help, value) in OF_TASKS {
        let samples = tasks().filter_map(|(job, reading, task)| {
            Some(format!("{} {}", labels(job, &task.metrics, None), value(&task.metrics, reading.wall_ms)?))
        });
        family(&mut text, name, kind, help, samples);
    }
    for (name, help, of) in LATENCIES {
        let samples = tasks().flat_map(|(job, _, task)| quantiles(job, &task.metrics, of(&task.metrics)));
        family(&mut text, name, SUMMARY, help, samples);
    }
    of_process(&mut text);
    text
}

fn of_process(text: &mut String) {
    let cpu = process::cpu_time().map(|time| time.as_secs_f64());
    let number = |value: Option<u64>| value.and_then(count);
    for (name, kind, help, value) in [
        ("anabranch_process_cpu_seconds_total", COUNTER, "Processor time of the process.", cpu),
        ("anabranch_process_resident_memory_bytes", GAUGE, "Resident memory.", number(process::resident_bytes())),
        (
            "anabranch_process_peak_memory_bytes",
            GAUGE,
            "The most of it so far.",
            number(process::peak_resident_bytes()),
        ),
        ("anabranch_process_threads", GAUGE, "Threads of the process.", number(process::threads())),
        ("anabranch_process_open_files", GAUGE, "Open files and sockets.", number(process::open_files())),
    ] {
        family(text, name, kind, help, value.map(|value| format!(" {value}")));
    }
}

/// The lines of a metric. A sample begins with its labels or, after a suffix, with those. A metric without samples is omitted.
fn family(text: &mut String, name: &str, kind: &str, help: &str, samples: impl IntoIterator<Item = String>) {
    let mut samples = samples.into_iter().peekable();
    if samples.peek().is_none() {
        return;
    }
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for sample in samples {
        let _ = writeln!(text, "{name}{sample}");
    }
}

fn sample(labels: &[(&str, &str)], value: f64) -> String {
    format!("{} {value}", braced(labels))
}

fn labels(job: &str, task: &TaskMetrics, quantile: Option<&str>) -> String {
    let (stage, index) = (task.task.stage.0.to_string(), task.task.index.to_string());
    let mut labels = vec![("job", job), ("stage", &stage), ("stage_name", &task.stage_name), ("task", &index)];
    labels.extend(quantile.map(|quantile| ("quantile", quantile)));
    braced(&labels)
}

fn quantiles(job: &str, task: &TaskMetrics, latency: &LatencySummary) -> Vec<String> {
    let LatencySummary { rows, p50_us, p99_us, p999_us, max_us } = *latency;
    let of = |(quantile, us): (&str, u64)| format!("{} {}", labels(job, task, Some(quantile)), us as f64 / 1e6);
    // Before the first row there is no quantile.
    let values = [("0.5", p50_us), ("0.99", p99_us), ("0.999", p999_us), ("1", max_us)];
    let mut samples: Vec<String> = values.into_iter().filter(|_| rows > 0).map(of).collect();
    samples.push(format!("_count{} {rows}", labels(job, task, None)));
    samples
}

fn braced(labels: &[(&str, &str)]) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_a_metric_without_samples_is_omitted() {
        assert_eq!(braced(&[("a", "x\"y\\z\nw"), ("b", "")]), "{a=\"x\\\"y\\\\z\\nw\",b=\"\"}");
        let mut text = String::new();
        family(&mut text, "none", GAUGE, "nothing", []);
        family(&mut text, "some", GAUGE, "one", [sample(&[("a", "b")], 1.5)]);
        assert_eq!(text, "# HELP some one\n# TYPE some gauge\nsome{a=\"b\"} 1.5\n");
    }
}
