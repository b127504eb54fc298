//! Bugs that are planted on purpose, where the parts of a job meet each other or their surroundings. The product knows
//! nothing of them.

use std::collections::BTreeMap;

use anabranch_model::{Envelope, TaskId};
use anabranch_operators::StateChange;
use anabranch_runtime::stepped::Tap;

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
    /// A sink reports an epoch as written although it was not.
    HandedOverTooSoon,
    /// A source skips rows that are older, by the wall clock, than those that it has read.
    NewerByWallClock,
}

impl Mutation {
    /// The tap that plants the bug between the parts of a stepped job, if it belongs there.
    pub(super) fn tap(self) -> Option<Box<dyn Tap>> {
        match self {
            Mutation::CommitBeforeAllAcknowledged
            | Mutation::MarkerOvertakes
            | Mutation::DeltaLost
            | Mutation::DeltaTwice
            | Mutation::RunLost => Some(Box::new(Planted { mutation: self, held: BTreeMap::new() })),
            _ => None,
        }
    }
}

/// Plants one bug.
struct Planted {
    mutation: Mutation,
    /// By task and channel, the rows that the next marker may pass, or has passed.
    held: BTreeMap<(usize, usize), Held>,
}

struct Held {
    rows: Envelope,
    overtaken: bool,
}

impl Tap for Planted {
    fn envelope(&mut self, task: usize, channel: usize, envelope: Envelope) -> Vec<Envelope> {
        if self.mutation != Mutation::MarkerOvertakes {
            return vec![envelope];
        }
        let held = self.held.remove(&(task, channel));
        match (held, envelope) {
            (Some(Held { rows, overtaken: false }), Envelope::Marker(marker)) if !marker.kind.closes() => {
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

    fn state_change(&mut self, change: &mut StateChange) {
        match self.mutation {
            // A complete state is not a change.
            Mutation::DeltaLost if !change.complete => change.rows.clear(),
            Mutation::DeltaTwice => change.rows.extend(change.rows.clone()),
            Mutation::RunLost => change.runs.truncate(change.runs.len().saturating_sub(1)),
            _ => {}
        }
    }

    fn acknowledged(&mut self, task: TaskId, all: &[TaskId]) -> Vec<TaskId> {
        match self.mutation {
            Mutation::CommitBeforeAllAcknowledged => all.to_vec(),
            _ => vec![task],
        }
    }
}
