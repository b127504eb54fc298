//! The settings of a job's coordinator.

use std::time::Duration;

/// Settings of a coordinator.
#[derive(Clone, Debug)]
pub struct Config {
    /// The number of epochs in a group.
    pub group_size: GroupSizing,
    /// When groups are granted while sources have no output. `None`: as at other times.
    pub quiet: Option<Quiet>,
    /// Shortest time between the grants of two checkpoints. A requested checkpoint does not wait for it, nor
    /// does the retry of a failed one. `None`: the job takes no checkpoints, and an epoch is done when every
    /// sink has ended it.
    pub checkpoint_interval: Option<Duration>,
    /// Longest time from the first report that a task has reached the checkpoint's epoch to the last
    /// acknowledgement. After it, the checkpoint is aborted.
    pub checkpoint_timeout: Duration,
    /// Number of checkpoints in a row that may fail. One more failure restarts the tasks.
    pub checkpoint_failures_max: u32,
    /// Number of committed checkpoints that are kept, at least 1.
    pub checkpoints_kept: usize,
    /// Longest time until every task has started. It begins with the command to start, and again with each
    /// [`Report::Restoring`](super::Report::Restoring). After it, the start has failed.
    pub start_timeout: Duration,
    /// Longest time from the command to cancel until every task is gone. After it, the job no longer waits
    /// for the tasks.
    pub cancel_timeout: Duration,
    /// Restarts after failures.
    pub restart: Restart,
    /// Longest time until the store answers a request. After it, the coordinator reads the entry with the
    /// number of that request.
    pub store_timeout: Duration,
    /// Pause after an answer that does not say whether an entry is in the log. After it, the coordinator
    /// reads the entry with this number.
    pub store_retry: Duration,
    /// Longest time to write an entry of the log, with all retries. After it, the job fails.
    pub store_patience: Duration,
    /// Time since the log was last written or read, after which a coordinator reads it to check whether
    /// another one has taken over.
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

/// When groups are granted while sources have no output. All times begin with the last grant.
#[derive(Clone, Debug)]
pub struct Quiet {
    /// Sources that have output, and wait for a grant, within this time are taken to have output in each
    /// epoch: they get a group. It is a few times the interval of epochs. The retry of a failed checkpoint
    /// gets its epoch after this time.
    pub soon: Duration,
    /// Sources that have output again later than `soon`, and wait for a grant, get one epoch, but not before
    /// this time unless a checkpoint is due. It equals `soon`, or is longer if nobody waits for the ends of
    /// epochs.
    pub pause: Duration,
    /// After this time, sources that have cut what was granted get one epoch although they have no output.
    pub longest: Duration,
}

/// The number of epochs in a group.
#[derive(Clone, Debug)]
pub enum GroupSizing {
    /// Always this number.
    Fixed(u64),
    /// The smallest number with which the share of coordination stays within bounds.
    Adaptive(Adaptive),
}

impl Default for GroupSizing {
    fn default() -> Self {
        GroupSizing::Adaptive(Adaptive::default())
    }
}

/// Bounds and steps of the adaptive group size. The share of coordination is the part of a group's time that
/// its coordination took, from 0 to 1. The size follows its exponential average.
#[derive(Clone, Debug)]
pub struct Adaptive {
    /// Smallest size, and the size of the first group.
    pub min: u64,
    /// Largest size.
    pub max: u64,
    /// If the average is below this, the next group is smaller.
    pub overhead_low: f64,
    /// If the average is above this, the next group is larger.
    pub overhead_high: f64,
    /// Weight of the newest measurement in the average, above 0 and at most 1.
    pub weight: f64,
    /// Factor by which the size grows.
    pub factor: u64,
    /// Number of epochs by which the size shrinks.
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
    /// Number of restarts in a row. One more failure fails the job.
    pub attempts_max: u32,
    /// Pause before the first restart in a row, and before any restart after the loss of a worker.
    pub pause_start: Duration,
    /// Factor by which the pause grows with each further restart.
    pub pause_factor: u32,
    /// Longest pause.
    pub pause_max: Duration,
    /// If all tasks have run for this time, the next failure counts as the first one.
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
