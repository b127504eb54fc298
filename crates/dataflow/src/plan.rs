//! Stages, the exchanges between them, and their rendering for people.

use std::collections::BTreeMap;
use std::fmt;

use anabranch_model::{Error, KeyGroupRange, KeyGroups, PlanVersion, Result, StageId, TaskId};
use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

use crate::list::places;
use crate::{Identities, JobOptions, OperatorSpec, PlannedText, SinkSpec, SourceSpec, StageOrigin};

/// Version of the plan's serialized form.
pub const PLAN_FORMAT: u32 = 2;

/// A job's dataflow. Stages are in topological order: an exchange leads from an earlier stage to a later one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_FORMAT`] of the writer.
    pub format: u32,
    /// Version of the plan within its job.
    pub version: PlanVersion,
    /// Number of key groups, fixed for the life of the job.
    pub key_groups: KeyGroups,
    /// Options of the job.
    pub options: JobOptions,
    /// Stages; `stages[i].id` is `StageId(i)`.
    pub stages: Vec<Stage>,
    /// Exchanges between stages.
    pub exchanges: Vec<Exchange>,
    /// Which parts of the plan keep something between epochs, and under which identity it is filed.
    pub identities: Identities,
    /// Which key groups each task owns.
    pub assignment: Assignment,
    /// The text in which [`Stage::origin`] has places.
    #[serde(skip)]
    pub text: PlannedText,
}

/// Which task of a stage owns which key groups: rows of a hash exchange go to the owner of their key group,
/// and the owner has its state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// For each stage, the key groups of its tasks in their order.
    key_groups: BTreeMap<StageId, Vec<KeyGroupRange>>,
}

impl Assignment {
    /// Every task of a stage owns about as many key groups as any other, unless an option says how many each
    /// owns.
    fn of_options(groups: KeyGroups, options: &JobOptions, stages: &[Stage]) -> Assignment {
        let of = |stage: &Stage| {
            let even = || (0..stage.parallelism).map(|task| groups.share(task, stage.parallelism)).collect();
            let sizes = stage.label.as_ref().and_then(|label| options.stage_key_groups.get(label));
            let sizes = sizes.filter(|sizes| sizes.len() == stage.parallelism as usize);
            sizes.and_then(|sizes| groups.ranges(sizes)).unwrap_or_else(even)
        };
        Assignment { key_groups: stages.iter().map(|stage| (stage.id, of(stage))).collect() }
    }

    /// Ensures that each key group has exactly one owner in every stage: a row without one would be lost.
    fn check(&self, groups: KeyGroups, stages: &[Stage]) -> Result<()> {
        for stage in stages {
            let mut ranges = self.of(stage.id).to_vec();
            let tasks = ranges.len();
            ranges.retain(|range| range.first < range.end);
            ranges.sort_by_key(|range| range.first);
            let end = ranges.iter().try_fold(0, |end, range| (range.first == end).then_some(range.end));
            if tasks != stage.parallelism as usize || end != Some(groups.0) {
                return Err(Error::internal(format!("the key groups of {} are not divided among its tasks", stage.id)));
            }
        }
        Ok(())
    }

    /// The key groups of each task of a stage.
    #[must_use]
    pub fn of(&self, stage: StageId) -> &[KeyGroupRange] {
        self.key_groups.get(&stage).map_or(&[], Vec::as_slice)
    }

    /// The key groups of a task.
    #[must_use]
    pub fn of_task(&self, task: TaskId) -> KeyGroupRange {
        self.of(task.stage).get(task.index as usize).copied().unwrap_or(KeyGroupRange::EMPTY)
    }
}

/// Operators fused into one chain. Its rows come from its source or from the exchanges into its main port,
/// pass the operators in order, and go to its sink or to the exchanges that leave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Identifier.
    pub id: StageId,
    /// Short name for people.
    pub name: String,
    /// Number of tasks.
    pub parallelism: u32,
    /// Its name in the option `stage-parallelism`: the short name, and `#2` for the second stage of this
    /// name. `None`: its number of tasks is not set there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The largest number of tasks that it would have at any parallelism of the job; `None` if that is not
    /// bounded. The table's partitions or options bound it, or that all of its rows have one key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks_max: Option<u32>,
    /// Where rows come from, if not from exchanges.
    pub source: Option<SourceSpec>,
    /// The chain.
    pub operators: Vec<OperatorSpec>,
    /// Where rows go, if not to exchanges.
    pub sink: Option<SinkSpec>,
    /// The query of the rows for the sink, as text that does not depend on how it is run.
    pub query: Option<String>,
    /// Schema of the rows that leave the chain.
    pub schema: SchemaRef,
    /// Where it comes from.
    #[serde(skip)]
    pub origin: StageOrigin,
}

/// The edge between two stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Sending stage.
    pub from: StageId,
    /// Receiving stage.
    pub to: StageId,
    /// Where in the receiving chain the rows enter.
    pub port: Port,
    /// How rows are distributed over the receiving tasks.
    pub kind: ExchangeKind,
}

/// Where rows enter a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Port {
    /// At its head.
    Main,
    /// At its head, as the second input of the first operator.
    Second,
    /// At its head, as a further input of the first operator: the third one has the number 2.
    Further(usize),
    /// At the operator of this index, as its static side: read to its end before the main input begins.
    Side(usize),
}

impl Port {
    /// Whether its rows are read to their end before the main input begins.
    #[must_use]
    pub fn is_side(self) -> bool {
        matches!(self, Port::Side(_))
    }

    /// The port of an input of the first operator. The first one has the number 0.
    #[must_use]
    pub fn of_input(number: usize) -> Port {
        match number {
            0 => Port::Main,
            1 => Port::Second,
            number => Port::Further(number),
        }
    }

    /// The number of the first operator's input. `None`: a static side.
    #[must_use]
    pub fn input(self) -> Option<usize> {
        match self {
            Port::Main => Some(0),
            Port::Second => Some(1),
            Port::Further(number) => Some(number),
            Port::Side(_) => None,
        }
    }
}

/// How an exchange distributes rows over the receiving tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExchangeKind {
    /// Task i to task i; both stages have the same parallelism.
    Forward,
    /// By the key group of these columns.
    Hash {
        /// Indexes of the key columns in the sender's schema. Empty: all rows go to task 0.
        keys: Vec<usize>,
    },
    /// Every row to every task.
    Broadcast,
    /// Whole batches, round-robin.
    Rebalance,
}

impl Plan {
    /// The first version of a job's plan.
    #[must_use]
    pub fn new(key_groups: KeyGroups, options: JobOptions, stages: Vec<Stage>, exchanges: Vec<Exchange>) -> Plan {
        let identities = Identities::new(&stages, &exchanges);
        let assignment = Assignment::of_options(key_groups, &options, &stages);
        let (format, version) = (PLAN_FORMAT, PlanVersion(1));
        let text = PlannedText::default();
        Plan { format, version, key_groups, options, stages, exchanges, identities, assignment, text }
    }

    /// This version of the plan with other stages, whose parts have the identities of a new job.
    pub(crate) fn again(&self, stages: Vec<Stage>, exchanges: Vec<Exchange>) -> Plan {
        let (version, text) = (self.version, self.text.clone());
        Plan { version, text, ..Plan::new(self.key_groups, self.options.clone(), stages, exchanges) }
    }

    /// Sets the option `stage-key-groups`, and divides the key groups so.
    #[must_use]
    pub fn with_key_groups(mut self, shares: BTreeMap<String, Vec<u16>>) -> Plan {
        self.options.stage_key_groups = shares;
        self.assignment = Assignment::of_options(self.key_groups, &self.options, &self.stages);
        self
    }

    /// Ensures that this version can run the plan.
    pub fn check(&self) -> Result<()> {
        if self.format != PLAN_FORMAT {
            return Err(Error::user(format!("the plan has format {}, this version reads {PLAN_FORMAT}", self.format))
                .remedy("plan the query again with this version"));
        }
        self.assignment.check(self.key_groups, &self.stages)
    }

    /// The stage with this identifier.
    #[must_use]
    pub fn stage(&self, id: StageId) -> &Stage {
        &self.stages[id.0 as usize]
    }

    /// Exchanges from a stage.
    pub fn outputs(&self, id: StageId) -> impl Iterator<Item = &Exchange> {
        self.exchanges.iter().filter(move |e| e.from == id)
    }

    /// Exchanges into a stage.
    pub fn inputs(&self, id: StageId) -> impl Iterator<Item = &Exchange> {
        self.exchanges.iter().filter(move |e| e.to == id)
    }
}

/// Stages, exchanges and parallelism, as `explain` shows them.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for stage in &self.stages {
            writeln!(f, "{}: {} (parallelism {})", stage.id, stage.name, stage.parallelism)?;
            if let Some(source) = &stage.source {
                writeln!(f, "  source {source}")?;
            }
            for exchange in self.inputs(stage.id).filter(|e| !e.port.is_side()) {
                let input = match exchange.port {
                    Port::Second => "second input ".to_owned(),
                    Port::Further(number) => format!("input {} ", number + 1),
                    Port::Main | Port::Side(_) => String::new(),
                };
                writeln!(f, "  {input}from {}: {}", exchange.from, exchange.kind)?;
            }
            for (index, operator) in stage.operators.iter().enumerate() {
                writeln!(f, "  {operator}")?;
                for exchange in self.inputs(stage.id).filter(|e| e.port == Port::Side(index)) {
                    writeln!(f, "    static side from {}: {}", exchange.from, exchange.kind)?;
                }
            }
            if let Some(sink) = &stage.sink {
                writeln!(f, "  sink {sink}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for ExchangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExchangeKind::Forward => f.write_str("forward"),
            ExchangeKind::Hash { keys } => {
                write!(f, "hash by {}", places(keys.iter().copied()))
            }
            ExchangeKind::Broadcast => f.write_str("broadcast"),
            ExchangeKind::Rebalance => f.write_str("rebalance"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_group_has_one_owner() {
        let groups = KeyGroups(128);
        let stage = Stage {
            id: StageId(0),
            name: "count".into(),
            parallelism: 3,
            label: None,
            tasks_max: None,
            source: None,
            operators: Vec::new(),
            sink: None,
            query: None,
            schema: SchemaRef::new(arrow_schema::Schema::empty()),
            origin: StageOrigin::default(),
        };
        let plan = Plan::new(groups, JobOptions::default(), vec![stage], Vec::new());
        plan.check().expect("as it was made");
        let range = |first, end| KeyGroupRange { first, end };
        let check = |ranges: &[KeyGroupRange]| {
            let assignment = Assignment { key_groups: BTreeMap::from([(StageId(0), ranges.to_vec())]) };
            Plan { assignment, ..plan.clone() }.check()
        };
        check(&[range(50, 128), range(7, 7), range(0, 50)]).expect("in any order");
        for wrong in [
            &[range(0, 50), range(50, 128)][..],
            &[range(0, 50), range(50, 60), range(61, 128)],
            &[range(0, 50), range(49, 60), range(60, 128)],
            &[range(0, 50), range(50, 60), range(60, 127)],
            &[],
        ] {
            let error = check(wrong).expect_err("not divided").to_string();
            assert!(error.contains("the key groups of stage 0"), "{error}");
        }
        let error = Plan { format: 3, ..plan }.check().expect_err("an old plan").to_string();
        assert!(error.contains("the plan has format 3"), "{error}");
    }
}
