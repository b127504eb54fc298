//! Settings of a job's coordination.

use std::time::Duration;

/// Settings of a coordinator.
#[derive(Clone, Debug)]
pub struct Config {
    /// Epochs of a group.
    pub group_size: GroupSizing,
    /// When groups are granted to sources that pass nothing on; `None`: as to others.
    pub quiet: Option<Quiet>,
    /// Least time between the starts of two checkpoints; `None`: no checkpoints, and sinks that
    /// write rows as they arrive.
    pub checkpoint_interval: Option<Duration>,
    /// From the first cut of a checkpoint's epoch to the last acknowledgement.
    pub checkpoint_timeout: Duration,
    /// Failed checkpoints in a row that are tolerated; one more restarts the tasks.
    pub checkpoint_failures_max: u32,
    /// Number of committed checkpoints to keep, at least 1.
    pub checkpoints_kept: usize,
    /// From the command to start, or the last progress of a task that starts or restores its state, until
    /// every task has started.
    pub start_timeout: Duration,
    /// Longest time from the command to cancel until the tasks count as gone.
    pub cancel_timeout: Duration,
    /// Restarts after failures.
    pub restart: Restart,
    /// Time after which a request to the store is retried.
    pub store_timeout: Duration,
    /// Pause after an answer of the store that did not decide anything.
    pub store_retry: Duration,
    /// How long one entry of the log may take, with all retries.
    pub store_patience: Duration,
    /// How long after its last contact with the store a coordinator checks whether another one has taken
    /// over.
    pub fence_look: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            group_size: GroupSizing::default(),
            quiet: None,
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

/// When groups are granted to sources that pass nothing on.
#[derive(Clone, Debug)]
pub struct Quiet {
    /// Sources that wait for a grant within this time since the last one have rows in each epoch: a few times
    /// the epochs' interval.
    pub soon: Duration,
    /// Sources that wait for a grant after this time since the last one get one epoch. Those that wait
    /// between the two times get it then: the same as `soon`, or more if nobody waits for the ends of epochs.
    pub pause: Duration,
    /// The longest time between two grants, while sources could cut what is granted.
    pub longest: Duration,
}

/// How many epochs make a group.
#[derive(Clone, Debug)]
pub enum GroupSizing {
    /// Always this number.
    Fixed(u64),
    /// The smallest number that keeps the share of coordination within bounds.
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
    /// Smallest size; also the first one.
    pub min: u64,
    /// Largest size.
    pub max: u64,
    /// Share of coordination, 0 to 1, below which groups shrink.
    pub overhead_low: f64,
    /// Share of coordination, 0 to 1, above which groups grow.
    pub overhead_high: f64,
    /// Weight of the newest measurement in the average, above 0 and at most 1.
    pub weight: f64,
    /// Factor by which a group grows.
    pub factor: u64,
    /// Number of epochs by which a group shrinks.
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
    /// Restarts in a row; one more failure fails the job.
    pub attempts_max: u32,
    /// Pause before the first restart.
    pub pause_start: Duration,
    /// Factor by which each further pause grows.
    pub pause_factor: u32,
    /// The longest pause.
    pub pause_max: Duration,
    /// Time without failure after which the count of failures starts again.
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
