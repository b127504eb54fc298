//! What a driver or the kernel reports about tasks at one moment.

use anabranch_model::Nanos;

use crate::{Metric, TaskIndex};

/// All readings of one target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// When they were true, on the clock of the process that reads.
    pub at: Nanos,
    /// In any order. A pair of task and metric occurs at most once; one that is missing is not known.
    pub values: Vec<Reading>,
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The task that it is about.
    pub task: TaskIndex,
    /// What it is.
    pub metric: Metric,
    /// In the metric's unit. A counter only grows, until its engine begins anew.
    pub value: f64,
}

impl Readings {
    /// Adds a value.
    pub fn add(&mut self, task: TaskIndex, metric: Metric, value: f64) {
        self.values.push(Reading { task, metric, value });
    }
}
