//! The parts of a plan that keep something between epochs, as a checkpoint lists them. By that list the parts
//! of another version of the plan are recognized.

use std::collections::BTreeSet;

use anabranch_model::{HASH_SEED, OperatorId, StageId, hash_bytes};
use serde::{Deserialize, Serialize};

use crate::{OperatorSpec, Part, PartKey, PartSpec, Plan, SinkSpec, SourceSpec, Stateful};

/// Version of the planner's wording of queries: raised whenever the planner words the same query differently
/// than before.
const HOW: u32 = 1;

/// A part that keeps something, independent of where a plan has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptPart {
    /// Its identity in the job.
    pub id: OperatorId,
    /// What it keeps.
    pub key: PartKey,
    /// What is around it: distinguishes parts with the same key.
    pub lineage: Lineage,
}

/// The surroundings of a part of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lineage {
    /// Names of the tables that are read for it.
    pub from: Vec<String>,
    /// [Digests](PartKey::digest) of the states that its rows pass through, its own included.
    pub through: Vec<String>,
    /// Names of the tables that receive its rows.
    pub to: Vec<String>,
    /// A hash of the query for its rows, independent of the parallelism. Empty: unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub how: String,
}

impl KeptPart {
    /// What it is, for people.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {}", self.id.kind, self.key)
    }
}

impl Lineage {
    /// Whether the queries are certainly different. Hashes of different [`HOW`] cannot be compared.
    #[must_use]
    pub fn differs(&self, other: &Lineage) -> bool {
        let (then, now) = (&self.how, &other.how);
        then != now && !then.is_empty() && then.split('-').next() == now.split('-').next()
    }
}

impl SourceSpec {
    /// Its table, as checkpoints know it.
    #[must_use]
    pub fn key(&self) -> PartKey {
        PartKey::Table { table: self.table.clone(), connector: self.connector.connector.clone() }
    }
}

impl SinkSpec {
    /// Its table, as checkpoints know it.
    #[must_use]
    pub fn key(&self) -> PartKey {
        PartKey::Table { table: self.table.clone(), connector: self.connector.connector.clone() }
    }
}

impl Plan {
    /// The [parts](Plan::parts) that keep something, in their order.
    #[must_use]
    pub fn kept_parts(&self) -> Vec<KeptPart> {
        let key = |part: &Part<'_>| match part.spec {
            PartSpec::Source(source) => Some(source.key()),
            PartSpec::State(operator) => operator.stateful().map(Stateful::key),
            PartSpec::Sink(sink) => Some(sink.key()),
        };
        let kept = |part: Part<'_>| Some(KeptPart { id: part.id, key: key(&part)?, lineage: self.lineage(part.stage) });
        self.parts().into_iter().filter_map(kept).collect()
    }

    /// The tables before and after a stage, itself included, and the processing of the rows between them.
    fn lineage(&self, stage: StageId) -> Lineage {
        let (mut before, mut behind) = (BTreeSet::from([stage]), BTreeSet::from([stage]));
        // One round per exchange is enough for the longest path.
        for _ in &self.exchanges {
            for exchange in &self.exchanges {
                if before.contains(&exchange.to) {
                    before.insert(exchange.from);
                }
                if behind.contains(&exchange.from) {
                    behind.insert(exchange.to);
                }
            }
        }
        let read = before.iter().filter_map(|id| Some(self.stage(*id).source.as_ref()?.table.clone()));
        let written = behind.iter().filter_map(|id| Some(self.stage(*id).sink.as_ref()?.table.clone()));
        let operators = before.union(&behind).flat_map(|id| &self.stage(*id).operators);
        let states = operators.filter_map(OperatorSpec::stateful).map(|state| state.key().digest());
        let sorted = |names: BTreeSet<String>| names.into_iter().collect();
        let (from, through, to) = (sorted(read.collect()), sorted(states.collect()), sorted(written.collect()));
        Lineage { from, through, to, how: self.how(before.union(&behind)) }
    }

    /// A hash of the processing of rows by these stages.
    fn how<'a>(&self, stages: impl Iterator<Item = &'a StageId>) -> String {
        let queries: Vec<&str> = stages.filter_map(|id| self.stage(*id).query.as_deref()).collect();
        match queries.as_slice() {
            [] => String::new(),
            queries => format!("{HOW}-{:016x}", hash_bytes(HASH_SEED, queries.join("\n").as_bytes())),
        }
    }
}
