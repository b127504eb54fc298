//! What a task takes down where a marker asks for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_model::{Epoch, EventTime, TaskId};
use anabranch_operators::{Committable, Positions, StateChange, StateShape};

use crate::control::Control;

/// One task's state at the end of an epoch, in memory: immutable, so that it can be written while the task goes on.
pub(crate) struct Snapshot {
    /// Of the task's incarnation: once that is cancelled, nobody wants the snapshot.
    pub(crate) control: Arc<Control>,
    /// The task.
    pub(crate) task: TaskId,
    /// The epoch that has ended.
    pub(crate) epoch: Epoch,
    /// The task has nothing more to do.
    pub(crate) finished: bool,
    /// What a source adds.
    pub(crate) source: SourceSnapshot,
    /// What has changed in each operator that has state.
    pub(crate) operators: Vec<OperatorSnapshot>,
    /// What the sink has prepared and not yet made visible, oldest first.
    pub(crate) prepared: Vec<Committable>,
}

/// What has changed in the state of one operator.
#[derive(Debug)]
pub(crate) struct OperatorSnapshot {
    /// The operator's place in its chain.
    pub(crate) place: usize,
    pub(crate) shape: StateShape,
    pub(crate) change: StateChange,
    /// Event time that the operator has reached.
    pub(crate) watermark: EventTime,
}

/// What the snapshot of a task with a source has beside its chain's.
#[derive(Debug, Default)]
pub(crate) struct SourceSnapshot {
    /// Where the partitions stand that it reads.
    pub(crate) positions: Positions,
    /// Event time of these partitions.
    pub(crate) partition_watermarks: BTreeMap<String, EventTime>,
    /// What the sink of malformed records has prepared and not yet made visible, oldest first.
    pub(crate) dead_letters: Vec<Committable>,
}
