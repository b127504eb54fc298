//! The state of the next plan version at a worker, loaded while the tasks of the present one run.
//!
//! An operator whose key groups come from elsewhere is filled from the files of a checkpoint, then from the
//! additions of later checkpoints. When the tasks of the present version have ended, it reads only the
//! additions of the last checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_dataflow::{JobOptions, OperatorSpec, Part, PartSpec, Plan};
use anabranch_model::{KeyGroupRange, OperatorId, Result, StageId, TaskId};
use anabranch_operators::{Functions, Operator, build_operator, state_goes_on};
use arrow::datatypes::SchemaRef;

use crate::change::handover::keeps_state;
use crate::task::chain::{fill, same_types};
use crate::task::job_state::{FileOfTask, JobState, RestoredOperator, of_task};
use crate::task::stages::input;
use crate::task::threads::panicked;

/// An operator, and the key groups of its task.
pub(crate) type Share = (OperatorId, KeyGroupRange);

/// The operators with state of a plan, each with its stage.
pub(crate) fn states(plan: &Plan) -> BTreeMap<OperatorId, (StageId, &OperatorSpec)> {
    let parts = plan.parts().into_iter();
    let states = parts.filter_map(|Part { id, stage, spec }| match spec {
        PartSpec::State(spec) => Some((id, (stage, spec))),
        PartSpec::Source(_) | PartSpec::Sink(_) => None,
    });
    states.collect()
}

/// The operators whose state is handed over in memory from a plan to the next, if it stays at its worker with
/// its key groups.
pub(crate) fn passed_on(present: &Plan, next: &Plan) -> BTreeSet<OperatorId> {
    if keeps_state(&present.options) != keeps_state(&next.options) {
        return BTreeSet::new();
    }
    let (next_states, functions) = (states(next), Functions::default());
    let goes_on = |(id, (_, spec)): &(OperatorId, (StageId, &OperatorSpec))| {
        next_states.get(id).is_some_and(|(_, next)| state_goes_on(spec, next, &functions))
    };
    states(present).into_iter().filter(goes_on).map(|(id, _)| id).collect()
}

/// Operators of a plan version that has not begun.
pub(crate) struct Preparation {
    pub(crate) plan: Arc<Plan>,
    operators: BTreeMap<Share, PreparedOperator>,
    functions: Functions,
}

/// An operator with the state that it has read so far.
struct PreparedOperator {
    spec: OperatorSpec,
    input: SchemaRef,
    operator: Box<dyn Operator>,
    /// Columns of the key.
    keys: Range<usize>,
    read: BTreeSet<FileOfTask>,
}

impl PreparedOperator {
    /// Reads the files with state of these key groups that were not read before. Returns false if `wanted`
    /// has returned false meanwhile.
    fn load(
        &mut self,
        all: &RestoredOperator,
        own: KeyGroupRange,
        (plan, functions): (&Plan, &Functions),
        wanted: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let left = match all.without(&self.read) {
            Some(left) => left,
            // The checkpoint no longer has some of the files that were read: start over.
            None => {
                self.operator = build_operator(&self.spec, &self.input, &plan.options, functions)?.0;
                self.read.clear();
                all.clone()
            }
        };
        if let Some(state) = self.operator.state()
            && !fill(state, &left, own, plan.key_groups, &mut || wanted())?
        {
            return Ok(false);
        }
        self.operator.take_dropped();
        self.read.extend(left.files(own).map(|(file, _)| of_task(file)));
        Ok(true)
    }
}

impl Preparation {
    /// Builds the operators with state of these tasks of a plan, without those that are `here` already.
    pub(crate) fn new(plan: Arc<Plan>, tasks: &BTreeSet<TaskId>, here: &BTreeSet<Share>) -> Result<Preparation> {
        let (mut operators, functions) = (BTreeMap::new(), Functions::default());
        for stage in &plan.stages {
            let mut schema = input(&plan, stage, &functions)?;
            for (place, spec) in stage.operators.iter().enumerate() {
                let (mut operator, output) = build_operator(spec, &schema, &plan.options, &functions)?;
                let tables = operator.state().map(|state| state.tables()).unwrap_or_default();
                let keys = tables.first().map(|shape| shape.keys.clone()).filter(|keys| !keys.is_empty());
                if let (Some(keys), Some(id)) = (keys, plan.identities.state(stage.id, place)) {
                    for task in tasks.iter().filter(|task| task.stage == stage.id) {
                        let share = (id, plan.assignment.of_task(*task));
                        if here.contains(&share) {
                            continue;
                        }
                        let (spec, input, keys) = (spec.clone(), Arc::clone(&schema), keys.clone());
                        let (operator, _) = build_operator(&spec, &input, &plan.options, &functions)?;
                        operators
                            .insert(share, PreparedOperator { spec, input, operator, keys, read: BTreeSet::new() });
                    }
                }
                schema = output;
            }
        }
        Ok(Preparation { plan, operators, functions })
    }

    /// Reads the files of a checkpoint that were not read before, with this number of threads. Each thread
    /// calls `wanted` after each piece, and stops when `wanted` returns false.
    pub(crate) fn load(&mut self, state: &JobState, wanted: &(dyn Fn() -> bool + Sync), threads: usize) -> Result<()> {
        let Preparation { plan, operators, functions } = self;
        let threads = threads.min(operators.len());
        let left = Mutex::new(operators.iter_mut());
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        let load = || -> Result<()> {
            while let Some(((id, own), prepared)) = next() {
                if let Some(all) = state.operators.get(id)
                    && !prepared.load(all, *own, (plan, functions), wanted)?
                {
                    return Ok(());
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let start = |_| std::thread::Builder::new().name("loading".into()).spawn_scoped(scope, load);
            // If a thread cannot be started, the others do its work.
            let others: Vec<_> = (1..threads).filter_map(|number| start(number).ok()).collect();
            let own = load();
            let ended = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| Err(panicked(&*panic))));
            ended.fold(own, Result::and)
        })
    }

    /// The files of this state that a prepared operator has not read yet. `None`: no operator with this
    /// definition is prepared, it has read nothing, or this state lacks a file that it has read.
    pub(crate) fn has(
        &self,
        share: Share,
        spec: &OperatorSpec,
        input: &SchemaRef,
        options: &JobOptions,
        state: &RestoredOperator,
    ) -> Option<RestoredOperator> {
        let prepared = self.operators.get(&share)?;
        let is_same = prepared.spec == *spec
            && same_types(&prepared.input, input)
            && keeps_state(&self.plan.options) == keeps_state(options);
        // An operator that has read nothing is as good as a new one.
        if is_same && !prepared.read.is_empty() { state.without(&prepared.read) } else { None }
    }

    /// Columns of the key of an operator.
    pub(crate) fn keys(&self, share: Share) -> Option<Range<usize>> {
        self.operators.get(&share).map(|prepared| prepared.keys.clone())
    }

    /// Takes a prepared operator: see [`Preparation::has`].
    pub(crate) fn take(&mut self, share: Share) -> Option<Box<dyn Operator>> {
        self.operators.remove(&share).map(|prepared| prepared.operator)
    }
}
