//! The parts that a task leaves for the next plan version.

use anabranch_model::{EventTime, TaskId};
use anabranch_operators::{Operator, StaticSide};

use crate::task::chain::SinkTail;
use crate::task::source_task::SourceParts;

/// An operator with its state.
pub(crate) struct LeftOperator {
    /// Its index in the chain.
    pub(crate) place: usize,
    pub(crate) operator: Box<dyn Operator>,
    /// Event time that its task had reached.
    pub(crate) watermark: EventTime,
}

/// The parts that a task has left.
pub(crate) struct Left {
    pub(crate) task: TaskId,
    pub(crate) operators: Vec<LeftOperator>,
    /// The static sides of its joins, by their indices.
    pub(crate) sides: Vec<(usize, StaticSide)>,
    pub(crate) source: Option<SourceParts>,
    pub(crate) sink: Option<SinkTail>,
}
