//! The parts of a plan with state, numbered by kind from the first source to the last sink. A checkpoint refers to state by these
//! numbers, because stages are cut differently at another parallelism, and operators without state may be added or
//! removed.
//!
//! Stages that only feed static sides are omitted: their tables are read again from the beginning at every start.

pub(crate) mod former;

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dataflow::{OperatorSpec, Plan, Port, WindowAggregateSpec};
use anabranch_model::{HASH_SEED, StageId, hash_bytes};
use anabranch_state::Lineage;

/// Version of the planner's wording of queries: raised whenever the planner words the same query differently than
/// before.
const HOW: u32 = 3;

/// Whether two queries with these hashes are certainly different.
pub(crate) fn differ(then: &str, now: &str) -> bool {
    then != now && !then.is_empty() && then.split('-').next() == now.split('-').next()
}

/// The numbers, and a line of text for each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outline {
    pub(crate) lines: Vec<String>,
    /// Of each line.
    pub(crate) lineage: Vec<Lineage>,
    sources: BTreeMap<StageId, usize>,
    operators: BTreeMap<(StageId, usize), usize>,
    sinks: BTreeMap<StageId, usize>,
    /// Stages that are omitted.
    fed: BTreeSet<StageId>,
}

impl Outline {
    pub(crate) fn new(plan: &Plan) -> Outline {
        let fed = static_stages(plan);
        let order = in_order(plan);
        let stages = || order.iter().map(|id| plan.stage(*id)).filter(|stage| !fed.contains(&stage.id));
        let mut outline = Outline { fed: fed.clone(), ..Outline::default() };
        for stage in stages() {
            if let Some(source) = &stage.source {
                let number = outline.sources.len();
                outline.sources.insert(stage.id, number);
                outline.lineage.push(lineage(plan, stage.id));
                outline.lines.push(format!("source {number}: {} ({})", source.table, source.connector.connector));
            }
        }
        for stage in stages() {
            for (place, operator) in stage.operators.iter().enumerate() {
                if let Some(spec) = operator.state() {
                    let number = outline.operators.len();
                    outline.operators.insert((stage.id, place), number);
                    outline.lineage.push(lineage(plan, stage.id));
                    outline.lines.push(format!("state {number}: {}", describe(spec)));
                }
            }
        }
        for stage in stages() {
            if let Some(sink) = &stage.sink {
                let number = outline.sinks.len();
                outline.sinks.insert(stage.id, number);
                outline.lineage.push(lineage(plan, stage.id));
                outline.lines.push(format!("sink {number}: {} ({})", sink.table, sink.connector.connector));
            }
        }
        outline
    }

    pub(crate) fn source(&self, stage: StageId) -> Option<usize> {
        self.sources.get(&stage).copied()
    }

    /// Whether rows of a stage only reach static sides, so that no checkpoint has its state.
    pub(crate) fn is_left_out(&self, stage: StageId) -> bool {
        self.fed.contains(&stage)
    }

    pub(crate) fn operator(&self, stage: StageId, place: usize) -> Option<usize> {
        self.operators.get(&(stage, place)).copied()
    }

    pub(crate) fn sink(&self, stage: StageId) -> Option<usize> {
        self.sinks.get(&stage).copied()
    }
}

/// The stages in an order that is the same at any parallelism: each stage follows its inputs, in their order. The plan's own
/// order depends on where chains are cut.
fn in_order(plan: &Plan) -> Vec<StageId> {
    let ends = plan.stages.iter().map(|stage| stage.id).filter(|id| plan.outputs(*id).next().is_none());
    let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
    // A stage is on the stack twice: the second time, its inputs are in the order.
    let mut rest: Vec<(StageId, bool)> = ends.rev().map(|id| (id, false)).collect();
    while let Some((id, inputs_done)) = rest.pop() {
        if inputs_done {
            order.push(id);
        } else if seen.insert(id) {
            rest.push((id, true));
            let inputs: Vec<StageId> = plan.inputs(id).map(|exchange| exchange.from).collect();
            rest.extend(inputs.into_iter().rev().map(|from| (from, false)));
        }
    }
    order
}

/// Aggregates are the same if their states are; the expressions that feed them may change.
fn describe(spec: &WindowAggregateSpec) -> String {
    let keys: Vec<String> = spec.keys.iter().map(|key| format!("{} {}", key.name, key.data_type)).collect();
    let aggregates = spec.aggregates.iter().map(|a| {
        let distinct = if a.distinct { "distinct " } else { "" };
        format!("{}({distinct}) {}", a.function, a.data_type)
    });
    let aggregates: Vec<String> = aggregates.collect();
    format!("aggregate, window {}, by [{}]: [{}]", spec.window, keys.join(", "), aggregates.join(", "))
}

/// The tables before and after a stage, itself included, and the processing of the rows between them.
fn lineage(plan: &Plan, stage: StageId) -> Lineage {
    let (mut before, mut behind) = (BTreeSet::from([stage]), BTreeSet::from([stage]));
    // One round per exchange is enough for the longest path.
    for _ in &plan.exchanges {
        for exchange in &plan.exchanges {
            if before.contains(&exchange.to) {
                before.insert(exchange.from);
            }
            if behind.contains(&exchange.from) {
                behind.insert(exchange.to);
            }
        }
    }
    let read = before.iter().filter_map(|id| Some(plan.stage(*id).source.as_ref()?.table.clone()));
    let written = behind.iter().filter_map(|id| Some(plan.stage(*id).sink.as_ref()?.table.clone()));
    let stages = before.union(&behind).flat_map(|id| &plan.stage(*id).operators);
    let states = stages.filter_map(OperatorSpec::state).map(describe);
    let sorted = |names: BTreeSet<String>| names.into_iter().collect();
    let (from, through, to) = (sorted(read.collect()), sorted(states.collect()), sorted(written.collect()));
    Lineage { from, through, to, how: how(plan, before.union(&behind)) }
}

/// A hash of the processing of rows by these stages. Hashes of different [`HOW`] cannot be compared.
fn how<'a>(plan: &Plan, stages: impl Iterator<Item = &'a StageId>) -> String {
    let queries: Vec<&str> = stages.filter_map(|id| plan.stage(*id).query.as_deref()).collect();
    match queries.as_slice() {
        [] => String::new(),
        queries => format!("{HOW}-{:016x}", hash_bytes(HASH_SEED, queries.join("\n").as_bytes())),
    }
}

/// Stages from which rows only reach static sides.
fn static_stages(plan: &Plan) -> BTreeSet<StageId> {
    let mut found: BTreeSet<StageId> = BTreeSet::new();
    loop {
        let before = found.len();
        for stage in &plan.stages {
            let mut outputs = plan.outputs(stage.id).peekable();
            let fed = outputs.peek().is_some()
                && outputs.all(|exchange| matches!(exchange.port, Port::Side(_)) || found.contains(&exchange.to));
            if fed {
                found.insert(stage.id);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}
