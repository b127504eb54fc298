//! The metrics of jobs, of their tasks and of the process, independent of a format.

use anabranch_model::{LatencySummary, TaskMetrics};

use super::documents::known_ms;
use super::jobs::{JobState, Reading};
use crate::process;

/// What a metric measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only grows, and begins again with its task or process.
    Counter,
    /// Has a value at each moment.
    Gauge,
    /// Quantiles, and how many values there were.
    Summary,
}

use Kind::{Counter, Gauge};

/// A metric with its samples.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    pub(crate) samples: Vec<Sample>,
}

/// A value of a metric.
pub(crate) struct Sample {
    /// It counts the values of a summary.
    pub(crate) is_count: bool,
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: f64,
}

/// A metric of tasks: its name, its type, its description, its value unless it has none.
type OfTask = (&'static str, Kind, &'static str, fn(&TaskMetrics, i64) -> Option<f64>);
/// A metric of jobs, likewise.
type OfJob = (&'static str, Kind, &'static str, fn(&Reading) -> Option<f64>);
/// A latency of tasks.
type Latency = (&'static str, &'static str, fn(&TaskMetrics) -> &LatencySummary);

const OF_TASKS: [OfTask; 29] = [
    ("anabranch_task_input_rows_total", Counter, "Rows that entered the task.", |t, _| count(t.rows_in)),
    ("anabranch_task_input_bytes_total", Counter, "Bytes of the rows that entered the task.", |t, _| count(t.bytes_in)),
    ("anabranch_task_output_rows_total", Counter, "Rows that left the task.", |t, _| count(t.rows_out)),
    ("anabranch_task_output_bytes_total", Counter, "Bytes of the rows that left the task.", |t, _| count(t.bytes_out)),
    ("anabranch_task_busy_seconds_total", Counter, "Time spent processing.", |t, _| seconds(t.busy_ns)),
    ("anabranch_task_idle_seconds_total", Counter, "Time spent waiting for input.", |t, _| seconds(t.idle_ns)),
    ("anabranch_task_backpressured_seconds_total", Counter, "Time spent waiting for room downstream.", |t, _| {
        seconds(t.backpressured_ns)
    }),
    (
        "anabranch_task_late_rows_total",
        Counter,
        "Late rows, which are dropped or go to a table of their own.",
        |t, _| count(t.late_rows),
    ),
    ("anabranch_task_malformed_rows_total", Counter, "Records that could not be decoded.", |t, _| {
        count(t.malformed_rows)
    }),
    (
        "anabranch_task_rows_without_event_time_total",
        Counter,
        "Rows dropped because they have no event time.",
        |t, _| count(t.rows_without_event_time),
    ),
    ("anabranch_task_rows_with_null_total", Counter, "Rows dropped for NULL in a NOT NULL column.", |t, _| {
        count(t.rows_with_null)
    }),
    ("anabranch_task_prepared", Gauge, "1 if the state is restored and the static tables are read.", |t, _| {
        count(u64::from(t.is_prepared))
    }),
    ("anabranch_task_epoch", Gauge, "The last epoch that the task ended.", |t, _| count(t.epoch)),
    ("anabranch_task_watermark_lag_seconds", Gauge, "How far the watermark is behind the wall clock.", |t, wall_ms| {
        known_ms(t.watermark).map(|ms| wall_ms.saturating_sub(ms) as f64 / 1e3)
    }),
    ("anabranch_task_lag_rows", Gauge, "Rows of the task's partitions that it has not read yet.", |t, _| {
        t.lag_rows.and_then(count)
    }),
    ("anabranch_task_lookup_keys_total", Counter, "Keys that rows asked a table outside for.", |t, _| {
        t.lookups.and_then(|lookups| count(lookups.keys))
    }),
    ("anabranch_task_lookup_hits_total", Counter, "Those of them that a cache answered.", |t, _| {
        t.lookups.and_then(|lookups| count(lookups.hits))
    }),
    ("anabranch_task_lookup_calls_total", Counter, "Calls to the table outside.", |t, _| {
        t.lookups.and_then(|lookups| count(lookups.calls))
    }),
    ("anabranch_task_lookup_failures_total", Counter, "Calls that failed.", |t, _| {
        t.lookups.and_then(|lookups| count(lookups.failures))
    }),
    ("anabranch_task_lookup_seconds_total", Counter, "Time that threads spent in calls.", |t, _| {
        t.lookups.and_then(|lookups| seconds(lookups.call_ns))
    }),
    ("anabranch_task_queue_batches", Gauge, "Batches in the input queue.", |t, _| count(t.queue_batches)),
    ("anabranch_task_queue_rows", Gauge, "Rows in the input queue.", |t, _| count(t.queue_rows)),
    ("anabranch_task_queue_bytes", Gauge, "Bytes in the input queue.", |t, _| count(t.queue_bytes)),
    ("anabranch_task_queue_ratio", Gauge, "How full the fullest channel of the input queue is.", |t, _| {
        Some(t.queue_share)
    }),
    ("anabranch_task_queue_oldest_seconds", Gauge, "Age of the oldest batch in the input queue.", |t, _| {
        seconds(t.oldest_queued_ns)
    }),
    ("anabranch_task_queue_oldest_read_seconds", Gauge, "Time since a source read the oldest row there.", |t, _| {
        seconds(t.oldest_read_ns)
    }),
    ("anabranch_task_cpu_seconds_total", Counter, "Processor time of the task's thread.", |t, _| seconds(t.cpu_ns)),
    (
        "anabranch_task_core_wait_seconds_total",
        Counter,
        "Time for which the task's thread could run and waited for a core.",
        |t, _| seconds(t.core_wait_ns),
    ),
    ("anabranch_task_nice", Gauge, "The nice value of the task's thread.", |t, _| Some(f64::from(t.nice))),
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
    ("anabranch_job_ready", Gauge, "1 if all tasks of the job run.", |r| count(u64::from(r.is_ready()))),
    ("anabranch_job_start_time_seconds", Gauge, "When the job started in this process, since 1970.", |r| {
        Some(r.started_ms as f64 / 1e3)
    }),
    ("anabranch_job_incarnation", Gauge, "The present life of the job's tasks.", |r| count(r.status.incarnation.0)),
    ("anabranch_job_restarts_total", Counter, "How often the tasks were started again.", |r| count(r.status.restarts)),
    ("anabranch_job_checkpoints_completed_total", Counter, "Checkpoints that were committed.", |r| {
        r.checkpoints.as_ref().and_then(|_| count(r.status.checkpoints_completed))
    }),
    ("anabranch_job_checkpoints_failed_total", Counter, "Checkpoints that were begun and abandoned.", |r| {
        r.checkpoints.as_ref().and_then(|_| count(r.status.checkpoints_abandoned))
    }),
    ("anabranch_job_last_checkpoint_duration_seconds", Gauge, "From its request to its commit.", |r| {
        r.status.last_checkpoint.map(|last| last.took.as_secs_f64())
    }),
    ("anabranch_job_last_checkpoint_size_bytes", Gauge, "Size of the files that it refers to.", |r| {
        r.status.last_checkpoint.and_then(|last| count(last.bytes))
    }),
    ("anabranch_job_last_checkpoint_age_seconds", Gauge, "Time since its commit.", |r| {
        r.status.last_checkpoint.and_then(|last| seconds(r.at.since(last.at)))
    }),
    ("anabranch_job_last_checkpoint_epoch", Gauge, "The epoch at whose end it was taken.", |r| {
        r.status.last_checkpoint.and_then(|last| count(last.committed.epoch.0))
    }),
    ("anabranch_job_groups_total", Counter, "Groups of epochs that were granted.", |r| count(r.coordination.groups)),
    ("anabranch_job_group_epochs", Gauge, "Epochs of the next group.", |r| count(r.coordination.group_epochs)),
    ("anabranch_job_coordination_ratio", Gauge, "Share of the groups' time that coordination takes, 0 to 1.", |r| {
        r.coordination.overhead
    }),
    ("anabranch_job_watermark_lag_seconds", Gauge, "How far the slowest sink is behind the wall clock.", |r| {
        let sinks = r.tasks.iter().filter(|task| task.metrics.is_sink);
        let slowest = sinks.map(|task| task.metrics.watermark).min().and_then(known_ms);
        slowest.map(|ms| r.wall_ms.saturating_sub(ms) as f64 / 1e3)
    }),
];

#[expect(clippy::unnecessary_wraps, reason = "the tables above have values that may be missing")]
fn count(value: u64) -> Option<f64> {
    Some(value as f64)
}

#[expect(clippy::unnecessary_wraps, reason = "the tables above have values that may be missing")]
fn seconds(nanos: u64) -> Option<f64> {
    Some(nanos as f64 / 1e9)
}

/// All metrics of these jobs and of the process. A metric without samples is omitted.
pub(crate) fn families(jobs: &[(String, Reading)]) -> Vec<Family> {
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    let build = sample(version, 1.0);
    let mut families = vec![family("anabranch_build_info", Gauge, "The version of the engine.", [build])];
    families.extend(OF_JOBS.map(|(name, kind, help, value)| {
        let samples = jobs.iter().filter_map(|(job, reading)| Some(sample(of_job(job), value(reading)?)));
        family(name, kind, help, samples)
    }));
    let states = jobs.iter().flat_map(|(job, reading)| {
        let state = reading.state();
        JobState::ALL.map(|of| {
            let labels = vec![("job", job.clone()), ("state", of.to_string())];
            sample(labels, f64::from(u8::from(of == state)))
        })
    });
    families.push(family("anabranch_job_state", Gauge, "1 for the state that the job is in.", states));
    let tasks = || jobs.iter().flat_map(|(job, reading)| reading.tasks.iter().map(move |task| (job, reading, task)));
    families.extend(OF_TASKS.map(|(name, kind, help, value)| {
        let samples = tasks().filter_map(|(job, reading, task)| {
            Some(sample(of_task(job, &task.metrics), value(&task.metrics, reading.wall_ms)?))
        });
        family(name, kind, help, samples)
    }));
    let threads = tasks().filter_map(|(job, _, task)| {
        let labels = [("worker", task.worker.clone()), ("thread", task.metrics.thread?.to_string())];
        Some(sample(of_task(job, &task.metrics).into_iter().chain(labels).collect(), 1.0))
    });
    families.push(family("anabranch_task_info", Gauge, "The worker and the thread that run the task.", threads));
    families.extend(LATENCIES.map(|(name, help, of)| {
        let samples = tasks().flat_map(|(job, _, task)| quantiles(job, &task.metrics, of(&task.metrics)));
        family(name, Kind::Summary, help, samples)
    }));
    families.extend(of_process());
    families.retain(|family| !family.samples.is_empty());
    families
}

fn of_process() -> [Family; 5] {
    let cpu = process::cpu_time().map(|time| time.as_secs_f64());
    let number = |value: Option<u64>| value.and_then(count);
    [
        ("anabranch_process_cpu_seconds_total", Counter, "Processor time of the process.", cpu),
        ("anabranch_process_resident_memory_bytes", Gauge, "Resident memory.", number(process::resident_bytes())),
        (
            "anabranch_process_peak_memory_bytes",
            Gauge,
            "The most of it so far.",
            number(process::peak_resident_bytes()),
        ),
        ("anabranch_process_threads", Gauge, "Threads of the process.", number(process::threads())),
        ("anabranch_process_open_files", Gauge, "Open files and sockets.", number(process::open_files())),
    ]
    .map(|(name, kind, help, value)| family(name, kind, help, value.map(|value| sample(Vec::new(), value))))
}

fn family(name: &'static str, kind: Kind, help: &'static str, samples: impl IntoIterator<Item = Sample>) -> Family {
    Family { name, kind, help, samples: samples.into_iter().collect() }
}

fn sample(labels: Vec<(&'static str, String)>, value: f64) -> Sample {
    Sample { is_count: false, labels, value }
}

fn of_job(job: &str) -> Vec<(&'static str, String)> {
    vec![("job", job.to_owned())]
}

fn of_task(job: &str, task: &TaskMetrics) -> Vec<(&'static str, String)> {
    let (stage, index) = (task.task.stage.0.to_string(), task.task.index.to_string());
    vec![("job", job.to_owned()), ("stage", stage), ("stage_name", task.stage_name.clone()), ("task", index)]
}

fn quantiles(job: &str, task: &TaskMetrics, latency: &LatencySummary) -> Vec<Sample> {
    let LatencySummary { rows, p50_us, p99_us, p999_us, max_us, .. } = *latency;
    let of = |(quantile, us): (&str, u64)| {
        let mut labels = of_task(job, task);
        labels.push(("quantile", quantile.to_owned()));
        sample(labels, us as f64 / 1e6)
    };
    // Before the first row there is no quantile.
    let values = [("0.5", p50_us), ("0.99", p99_us), ("0.999", p999_us), ("1", max_us)];
    let mut samples: Vec<Sample> = values.into_iter().filter(|_| rows > 0).map(of).collect();
    samples.push(Sample { is_count: true, ..sample(of_task(job, task), rows as f64) });
    samples
}
