//! Bugs that are planted on purpose, where the parts of a job meet each other or their surroundings. The
//! product knows nothing of them.

use std::collections::BTreeMap;

use anabranch_model::Envelope;
use anabranch_operators::StateChange;
use anabranch_runtime::stepped::Tasks;

/// A bug that is planted on purpose, to verify that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// An acknowledgement of a checkpoint counts for every task.
    CommitBeforeAllAcknowledged,
    /// On a channel, a marker passes the rows before it.
    MarkerOvertakes,
    /// A change of an operator's state is not written.
    DeltaLost,
    /// A change of an operator's state is written twice.
    DeltaTwice,
    /// A run of an operator's state on disk is not written.
    RunLost,
    /// The store accepts an entry of the log that arrives late, although there is another one by then.
    LateWriteAccepted,
    /// A source saves the positions that it had one batch before.
    PositionOneBatchLate,
    /// A sink that restores a checkpoint forgets what was prepared under it.
    PreparedForgotten,
    /// A sink does not write that rows are taken back.
    TakenBackForgotten,
    /// A sink reports an epoch as written although it was not.
    HandedOverTooSoon,
    /// A source skips rows that are older, by the wall clock, than those that it has read.
    NewerByWallClock,
    /// A receiver returns credit twice.
    CreditTwice,
    /// A frame with rows arrives twice.
    FrameTwice,
    /// On a connection between workers, a marker passes the rows before it.
    FrameOvertaken,
    /// A worker takes what an older incarnation was told for its own.
    OlderOrderTaken,
    /// The coordinator takes what a worker has reported of an older incarnation for its own.
    OlderReportTaken,
    /// The last snapshots of a worker's tasks are lost, and their receipt is acknowledged.
    SummaryLost,
    /// Two workers start the same task.
    ClaimedTwice,
    /// What workers have reported to a coordinator counts as known to the one that adopts their tasks.
    AdoptionUnreported,
    /// A worker takes the orders of a coordinator whose tasks another one has adopted.
    OlderTermTaken,
    /// A task hands its state over to the next version of the plan before the last rows of a channel.
    StateBeforeLastRows,
    /// After the plan has changed, a worker takes other key groups than the others believe.
    KeyGroupsTwice,
    /// When a change is undone, a channel between workers still has rows of the plan that was refused.
    ChannelLeft,
}

/// Steps the tasks of a worker, and plants a bug between them if there is one.
pub(super) struct Hand {
    mutation: Option<Mutation>,
    /// The plan is about to change.
    pub(super) switches: bool,
    /// By task and channel, the rows that the next marker may pass, or has passed.
    held: BTreeMap<(usize, usize), Held>,
}

struct Held {
    rows: Envelope,
    overtaken: bool,
}

impl Hand {
    pub(super) fn new(mutation: Option<Mutation>) -> Hand {
        Hand { mutation, switches: false, held: BTreeMap::new() }
    }

    /// One step of a task. False if it did nothing.
    pub(super) fn step(&mut self, tasks: &mut Tasks<'_>, task: usize, channel: usize) -> bool {
        if matches!(self.mutation, Some(Mutation::MarkerOvertakes | Mutation::StateBeforeLastRows))
            && let Some(envelope) = tasks.take(task, channel)
        {
            tasks.give(task, channel, self.overtake(task, channel, envelope));
        }
        tasks.step(task, channel)
    }

    fn overtake(&mut self, task: usize, channel: usize, envelope: Envelope) -> Vec<Envelope> {
        let held = self.held.remove(&(task, channel));
        let overtakes = self.mutation == Some(Mutation::MarkerOvertakes);
        match (held, envelope) {
            // The rows find no task.
            (Some(_), Envelope::Marker(marker)) if marker.kind.closes() && self.switches && !overtakes => {
                vec![Envelope::Marker(marker)]
            }
            (Some(Held { rows, overtaken: false }), Envelope::Marker(marker)) if !marker.kind.closes() && overtakes => {
                self.held.insert((task, channel), Held { rows, overtaken: true });
                vec![Envelope::Marker(marker)]
            }
            (held, rows @ Envelope::Batch(_)) => {
                self.held.insert((task, channel), Held { rows, overtaken: false });
                held.into_iter().map(|held| held.rows).collect()
            }
            (held, other) => held.into_iter().map(|held| held.rows).chain([other]).collect(),
        }
    }

    /// The recorder writes the next snapshot. False if there is none.
    pub(super) fn record(&self, tasks: &mut Tasks<'_>) -> bool {
        let Some(mut snapshot) = tasks.snapshot() else { return false };
        if let Some(mutation) = self.mutation {
            snapshot.changes().for_each(|change| mutation.change(change));
        }
        let all = tasks.ids();
        for report in tasks.write(snapshot) {
            if self.mutation == Some(Mutation::CommitBeforeAllAcknowledged) {
                let others: Vec<_> = all.iter().filter_map(|other| report.of_other(*other)).collect();
                others.into_iter().for_each(|other| tasks.deliver(other));
            }
            tasks.deliver(report);
        }
        true
    }
}

impl Mutation {
    fn change(self, change: &mut StateChange) {
        match self {
            // A complete state is not a change.
            Mutation::DeltaLost if !change.complete => change.rows.clear(),
            Mutation::DeltaTwice => change.rows.extend(change.rows.clone()),
            Mutation::RunLost => change.runs.truncate(change.runs.len().saturating_sub(1)),
            _ => {}
        }
    }
}
