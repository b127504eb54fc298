//! The changes of each job that a process remembers: those of users and those of the coordinator.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use anabranch_model::{Clock as _, Nanos, OperatorKind, Secrets, SystemClock};
use anabranch_runtime::{Change, Fate, How, Load, Reconfigured};
use schemars::JsonSchema;
use serde::Serialize;

use super::description::or_null;
use super::jobs::Refusal;
use crate::threads::lock;

/// Changes of a job that are remembered.
const KEPT: usize = 100;

/// The fate of a part of the job: of a source with its positions, the state of an operator, a sink, or a
/// static table.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Change")]
pub(super) struct ChangeDocument {
    #[schemars(extend("enum" = Fate::ALL.map(Fate::name)))]
    fate: &'static str,
    what: String,
    part: PartKind,
    /// Its number among the parts of its kind, for as long as the job has it; of a state, that of its
    /// operator in /state. Null for a static table.
    number: Option<u32>,
    /// Its stage in the plan that runs. Null: it is new.
    stage: Option<u32>,
    /// Its stage in the new plan. Null: it is lost or gone.
    next_stage: Option<u32>,
    /// How it gets to the tasks of the new plan: they stay where they are with what they have; it passes in
    /// memory to what takes its place; some of its state is read from the files of a checkpoint; some tasks
    /// open its table again. Null: it is not kept, or where tasks will be is decided when they begin.
    #[schemars(extend("enum" = or_null(How::ALL.map(How::name))))]
    how: Option<&'static str>,
    /// Its state in the newest checkpoint, each file once. Null: it has no state, or the job has no
    /// checkpoint yet.
    bytes: Option<u64>,
    /// The files that tasks read, each once. A task reads a whole file for the key groups that it gets of it.
    /// Null: not known, or it is not kept.
    loaded_bytes: Option<u64>,
    loads: Vec<LoadDocument>,
}

/// The kinds of parts of a job.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum PartKind {
    Source,
    State,
    Sink,
    #[serde(rename = "static table")]
    StaticTable,
}

/// What the tasks of a worker load or open.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Load")]
struct LoadDocument {
    worker: String,
    /// How many tasks.
    tasks: u32,
    /// How many key groups they load the state of. 0 for a table that is opened.
    key_groups: u32,
    /// The files that they read, each once. Null: the job has no checkpoint yet.
    bytes: Option<u64>,
}

/// A change that was requested. Dry runs are not listed.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(super) struct ChangeRecord {
    /// When it was requested, in milliseconds since 1970.
    at_ms: i64,
    /// The request in a few words.
    request: String,
    outcome: ChangeOutcome,
    /// The version of the plan then.
    version: Option<u32>,
    /// Why it was refused or undone.
    reason: Option<String>,
    took_ms: Option<f64>,
    changes: Vec<ChangeDocument>,
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum ChangeOutcome {
    #[default]
    Running,
    Settled,
    Unchanged,
    Undone,
    Refused,
}

/// The changes of each job that this process remembers.
#[derive(Default)]
pub struct ChangeHistories {
    jobs: Mutex<BTreeMap<String, History>>,
}

#[derive(Default)]
struct History {
    /// Number of the oldest record that is kept.
    first: usize,
    records: VecDeque<ChangeRecord>,
}

impl ChangeHistories {
    /// Carries out a change of a job, and remembers it. Returns how long it took, in milliseconds.
    pub(crate) fn record(
        &self,
        (job, request): (&str, String),
        secrets: &Secrets,
        carry_out: impl FnOnce() -> Result<Reconfigured, Refusal>,
    ) -> (Result<Reconfigured, Refusal>, f64) {
        let clock = SystemClock::new();
        let start = clock.now();
        let number = self.begin(job, request, clock.wall_ms());
        let outcome = carry_out();
        let took_ms = ms_since(&clock, start);
        self.end(job, number, |record| {
            record.took_ms = Some(took_ms);
            match &outcome {
                Ok(done) => {
                    record.outcome = if done.unchanged { ChangeOutcome::Unchanged } else { ChangeOutcome::Settled };
                    (record.version, record.changes) = (Some(done.version.0), documents(&done.changes));
                }
                Err(why) => {
                    let undone = matches!(why, Refusal::Undone(_));
                    record.outcome = if undone { ChangeOutcome::Undone } else { ChangeOutcome::Refused };
                    record.reason = Some(secrets.hide(&why.error().to_string()));
                }
            }
        });
        (outcome, took_ms)
    }

    /// A change begins. Returns its number.
    fn begin(&self, job: &str, request: String, at_ms: i64) -> usize {
        let mut jobs = lock(&self.jobs);
        let history = jobs.entry(job.to_owned()).or_default();
        history.records.push_back(ChangeRecord { at_ms, request, ..ChangeRecord::default() });
        if history.records.len() > KEPT {
            history.records.pop_front();
            history.first += 1;
        }
        history.first + history.records.len() - 1
    }

    fn end(&self, job: &str, number: usize, change: impl FnOnce(&mut ChangeRecord)) {
        let mut jobs = lock(&self.jobs);
        let history = jobs.get_mut(job);
        let record = history.and_then(|history| history.records.get_mut(number.checked_sub(history.first)?));
        if let Some(record) = record {
            change(record);
        }
    }

    /// Those of a job, oldest first.
    pub(super) fn of(&self, job: &str) -> Vec<ChangeRecord> {
        lock(&self.jobs).get(job).map(|history| history.records.iter().cloned().collect()).unwrap_or_default()
    }
}

pub(super) fn documents(changes: &[Change]) -> Vec<ChangeDocument> {
    changes.iter().map(ChangeDocument::from).collect()
}

impl From<&Change> for ChangeDocument {
    fn from(change: &Change) -> Self {
        let (part, passing) = (&change.part, change.passing.as_ref());
        ChangeDocument {
            fate: change.fate.name(),
            what: change.what.clone(),
            part: match part.id.map(|id| id.kind) {
                Some(OperatorKind::Source) => PartKind::Source,
                Some(OperatorKind::State) => PartKind::State,
                Some(OperatorKind::Sink) => PartKind::Sink,
                None => PartKind::StaticTable,
            },
            number: part.id.map(|id| id.number),
            stage: part.stage.map(|stage| stage.0),
            next_stage: part.next_stage.map(|stage| stage.0),
            how: passing.map(|passing| passing.how.name()),
            bytes: part.bytes,
            loaded_bytes: passing.and_then(|passing| passing.loaded_bytes),
            loads: passing.map(|passing| passing.loads.iter().map(LoadDocument::from).collect()).unwrap_or_default(),
        }
    }
}

impl From<&Load> for LoadDocument {
    fn from(load: &Load) -> Self {
        let Load { worker, tasks, key_groups, bytes } = load.clone();
        LoadDocument { worker, tasks, key_groups, bytes }
    }
}

pub(super) fn ms_since(clock: &SystemClock, start: Nanos) -> f64 {
    clock.now().since(start) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_changes_are_remembered() {
        let histories = ChangeHistories::default();
        let numbers: Vec<usize> = (0..KEPT + 5).map(|at| histories.begin("job", String::new(), at as i64)).collect();
        let end = |number: usize| histories.end("job", number, |record| record.outcome = ChangeOutcome::Settled);
        end(numbers[0]);
        end(numbers[KEPT + 4]);
        let kept = histories.of("job");
        assert_eq!((kept.len(), kept[0].at_ms), (KEPT, 5));
        assert!(
            kept.iter().all(|record| (record.outcome == ChangeOutcome::Settled) == (record.at_ms == KEPT as i64 + 4))
        );
        assert!(histories.of("other").is_empty());
    }
}
