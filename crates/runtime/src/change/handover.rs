//! What the tasks of a plan version leave at their worker for the tasks of the next one: state in memory,
//! open tables.
//!
//! Tasks that end for a change of the plan have taken a snapshot, so the checkpoint contains everything, and
//! a part that is not here, or has changed, is restored from it. A part that stays is handed over: the state
//! of an operator if its new task owns the same key groups, a source or sink if its task has the same index
//! among the same number of tasks. Static sides of joins are handed over too.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, OperatorSpec, Plan, SinkSpec, SourceSpec};
use anabranch_model::{KeyGroupRange, OperatorId, Result, TaskId};
use anabranch_operators::{Functions, state_goes_on};

use crate::change::static_sides::{LeftSides, Placement};
use crate::task::chain::SinkTail;
use crate::task::host::TaskHost;
use crate::task::left::{Left, LeftOperator};
use crate::task::snapshot::OperatorFiles;
use crate::task::source_task::SourceParts;

/// The state, the static sides and the open tables that all tasks of a worker have left.
pub(crate) struct Handover {
    options: JobOptions,
    /// The job, as the open tables know it.
    pub(crate) host: Arc<TaskHost>,
    operators: BTreeMap<(OperatorId, KeyGroupRange), (OperatorSpec, LeftOperator)>,
    files: BTreeMap<(OperatorId, KeyGroupRange), OperatorFiles>,
    pub(crate) sides: LeftSides,
    sources: BTreeMap<PartOfTask, (SourceSpec, SourceParts)>,
    sinks: BTreeMap<PartOfTask, (SinkSpec, SinkTail)>,
}

/// The options that determine how operators keep state.
pub(crate) fn keeps_state(options: &JobOptions) -> impl PartialEq + use<> {
    (options.state_backend, options.state_bytes, options.state_directory.clone(), options.thresholds)
}

/// Whether an open source reads the table of the next specification. Its output columns, and how event time
/// is derived from them, may have changed.
pub(crate) fn source_goes_on(former: &SourceSpec, next: &SourceSpec) -> bool {
    let (columns, watermark) = (next.columns.clone(), next.watermark.clone());
    SourceSpec { columns, watermark, ..former.clone() } == *next
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartOfTask {
    part: OperatorId,
    index: u32,
    parallelism: u32,
}

impl PartOfTask {
    /// The part of the task with this index, out of `parallelism` tasks.
    pub(crate) fn new(part: OperatorId, index: u32, parallelism: u32) -> PartOfTask {
        PartOfTask { part, index, parallelism }
    }
}

impl Handover {
    /// `left` has what each task of this plan has left. `files` are those in which the recorder has stored
    /// the state of the operators.
    pub(crate) fn new(
        (plan, placement): (&Plan, &Placement),
        host: Arc<TaskHost>,
        left: Vec<Left>,
        files: BTreeMap<(TaskId, OperatorId), OperatorFiles>,
    ) -> Handover {
        let mut handover = Handover {
            options: plan.options.clone(),
            host,
            operators: BTreeMap::new(),
            files: BTreeMap::new(),
            sides: LeftSides::default(),
            sources: BTreeMap::new(),
            sinks: BTreeMap::new(),
        };
        for ((task, operator), files) in files {
            handover.files.insert((operator, plan.assignment.of_task(task)), files);
        }
        for Left { task, operators, sides, source, sink } in left {
            let (stage, identities) = (plan.stage(task.stage), &plan.identities);
            for (place, side) in sides {
                handover.sides.add(plan, placement, (stage.id, place), side);
            }
            for left in operators {
                let spec = &stage.operators[left.place];
                if let Some(id) = identities.state(stage.id, left.place) {
                    let key = (id, plan.assignment.of_task(task));
                    handover.operators.insert(key, (spec.clone(), left));
                }
            }
            let of_task = |part| PartOfTask::new(part, task.index, stage.parallelism);
            let part = identities.source(stage.id).map(of_task);
            if let (Some(part), Some(parts), Some(spec)) = (part, source, &stage.source) {
                handover.sources.insert(part, (spec.clone(), parts));
            }
            let part = identities.sink(stage.id).map(of_task);
            if let (Some(part), Some(tail), Some(spec)) = (part, sink, &stage.sink) {
                handover.sinks.insert(part, (spec.clone(), tail));
            }
        }
        handover
    }

    /// Whether the state of an operator is here, from a task with these key groups.
    pub(crate) fn has(
        &self,
        (id, own): (OperatorId, KeyGroupRange),
        spec: &OperatorSpec,
        options: &JobOptions,
        functions: &Functions,
    ) -> bool {
        keeps_state(options) == keeps_state(&self.options)
            && self.files.contains_key(&(id, own))
            && self.operators.get(&(id, own)).is_some_and(|(left, _)| state_goes_on(left, spec, functions))
    }

    /// Takes an operator that [is here](Handover::has).
    pub(crate) fn operator(&mut self, part: (OperatorId, KeyGroupRange)) -> Option<LeftOperator> {
        self.operators.remove(&part).map(|(_, left)| left)
    }

    /// Takes the files of an operator's state in the newest checkpoint.
    pub(crate) fn files(&mut self, part: (OperatorId, KeyGroupRange)) -> Option<OperatorFiles> {
        self.files.remove(&part)
    }

    /// Takes an open source, if it reads the table of the specification.
    pub(crate) fn source(&mut self, part: PartOfTask, spec: &SourceSpec) -> Option<SourceParts> {
        let may_go_on =
            |(former, left): &(SourceSpec, SourceParts)| source_goes_on(former, spec) && left.source.may_go_on();
        let is_same = self.sources.get(&part).is_some_and(may_go_on);
        if is_same { self.sources.remove(&part).map(|(_, parts)| parts) } else { None }
    }

    /// Takes an open sink.
    pub(crate) fn sink(&mut self, part: PartOfTask, spec: &SinkSpec) -> Option<SinkTail> {
        let is_same = self.sinks.get(&part).is_some_and(|(former, _)| former == spec);
        if is_same { self.sinks.remove(&part).map(|(_, tail)| tail) } else { None }
    }

    /// Closes the tables that nobody has taken. Freeing much state takes long, so a thread of its own does
    /// it.
    pub(crate) fn close(self) -> Result<()> {
        let operators = self.operators;
        if !operators.is_empty() {
            // If no thread can be started, the memory is freed here.
            let _ = std::thread::Builder::new().name("freeing".into()).spawn(move || drop(operators));
        }
        let sources = self.sources.into_values().try_for_each(|(_, parts)| parts.close());
        self.sinks.into_values().try_for_each(|(_, mut tail)| tail.finish(None)).and(sources)
    }
}
