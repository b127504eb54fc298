//! Takes a job over: the log decides who owns it, and the newest undamaged checkpoint what it resumes from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{
    Clock, Epoch, Error, ErrorKind, EventTime, Incarnation, KeyGroupRange, KeyGroups, OperatorId, OperatorKind, Result,
    Rng, StageId,
};
use anabranch_operators::{Committable, Positions};
use anabranch_protocol::Coordinator;
use anabranch_protocol::coordinator::{Answer, Checkpoint, Command, Config, Entry, Input, Owner, Tasks};
use anabranch_state::{Blob, Prepared, Savepoint, Store, TaskState, read_rows};
use arrow::array::RecordBatch;

use crate::journal::{CheckpointId, Journal};
use crate::origin::Origin;
use crate::recorder::{Recorder, Work};

/// Names that a job, or a file system, creates in the directory.
const FOLDERS: [&str; 6] = ["log", "manifests", "state", "prepared", "requests", "lost+found"];

/// How a job takes checkpoints.
#[derive(Clone, Debug)]
pub struct Checkpointing {
    /// Where they are kept.
    pub store: Store,
    /// Time between the starts of two checkpoints.
    pub interval: Duration,
    /// Time after which a checkpoint is abandoned; also the time for which the store may refuse an entry of the log.
    pub timeout: Duration,
    /// Consecutive failures after which the tasks are restarted.
    pub restart_attempts: u32,
    /// Name of the job if it does not resume from a checkpoint: no other job that ever wrote to the same places has it.
    pub new_job: String,
    /// Distinguishes the starts of the job by this process from those by others: see [`random_seed`].
    pub seed: u64,
}

/// A job whose current incarnation is in the log.
pub(crate) struct TakenOver {
    /// The plan, with the identities that its parts have in the checkpoint or in the savepoint that the job resumes from.
    pub(crate) plan: Plan,
    pub(crate) coordinator: Coordinator<TaskState>,
    pub(crate) incarnation: Incarnation,
    /// The epoch after which the job resumes.
    pub(crate) after: Epoch,
    pub(crate) state: JobState,
    /// Whether sinks must commit what the checkpoint contains.
    pub(crate) commits: bool,
    pub(crate) recorder: Recorder,
    /// The recorder's queue.
    pub(crate) work: (Sender<Work>, Receiver<Work>),
    /// Name of the job.
    pub(crate) job: String,
    /// Names that it had before.
    pub(crate) former: FormerNames,
    /// What it starts from while it has no checkpoint.
    pub(crate) origin: Option<Origin>,
    /// Notices for the user: what the job resumes from, and what it skipped.
    pub(crate) notices: Vec<String>,
}

/// The result of a coordinator's attempt to own a job.
pub(crate) enum Begun {
    /// The coordinator owns the job.
    Start(Incarnation, Option<Checkpoint<TaskState>>),
    /// The job has ended before.
    Ended,
    /// Another process was faster.
    Fenced,
}

/// Drives a coordinator until it starts the tasks, or knows that it must not. `answer` carries out the commands for the
/// log.
pub(crate) fn begin(
    coordinator: &mut Coordinator<TaskState>,
    clock: &dyn Clock,
    mut answer: impl FnMut(Command<TaskState>) -> Result<Option<(u64, Answer<TaskState>)>>,
) -> Result<Begun> {
    while let Some(command) = coordinator.poll() {
        match command {
            Command::Start { incarnation, from } => return Ok(Begun::Start(incarnation, from)),
            Command::Finish(_) => return Ok(Begun::Ended),
            Command::Fenced(_) => return Ok(Begun::Fenced),
            other => {
                if let Some((sequence, answer)) = answer(other)? {
                    coordinator.handle(clock.now(), Input::Store(sequence, answer));
                }
            }
        }
    }
    Err(Error::internal("the coordinator neither starts the job nor ends it"))
}

impl Checkpointing {
    /// Takes the job over: the process that ran it before can commit nothing from here on. Reads the newest undamaged
    /// checkpoint; for each newer one that is damaged, it begins once more. Without any checkpoint, the job starts from
    /// `origin`. `None`: the job has ended before. An error if another process takes the job over meanwhile: that
    /// process keeps it.
    pub(crate) fn take_over(
        &self,
        plan: &Plan,
        config: &Config,
        tasks: &Tasks,
        clock: &Arc<dyn Clock>,
        origin: Option<&Origin>,
    ) -> Result<Option<TakenOver>> {
        self.check_place()?;
        let (mut aside, mut owners) = (BTreeMap::<CheckpointId, Error>::new(), Rng::new(self.seed));
        loop {
            let (store, job) = (self.store.clone(), self.new_job.clone());
            let mut journal = Journal::new(store, job, plan);
            let entries = journal.entries(&mut aside)?;
            if entries.is_empty() {
                self.check_new_place()?;
            }
            self.check_origin(&mut journal, &entries, origin)?;
            // Before any file is removed.
            journal.take_up_request(clock.now())?;
            let owner = Owner(owners.next_u64());
            let mut coordinator = Coordinator::new(clock.now(), config.clone(), owner, entries, tasks.clone());
            let none = BTreeSet::new();
            let begun = begin(&mut coordinator, clock.as_ref(), |command| journal.carry_out(command, &none))?;
            let (incarnation, from) = match begun {
                Begun::Start(incarnation, from) => (incarnation, from),
                Begun::Ended => return Ok(None),
                Begun::Fenced => return Err(Journal::lost(&self.store)),
            };
            let id = from.as_ref().map(|checkpoint| (checkpoint.incarnation, checkpoint.epoch));
            let (plan, state) = match &from {
                Some(checkpoint) => match self.load_or_set_aside(plan, checkpoint, incarnation, &mut aside)? {
                    Some(state) => (journal.carry(plan, (checkpoint.incarnation, checkpoint.epoch)), state),
                    None => continue,
                },
                None => begin_with(origin, plan)?,
            };
            let others = match id {
                Some(id) => journal.confirm(id).map(|()| None)?,
                None => check_none_is_unusable(&journal, &mut aside).and_then(|()| self.others())?,
            };
            let (job, begun_with) = self.job(&journal, id, incarnation);
            let former = FormerNames::new(&journal, id, incarnation);
            let mut notices = notices(&journal, id);
            notices.extend(others);
            if let Some(origin) = origin.filter(|origin| begun_with.as_deref() != Some(origin.id())) {
                return Err(origin.not_of(&self.store));
            }
            job.clone_into(&mut journal.job);
            journal.origin = begun_with;
            journal.remove_strays(incarnation)?;
            journal.set_plan(&plan);
            let recorder = Recorder::new(journal, &plan, incarnation, Arc::clone(clock));
            let after = from.map_or(Epoch(0), |checkpoint| checkpoint.epoch);
            return Ok(Some(TakenOver {
                plan,
                coordinator,
                incarnation,
                after,
                commits: state.is_prepared(),
                state,
                recorder,
                work: channel(),
                job,
                former,
                origin: origin.cloned(),
                notices,
            }));
        }
    }

    fn check_place(&self) -> Result<()> {
        match Savepoint::is_at(&self.store)? {
            false => Ok(()),
            true => Err(Error::user("this is a savepoint, not a place for a job's checkpoints")
                .at(self.store.place().to_owned())
                .remedy("start from it (anabranch run FILE --from PATH) and give the job another place")),
        }
    }

    /// Reads a checkpoint; a damaged one is recorded in `aside`.
    fn load_or_set_aside(
        &self,
        plan: &Plan,
        checkpoint: &Checkpoint<TaskState>,
        own: Incarnation,
        aside: &mut BTreeMap<CheckpointId, Error>,
    ) -> Result<Option<JobState>> {
        match load(&self.store, plan.key_groups, checkpoint) {
            Ok(state) => Ok(Some(state)),
            // The next owner removes files of the checkpoints that it does not need.
            Err(error) if error.kind() == ErrorKind::Damaged && Journal::is_taken_over(&self.store, own) => {
                Err(Journal::lost(&self.store))
            }
            Err(error) if error.kind() == ErrorKind::Damaged => {
                aside.insert((checkpoint.incarnation, checkpoint.epoch), error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Ensures that a place without a log has no checkpoints either: without the log it is unknown which of them count.
    fn check_new_place(&self) -> Result<()> {
        for folder in ["manifests", "state", "prepared"] {
            // Files that a crashed process was still writing (`name#...`) do not belong to a checkpoint yet.
            if let Some(name) = self.store.list(folder)?.iter().find(|name| !name.contains('#')) {
                return Err(Error::user(format!("there are files of checkpoints ({name}), but the job's log is missing"))
                    .at(format!("{}/log", self.store.place()))
                    .remedy(
                        "restore the folder 'log' from a copy; or give the job a new place for its checkpoints, and it starts \
                         anew",
                    ));
            }
        }
        Ok(())
    }

    /// A notice for the user of a new job, if its place contains files that are not its own.
    fn others(&self) -> Result<Option<String>> {
        let is_other = |name: &String| !FOLDERS.contains(&name.as_str()) && !name.starts_with('.');
        let others: Vec<String> = self.store.top()?.into_iter().filter(is_other).collect();
        Ok(others.iter().min().map(|name| {
            let (place, count) = (self.store.place(), others.len());
            format!("{place} contains {count} other files or folders, such as {name}; use a place for checkpoints only")
        }))
    }

    /// A job that started from a savepoint and has no checkpoint of its own starts from it again, or not at all. A job
    /// that started otherwise cannot use a savepoint now.
    fn check_origin(
        &self,
        journal: &mut Journal,
        entries: &[(u64, Entry<TaskState>)],
        origin: Option<&Origin>,
    ) -> Result<()> {
        let checkpoint = entries.iter().rev().find_map(|(_, entry)| match entry {
            Entry::Checkpoint(checkpoint) => Some((checkpoint.incarnation, checkpoint.epoch)),
            _ => None,
        });
        if let Some(origin) = origin {
            let begun_with = checkpoint.and_then(|id| journal.job_of(id)).map(|(_, begun_with)| begun_with);
            if begun_with.is_some_and(|begun_with| begun_with != Some(origin.id())) {
                return Err(origin.not_of(&self.store));
            }
            journal.origin = Some(origin.id().to_owned());
            return Ok(());
        }
        let has_none = checkpoint.is_none() && !entries.iter().any(|(_, entry)| matches!(entry, Entry::Unusable(_)));
        match &journal.origin {
            Some(origin) if has_none => Err(Error::user(format!(
                "the job started from savepoint {origin} and has no checkpoint of its own yet"
            ))
            .at(self.store.place().to_owned())
            .remedy("start it from the savepoint (--from PATH) again, or give another place for checkpoints")),
            _ => Ok(()),
        }
    }

    /// The job's name from here on, and the savepoint that it started from.
    fn job(&self, journal: &Journal, from: Option<CheckpointId>, incarnation: Incarnation) -> (String, Option<String>) {
        let Some(id) = from else { return (self.new_job.clone(), journal.origin.clone()) };
        let (job, origin) = journal.job_of(id).unwrap_or((&self.new_job, None));
        let job = match journal.unusable_behind(from).next().is_some() {
            // Epochs repeat whose results may be visible already: sinks must not treat the new results as the same.
            true => format!("{job}-{}", incarnation.0),
            false => job.to_owned(),
        };
        (job, origin.map(str::to_owned))
    }
}

/// Largest number of incarnations whose names are among a job's former names.
const FORMER_NAMES_MAX: u64 = 8;

/// The names that a job had before damaged checkpoints were skipped.
#[derive(Clone, Debug)]
pub(crate) struct FormerNames {
    /// The first incarnation under the current name.
    since: Incarnation,
    /// The name in the checkpoint that the job resumes from, then the names that later incarnations may have had: their
    /// checkpoints can no longer be read.
    names: Vec<String>,
}

impl FormerNames {
    fn new(journal: &Journal, from: Option<CheckpointId>, own: Incarnation) -> FormerNames {
        let passed_over = journal.unusable_behind(from).next().is_some();
        let Some((id, (job, _))) = from.filter(|_| passed_over).and_then(|id| Some((id, journal.job_of(id)?))) else {
            return FormerNames { since: own, names: Vec::new() };
        };
        let first = (id.0.0 + 1).max(own.0.saturating_sub(FORMER_NAMES_MAX));
        let later = (first..own.0).map(|incarnation| format!("{job}-{incarnation}"));
        FormerNames { since: own, names: [job.to_owned()].into_iter().chain(later).collect() }
    }

    /// The names that matter to an incarnation that resumes from a checkpoint of this incarnation.
    pub(crate) fn behind(&self, checkpoint: Incarnation) -> &[String] {
        if checkpoint < self.since { &self.names } else { &[] }
    }
}

/// Without a checkpoint to resume from, a job starts over only if none can have been committed.
fn check_none_is_unusable(journal: &Journal, aside: &mut BTreeMap<CheckpointId, Error>) -> Result<()> {
    let Some(why) = journal.unusable_behind(None).last() else { return Ok(()) };
    Err(match aside.pop_last() {
        Some((_, error)) => error,
        None => Error::damaged(why).remedy(
            "restore the entry from a copy; or give the job a new place for its checkpoints, and it starts over",
        ),
    })
}

/// Notices about the checkpoint that the job resumes from.
fn notices(journal: &Journal, from: Option<CheckpointId>) -> Vec<String> {
    let Some((incarnation, epoch)) = from else { return Vec::new() };
    let passed_over = journal
        .unusable_behind(from)
        .map(|why| format!("skipped, so results since the checkpoint before it may be written again: {why}"));
    passed_over.chain([resumes(incarnation, epoch)]).collect()
}

/// The notice of what the job resumes from.
pub(crate) fn resumes(incarnation: Incarnation, epoch: Epoch) -> String {
    format!("resumes from the checkpoint of epoch {}, incarnation {}", epoch.0, incarnation.0)
}

/// The plan of a job that has no checkpoint yet, and the state that it begins with.
pub(crate) fn begin_with(origin: Option<&Origin>, plan: &Plan) -> Result<(Plan, JobState)> {
    let Some(origin) = origin else { return Ok((plan.clone(), JobState::default())) };
    let plan = origin.carry(plan)?;
    let state = origin.load(&plan)?;
    Ok((plan, state))
}

/// A number that no other process draws.
#[must_use]
pub fn random_seed() -> u64 {
    #[expect(clippy::disallowed_types, reason = "its keys are random, and nothing is ordered by them")]
    let random = std::hash::RandomState::new();
    std::hash::BuildHasher::hash_one(&random, std::process::id())
}

/// A checkpoint in memory, by the identities of a plan's parts.
#[derive(Debug, Default)]
pub(crate) struct JobState {
    /// Largest number of tasks that a stage had.
    pub(crate) parallelism: u32,
    pub(crate) sources: BTreeMap<OperatorId, RestoredSource>,
    pub(crate) operators: BTreeMap<OperatorId, RestoredOperator>,
    /// What sinks have prepared, oldest first.
    pub(crate) sinks: BTreeMap<OperatorId, Vec<Committable>>,
}

impl JobState {
    /// Whether sinks have prepared anything.
    fn is_prepared(&self) -> bool {
        let dead_letters = self.sources.values().map(|source| &source.dead_letters);
        self.sinks.values().chain(dead_letters).any(|prepared| !prepared.is_empty())
    }
}

/// The positions of a table's readers, of all tasks together.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoredSource {
    pub(crate) positions: Positions,
    pub(crate) watermarks: BTreeMap<String, EventTime>,
    pub(crate) dead_letters: Vec<Committable>,
}

/// State of an operator, of all its tasks together.
#[derive(Clone, Debug)]
pub(crate) struct RestoredOperator {
    /// Event time that every task had reached.
    pub(crate) watermark: EventTime,
    store: Store,
    files: Vec<RestoredFile>,
}

/// A file of state, and the key groups that it may have rows of.
#[derive(Clone, Debug)]
struct RestoredFile {
    blob: Blob,
    key_groups: KeyGroupRange,
}

impl RestoredOperator {
    /// Its rows that may belong to these key groups, a batch at a time: all of them may not fit into memory.
    pub(crate) fn rows(&self, own: KeyGroupRange) -> impl Iterator<Item = Result<RecordBatch>> {
        let files = self.files.iter().filter(move |file| file.key_groups.overlaps(own));
        files.flat_map(|file| self.read(file).unwrap_or_else(|error| Box::new(std::iter::once(Err(error)))))
    }

    fn read(&self, file: &RestoredFile) -> Result<Box<dyn Iterator<Item = Result<RecordBatch>>>> {
        let content = self.store.get_blob(&file.blob)?;
        let at = |error: Error| error.at(format!("{}/{}", self.store.place(), file.blob.name));
        Ok(Box::new(read_rows(content).map_err(at)?))
    }
}

/// Reads a whole checkpoint.
pub(crate) fn load(store: &Store, groups: KeyGroups, checkpoint: &Checkpoint<TaskState>) -> Result<JobState> {
    add_tasks(store, groups, checkpoint.tasks.values())
}

/// The snapshots of all tasks together.
pub(crate) fn add_tasks<'a>(
    store: &Store,
    groups: KeyGroups,
    tasks: impl Iterator<Item = &'a TaskState> + Clone,
) -> Result<JobState> {
    let mut parallelism: BTreeMap<StageId, u32> = BTreeMap::new();
    for task in tasks.clone() {
        let tasks = parallelism.entry(task.task.stage).or_default();
        *tasks = (*tasks).max(task.task.index + 1);
    }
    let mut state = JobState { parallelism: parallelism.values().copied().max().unwrap_or(0), ..JobState::default() };
    for task in tasks {
        // What formats 1 to 3 do not say of each file.
        let share = groups.share(task.task.index, parallelism[&task.task.stage]);
        add_task(store, &mut state, task, share)?;
    }
    let dead_letters = state.sources.values_mut().map(|source| &mut source.dead_letters);
    for prepared in state.sinks.values_mut().chain(dead_letters) {
        prepared.sort_by_key(|committable| committable.epoch);
    }
    Ok(state)
}

/// Adds what a task has saved.
fn add_task(store: &Store, state: &mut JobState, task: &TaskState, share: KeyGroupRange) -> Result<()> {
    let read = |prepared: &Prepared| -> Result<Committable> {
        let content = store.get_blob(&prepared.blob)?;
        Ok(Committable { epoch: prepared.epoch, task: prepared.task, content })
    };
    let id = |kind, number| OperatorId { kind, number };
    if let Some(source) = &task.source {
        let restored = state.sources.entry(id(OperatorKind::Source, source.number)).or_default();
        restored.positions.extend(source.positions.clone());
        let watermarks = source.watermarks_ms.iter();
        restored.watermarks.extend(watermarks.map(|(name, ms)| (name.clone(), EventTime(*ms))));
        for prepared in &source.dead_letters {
            restored.dead_letters.push(read(prepared)?);
        }
    }
    for operator in &task.operators {
        let watermark = EventTime(operator.watermark_ms);
        let none = RestoredOperator { watermark, store: store.clone(), files: Vec::new() };
        let restored = state.operators.entry(id(OperatorKind::State, operator.number)).or_insert(none);
        restored.watermark = restored.watermark.min(watermark);
        for file in &operator.files {
            // Damage must be found now, while an older checkpoint can be used instead.
            store.get_blob(&file.blob)?;
            let key_groups = file.key_groups.unwrap_or(share);
            restored.files.push(RestoredFile { blob: file.blob.clone(), key_groups });
        }
    }
    if let Some(sink) = &task.sink {
        let restored = state.sinks.entry(id(OperatorKind::Sink, sink.number)).or_default();
        for prepared in &sink.prepared {
            restored.push(read(prepared)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
