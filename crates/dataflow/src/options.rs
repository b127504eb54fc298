//! Options of a job, set by `SET 'name' = 'value'` or by the command line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Options for the whole job. Each description begins with the option's name for `SET`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobOptions {
    /// `job-name`: the first part of the name of a new job.
    pub job_name: String,
    /// `epoch-interval`: time between two markers at a source.
    pub epoch_interval: Duration,
    /// The number of epochs granted at once.
    #[serde(default)]
    pub group: GroupOptions,
    /// `buffer-timeout`: the longest time that rows are buffered in an exchange. 0 sends at once.
    pub buffer_timeout: Duration,
    /// `batch-rows`: the largest number of rows in a batch that a source reads or an exchange gathers.
    pub batch_rows: usize,
    /// `channel-bytes`: the largest number of bytes buffered on a channel between two tasks (one batch always
    /// passes). The channels of a task that receives from many others share a bound.
    pub channel_bytes: usize,
    /// `state-backend`: where operators keep state.
    pub state_backend: StateBackendKind,
    /// `state-bytes`: bytes of state that one operator of one task may hold in memory. Beyond it, the job
    /// stops with an error or flushes state to the local disk, depending on the backend.
    pub state_bytes: usize,
    /// `state-directory`: local directory for state, and for local copies of state whose checkpoints are in
    /// an object store. `None`: a folder for temporary files, and no copies.
    pub state_directory: Option<PathBuf>,
    /// The job's checkpoints. `None`: the job takes none, and starts from the beginning at every start.
    pub checkpoints: Option<CheckpointOptions>,
    /// `stage-parallelism`: the number of tasks of some stages, by [`Stage::label`](crate::Stage::label).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stage_parallelism: BTreeMap<String, u32>,
    /// `stage-key-groups`: how many key groups each task of some stages owns, by
    /// [`Stage::label`](crate::Stage::label). It counts for a stage with as many tasks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stage_key_groups: BTreeMap<String, Vec<u16>>,
    /// `autoscale`: whether the number of tasks follows the load. `None`: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscale: Option<AutoscaleOptions>,
    /// `scheduling`: which tasks go first when cores are short. `None`: the system decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Sizes that results do not depend on.
    #[serde(default)]
    pub thresholds: Thresholds,
}

/// The policy by which a process orders the threads of a job's tasks. Names are those of `anabranch osched`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// Nearest the sink first.
    Drain,
    /// The longest queue first.
    QueueSize,
    /// The most rows that reach a sink per second of processor time first.
    HighestRate,
    /// The oldest row first.
    FirstCome,
    /// The most relief of queues per second of processor time first.
    MaxWeight,
    /// The window that ends next first.
    Deadline,
    /// The task that is the most epochs behind first.
    Marker,
}

impl Scheduling {
    /// All policies.
    pub const ALL: [Scheduling; 7] = [
        Scheduling::Drain,
        Scheduling::QueueSize,
        Scheduling::HighestRate,
        Scheduling::FirstCome,
        Scheduling::MaxWeight,
        Scheduling::Deadline,
        Scheduling::Marker,
    ];

    /// As users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Scheduling::Drain => "drain",
            Scheduling::QueueSize => "queue-size",
            Scheduling::HighestRate => "highest-rate",
            Scheduling::FirstCome => "first-come",
            Scheduling::MaxWeight => "max-weight",
            Scheduling::Deadline => "deadline",
            Scheduling::Marker => "marker",
        }
    }
}

/// How the number of tasks follows the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AutoscaleOptions {
    /// Whether decisions are only shown.
    pub observes_only: bool,
    /// `autoscale-tasks-min`: the smallest number of tasks of a stage.
    pub tasks_min: u32,
    /// `autoscale-tasks-max`: the largest number of tasks of a stage.
    pub tasks_max: u32,
    /// `autoscale-interval`: time between two decisions.
    pub interval: Duration,
    /// `autoscale-intervals`: in how many successive intervals another number must be needed.
    pub intervals: u32,
    /// `autoscale-quiet`: for how long nothing is changed after a change.
    pub quiet: Duration,
    /// `autoscale-utilization-percent`: the share of its time for which a task is to be useful.
    pub utilization_percent: f64,
    /// `autoscale-threshold-percent`: needs that differ by at most this share of the tasks change nothing.
    pub threshold_percent: f64,
}

impl Default for AutoscaleOptions {
    fn default() -> Self {
        AutoscaleOptions {
            observes_only: false,
            tasks_min: 1,
            tasks_max: 128,
            interval: Duration::from_secs(10),
            intervals: 3,
            quiet: Duration::from_secs(60),
            utilization_percent: 80.0,
            threshold_percent: 10.0,
        }
    }
}

/// Sizes at which operators emit what they hold, and at which files end. `SET` has no names for them: results
/// do not depend on them, and tests draw small ones to show that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thresholds {
    /// Largest number of groups that a partial aggregate holds.
    pub partial_groups: usize,
    /// Number of changed rows of an aggregate, since its last complete snapshot, below which the next one is
    /// not complete.
    pub snapshot_changed_rows: usize,
    /// Approximate number of bytes after which a task's changes continue in another file of the checkpoint.
    pub state_file_bytes: usize,
    /// Number of bytes after which a run on the local disk continues in another file.
    pub run_file_bytes: u64,
    /// Number of bytes of state up to which a change of the plan may move it while no row is processed.
    #[serde(default = "little_bytes")]
    pub little_bytes: u64,
}

/// Takes a few milliseconds.
fn little_bytes() -> u64 {
    4 << 20
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            partial_groups: 1 << 16,
            snapshot_changed_rows: 1 << 16,
            // Reading a file takes its size in memory.
            state_file_bytes: 64 << 20,
            run_file_bytes: 64 << 20,
            little_bytes: little_bytes(),
        }
    }
}

impl Default for JobOptions {
    fn default() -> Self {
        JobOptions {
            job_name: "job".into(),
            epoch_interval: Duration::from_millis(100),
            group: GroupOptions::default(),
            buffer_timeout: Duration::from_millis(10),
            batch_rows: 8192,
            channel_bytes: 4 << 20,
            state_backend: StateBackendKind::Memory,
            state_bytes: 4 << 30,
            state_directory: None,
            checkpoints: None,
            stage_parallelism: BTreeMap::new(),
            stage_key_groups: BTreeMap::new(),
            autoscale: None,
            scheduling: None,
            thresholds: Thresholds::default(),
        }
    }
}

/// Groups of epochs, which the coordinator grants at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupOptions {
    /// `group-epochs`: epochs of a group; `None` ('auto'): the smallest number that keeps the share of
    /// coordination within the bounds.
    pub epochs: Option<u64>,
    /// `coordination-percent-min`: share of the time of a group below which groups shrink.
    pub overhead_percent_min: f64,
    /// `coordination-percent-max`: share above which they grow.
    pub overhead_percent_max: f64,
}

impl Default for GroupOptions {
    fn default() -> Self {
        GroupOptions { epochs: None, overhead_percent_min: 5.0, overhead_percent_max: 10.0 }
    }
}

/// Where operators keep state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateBackendKind {
    /// `memory`: all of it in memory.
    Memory,
    /// `disk`: what does not fit into `state-bytes` is on a local disk.
    Disk,
}

/// Checkpoints of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointOptions {
    /// A directory for this job only, or a place in an object store.
    pub directory: String,
    /// Time between the starts of two checkpoints.
    pub interval: Duration,
    /// Time after which a checkpoint is abandoned.
    pub timeout: Duration,
    /// Number of consecutive failures after which the job restarts itself.
    pub restart_attempts: u32,
}

impl CheckpointOptions {
    /// In this directory, every second, with ten restarts.
    #[must_use]
    pub fn new(directory: impl Into<String>) -> Self {
        let (interval, timeout) = (Duration::from_secs(1), Duration::from_secs(600));
        CheckpointOptions { directory: directory.into(), interval, timeout, restart_attempts: 10 }
    }
}
