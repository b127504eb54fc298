//! Options of a job: epochs and buffers, state and checkpoints.

use std::time::Duration;

use anabranch_dataflow::{Scheduling, StateBackendKind};
use anabranch_model::duration_text;

use super::option::{
    Opt, bytes_text, parse_bytes, parse_duration, parse_duration_from, parse_percent, parse_whole, parse_whole_or,
    parse_word, put, text_or, word,
};

/// With epochs of 100 ms, a group of this size takes more than a day.
const GROUP_EPOCHS_MAX: u64 = 1_000_000;
const ROWS_MAX: usize = 1 << 20;

/// The first two names are ours, the others Flink's.
const BACKENDS: &[(&str, StateBackendKind)] = &[
    ("memory", StateBackendKind::Memory),
    ("disk", StateBackendKind::Disk),
    ("hashmap", StateBackendKind::Memory),
    ("filesystem", StateBackendKind::Memory),
    ("jobmanager", StateBackendKind::Memory),
    ("rocksdb", StateBackendKind::Disk),
    ("forst", StateBackendKind::Disk),
];

const POLICIES: &[(&str, Option<Scheduling>)] = &[
    ("off", None),
    (Scheduling::Drain.name(), Some(Scheduling::Drain)),
    (Scheduling::QueueSize.name(), Some(Scheduling::QueueSize)),
    (Scheduling::HighestRate.name(), Some(Scheduling::HighestRate)),
    (Scheduling::FirstCome.name(), Some(Scheduling::FirstCome)),
    (Scheduling::MaxWeight.name(), Some(Scheduling::MaxWeight)),
    (Scheduling::Deadline.name(), Some(Scheduling::Deadline)),
    (Scheduling::Marker.name(), Some(Scheduling::Marker)),
];

/// Epochs, buffers and threads.
pub(super) const RUNNING: &[Opt] = &[
    Opt {
        name: "job-name",
        flink: &["pipeline.name"],
        help: "the first part of a new job's name. `anabranch state` shows the name, and the files and transactions \
               of the job's sinks contain it. A job that resumes from a checkpoint keeps its name",
        get: |s| s.job.job_name.clone(),
        set: |s, text, _| put(&mut s.job.job_name, Ok(text.to_owned())),
        ..Opt::PLAIN
    },
    Opt {
        name: "epoch-interval",
        help: "time between two markers at a source; results do not depend on it",
        get: |s| duration_text(s.job.epoch_interval),
        set: |s, text, _| put(&mut s.job.epoch_interval, parse_duration_from(text, Duration::from_micros(1))),
        ..Opt::PLAIN
    },
    Opt {
        name: "group-epochs",
        help: "number of epochs that the coordinator grants to all sources at once, or `auto`: the smallest number \
               that keeps the share of coordination within the two bounds below",
        get: |s| text_or("auto", s.job.group.epochs),
        set: |s, text, _| put(&mut s.job.group.epochs, parse_whole_or("auto", text, 1..=GROUP_EPOCHS_MAX)),
        ..Opt::PLAIN
    },
    Opt {
        name: "coordination-percent-min",
        help: "if coordination takes a smaller share of a group's time, averaged over groups, groups shrink by one \
               epoch",
        get: |s| s.job.group.overhead_percent_min.to_string(),
        set: |s, text, _| {
            let percent = parse_percent(text, 0.0..=s.job.group.overhead_percent_max)
                .map_err(|e| e.remedy("stay below 'coordination-percent-max', or raise that first"));
            put(&mut s.job.group.overhead_percent_min, percent)
        },
        ..Opt::PLAIN
    },
    Opt {
        name: "coordination-percent-max",
        help: "if coordination takes a larger share, groups double",
        get: |s| s.job.group.overhead_percent_max.to_string(),
        set: |s, text, _| {
            let percent = parse_percent(text, s.job.group.overhead_percent_min..=100.0)
                .map_err(|e| e.remedy("stay above 'coordination-percent-min', or lower that first"));
            put(&mut s.job.group.overhead_percent_max, percent)
        },
        ..Opt::PLAIN
    },
    Opt {
        name: "buffer-timeout",
        flink: &["execution.buffer-timeout"],
        help: "the longest time that rows are buffered before they are sent to the next stage. `0` sends at once: \
               lower latency, lower throughput",
        get: |s| duration_text(s.job.buffer_timeout),
        set: |s, text, _| put(&mut s.job.buffer_timeout, parse_duration(text)),
        ..Opt::PLAIN
    },
    Opt {
        name: "batch-rows",
        help: "largest number of rows in a batch",
        get: |s| s.job.batch_rows.to_string(),
        set: |s, text, _| put(&mut s.job.batch_rows, parse_whole(text, 1..=ROWS_MAX)),
        ..Opt::PLAIN
    },
    Opt {
        name: "channel-bytes",
        help: "largest number of bytes buffered between two tasks; a full channel blocks its sender. A task that \
               receives from more than four others divides four times this among them",
        get: |s| bytes_text(s.job.channel_bytes),
        set: |s, text, _| put(&mut s.job.channel_bytes, parse_bytes(text)),
        ..Opt::PLAIN
    },
    Opt {
        name: "scheduling",
        help: "which tasks of the job go first when cores are short: `drain`, `queue-size`, `highest-rate`, \
               `first-come`, `max-weight`, `deadline`, `marker`; `off` leaves that to the system \
               ([osched.md](../osched.md#in-the-engine))",
        get: |s| word(&s.job.scheduling, POLICIES),
        set: |s, text, _| put(&mut s.job.scheduling, parse_word(text, POLICIES)),
        ..Opt::PLAIN
    },
];

/// State and checkpoints.
pub(super) const STATE: &[Opt] = &[
    Opt {
        name: "state-backend",
        flink: &["state.backend", "state.backend.type"],
        help: "where state is kept, except static tables of joins: `memory`, or `disk` for state that may be larger \
               ([state.md](../state.md)). Flink's `hashmap`, `filesystem` and `jobmanager` mean `memory`, `rocksdb` \
               and `forst` mean `disk`",
        get: |s| word(&s.job.state_backend, BACKENDS),
        set: |s, text, _| put(&mut s.job.state_backend, parse_word(text, BACKENDS)),
        ..Opt::PLAIN
    },
    Opt {
        name: "state-bytes",
        help: "bytes of state that one operator of one task may hold in memory. Beyond it, the job stops with an \
               error, or flushes state to disk",
        get: |s| bytes_text(s.job.state_bytes),
        set: |s, text, _| put(&mut s.job.state_bytes, parse_bytes(text)),
        ..Opt::PLAIN
    },
    Opt {
        name: "state-directory",
        help: "local directory for state that does not fit into memory, and for local copies of state whose \
               checkpoints are in an object store",
        default: "`/var/tmp`; no copies",
        get: |s| s.job.state_directory.as_ref().map_or_else(String::new, |directory| directory.display().to_string()),
        set: |s, text, _| {
            let directory = Some(text.trim()).filter(|directory| !directory.is_empty());
            put(&mut s.job.state_directory, Ok(directory.map(Into::into)))
        },
        ..Opt::PLAIN
    },
    Opt {
        name: "checkpoint-directory",
        flink: &["state.checkpoints.dir", "execution.checkpointing.dir"],
        help: "directory for the checkpoints of this job only, or `s3://BUCKET/PREFIX`. Without it, the job takes no \
               checkpoints; `run` says so if a script sets `checkpoint-interval`",
        default: "none",
        get: |s| s.checkpoints.directory.clone(),
        set: |s, text, _| put(&mut s.checkpoints.directory, Ok(text.trim().to_owned())),
    },
    Opt {
        name: super::CHECKPOINT_INTERVAL,
        flink: &["execution.checkpointing.interval"],
        help: "time between the starts of two checkpoints",
        get: |s| duration_text(s.checkpoints.interval),
        set: |s, text, _| put(&mut s.checkpoints.interval, parse_duration(text)),
        ..Opt::PLAIN
    },
    Opt {
        name: "checkpoint-timeout",
        flink: &["execution.checkpointing.timeout"],
        help: "a checkpoint that is not complete after this time is abandoned",
        get: |s| duration_text(s.checkpoints.timeout),
        set: |s, text, _| put(&mut s.checkpoints.timeout, parse_duration(text)),
        ..Opt::PLAIN
    },
    Opt {
        name: "restart-attempts",
        flink: &["restart-strategy.fixed-delay.attempts"],
        help: "number of consecutive failures after which a job with checkpoints restarts itself \
               ([checkpoints.md](../checkpoints.md))",
        get: |s| s.checkpoints.restart_attempts.to_string(),
        set: |s, text, _| put(&mut s.checkpoints.restart_attempts, parse_whole(text, 0..=u32::MAX)),
        ..Opt::PLAIN
    },
];
