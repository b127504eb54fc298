//! The static sides of joins that a plan version leaves for the next one at their worker.
//!
//! A static side is not state: every incarnation reads it again, unless the incarnation begins with an
//! orderly change. Then a join keeps its static side if the parts of the plan that read it are the same, and
//! if each worker with tasks of the join had tasks of it before. Otherwise all tasks of the join read the
//! side again, so that all of them join with the same rows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_dataflow::{Exchange, ExchangeKind, Expr, OperatorSpec, Plan, Port, SourceSpec};
use anabranch_model::{Result, StageId, TaskId};
use anabranch_operators::{Polled, Positions, Source, StaticSide};
use anabranch_protocol::membership::WorkerId;
use arrow::datatypes::SchemaRef;

use crate::task::stages::tasks_of;

/// The worker of each task. Empty: all tasks are here.
pub(crate) type Placement = BTreeMap<TaskId, WorkerId>;

/// A join: its stage, and its index in the chain.
pub(crate) type Join = (StageId, usize);

/// The definition of a static side: the parts that read it, and the keys of its index.
#[derive(Debug, PartialEq)]
struct Definition {
    keys: Vec<Expr>,
    schema: SchemaRef,
    inputs: Vec<SideInput>,
}

/// A stage whose rows reach a static side, and the stages before it.
#[derive(Debug, PartialEq)]
struct SideInput {
    port: Port,
    kind: ExchangeKind,
    source: Option<SourceSpec>,
    operators: Vec<OperatorSpec>,
    inputs: Vec<SideInput>,
}

impl Definition {
    /// The definition for a join whose tasks all get all rows of the static side.
    fn new(plan: &Plan, (stage, place): Join) -> Option<Definition> {
        let OperatorSpec::StaticJoin(spec) = plan.stage(stage).operators.get(place)? else { return None };
        let inputs = || plan.inputs(stage).filter(|exchange| exchange.port == Port::Side(place));
        inputs().all(|exchange| exchange.kind == ExchangeKind::Broadcast).then(|| Definition {
            keys: spec.build_keys.clone(),
            schema: spec.build_schema.clone(),
            // The index of the join in its chain does not matter.
            inputs: inputs().map(|exchange| SideInput { port: Port::Main, ..SideInput::new(plan, exchange) }).collect(),
        })
    }
}

impl SideInput {
    fn new(plan: &Plan, exchange: &Exchange) -> SideInput {
        let stage = plan.stage(exchange.from);
        SideInput {
            port: exchange.port,
            kind: exchange.kind.clone(),
            source: stage.source.clone(),
            operators: stage.operators.clone(),
            inputs: plan.inputs(stage.id).map(|exchange| SideInput::new(plan, exchange)).collect(),
        }
    }
}

/// The static sides that the tasks of a worker have left.
#[derive(Default)]
pub(crate) struct LeftSides(Vec<LeftSide>);

struct LeftSide {
    definition: Definition,
    side: StaticSide,
    /// The workers that had tasks of joins with this side.
    workers: BTreeSet<WorkerId>,
}

impl LeftSides {
    /// Adds the side of a join, unless it was left by another task.
    pub(crate) fn add(&mut self, plan: &Plan, placement: &Placement, join: Join, side: StaticSide) {
        let Some(definition) = Definition::new(plan, join) else { return };
        let workers = workers(plan, placement, join.0);
        match self.0.iter_mut().find(|left| left.definition == definition) {
            Some(left) => left.workers.extend(workers),
            None => self.0.push(LeftSide { definition, side, workers }),
        }
    }

    /// The static sides that joins of the next plan version keep.
    pub(crate) fn of(&self, plan: &Plan, placement: &Placement) -> BTreeMap<Join, StaticSide> {
        let mut kept = BTreeMap::new();
        if self.0.is_empty() {
            return kept;
        }
        for join in places(plan) {
            let Some(definition) = Definition::new(plan, join) else { continue };
            let workers = workers(plan, placement, join.0);
            let is_same = |left: &&LeftSide| left.definition == definition && workers.is_subset(&left.workers);
            kept.extend(self.0.iter().find(is_same).map(|left| (join, left.side.clone())));
        }
        kept
    }
}

/// The joins of the next plan version that will keep their static sides. Each worker will come to the same
/// result from the static sides that its tasks leave.
pub(crate) fn kept((present, were): (&Plan, &Placement), (next, are): (&Plan, &Placement)) -> BTreeSet<Join> {
    let before = |join: Join| Some((Definition::new(present, join)?, workers(present, were, join.0)));
    let before: Vec<(Definition, BTreeSet<WorkerId>)> = places(present).filter_map(before).collect();
    let goes_on = |join: &Join| {
        let Some(definition) = Definition::new(next, *join) else { return false };
        let same = before.iter().filter(|(former, _)| *former == definition).map(|(_, workers)| workers);
        let (same, all) = (same.collect::<Vec<_>>(), workers(next, are, join.0));
        // A worker knows only the joins that had tasks there.
        let knows = |worker: &WorkerId| {
            let known = same.iter().filter(|workers| workers.contains(worker)).flat_map(|workers| workers.iter());
            all.is_subset(&known.copied().collect())
        };
        !same.is_empty() && all.iter().all(knows)
    };
    places(next).filter(goes_on).collect()
}

/// All operators of a plan, joins or not: each by its stage and its index in the chain.
fn places(plan: &Plan) -> impl Iterator<Item = Join> {
    plan.stages.iter().flat_map(|stage| (0..stage.operators.len()).map(|place| (stage.id, place)))
}

fn workers(plan: &Plan, placement: &Placement, stage: StageId) -> BTreeSet<WorkerId> {
    tasks_of(plan.stage(stage)).filter_map(|task| placement.get(&task).copied()).collect()
}

/// Stages to skip: every join that they feed keeps its static side.
pub(crate) fn unread(plan: &Plan, kept: &BTreeSet<Join>, here: &BTreeSet<TaskId>) -> BTreeSet<StageId> {
    let is_kept = |exchange: &Exchange| match exchange.port {
        Port::Side(place) => {
            kept.contains(&(exchange.to, place)) && tasks_of(plan.stage(exchange.to)).all(|task| here.contains(&task))
        }
        Port::Main | Port::Second | Port::Further(_) => false,
    };
    let mut unread = BTreeSet::new();
    loop {
        let before = unread.len();
        for stage in &plan.stages {
            let mut outputs = plan.outputs(stage.id).peekable();
            let has_outputs = outputs.peek().is_some();
            if has_outputs && outputs.all(|exchange| is_kept(exchange) || unread.contains(&exchange.to)) {
                unread.insert(stage.id);
            }
        }
        if unread.len() == before {
            return unread;
        }
    }
}

/// A table that is not read, because its stage is skipped.
pub(crate) struct Unread;

impl Source for Unread {
    fn poll(&mut self, _wait: Duration) -> Result<Polled> {
        Ok(Polled::End)
    }

    fn positions(&self) -> Result<Positions> {
        Ok(Positions::new())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_dataflow::{ConnectorSpec, JobOptions, JoinKind, Stage, StaticJoinSpec};
    use anabranch_model::KeyGroups;
    use anabranch_operators::{Functions, build_operator};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    const JOIN: Join = (StageId(1), 0);

    fn join() -> OperatorSpec {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true)]));
        OperatorSpec::StaticJoin(StaticJoinSpec {
            kind: JoinKind::Inner,
            probe_keys: vec![Expr::Column(0)],
            build_keys: vec![Expr::Column(0)],
            filter: None,
            probe_schema: Arc::clone(&schema),
            build_schema: schema,
            output: vec![0],
        })
    }

    /// A table in this file is joined by so many tasks.
    fn plan(file: &str, tasks: u32) -> Plan {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true)]));
        let source = SourceSpec::new("names", ConnectorSpec::new("filesystem", &[("path", file)]), Arc::clone(&schema));
        let stage = |id, parallelism, source, operators| Stage {
            id: StageId(id),
            name: String::new(),
            parallelism,
            label: None,
            tasks_max: None,
            source,
            operators,
            sink: None,
            query: None,
            schema: Arc::clone(&schema),
            origin: Default::default(),
        };
        let stages = vec![stage(0, 1, Some(source), Vec::new()), stage(1, tasks, None, vec![join()])];
        let side = Exchange { from: StageId(0), to: StageId(1), port: Port::Side(0), kind: ExchangeKind::Broadcast };
        Plan::new(KeyGroups(8), JobOptions::default(), stages, vec![side])
    }

    /// The table is at the first worker, the tasks of the join are at these.
    fn placement(workers: &[u32]) -> Placement {
        let tasks = (0..).zip(workers).map(|(index, worker)| (TaskId { stage: JOIN.0, index }, WorkerId(*worker)));
        tasks.chain([(TaskId { stage: StageId(0), index: 0 }, WorkerId(1))]).collect()
    }

    fn left(plan: &Plan, placement: &Placement) -> LeftSides {
        let schema = Arc::clone(&plan.stages[0].schema);
        let (mut join, _) = build_operator(&join(), &schema, &plan.options, &Functions::default()).expect("a join");
        let side = join.sided().expect("a join with a static side");
        side.side_end().expect("the end");
        let mut left = LeftSides::default();
        left.add(plan, placement, JOIN, side.static_side().expect("a side"));
        left
    }

    #[test]
    fn a_side_goes_on_if_all_tasks_of_the_join_can_have_it() {
        let (present, were) = (plan("a", 2), placement(&[1, 2]));
        let left = left(&present, &were);
        let goes_on = |plan: &Plan, workers: &[u32]| {
            let goes_on = left.of(plan, &placement(workers)).contains_key(&JOIN);
            let foreseen = kept((&present, &were), (plan, &placement(workers)));
            assert_eq!(foreseen.contains(&JOIN), goes_on, "{workers:?}");
            goes_on
        };
        assert!(goes_on(&plan("a", 2), &[1, 2]));
        assert!(goes_on(&plan("a", 3), &[2, 1, 2]), "more tasks at the same workers");
        assert!(goes_on(&plan("a", 1), &[2]));
        assert!(!goes_on(&plan("a", 2), &[1, 3]), "the third worker would read what the table has now");
        assert!(!goes_on(&plan("b", 2), &[1, 2]), "another table");
        assert!(LeftSides::default().of(&plan("a", 1), &Placement::new()).is_empty());
    }

    #[test]
    fn a_table_is_not_read_only_if_all_joins_that_take_it_are_here() {
        let plan = plan("a", 2);
        let kept = left(&plan, &Placement::new()).of(&plan, &Placement::new()).into_keys().collect();
        let tasks: BTreeSet<TaskId> = placement(&[1, 1]).into_keys().collect();
        assert_eq!(unread(&plan, &kept, &tasks), BTreeSet::from([StageId(0)]));
        assert_eq!(unread(&plan, &BTreeSet::new(), &tasks), BTreeSet::new());
        let some = tasks.into_iter().filter(|task| *task != TaskId { stage: JOIN.0, index: 1 }).collect();
        assert_eq!(unread(&plan, &kept, &some), BTreeSet::new());
    }
}
