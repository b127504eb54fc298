//! Starts a new job from a savepoint: with the state and positions of the parts that its query still has.
//! These parts keep their identities.
//!
//! The new job has its own name, which distinguishes its results from those of the savepoint's job; that job
//! may still be running.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dataflow::{KeptPart, Plan};
use anabranch_model::{Error, OperatorId, OperatorKind, Result};
use anabranch_state::{Contents, Manifest, Savepoint, Store, TaskState};

use crate::change::fits;
use crate::change::reconfiguration::{Change, Comparison};
use crate::durable::takeover::{Check, check};
use crate::task::event_time;
use crate::task::job_state::JobState;

/// A savepoint that a job starts from.
#[derive(Clone, Debug)]
pub struct Origin {
    store: Store,
    id: String,
    manifest: Manifest,
}

impl Origin {
    /// Opens the savepoint in this store.
    pub fn open(store: Store) -> Result<Origin> {
        match Savepoint::read(&store)? {
            Some(savepoint) => Ok(Origin { store, id: savepoint.id(), manifest: savepoint.manifest }),
            None => Err(Error::user("there is no savepoint")
                .at(store.place().to_owned())
                .remedy("take one with: anabranch savepoint CHECKPOINT-DIRECTORY PATH")),
        }
    }

    /// The place of the savepoint.
    pub(crate) fn place(&self) -> &str {
        self.store.place()
    }

    /// The sources, operators with state, and sinks of the savepoint's job.
    #[must_use]
    pub fn parts(&self) -> &[KeptPart] {
        &self.manifest.parts
    }

    /// The savepoint's unique identifier.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether the job with these checkpoints started from this savepoint and has checkpoints of its own:
    /// then it resumes from those. An error if it has checkpoints and started otherwise.
    pub fn is_behind(&self, checkpoints: &Store) -> Result<bool> {
        let Some(contents) = Contents::read_if_any(checkpoints)? else { return Ok(false) };
        match contents.newest()?.manifest.origin.as_ref() == Some(&self.id) {
            true => Ok(true),
            false => Err(self.not_of(checkpoints)),
        }
    }

    /// The error for checkpoints of a job that did not start from this savepoint.
    pub(crate) fn not_of(&self, checkpoints: &Store) -> Error {
        Error::user(format!("the checkpoints there belong to a job that did not start from savepoint {}", self.id))
            .at(checkpoints.place().to_owned())
            .remedy("give a new place; or omit the savepoint, and the job resumes from the last checkpoint there")
    }

    /// The fate of each part that keeps something, of the savepoint and of the plan.
    pub fn compare(&self, plan: &Plan) -> Result<Vec<Change>> {
        let (comparison, late) = self.late_in(plan)?;
        Ok(comparison.changes(&self.manifest.tasks.iter().collect::<Vec<_>>(), &late))
    }

    /// The sources of a plan that will have late rows, with the reasons.
    pub fn late(&self, plan: &Plan) -> Result<Vec<String>> {
        let (comparison, late) = self.late_in(plan)?;
        Ok(comparison.titles(&late))
    }

    fn late_in(&self, plan: &Plan) -> Result<(Comparison, BTreeMap<usize, String>)> {
        let comparison = self.comparison(plan)?;
        let carried = comparison.carry(plan, self.manifest.unused);
        let tasks: Vec<&TaskState> = self.manifest.tasks.iter().collect();
        let sources = tasks.iter().filter_map(|task| task.source.as_ref());
        let id = |number| OperatorId { kind: OperatorKind::Source, number };
        let before = sources.map(|source| (id(source.number), source.event_time.clone())).collect();
        let late = event_time::late_sources(&carried, &before, &tasks)?;
        Ok((comparison, late))
    }

    fn comparison(&self, plan: &Plan) -> Result<Comparison> {
        fits::check_key_groups(&self.manifest, plan.key_groups).map_err(|e| e.at(self.store.place().to_owned()))?;
        Ok(Comparison::of(self.manifest.parts.clone(), plan.kept_parts()))
    }

    /// The plan, with the savepoint's identities for parts that it has in common with the savepoint.
    pub(crate) fn carry(&self, plan: &Plan) -> Result<Plan> {
        let comparison = self.comparison(plan)?;
        Ok(comparison.carry(plan, self.manifest.unused))
    }

    /// The state of the parts of a plan that [carries](Origin::carry) the savepoint's identities.
    pub(crate) fn load(&self, plan: &Plan) -> JobState {
        JobState::from_tasks(&self.store, self.of_plan(plan).iter())
    }

    /// Checks that the files of the parts of a plan that carries the savepoint's identities are undamaged.
    pub(crate) fn check(&self, plan: &Plan) -> Result<()> {
        check(&self.store, self.of_plan(plan).iter(), Check::Content)
    }

    fn of_plan(&self, plan: &Plan) -> Vec<TaskState> {
        let parts: BTreeSet<OperatorId> = plan.parts().iter().map(|part| part.id).collect();
        self.manifest.tasks.iter().map(|task| of_parts(task, &parts)).collect()
    }
}

/// A task's snapshot, reduced to these parts. Prepared results of sinks do not belong to the new job.
fn of_parts(task: &TaskState, parts: &BTreeSet<OperatorId>) -> TaskState {
    let mut task = TaskState { sink: None, ..task.clone() };
    let is = |kind, number| parts.contains(&OperatorId { kind, number });
    task.source = task.source.filter(|source| is(OperatorKind::Source, source.number));
    if let Some(source) = &mut task.source {
        source.dead_letters.clear();
        source.late_rows.clear();
    }
    task.operators.retain(|operator| is(OperatorKind::State, operator.number));
    task
}

#[cfg(test)]
mod tests {
    use anabranch_model::{Epoch, StageId, TaskId};
    use anabranch_state::{Blob, OperatorState, Prepared, SinkState, SourceState};

    use super::*;

    /// Event time of the partitions continues, and the new job does not publish results of the savepoint's
    /// job.
    #[test]
    fn positions_and_watermarks_are_kept_and_what_sinks_had_prepared_is_left_out() {
        let blob = Blob { name: "prepared/1".into(), bytes: 1, crc32: 1 };
        let prepared = vec![Prepared { epoch: Epoch(3), task: 0, blob }];
        let positions = BTreeMap::from([("p".to_owned(), "40".to_owned())]);
        let watermarks_ms = BTreeMap::from([("p".to_owned(), 1000)]);
        let source = |number, prepared: Vec<Prepared>| SourceState {
            number,
            positions: positions.clone(),
            watermarks_ms: watermarks_ms.clone(),
            event_time: None,
            dead_letters: prepared.clone(),
            late_rows: prepared,
        };
        let operator = |number| OperatorState { number, watermark_ms: 900, files: Vec::new() };
        let task = TaskState {
            task: TaskId { stage: StageId(0), index: 0 },
            finished: false,
            source: Some(source(0, prepared.clone())),
            operators: vec![operator(0), operator(1)],
            sink: Some(SinkState { number: 0, prepared }),
        };
        let parts = ["source 0", "state 1", "sink 0"].map(|text| OperatorId::parse(text).expect("an identity")).into();
        let source = Some(source(0, Vec::new()));
        assert_eq!(
            of_parts(&task, &parts),
            TaskState { source, operators: vec![operator(1)], sink: None, ..task.clone() }
        );
        let none = of_parts(&task, &BTreeSet::new());
        assert_eq!(none, TaskState { source: None, operators: Vec::new(), sink: None, ..task });
    }
}
