//! What a job may set of its coordination.

use std::time::Duration;

/// Settings of a coordinator.
#[derive(Clone, Debug)]
pub struct Config {
    /// Epochs of a group.
    pub group_size: GroupSizing,
    /// Least time from the beginning of a checkpoint to the beginning of the next; `None`: no checkpoints, and sinks that
    /// write as rows come.
    pub checkpoint_interval: Option<Duration>,
    /// From the first cut of a checkpoint's epoch to the last acknowledgement.
    pub checkpoint_timeout: Duration,
    /// Failed checkpoints in a row that are borne; one more and the tasks restart.
    pub checkpoint_failures_max: u32,
    /// Committed checkpoints that are kept, at least 1.
    pub checkpoints_kept: usize,
    /// From the command to start, or the last progress of a task that restores its state, until every task has started.
    pub start_timeout: Duration,
    /// From the command to cancel until the tasks are taken for gone.
    pub cancel_timeout: Duration,
    /// Restarts after failures.
    pub restart: Restart,
    /// From a question to the store until it is asked again.
    pub store_timeout: Duration,
    /// Rest after an answer of the store that told nothing.
    pub store_retry: Duration,
    /// How long one entry of the log may take, whatever is tried.
    pub store_patience: Duration,
    /// How long after its last word with the store a coordinator looks whether another one has taken over.
    pub fence_look: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            group_size: GroupSizing::default(),
            checkpoint_interval: Some(Duration::from_secs(10)),
            checkpoint_timeout: Duration::from_secs(600),
            checkpoint_failures_max: 3,
            checkpoints_kept: 3,
            start_timeout: Duration::from_secs(300),
            cancel_timeout: Duration::from_secs(30),
            restart: Restart::default(),
            store_timeout: Duration::from_secs(30),
            store_retry: Duration::from_millis(500),
            store_patience: Duration::from_secs(600),
            fence_look: Duration::from_secs(10),
        }
    }
}

/// How many epochs make a group.
#[derive(Clone, Debug)]
pub enum GroupSizing {
    /// Always so many.
    Fixed(u64),
    /// As few as keep the share of coordination within bounds.
    Adaptive(Adaptive),
}

impl Default for GroupSizing {
    fn default() -> Self {
        GroupSizing::Adaptive(Adaptive::default())
    }
}

/// Bounds and steps of the adaptive group size.
#[derive(Clone, Debug)]
pub struct Adaptive {
    /// Smallest size, and the one to begin with.
    pub min: u64,
    /// Largest size.
    pub max: u64,
    /// Share of coordination, 0 to 1, below which groups shrink.
    pub overhead_low: f64,
    /// Share of coordination, 0 to 1, above which groups grow.
    pub overhead_high: f64,
    /// Weight of the newest measurement in the average, above 0 and at most 1.
    pub weight: f64,
    /// By what a group grows.
    pub factor: u64,
    /// By how much it shrinks.
    pub step: u64,
}

impl Default for Adaptive {
    fn default() -> Self {
        Adaptive { min: 1, max: 1024, overhead_low: 0.05, overhead_high: 0.10, weight: 0.5, factor: 2, step: 1 }
    }
}

/// When and how often tasks restart after a failure.
#[derive(Clone, Debug)]
pub struct Restart {
    /// Restarts in a row; one more failure and the job fails.
    pub attempts_max: u32,
    /// Pause before the first restart.
    pub pause_start: Duration,
    /// By what each further pause grows.
    pub pause_factor: u32,
    /// The longest pause.
    pub pause_max: Duration,
    /// After so long without failure the earlier ones are forgotten.
    pub forget_after: Duration,
}

impl Default for Restart {
    fn default() -> Self {
        Restart {
            attempts_max: 10,
            pause_start: Duration::from_secs(1),
            pause_factor: 2,
            pause_max: Duration::from_secs(60),
            forget_after: Duration::from_secs(600),
        }
    }
}
