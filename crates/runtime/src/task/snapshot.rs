//! What a task saves where a marker requests it, and the files that the recorder makes of that.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_model::{Epoch, EventTime, TaskId};
use anabranch_operators::{Committable, Positions, StateChange, StateShape};
use anabranch_state::StateFile;

use crate::task::control::Control;
use crate::task::phases::Passing;

/// One task's state at the end of an epoch, in memory: immutable, so that it can be written while the task
/// continues.
pub(crate) struct Snapshot {
    /// Of the task's incarnation: once that is cancelled, the snapshot is not needed.
    pub(crate) control: Arc<Control>,
    /// The task.
    pub(crate) task: TaskId,
    /// The epoch that has ended.
    pub(crate) epoch: Epoch,
    /// The task has nothing more to do.
    pub(crate) finished: bool,
    /// When the boundary went through the task, unless no checkpoint was requested.
    pub(crate) passing: Option<Passing>,
    /// The source's part.
    pub(crate) source: SourceSnapshot,
    /// What has changed in each operator that has state.
    pub(crate) operators: Vec<OperatorSnapshot>,
    /// What the sink has prepared and not yet made visible, oldest first.
    pub(crate) prepared: Vec<Committable>,
}

/// What has changed in the state of one operator.
#[derive(Debug)]
pub(crate) struct OperatorSnapshot {
    /// The operator's index in its chain.
    pub(crate) place: usize,
    /// Its tables, and what has changed in each.
    pub(crate) tables: Vec<(StateShape, StateChange)>,
    /// Event time that the operator has reached.
    pub(crate) watermark: EventTime,
}

/// The further part of the snapshot of a task with a source.
#[derive(Debug, Default)]
pub(crate) struct SourceSnapshot {
    /// Positions of the partitions that it reads.
    pub(crate) positions: Positions,
    /// Event time of these partitions.
    pub(crate) partition_watermarks: BTreeMap<String, EventTime>,
    /// [Identity](crate::task::event_time::identity) of that event time.
    pub(crate) event_time: Option<String>,
    /// What the sink of malformed records has prepared and not yet made visible, oldest first.
    pub(crate) dead_letters: Vec<Committable>,
    /// The same of the sink of late rows.
    pub(crate) late_rows: Vec<Committable>,
}

/// State files of one operator in one task.
#[derive(Default)]
pub(crate) struct OperatorFiles {
    /// Files of the runs outside of its tables, with the runs' numbers. Oldest first, which is not the order
    /// of the numbers.
    pub(crate) runs: Vec<(u64, StateFile)>,
    /// Files of its tables: a complete one, and the changes since. Oldest first.
    pub(crate) changes: Vec<StateFile>,
}

impl OperatorFiles {
    /// What an operator was restored from, oldest first: all of it counts as changes.
    pub(crate) fn restored(changes: Vec<StateFile>) -> OperatorFiles {
        OperatorFiles { runs: Vec::new(), changes }
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &StateFile> {
        self.runs.iter().map(|(_, file)| file).chain(&self.changes)
    }
}
