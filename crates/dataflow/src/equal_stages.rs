//! Partial aggregates of equal stages, computed once.
//!
//! Several references to a view, or several statements, may begin with the same partial aggregate of the same
//! rows. It keeps nothing between epochs, so one stage has it for all of them, and what follows takes its
//! rows from there. No part that keeps something is moved: a checkpoint of a plan with such stages fits the
//! plan in which they are one, and the other way round. That is why this is the last step before a plan runs,
//! whatever the number of tasks.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::StageId;

use crate::{AggregatePhase, Exchange, ExchangeKind, Expr, OperatorSpec, Plan, Port, Stage};

impl Plan {
    /// The plan in which stages that compute the same partial aggregates of the same rows are one.
    #[must_use]
    pub fn with_equal_stages_once(&self) -> Plan {
        let equal = self.equal_stages();
        if equal.is_empty() {
            return self.clone();
        }
        let one_of = |id: StageId| equal.get(&id).copied().unwrap_or(id);
        let exchanges = self.exchanges.iter().filter(|exchange| !equal.contains_key(&exchange.to));
        let exchanges = exchanges.map(|exchange| Exchange { from: one_of(exchange.from), ..exchange.clone() });
        let mut stages: Vec<Stage> =
            self.stages.iter().filter(|stage| !equal.contains_key(&stage.id)).cloned().collect();
        for stage in &mut stages {
            let others = equal.iter().filter(|(_, one)| **one == stage.id);
            others.for_each(|(other, _)| stage.origin.add(&self.stage(*other).origin));
        }
        let mut exchanges: Vec<Exchange> = exchanges.collect();
        let shared = |id: StageId| self.outputs(id).count() > 1;
        join_only_readers(&mut stages, &mut exchanges, &shared);
        let ids: BTreeMap<StageId, StageId> = stages.iter().map(|stage| stage.id).zip((0..).map(StageId)).collect();
        stages.iter_mut().for_each(|stage| stage.id = ids[&stage.id]);
        for exchange in &mut exchanges {
            (exchange.from, exchange.to) = (ids[&exchange.from], ids[&exchange.to]);
        }
        self.again(stages, exchanges)
    }

    /// Stages that an earlier one can stand for, and that one.
    fn equal_stages(&self) -> BTreeMap<StageId, StageId> {
        let mut equal: BTreeMap<StageId, StageId> = BTreeMap::new();
        // With the stages that get the rows of each: there is one channel between two tasks.
        let mut kept: Vec<(&Stage, BTreeSet<StageId>)> = Vec::new();
        for stage in self.stages.iter().filter(|stage| can_be_shared(stage)) {
            let receivers: BTreeSet<StageId> = self.outputs(stage.id).map(|output| output.to).collect();
            let inputs =
                |id: StageId| self.inputs(id).map(|input| (input.from, input.port, &input.kind)).collect::<Vec<_>>();
            let same = |other: &Stage| {
                let parts = |of: &Stage| (of.parallelism, of.schema.clone());
                parts(other) == parts(stage)
                    && other.operators == stage.operators
                    && inputs(other.id) == inputs(stage.id)
            };
            let place = kept.iter().position(|(other, others)| same(other) && others.is_disjoint(&receivers));
            match place {
                Some(place) => {
                    equal.insert(stage.id, kept[place].0.id);
                    kept[place].1.extend(receivers);
                }
                None => kept.push((stage, receivers)),
            }
        }
        equal
    }
}

/// Whether a stage ends in a partial aggregate, keeps nothing between epochs, and gives the same rows each
/// time.
fn can_be_shared(stage: &Stage) -> bool {
    let is_partial = |operator: &OperatorSpec| matches!(operator, OperatorSpec::WindowAggregate(spec) if spec.phase == AggregatePhase::Partial);
    stage.source.is_none()
        && stage.label.is_none()
        && stage.operators.last().is_some_and(is_partial)
        && stage.operators.iter().all(|operator| exprs(operator).is_some_and(|of| !of.into_iter().any(Expr::varies)))
}

/// The expressions of an operator that may come before a partial aggregate, or is one.
fn exprs(operator: &OperatorSpec) -> Option<Vec<&Expr>> {
    match operator {
        OperatorSpec::Filter { predicate, .. } => Some(vec![predicate]),
        OperatorSpec::Project { columns } => Some(columns.iter().map(|column| &column.expr).collect()),
        OperatorSpec::WindowAggregate(spec) if spec.phase == AggregatePhase::Partial => {
            let of_aggregates = spec.aggregates.iter().flat_map(|of| of.args.iter().chain(&of.filter));
            Some(spec.time.iter().chain(spec.keys.iter().map(|key| &key.expr)).chain(of_aggregates).collect())
        }
        _ => None,
    }
}

/// A source that was read for several stages, of which one is left, becomes part of that.
fn join_only_readers(stages: &mut Vec<Stage>, exchanges: &mut Vec<Exchange>, was_shared: &dyn Fn(StageId) -> bool) {
    let to_reader = |exchange: &&Exchange| exchange.port == Port::Main && exchange.kind == ExchangeKind::Forward;
    let sources =
        stages.iter().filter(|stage| stage.source.is_some() && stage.operators.is_empty() && was_shared(stage.id));
    let alone = sources.filter_map(|source| {
        let mut outputs = exchanges.iter().filter(|exchange| exchange.from == source.id);
        let (output, None) = (outputs.next().filter(to_reader)?, outputs.next()) else { return None };
        let inputs = exchanges.iter().filter(|exchange| exchange.to == output.to && !exchange.port.is_side());
        (inputs.count() == 1).then_some((source.id, output.to))
    });
    for (source, reader) in alone.collect::<Vec<_>>() {
        exchanges.retain(|exchange| exchange.from != source);
        let Some(place) = stages.iter().position(|stage| stage.id == source) else { continue };
        let source = stages.remove(place);
        for stage in stages.iter_mut().filter(|stage| stage.id == reader) {
            (stage.name, stage.label) = (source.name.clone(), source.label.clone());
            (stage.source, stage.tasks_max) = (source.source.clone(), source.tasks_max);
            stage.origin.source.clone_from(&source.origin.source);
        }
    }
}
