//! Starts a new job from a savepoint: with the state and the positions for which its query still has a place, under the
//! new query's numbers.
//!
//! The new job has its own name, which distinguishes its results from those of the savepoint's job; that job may still
//! be running.

use std::collections::BTreeMap;
use std::fmt;

use anabranch_dataflow::Plan;
use anabranch_model::{Error, Result};
use anabranch_state::{Contents, Lineage, Manifest, Savepoint, Store, TaskState};

use crate::durable::{JobState, add_task, parallelism_of};
use crate::matching::{Kind, Matching, Part, pair, parts};
use crate::outline::{Outline, differ, former};

/// A savepoint that a job starts from.
#[derive(Clone, Debug)]
pub struct Origin {
    store: Store,
    id: String,
    manifest: Manifest,
}

/// What happens to a part when a job starts from a savepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It resumes where it was.
    Kept,
    /// It is not in the savepoint.
    New,
    /// The query has no place for its state.
    Lost,
    /// A table that is no longer written.
    Gone,
}

/// What happens to one part of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What becomes of it.
    pub fate: Fate,
    /// What it is.
    pub what: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fate = match self.fate {
            Fate::Kept => "kept",
            Fate::New => "new",
            Fate::Lost => "lost",
            Fate::Gone => "gone",
        };
        write!(f, "{fate:<6}{}", self.what)
    }
}

impl Origin {
    /// The savepoint at a place.
    pub fn open(store: Store) -> Result<Origin> {
        match Savepoint::read(&store)? {
            Some(savepoint) => Ok(Origin { store, id: savepoint.id(), manifest: savepoint.manifest }),
            None => Err(Error::user("there is no savepoint")
                .at(store.place().to_owned())
                .remedy("take one with: anabranch savepoint CHECKPOINT-DIRECTORY PATH")),
        }
    }

    /// The savepoint's unique identifier.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether the job with these checkpoints started from this savepoint and has checkpoints of its own: then it
    /// resumes from those. An error if it has checkpoints and started otherwise.
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

    /// What happens to each part with state, of the savepoint and of the plan.
    pub fn compare(&self, plan: &Plan) -> Result<Vec<Change>> {
        let (then, now, matching) = self.matching(&Outline::new(plan))?;
        let mut changes = Vec::new();
        for (index, part) in then.iter().enumerate() {
            changes.push(match matching.pairs.get(&index) {
                Some(to) => Change { fate: Fate::Kept, what: self.kept(part, &now[*to]) },
                None if part.kind == Kind::Sink => {
                    let why = match matching.undecided.contains(&index) {
                        true => "it matches several sinks of the query, so nothing of it would be kept",
                        false => "no longer written",
                    };
                    Change { fate: Fate::Gone, what: format!("sink {}: {why}", part.description) }
                }
                None => {
                    let why = match matching.undecided.contains(&index) {
                        true => ": several identical parts of the query or of the savepoint cannot be distinguished",
                        false => ": the query has no such part",
                    };
                    Change { fate: Fate::Lost, what: format!("{}{why}", self.describe(part)) }
                }
            });
        }
        for (index, part) in now.iter().enumerate() {
            if !matching.pairs.values().any(|taken| *taken == index) {
                let description = &part.description;
                let what = match part.kind {
                    Kind::Source => format!("source {description}: begins where its options say"),
                    Kind::State => format!("state of {description}: begins empty"),
                    Kind::Sink => format!("sink {description}"),
                };
                changes.push(Change { fate: Fate::New, what });
            }
        }
        Ok(changes)
    }

    fn matching(&self, outline: &Outline) -> Result<(Vec<Part>, Vec<Part>, Matching)> {
        let at = |error: Error| error.at(self.store.place().to_owned());
        let mut then = parts(&self.manifest.outline, &self.manifest.lineage).map_err(at)?;
        let now = parts(&outline.lines, &outline.lineage)?;
        for part in &mut then {
            let through = part.lineage.iter_mut().flat_map(|lineage| &mut lineage.through);
            for description in std::iter::once(&mut part.description).chain(through) {
                *description = former::as_now(description, now.iter().map(|part| &*part.description)).to_owned();
            }
        }
        let matching = pair(&then, &now);
        Ok((then, now, matching))
    }

    fn kept(&self, then: &Part, now: &Part) -> String {
        let mut text = self.describe(then);
        if let (Kind::State, Some(before), Some(after)) = (then.kind, &then.lineage, &now.lineage) {
            let tables = |lineage: &Lineage| format!("{} -> {}", lineage.from.join(", "), lineage.to.join(", "));
            let (tables_before, tables_after) = (tables(before), tables(after));
            if tables_before != tables_after {
                text.push_str(&format!(" ({tables_before}, now {tables_after})"));
            }
            if differ(&before.how, &after.how) {
                text.push_str(", continues with a changed query");
            }
        }
        text
    }

    fn describe(&self, part: &Part) -> String {
        let tasks = || self.manifest.tasks.iter();
        match part.kind {
            Kind::Source => {
                let sources = tasks().filter_map(|task| task.source.as_ref());
                let positions: usize =
                    sources.filter(|source| source.number == part.number).map(|source| source.positions.len()).sum();
                format!("source {}: positions in {positions} partitions", part.description)
            }
            Kind::State => {
                let operators = tasks().flat_map(|task| &task.operators).filter(|op| op.number == part.number);
                let rows: u64 = operators.flat_map(|operator| &operator.files).map(|file| file.rows).sum();
                format!("state of {}: {rows} rows", part.description)
            }
            Kind::Sink => format!("sink {}", part.description),
        }
    }

    /// The state by the numbers of this outline.
    pub(crate) fn load(&self, outline: &Outline) -> Result<JobState> {
        let (then, now, matching) = self.matching(outline)?;
        let numbers = |kind: Kind| -> BTreeMap<usize, usize> {
            let pairs = matching.pairs.iter().filter(|(from, _)| then[**from].kind == kind);
            pairs.map(|(from, to)| (then[*from].number, now[*to].number)).collect()
        };
        let (sources, operators) = (numbers(Kind::Source), numbers(Kind::State));
        let mut state = JobState::default();
        let tasks: Vec<&TaskState> = self.manifest.tasks.iter().collect();
        for task in &tasks {
            let renumbered = renumbered(task, &sources, &operators);
            add_task(&self.store, &mut state, &renumbered, parallelism_of(task, &tasks))?;
        }
        Ok(state)
    }
}

/// A task's snapshot under the numbers of another plan, without parts that have no place there. What sinks have
/// prepared does not belong to the new job.
fn renumbered(task: &TaskState, sources: &BTreeMap<usize, usize>, operators: &BTreeMap<usize, usize>) -> TaskState {
    let mut task = TaskState { sink: None, ..task.clone() };
    task.source = task.source.and_then(|mut source| {
        source.number = *sources.get(&source.number)?;
        source.dead_letters.clear();
        Some(source)
    });
    task.operators.retain_mut(|operator| match operators.get(&operator.number) {
        Some(number) => {
            operator.number = *number;
            true
        }
        None => false,
    });
    task
}

#[cfg(test)]
mod tests {
    use anabranch_model::{Epoch, StageId, TaskId};
    use anabranch_state::{Blob, OperatorState, Prepared, SinkState, SourceState};

    use super::*;

    /// Event time of the partitions continues where it was, and the new job does not show what the savepoint's job
    /// shows.
    #[test]
    fn a_renumbered_snapshot_keeps_positions_and_watermarks_and_leaves_out_what_sinks_had_prepared() {
        let blob = Blob { name: "prepared/1".into(), bytes: 1, crc32: 1 };
        let prepared = vec![Prepared { epoch: Epoch(3), task: 0, blob }];
        let positions = BTreeMap::from([("p".to_owned(), "40".to_owned())]);
        let watermarks_ms = BTreeMap::from([("p".to_owned(), 1000)]);
        let source = |number, dead_letters| SourceState {
            number,
            positions: positions.clone(),
            watermarks_ms: watermarks_ms.clone(),
            dead_letters,
        };
        let operator = |number| OperatorState { number, watermark_ms: 900, files: Vec::new() };
        let task = TaskState {
            task: TaskId { stage: StageId(0), index: 0 },
            finished: false,
            source: Some(source(0, prepared.clone())),
            operators: vec![operator(0), operator(1)],
            sink: Some(SinkState { number: 0, prepared }),
        };
        let (sources, operators) = (BTreeMap::from([(0, 4)]), BTreeMap::from([(1, 7)]));
        let renumbered = renumbered(&task, &sources, &operators);
        let source = Some(source(4, Vec::new()));
        assert_eq!(renumbered, TaskState { source, operators: vec![operator(7)], sink: None, ..task });
    }
}
