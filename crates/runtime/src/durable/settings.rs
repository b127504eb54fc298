//! The coordinator's settings from a plan's options.

use std::time::Duration;

use anabranch_dataflow::{JobOptions, Plan, SinkSpec, SourceSpec, Stage, Visibility};
use anabranch_protocol::coordinator::{Adaptive, Config, GroupSizing, Quiet, Restart, Tasks};

use crate::durable::takeover::Checkpointing;
use crate::task::stages::tasks_of;

/// Number of consecutive checkpoints that may fail. One more failure restarts the tasks.
const FAILURES_TOLERATED: u32 = 3;
/// Number of checkpoints to keep: the last one, and one before it in case the last is damaged.
const KEPT: usize = 2;
/// Pause before the first restart, and the longest pause.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Time without a failure after which the count of failures is reset.
const WELL: Duration = Duration::from_secs(60);
/// Time that cancelled tasks have to end before the job continues without them, or fails.
const CANCEL: Duration = Duration::from_secs(60);
/// The shortest time between two reports of a task that restores its state.
const PROGRESS: Duration = Duration::from_secs(1);
/// Sources that have output again within this number of epochs count as having output in each epoch.
const PAUSE_EPOCHS: u32 = 3;
/// The longest time between two grants to sources without output.
const QUIET_MAX: Duration = Duration::from_secs(2);
/// Messages within one process are not lost, so they are never repeated.
const NEVER: Duration = Duration::MAX;

pub(crate) fn tasks(plan: &Plan) -> Tasks {
    let tasks = |wanted: fn(&Stage) -> bool| plan.stages.iter().filter(|s| wanted(s)).flat_map(tasks_of).collect();
    Tasks {
        version: plan.version,
        all: tasks(|_| true),
        sources: tasks(|stage| stage.source.is_some()),
        sinks: tasks(|stage| stage.sink.is_some()),
    }
}

/// The coordinator's settings. A job without checkpoints is not restarted: it would start over.
pub(crate) fn config(plan: &Plan, checkpointing: Option<&Checkpointing>) -> Config {
    let options = &plan.options;
    Config {
        group_size: group_size(options, checkpointing.map(|checkpointing| checkpointing.interval)),
        quiet: quiet(
            options,
            checkpointing.is_some() && sinks_of(plan).all(|sink| sink.visibility != Visibility::ByEpoch),
        ),
        checkpoint_interval: checkpointing.map(|checkpointing| checkpointing.interval),
        checkpoint_timeout: checkpointing.map_or(NEVER, |checkpointing| checkpointing.timeout),
        checkpoint_failures_max: FAILURES_TOLERATED,
        checkpoints_kept: KEPT,
        // Limits a restore that makes no progress. Restoring much state, and opening tables, may take as long
        // as it needs.
        start_timeout: checkpointing.map_or(NEVER, |checkpointing| checkpointing.timeout),
        cancel_timeout: CANCEL,
        restart: Restart {
            attempts_max: checkpointing.map_or(0, |checkpointing| checkpointing.restart_attempts),
            pause_start: PAUSE,
            pause_factor: 2,
            pause_max: PAUSE_MAX,
            forget_after: WELL,
        },
        // A request that hangs blocks those after it: a retry would not help. `store_patience` limits the
        // wait.
        store_timeout: NEVER,
        store_patience: checkpointing.map_or(NEVER, |checkpointing| checkpointing.timeout),
        ..Config::default()
    }
}

/// All tables that a plan writes, including those for malformed and late rows.
fn sinks_of(plan: &Plan) -> impl Iterator<Item = &SinkSpec> {
    plan.stages.iter().flat_map(|stage| stage.sink.iter().chain(stage.source.iter().flat_map(SourceSpec::sinks)))
}

/// When groups are granted to sources with little or no output. If nobody waits for the ends of epochs,
/// sources with little output need no more epochs than sources without: a due checkpoint gets its epoch in
/// any case. `None`: epochs are so long that output makes no difference.
fn quiet(options: &JobOptions, nobody_waits: bool) -> Option<Quiet> {
    let soon = options.epoch_interval.saturating_mul(PAUSE_EPOCHS);
    let pause = if nobody_waits { QUIET_MAX } else { soon };
    (soon < QUIET_MAX).then_some(Quiet { soon, pause, longest: QUIET_MAX })
}

/// How often a task that restores its state reports progress: several times within the time limit of a
/// restore that makes no progress.
pub(crate) fn progress_interval(checkpoint_timeout: Duration) -> Duration {
    PROGRESS.min(checkpoint_timeout / 4)
}

/// The size of adaptive groups is limited so that checkpoints, which end groups, meet their interval.
fn group_size(options: &JobOptions, checkpoint_interval: Option<Duration>) -> GroupSizing {
    let group = &options.group;
    if let Some(epochs) = group.epochs {
        return GroupSizing::Fixed(epochs);
    }
    let standard = Adaptive::default();
    let epoch_ns = options.epoch_interval.as_nanos().max(1);
    let within = checkpoint_interval.map(|interval| u64::try_from(interval.as_nanos() / epoch_ns / 2));
    GroupSizing::Adaptive(Adaptive {
        max: within.and_then(Result::ok).unwrap_or(standard.max).clamp(standard.min, standard.max),
        overhead_low: group.overhead_percent_min / 100.0,
        overhead_high: group.overhead_percent_max / 100.0,
        ..standard
    })
}

#[cfg(test)]
mod tests {
    use anabranch_dataflow::GroupOptions;

    use super::*;

    fn max(epoch_ms: u64, checkpoint_ms: Option<u64>) -> u64 {
        let options = JobOptions { epoch_interval: Duration::from_millis(epoch_ms), ..JobOptions::default() };
        match group_size(&options, checkpoint_ms.map(Duration::from_millis)) {
            GroupSizing::Adaptive(adaptive) => adaptive.max,
            GroupSizing::Fixed(_) => panic!("a size is not asked for"),
        }
    }

    #[test]
    fn progress_is_reported_within_any_timeout() {
        assert_eq!(progress_interval(Duration::from_millis(400)), Duration::from_millis(100));
        assert_eq!(progress_interval(Duration::from_secs(600)), Duration::from_secs(1));
    }

    #[test]
    fn groups_grow_no_longer_than_checkpoints_allow() {
        assert_eq!(max(100, None), 1024);
        assert_eq!(max(100, Some(1000)), 5);
        assert_eq!(max(100, Some(0)), 1);
        assert_eq!(max(1, Some(3_600_000)), 1024);
        let group = GroupOptions { epochs: Some(7), ..GroupOptions::default() };
        let options = JobOptions { group, ..JobOptions::default() };
        assert!(matches!(group_size(&options, Some(Duration::ZERO)), GroupSizing::Fixed(7)));
    }
}
