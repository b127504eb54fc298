//! Properties of a plan's stages: their tasks, their input, and whether their rows reach a sink.

use std::sync::Arc;

use anabranch_dataflow::{Plan, Port, Stage};
use anabranch_model::{Error, Result, StageId, TaskId};
use anabranch_operators::Functions;
use arrow::datatypes::SchemaRef;

use crate::task::source_task::SourceParts;

pub(crate) fn tasks_of(stage: &Stage) -> impl Iterator<Item = TaskId> + use<> {
    let id = stage.id;
    (0..stage.parallelism).map(move |index| TaskId { stage: id, index })
}

/// Whether the rows of a stage belong to a stream. Rows of a static side only complete a join, and that
/// join's stage passes no marker before: a job that held these rows back would wait for itself.
pub(crate) fn reaches_sink(plan: &Plan, stage: StageId) -> bool {
    plan.outputs(stage).all(|exchange| !exchange.port.is_side() && reaches_sink(plan, exchange.to))
}

/// Schema of the rows that enter a stage's chain.
pub(crate) fn input(plan: &Plan, stage: &Stage, functions: &Functions) -> Result<SchemaRef> {
    match (&stage.source, plan.inputs(stage.id).find(|e| e.port == Port::Main)) {
        (Some(source), None) => SourceParts::schema(source, functions),
        (None, Some(exchange)) => Ok(Arc::clone(&plan.stage(exchange.from).schema)),
        _ => Err(Error::internal("a stage has either a source or exchanges into its main port")),
    }
}
