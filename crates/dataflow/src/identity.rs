//! Identities of the parts of a plan that keep something between epochs.
//!
//! Stages are cut differently at another parallelism, and operators without state may be added or removed: an
//! identity belongs to what is kept, wherever the plan has it. A new job numbers its parts in the order in
//! which rows reach them. A later version of its plan, or a job that starts from its savepoint, takes the
//! identities over for the parts that stay, and gives numbers that were never used to the others.
//!
//! Stages that only feed static sides have none: their tables are read again from the beginning at every
//! start.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{OperatorId, OperatorKind, StageId};
use serde::{Deserialize, Serialize};

use crate::{Exchange, OperatorSpec, Plan, SinkSpec, SourceSpec, Stage};

/// The identities in a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Identities {
    sources: BTreeMap<StageId, u32>,
    /// By stage and place in the chain.
    states: BTreeMap<StageId, BTreeMap<usize, u32>>,
    sinks: BTreeMap<StageId, u32>,
    /// No identity of the job ever had this number or a higher one.
    unused: u32,
}

/// A part of a plan that keeps something between epochs.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Its identity.
    pub id: OperatorId,
    /// The stage that it is in.
    pub stage: StageId,
    /// What it does.
    pub spec: PartSpec<'a>,
}

/// What a part does.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the kinds say it")]
pub enum PartSpec<'a> {
    Source(&'a SourceSpec),
    State(&'a OperatorSpec),
    Sink(&'a SinkSpec),
}

impl Identities {
    /// Those of a new job.
    pub(crate) fn new(stages: &[Stage], exchanges: &[Exchange]) -> Identities {
        let fed = static_stages(stages, exchanges);
        let order = in_order(stages, exchanges);
        let mut identities = Identities::default();
        let mut next = BTreeMap::new();
        let mut number = |kind: OperatorKind| {
            let next: &mut u32 = next.entry(kind).or_default();
            *next += 1;
            *next - 1
        };
        for stage in order.iter().map(|id| &stages[id.0 as usize]).filter(|stage| !fed.contains(&stage.id)) {
            if stage.source.is_some() {
                identities.sources.insert(stage.id, number(OperatorKind::Source));
            }
            for place in (0..stage.operators.len()).filter(|place| stage.operators[*place].stateful().is_some()) {
                identities.states.entry(stage.id).or_default().insert(place, number(OperatorKind::State));
            }
            if stage.sink.is_some() {
                identities.sinks.insert(stage.id, number(OperatorKind::Sink));
            }
        }
        identities.unused = next.into_values().max().unwrap_or(0);
        identities
    }

    /// Of the source of a stage.
    #[must_use]
    pub fn source(&self, stage: StageId) -> Option<OperatorId> {
        let number = *self.sources.get(&stage)?;
        Some(OperatorId { kind: OperatorKind::Source, number })
    }

    /// Of the operator at a place in a stage's chain.
    #[must_use]
    pub fn state(&self, stage: StageId, place: usize) -> Option<OperatorId> {
        let number = *self.states.get(&stage)?.get(&place)?;
        Some(OperatorId { kind: OperatorKind::State, number })
    }

    /// Of the sink of a stage.
    #[must_use]
    pub fn sink(&self, stage: StageId) -> Option<OperatorId> {
        let number = *self.sinks.get(&stage)?;
        Some(OperatorId { kind: OperatorKind::Sink, number })
    }

    /// No identity of the job ever had this number or a higher one.
    #[must_use]
    pub fn unused(&self) -> u32 {
        self.unused
    }

    /// Gives each part the identity that it had in an earlier version of the plan. A part that was not in it
    /// gets a number from `unused` on, which is above all that the job ever had.
    pub fn carry(&mut self, earlier: &BTreeMap<OperatorId, OperatorId>, unused: u32) {
        let mut next = unused.max(earlier.values().map(|id| id.number + 1).max().unwrap_or(0));
        let mut renumber = |kind: OperatorKind, number: &mut u32| {
            *number = earlier.get(&OperatorId { kind, number: *number }).map_or(next, |id| id.number);
            next = next.max(*number + 1);
        };
        self.sources.values_mut().for_each(|number| renumber(OperatorKind::Source, number));
        let states = self.states.values_mut().flat_map(BTreeMap::values_mut);
        states.for_each(|number| renumber(OperatorKind::State, number));
        self.sinks.values_mut().for_each(|number| renumber(OperatorKind::Sink, number));
        self.unused = next;
    }
}

impl Plan {
    /// The parts that keep something between epochs: sources, then states, then sinks, each in the order in
    /// which rows reach them. The order is the same at any parallelism.
    #[must_use]
    pub fn parts(&self) -> Vec<Part<'_>> {
        let order = in_order(&self.stages, &self.exchanges);
        let stages = || order.iter().map(|id| self.stage(*id));
        let identities = &self.identities;
        let sources = stages().filter_map(|stage| {
            let spec = PartSpec::Source(stage.source.as_ref()?);
            Some(Part { id: identities.source(stage.id)?, stage: stage.id, spec })
        });
        let states = stages().flat_map(|stage| {
            stage.operators.iter().enumerate().filter_map(|(place, operator)| {
                let id = identities.state(stage.id, place)?;
                Some(Part { id, stage: stage.id, spec: PartSpec::State(operator) })
            })
        });
        let sinks = stages().filter_map(|stage| {
            let spec = PartSpec::Sink(stage.sink.as_ref()?);
            Some(Part { id: identities.sink(stage.id)?, stage: stage.id, spec })
        });
        sources.chain(states).chain(sinks).collect()
    }

    /// Stages from which rows only reach static sides: no checkpoint has anything of them.
    #[must_use]
    pub fn static_stages(&self) -> BTreeSet<StageId> {
        static_stages(&self.stages, &self.exchanges)
    }
}

/// The stages in an order that is the same at any parallelism: each stage follows its inputs, in their order.
/// The plan's own order depends on where chains are cut.
fn in_order(stages: &[Stage], exchanges: &[Exchange]) -> Vec<StageId> {
    let ends = stages.iter().map(|stage| stage.id).filter(|id| !exchanges.iter().any(|exchange| exchange.from == *id));
    let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
    // A stage is on the stack twice: the second time, its inputs are in the order.
    let mut rest: Vec<(StageId, bool)> = ends.map(|id| (id, false)).collect();
    rest.reverse();
    while let Some((id, inputs_done)) = rest.pop() {
        if inputs_done {
            order.push(id);
        } else if seen.insert(id) {
            rest.push((id, true));
            let inputs: Vec<StageId> = exchanges.iter().filter(|e| e.to == id).map(|exchange| exchange.from).collect();
            rest.extend(inputs.into_iter().rev().map(|from| (from, false)));
        }
    }
    order
}

/// Stages from which rows only reach static sides.
#[must_use]
pub fn static_stages(stages: &[Stage], exchanges: &[Exchange]) -> BTreeSet<StageId> {
    let mut found: BTreeSet<StageId> = BTreeSet::new();
    loop {
        let before = found.len();
        for stage in stages {
            let mut outputs = exchanges.iter().filter(|exchange| exchange.from == stage.id).peekable();
            let fed = outputs.peek().is_some()
                && outputs.all(|exchange| exchange.port.is_side() || found.contains(&exchange.to));
            if fed {
                found.insert(stage.id);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> OperatorId {
        OperatorId::parse(text).expect("an identity")
    }

    fn of(sources: &[u32], states: &[u32], unused: u32) -> Identities {
        let stage = |index: usize| StageId(index as u32);
        let sources = sources.iter().enumerate().map(|(index, number)| (stage(index), *number)).collect();
        let places = states.iter().copied().enumerate().collect();
        Identities { sources, states: BTreeMap::from([(StageId(7), places)]), sinks: BTreeMap::new(), unused }
    }

    #[test]
    fn parts_that_stay_keep_their_identities_and_no_number_is_used_again() {
        let earlier = [("source 1", "source 4"), ("state 0", "state 2")];
        let earlier = earlier.map(|(now, then)| (id(now), id(then))).into();
        let mut identities = of(&[0, 1], &[0, 1], 2);
        // The earlier plan had more parts, of which some were given up.
        identities.carry(&earlier, 9);
        assert_eq!(identities, of(&[9, 4], &[2, 10], 11));
        let mut identities = of(&[0, 1], &[0, 1], 2);
        identities.carry(&earlier, 0);
        assert_eq!(identities, of(&[5, 4], &[2, 6], 7));
    }

    #[test]
    fn identities_are_read_back() {
        for text in ["source 0", "state 12", "sink 4294967295"] {
            assert_eq!(id(text).to_string(), text);
        }
        assert_eq!(["state", "state x", "window 1", "state -1"].map(OperatorId::parse), [None; 4]);
    }
}
