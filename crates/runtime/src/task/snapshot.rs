//! The snapshot of a task, which a marker requests, and the files that the recorder writes of it.

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
    /// The control of the task's incarnation. If the incarnation is cancelled, the snapshot is not needed.
    pub(crate) control: Arc<Control>,
    /// The task.
    pub(crate) task: TaskId,
    /// The epoch that has ended.
    pub(crate) epoch: Epoch,
    /// The task has nothing more to do.
    pub(crate) finished: bool,
    /// When the boundary passed the task, if a checkpoint was requested.
    pub(crate) passing: Option<Passing>,
    /// The source's part.
    pub(crate) source: SourceSnapshot,
    /// The changes of each operator with state.
    pub(crate) operators: Vec<OperatorSnapshot>,
    /// Prepared results of the sink that are not visible yet, oldest first.
    pub(crate) prepared: Vec<Committable>,
}

/// The changes of the state of one operator.
#[derive(Debug)]
pub(crate) struct OperatorSnapshot {
    /// The operator's index in its chain.
    pub(crate) place: usize,
    pub(crate) tables: Vec<(StateShape, StateChange)>,
    /// Event time that the operator has reached.
    pub(crate) watermark: EventTime,
}

/// The part of a snapshot for a task with a source.
#[derive(Debug, Default)]
pub(crate) struct SourceSnapshot {
    /// Positions of the partitions that it reads.
    pub(crate) positions: Positions,
    pub(crate) partition_watermarks: BTreeMap<String, EventTime>,
    /// [Identity](crate::task::event_time::identity) of that event time.
    pub(crate) event_time: Option<String>,
    /// Prepared results of the sink of malformed records that are not visible yet, oldest first.
    pub(crate) dead_letters: Vec<Committable>,
    /// Prepared results of the sink of late rows that are not visible yet, oldest first.
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
    /// The files that an operator was restored from, oldest first: all count as changes.
    pub(crate) fn restored(changes: Vec<StateFile>) -> OperatorFiles {
        OperatorFiles { runs: Vec::new(), changes }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &StateFile> {
        self.runs.iter().map(|(_, file)| file).chain(&self.changes)
    }
}
