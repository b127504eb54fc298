//! Describes the parts of a plan that keep something between epochs. A checkpoint contains the descriptions; the parts of
//! another version of the plan are recognized by them.

pub(crate) mod fits;

use std::collections::BTreeSet;

use anabranch_dataflow::{
    AggregateSpec, MultiJoinSpec, NamedExpr, OperatorSpec, PartSpec, Plan, SourceSpec, StateSpec, StreamJoinKind,
    StreamJoinSpec, StreamSideSpec, readable,
};
use anabranch_model::{HASH_SEED, OperatorId, StageId, hash_bytes};
use anabranch_state::Lineage;
use arrow::datatypes::FieldRef;

/// Version of the planner's wording of queries: raised whenever the planner words the same query differently than
/// before.
const HOW: u32 = 5;

/// Whether two queries with these hashes are certainly different.
pub(crate) fn differ(then: &str, now: &str) -> bool {
    then != now && !then.is_empty() && then.split('-').next() == now.split('-').next()
}

/// A part of a plan that keeps something between epochs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) id: OperatorId,
    pub(crate) description: String,
    /// Unknown for checkpoints of earlier versions.
    pub(crate) lineage: Option<Lineage>,
}

impl Part {
    /// Its description in the words of users.
    pub(crate) fn shown(&self) -> String {
        readable(&self.description)
    }

    /// What it is, for people.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.id.kind, self.shown())
    }

    /// The line of a checkpoint's outline.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.id, self.description)
    }
}

/// The parts of a plan, in its order.
pub(crate) fn outline(plan: &Plan) -> Vec<Part> {
    let part = |part: anabranch_dataflow::Part<'_>| {
        let description = match part.spec {
            PartSpec::Source(source) => describe_source(source),
            PartSpec::State(spec) => describe(spec),
            PartSpec::Sink(sink) => format!("{} ({})", sink.table, sink.connector.connector),
        };
        Part { id: part.id, description, lineage: Some(lineage(plan, part.stage)) }
    };
    plan.parts().into_iter().map(part).collect()
}

pub(crate) fn describe_source(source: &SourceSpec) -> String {
    format!("{} ({})", source.table, source.connector.connector)
}

/// The parts that a checkpoint describes. `None`: a line cannot be read.
pub(crate) fn read_outline(lines: &[String], lineage: &[Lineage]) -> Option<Vec<Part>> {
    let part = |(index, line): (usize, &String)| {
        let (id, description) = line.split_once(": ")?;
        let (id, lineage) = (OperatorId::parse(id)?, lineage.get(index).cloned());
        Some(Part { id, description: description.to_owned(), lineage })
    };
    lines.iter().enumerate().map(part).collect()
}

/// Aggregates are the same if their states are; the expressions that feed them may change. Times of windows are those of a zone.
pub(crate) fn describe(spec: StateSpec<'_>) -> String {
    let zone = spec.zone().map_or_else(String::new, |zone| format!(", in the time zone {zone}"));
    describe_rows(spec) + &zone
}

fn describe_rows(spec: StateSpec<'_>) -> String {
    let keys = |keys: &[NamedExpr]| {
        let keys: Vec<String> = keys.iter().map(|key| format!("{} {}", key.name, key.data_type)).collect();
        keys.join(", ")
    };
    let aggregates = |aggregates: &[AggregateSpec]| {
        let aggregates = aggregates.iter().map(|a| {
            let distinct = if a.distinct { "distinct " } else { "" };
            format!("{}({distinct}) {}", a.function, a.data_type)
        });
        aggregates.collect::<Vec<_>>().join(", ")
    };
    match spec {
        StateSpec::StreamJoin(spec) => describe_join(spec),
        StateSpec::MultiJoin(spec) => describe_multi_join(spec),
        StateSpec::WindowAggregate(spec) => {
            let (by, of) = (keys(&spec.keys), aggregates(&spec.aggregates));
            format!("aggregate, window {}, by [{by}]: [{of}]", spec.window)
        }
        StateSpec::Rank(spec) => {
            let columns = columns(spec.schema.fields());
            let order = spec.order.iter().map(|of| match (of.descending, of.nulls_first) {
                (false, false) => "ascending",
                (false, true) => "ascending, NULL first",
                (true, false) => "descending, NULL last",
                (true, true) => "descending",
            });
            let order = order.collect::<Vec<_>>().join("; ");
            let kind = if spec.updating { "updating " } else { "" };
            let window = spec.window.map_or_else(String::new, |key| format!(", windows by key {key}"));
            format!("first {} of {kind}[{columns}], {} keys, {order}{window}", spec.limit, spec.keys)
        }
        StateSpec::Deduplicate(spec) => {
            let columns = columns(spec.kept());
            let order = spec.time.map_or_else(|| "as they come".to_owned(), |time| format!("by column {time}"));
            format!("deduplicate [{columns}], {} keys, {order}", spec.keys)
        }
        StateSpec::Over(spec) => {
            let columns = columns(spec.schema.fields());
            let order = spec.time.map_or_else(|| "as they come".to_owned(), |time| format!("by column {time}"));
            let of = aggregates(&spec.functions);
            format!("over {}, {order}, of [{columns}], {} keys: [{of}]", spec.frame, spec.keys)
        }
        StateSpec::Sort(spec) => {
            let columns = columns(spec.schema.fields());
            let time = spec.time.map_or_else(String::new, |time| format!(" by event time {time}"));
            format!("sort{time} of [{columns}]")
        }
        StateSpec::Limit(spec) => format!("first rows after {}", spec.skip),
        StateSpec::GroupAggregate(spec) => {
            // Values that may be taken back are kept.
            let kind = match (spec.weight.is_some(), spec.emission.is_some()) {
                (true, _) => "updating aggregate of an updating stream",
                (false, true) => "updating aggregate of windows",
                (false, false) => "updating aggregate",
            };
            format!("{kind}, by [{}]: [{}]", keys(&spec.keys), aggregates(&spec.aggregates))
        }
    }
}

fn describe_join(spec: &StreamJoinSpec) -> String {
    let (left, right) = (side(&spec.left), side(&spec.right));
    // Rows have the numbers of the matches that satisfy it.
    let counts = spec.kind != StreamJoinKind::Inner && spec.versions.is_none();
    let filter = spec.filter.as_ref().filter(|_| counts);
    let filter = filter.map_or_else(String::new, |filter| format!(", where {filter}"));
    let nulls = nulls_equal(spec.nulls_equal);
    let versions = spec.versions.map_or_else(String::new, |time| format!(", versions by #{time}"));
    format!("join {:?} by {} columns of {left} and {right}{nulls}{versions}{filter}", spec.kind, spec.keys)
}

fn describe_multi_join(spec: &MultiJoinSpec) -> String {
    let inputs = spec.inputs.iter().map(|input| {
        let kind = if input.outer { "outer " } else { "" };
        format!("{kind}{}", side(&input.side))
    });
    let (inputs, nulls) = (inputs.collect::<Vec<_>>().join(" and "), nulls_equal(spec.nulls_equal));
    format!("join by {} columns of {inputs}{nulls}", spec.keys)
}

fn side(side: &StreamSideSpec) -> String {
    let kind = if side.updating { "updating " } else { "" };
    format!("{kind}[{}]", columns(side.schema.fields()))
}

fn nulls_equal(are: bool) -> &'static str {
    if are { ", NULL equals NULL" } else { "" }
}

fn columns(fields: &[FieldRef]) -> String {
    let columns = fields.iter().map(|field| format!("{} {}", field.name(), field.data_type()));
    columns.collect::<Vec<_>>().join(", ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_an_outline_are_read_back() {
        let lines = ["source 0: events (kafka)", "state 12: aggregate, by [a: b]: []"].map(str::to_owned);
        let lineage = Lineage { from: vec!["events".into()], ..Lineage::default() };
        let found = read_outline(&lines, std::slice::from_ref(&lineage)).expect("parts");
        assert_eq!((&*found[0].description, &*found[1].description), ("events (kafka)", "aggregate, by [a: b]: []"));
        assert_eq!((&found[0].lineage, &found[1].lineage), (&Some(lineage), &None));
        assert_eq!(found.iter().map(Part::line).collect::<Vec<_>>(), lines);
        assert_eq!(read_outline(&["window 0: x".to_owned()], &[]), None);
    }
}
