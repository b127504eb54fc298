//! What an autoscaler is told in each interval.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{Nanos, StageId};
use serde::{Deserialize, Serialize};

use super::{Graph, Stay};

/// What the tasks of a job have done in an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When the interval ended, by the job's clock.
    pub at: Nanos,
    /// How long it was.
    pub interval: Duration,
    /// Whether tasks restored state or read static tables in it, so their rates mean nothing.
    pub warming: bool,
    /// Every stage.
    pub stages: BTreeMap<StageId, StageSample>,
}

/// What the tasks of a stage have done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageSample {
    /// How many tasks the stage has.
    pub parallelism: u32,
    /// Its tasks by number; fewer than `parallelism` if the counters of one are missing.
    pub tasks: Vec<TaskSample>,
    /// For a source: rows of all partitions that were not read yet when the interval ended, if the table
    /// tells.
    pub lag_rows: Option<u64>,
}

/// What a task has done: differences of its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSample {
    /// Rows that entered it.
    pub rows_in: u64,
    /// Rows that left it. A row that goes to several stages counts once.
    pub rows_out: u64,
    /// Useful time: it processed, and waited neither for input nor for room downstream.
    pub busy_ns: u64,
    /// It waited for room downstream.
    pub backpressured_ns: u64,
}

impl Sample {
    /// How many tasks each stage has.
    pub(super) fn parallelism(&self) -> BTreeMap<StageId, u32> {
        self.stages.iter().map(|(id, stage)| (*id, stage.parallelism)).collect()
    }

    /// Refuses a sample that lacks a task, or is of another plan.
    pub(super) fn check(&self, graph: &Graph) -> Result<(), Stay> {
        let known = |id: &StageId| graph.stages.iter().any(|stage| stage.id == *id);
        if let Some(stage) = self.stages.keys().copied().find(|id| !known(id)) {
            return Err(Stay::Incomplete { stage });
        }
        let complete = |id: StageId| {
            let stage = self.stages.get(&id);
            stage.is_some_and(|s| s.parallelism > 0 && u32::try_from(s.tasks.len()) == Ok(s.parallelism))
        };
        match graph.stages.iter().find(|stage| !complete(stage.id)) {
            Some(stage) => Err(Stay::Incomplete { stage: stage.id }),
            None => Ok(()),
        }
    }
}
