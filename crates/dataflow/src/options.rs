//! Options of a job, set by `SET 'name' = 'value'` or by the command line.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Options that hold for the whole job. Each has a name for `SET`, given in its description.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobOptions {
    /// `job-name`: how the name of a new job begins.
    pub job_name: String,
    /// `epoch-interval`: time between two markers at a source.
    pub epoch_interval: Duration,
    /// How many epochs are granted at a time.
    #[serde(default)]
    pub group: GroupOptions,
    /// `buffer-timeout`: the longest time that rows wait in an exchange's buffer for company. 0 sends at once.
    pub buffer_timeout: Duration,
    /// `batch-rows`: rows that a source reads, and that an exchange gathers, at most in one batch.
    pub batch_rows: usize,
    /// `channel-bytes`: bytes in flight at most on one channel between two tasks (one batch always passes).
    pub channel_bytes: usize,
    /// `state-backend`: where the state of operators lies.
    pub state_backend: StateBackendKind,
    /// `state-bytes`: bytes of state that one operator of one task may hold in memory. Beyond it the job stops with an error,
    /// or state goes to the local disk, as the backend says.
    pub state_bytes: usize,
    /// `state-directory`: local directory for state, and for copies of state whose checkpoints lie far away. `None`: a
    /// folder of the system's for temporary files, and no copies.
    pub state_directory: Option<PathBuf>,
    /// Where the job keeps checkpoints, and when. `None`: it keeps none, and begins anew at every start.
    pub checkpoints: Option<CheckpointOptions>,
    /// Sizes that results do not depend on.
    #[serde(default)]
    pub thresholds: Thresholds,
}

/// Sizes at which operators give out what they hold, and at which files end. They have no names for `SET`: results do not
/// depend on them, and tests draw them small to show that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thresholds {
    /// Groups that a partial aggregate holds at most.
    pub partial_groups: usize,
    /// Changed rows of an aggregate, since its last complete snapshot, that are not worth the next complete one.
    pub snapshot_changed_rows: usize,
    /// Bytes of rows beyond which a task's changes continue in another file of the checkpoint, about.
    pub state_file_bytes: usize,
    /// Bytes beyond which a run on the local disk continues in another file.
    pub run_file_bytes: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            partial_groups: 1 << 16,
            snapshot_changed_rows: 1 << 16,
            // Reading a file takes its size in memory.
            state_file_bytes: 64 << 20,
            run_file_bytes: 64 << 20,
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
            thresholds: Thresholds::default(),
        }
    }
}

/// Groups of epochs, which the coordinator grants at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupOptions {
    /// `group-epochs`: epochs of a group; `None` ('auto'): as few as keep the share of coordination within the bounds.
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

/// Where the state of operators lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateBackendKind {
    /// `memory`: all of it in memory.
    Memory,
    /// `disk`: what does not fit into `state-bytes` on a local disk.
    Disk,
}

/// Checkpoints of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointOptions {
    /// A directory of the job's own, or a place in an object store.
    pub directory: String,
    /// Time between the beginnings of two checkpoints.
    pub interval: Duration,
    /// Time that one may take before it is given up.
    pub timeout: Duration,
    /// How often in a row the job is started again after a failure that may pass.
    pub restart_attempts: u32,
}

impl CheckpointOptions {
    /// In this directory, every second, with ten attempts.
    #[must_use]
    pub fn new(directory: impl Into<String>) -> Self {
        let (interval, timeout) = (Duration::from_secs(1), Duration::from_secs(600));
        CheckpointOptions { directory: directory.into(), interval, timeout, restart_attempts: 10 }
    }
}
