//! Identifiers as newtypes, so that mixing them up does not compile.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The records between two markers; numbered from 1. Never confused with event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The first epoch of a job.
    pub const FIRST: Epoch = Epoch(1);

    /// The epoch after this one.
    #[must_use]
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.0)
    }
}

/// Consecutive epochs granted to all workers in one message: `first..=last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// First epoch of the group.
    pub first: Epoch,
    /// Last epoch of the group, inclusive.
    pub last: Epoch,
}

impl Group {
    /// How many epochs the group holds.
    #[must_use]
    pub fn len(self) -> u64 {
        self.last.0 + 1 - self.first.0
    }

    /// Whether the group holds no epoch at all; a granted group never is.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.last < self.first
    }
}

/// Version of a job's plan; grows by one with each reconfiguration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PlanVersion(pub u32);

/// Life of a job between two starts; anything older is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

/// A stage of a plan: operators fused into one chain between exchanges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StageId(pub u32);

impl fmt::Display for StageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stage {}", self.0)
    }
}

/// One parallel instance of a stage, `0..parallelism`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// The stage that the task is an instance of.
    pub stage: StageId,
    /// Index of the task within its stage.
    pub index: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} task {}", self.stage, self.index)
    }
}

/// Identity of a part of a job that keeps something between epochs: a source its positions, an operator its
/// state, a sink what it has prepared. It stays the same in all versions of the plan, at any parallelism and
/// after every restart, and what the part keeps is filed under it. An identity is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperatorId {
    /// What it identifies.
    pub kind: OperatorKind,
    /// Number among those of its kind.
    pub number: u32,
}

/// The kinds of parts that keep something between epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OperatorKind {
    /// Reads a table, and keeps positions.
    Source,
    /// Keeps state.
    State,
    /// Writes a table, and keeps what it has prepared.
    Sink,
}

impl OperatorId {
    /// Reads the text that `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<OperatorId> {
        let (kind, number) = text.split_once(' ')?;
        let kinds = [OperatorKind::Source, OperatorKind::State, OperatorKind::Sink];
        let kind = kinds.into_iter().find(|known| known.to_string() == kind)?;
        Some(OperatorId { kind, number: number.parse().ok()? })
    }
}

impl fmt::Display for OperatorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OperatorKind::Source => "source",
            OperatorKind::State => "state",
            OperatorKind::Sink => "sink",
        })
    }
}

/// `state 12`.
impl fmt::Display for OperatorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.number)
    }
}

/// A partition of a source: a Kafka partition, a file, a generator's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionId(pub u32);
