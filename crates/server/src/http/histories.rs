//! The changes of each job that a process remembers: those of users and those of the coordinator.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_model::{Clock as _, Nanos, Secrets, SystemClock};
use anabranch_runtime::{Change, Load, Reconfigured};
use serde::Serialize;

use super::jobs::Refusal;

/// Changes of a job that are remembered.
const KEPT: usize = 100;

/// The fate of a part of a job.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ChangeDocument {
    fate: &'static str,
    what: String,
    /// `source`, `state`, `sink`, or `static table`.
    part: String,
    /// Its number among the parts of its kind, as long as the job has it.
    number: Option<u32>,
    /// Its stage in the plan that runs.
    stage: Option<u32>,
    /// Its stage in the new plan.
    next_stage: Option<u32>,
    /// How it gets to the tasks of the new plan, if it is kept and that is known.
    how: Option<&'static str>,
    /// Of its state in the newest checkpoint.
    bytes: Option<u64>,
    /// Of the files that tasks of the new plan read.
    loaded_bytes: Option<u64>,
    loads: Vec<LoadDocument>,
}

/// What the tasks of a worker load or open.
#[derive(Clone, Debug, Serialize)]
struct LoadDocument {
    worker: String,
    tasks: u32,
    key_groups: u32,
    bytes: Option<u64>,
}

/// A change of a job.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ChangeRecord {
    at_ms: i64,
    /// The request.
    request: String,
    outcome: &'static str,
    version: Option<u32>,
    reason: Option<String>,
    took_ms: Option<f64>,
    changes: Vec<ChangeDocument>,
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
                    record.outcome = if done.unchanged { "unchanged" } else { "settled" };
                    (record.version, record.changes) = (Some(done.version.0), documents(&done.changes));
                }
                Err(why) => {
                    record.outcome = if matches!(why, Refusal::Undone(_)) { "undone" } else { "refused" };
                    record.reason = Some(secrets.hide(&why.error().to_string()));
                }
            }
        });
        (outcome, took_ms)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, History>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change begins. Returns its number.
    fn begin(&self, job: &str, request: String, at_ms: i64) -> usize {
        let mut jobs = self.lock();
        let history = jobs.entry(job.to_owned()).or_default();
        let (version, reason, took_ms, changes) = (None, None, None, Vec::new());
        history.records.push_back(ChangeRecord {
            at_ms,
            request,
            outcome: "running",
            version,
            reason,
            took_ms,
            changes,
        });
        if history.records.len() > KEPT {
            history.records.pop_front();
            history.first += 1;
        }
        history.first + history.records.len() - 1
    }

    fn end(&self, job: &str, number: usize, change: impl FnOnce(&mut ChangeRecord)) {
        let mut jobs = self.lock();
        let history = jobs.get_mut(job);
        let record = history.and_then(|history| history.records.get_mut(number.checked_sub(history.first)?));
        if let Some(record) = record {
            change(record);
        }
    }

    /// Those of a job, oldest first.
    pub(super) fn of(&self, job: &str) -> Vec<ChangeRecord> {
        self.lock().get(job).map(|history| history.records.iter().cloned().collect()).unwrap_or_default()
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
            part: part.id.map_or_else(|| "static table".to_owned(), |id| id.kind.to_string()),
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
        let end = |number: usize| histories.end("job", number, |record| record.outcome = "settled");
        end(numbers[0]);
        end(numbers[KEPT + 4]);
        let kept = histories.of("job");
        assert_eq!((kept.len(), kept[0].at_ms), (KEPT, 5));
        assert!(kept.iter().all(|record| (record.outcome == "settled") == (record.at_ms == KEPT as i64 + 4)));
        assert!(histories.of("other").is_empty());
    }
}
