//! Exchanges: they end a chain of operators and begin the next one.

use anabranch_dataflow::{ExchangeKind, Port};
use anabranch_model::StageId;

use super::Lowering;
use super::stream::Stream;

/// A stage after a hash exchange.
pub(super) struct KeyedStage {
    pub(super) name: &'static str,
    pub(super) label: Option<String>,
    pub(super) tasks: u32,
    /// See [`anabranch_dataflow::Stage::tasks_max`].
    pub(super) tasks_max: Option<u32>,
}

impl KeyedStage {
    /// Whether the stage can be part of a chain, because both have a single task.
    pub(super) fn continues(&self, chain: &Stream) -> bool {
        chain.parallelism == 1 && self.tasks == 1
    }
}

impl Lowering<'_> {
    /// The next stage of this name. `has_one_key`: all rows have the same key, so the stage has one task.
    pub(super) fn keyed_stage(&mut self, name: &'static str, has_one_key: bool) -> KeyedStage {
        if has_one_key {
            return KeyedStage { name, label: None, tasks: 1, tasks_max: Some(1) };
        }
        let (label, own) = self.own_parallelism(name);
        KeyedStage { name, label: Some(label), tasks: own.unwrap_or(self.parallelism), tasks_max: own }
    }

    /// The label of the next stage of this name, and its own number of tasks, if it has one.
    pub(super) fn own_parallelism(&mut self, name: &str) -> (String, Option<u32>) {
        let numbered = |number: u32| if number == 1 { name.to_owned() } else { format!("{name}#{number}") };
        let label = (1..).map(numbered).find(|label| !self.lowered.labels.contains_key(label)).unwrap_or_default();
        let own = self.own.get(&label).copied();
        self.lowered.labels.insert(label.clone(), own);
        (label, own)
    }

    /// Exchanges the physical columns as they are by these keys, to the next stage of this name.
    pub(super) fn exchange_by(&mut self, keys: Vec<usize>, stream: Stream, name: &'static str) -> Stream {
        let stage = self.keyed_stage(name, keys.is_empty());
        self.exchange_to(stage, keys, stream)
    }

    /// Exchanges the physical columns as they are by these keys.
    pub(super) fn exchange_to(&mut self, stage: KeyedStage, keys: Vec<usize>, stream: Stream) -> Stream {
        let next = stream.in_stage(stage);
        let from = self.close(stream);
        next.fed_by(from, Port::Main, ExchangeKind::Hash { keys })
    }

    /// Ends a chain with an exchange, and begins the next chain with the same columns.
    pub(super) fn exchange(
        &mut self,
        mut stream: Stream,
        kind: ExchangeKind,
        parallelism: u32,
        name: String,
    ) -> Stream {
        stream.materialize();
        let next = stream.continued(name, parallelism);
        let from = self.close(stream);
        next.fed_by(from, Port::Main, kind)
    }

    /// Adds the chain to the plan as a stage.
    pub(super) fn close(&mut self, mut stream: Stream) -> StageId {
        stream.operators.close(&self.origins.present);
        let lowered = &mut self.lowered;
        let id = StageId(u32::try_from(lowered.stages.len()).unwrap_or(u32::MAX));
        lowered.by_field.extend(stream.row_fields.then_some(id));
        let (stage, inputs) = stream.into_stage(id);
        lowered.stages.push(stage);
        lowered.exchanges.extend(inputs);
        id
    }
}
