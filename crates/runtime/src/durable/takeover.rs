//! Takes a job over: the log decides who owns it, and the job resumes from the newest undamaged checkpoint.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{KeptPart, Plan};
use anabranch_model::{Clock, Epoch, Error, ErrorKind, Incarnation, Result, Rng};
use anabranch_protocol::Coordinator;
use anabranch_protocol::coordinator::{Answer, Checkpoint, Command, Config, Entry, Input, Owner, Tasks};
use anabranch_state::{Contents, Savepoint, Store, TaskState};
use serde::{Deserialize, Serialize};

use crate::durable::journal::{CheckpointId, Journal};
use crate::durable::origin::Origin;
use crate::durable::scribe::Scribe;

/// Names that a job, or a file system, creates in the directory.
const FOLDERS: [&str; 6] = ["log", "manifests", "state", "prepared", "requests", "lost+found"];

/// How a job takes checkpoints.
#[derive(Clone, Debug)]
pub struct Checkpointing {
    /// Where checkpoints are kept.
    pub store: Store,
    /// Time between the starts of two checkpoints.
    pub interval: Duration,
    /// Time after which a checkpoint is abandoned. Also the longest time to write an entry of the log, with
    /// all retries: after it, the job fails.
    pub timeout: Duration,
    /// Largest number of restarts in a row. One more failure fails the job.
    pub restart_attempts: u32,
    /// Name of the job if it does not resume from a checkpoint. No other job that ever wrote to the same
    /// places may have it.
    pub new_job: String,
    /// Distinguishes this start of the job from starts by other processes: see [`random_seed`].
    pub seed: u64,
}

/// How much of a checkpoint is read before tasks resume from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// All files completely: damage is found while an older checkpoint can be used instead.
    #[default]
    Content,
    /// In an object store, the names and sizes of files. Other damage is found by the tasks that read the
    /// files: then the job fails, and must be started again with the other check.
    Sizes,
}

/// A job whose current incarnation is in the log.
pub(crate) struct TakenOver {
    /// The plan, with the identities of its parts in the checkpoint or the savepoint that the job resumes
    /// from.
    pub(crate) plan: Plan,
    pub(crate) coordinator: Coordinator<TaskState>,
    pub(crate) incarnation: Incarnation,
    /// The checkpoint that the job resumes from.
    pub(crate) from: Option<Checkpoint<TaskState>>,
    /// Whether the tasks of the incarnation continue: then nothing is restored.
    pub(crate) adopts: bool,
    /// Whether sinks must commit what the checkpoint contains.
    pub(crate) commits: bool,
    pub(crate) scribe: Scribe,
    /// Name of the job.
    pub(crate) job: String,
    pub(crate) former: FormerNames,
    /// Notices for the user: what the job resumes from, and what it skipped.
    pub(crate) notices: Vec<String>,
}

/// Tasks that run without a coordinator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) incarnation: Incarnation,
    /// The [fingerprint](Plan::fingerprint) of their plan.
    pub(crate) plan: u64,
    /// The checkpoint from which they have started.
    pub(crate) from: Option<CheckpointId>,
}

impl Running {
    /// Whether these tasks run this plan, and know the newest checkpoint of the log. They may have started
    /// from an older one, because the newest one was found damaged.
    fn run(&self, newest: CheckpointId, plan: &Plan) -> bool {
        (newest.0 == self.incarnation || self.from == Some(newest)) && plan.fingerprint().ok() == Some(self.plan)
    }
}

/// The result of a coordinator's attempt to own a job.
pub(crate) enum Begun {
    /// The coordinator owns the job.
    Start(Incarnation, Option<Checkpoint<TaskState>>),
    /// The coordinator owns the job, whose tasks are running. This is its newest checkpoint.
    Adopt(Incarnation, Option<Checkpoint<TaskState>>),
    /// The job had ended before.
    Ended,
    /// Another process was faster.
    Fenced,
}

/// The newest checkpoint in a log.
fn newest(entries: &[(u64, Entry<TaskState>)]) -> Option<CheckpointId> {
    entries.iter().rev().find_map(|(_, entry)| match entry {
        Entry::Checkpoint(checkpoint) => Some((checkpoint.incarnation, checkpoint.epoch)),
        _ => None,
    })
}

/// Drives a coordinator until it starts the tasks, or knows that it must not. `answer` executes the commands
/// for the log.
pub(crate) fn begin(
    coordinator: &mut Coordinator<TaskState>,
    clock: &dyn Clock,
    mut answer: impl FnMut(Command<TaskState>) -> Result<Option<(u64, Answer<TaskState>)>>,
) -> Result<Begun> {
    while let Some(command) = coordinator.poll() {
        match command {
            Command::Start { incarnation, from } => return Ok(Begun::Start(incarnation, from)),
            Command::Adopt { incarnation, newest } => return Ok(Begun::Adopt(incarnation, newest)),
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
    /// Takes the job over: the process that ran it before can no longer commit anything. Reads the newest
    /// checkpoint. If it is damaged, begins again with the one before it. Without any checkpoint, the job
    /// starts from `origin`. `None`: the job has ended before. An error if another process takes the job over
    /// meanwhile: that process keeps it. If all tasks of the newest incarnation are `running`, they are
    /// adopted.
    pub(crate) fn take_over(
        &self,
        plan: &Plan,
        config: &Config,
        tasks: &Tasks,
        clock: &Arc<dyn Clock>,
        origin: Option<&Origin>,
        (running, check): (Option<Running>, Check),
    ) -> Result<Option<TakenOver>> {
        self.check_place()?;
        let (mut aside, mut owners) = (BTreeMap::<CheckpointId, Error>::new(), Rng::new(self.seed));
        loop {
            let (store, job) = (self.store.clone(), self.new_job.clone());
            let mut journal = Journal::new(store, job, plan);
            let entries = journal.entries(&mut aside)?;
            let tasks = &Tasks { version: journal.version(), ..tasks.clone() };
            if entries.is_empty() {
                self.check_new_place()?;
            }
            self.check_origin(&mut journal, &entries, origin)?;
            // Before any file is removed.
            journal.take_up_request(clock.now())?;
            let owner = Owner(owners.next_u64());
            // Without a checkpoint, the names under which the tasks write are unknown.
            let newest = newest(&entries);
            let runs = |running: &Running| newest.is_some_and(|id| running.run(id, &journal.carry(plan, id)));
            let running = running.filter(runs).map(|running| running.incarnation);
            let mut coordinator = Coordinator::new(clock.now(), config.clone(), owner, entries, tasks.clone(), running);
            let begun = begin(&mut coordinator, clock.as_ref(), |command| journal.carry_out(command))?;
            let (incarnation, from, adopts) = match begun {
                Begun::Start(incarnation, from) => (incarnation, from, false),
                Begun::Adopt(incarnation, newest) => (incarnation, newest, true),
                Begun::Ended => return Ok(None),
                Begun::Fenced => return Err(Journal::lost(&self.store)),
            };
            let id = from.as_ref().map(|checkpoint| (checkpoint.incarnation, checkpoint.epoch));
            let plan = match &from {
                Some(checkpoint) => match adopts || self.is_undamaged(checkpoint, check, incarnation, &mut aside)? {
                    true => journal.carry(plan, (checkpoint.incarnation, checkpoint.epoch)),
                    false => continue,
                },
                None => Plan { version: journal.version(), ..begin_with(origin, plan)? },
            };
            let others = match id {
                Some(_) if adopts => None,
                Some(id) => journal.confirm(id).map(|()| None)?,
                None => check_none_is_unusable(&journal, &mut aside).and_then(|()| self.others())?,
            };
            let (job, begun_with) = self.job(&journal, id, incarnation);
            let former = FormerNames::new(&journal, id, incarnation);
            let mut notices = if adopts { vec![adopted(incarnation)] } else { notices(&journal, id) };
            notices.extend(others);
            if let Some(origin) = origin.filter(|origin| begun_with.as_deref() != Some(origin.id())) {
                return Err(origin.not_of(&self.store));
            }
            job.clone_into(&mut journal.job);
            journal.origin = begun_with;
            if !adopts {
                journal.remove_strays(incarnation)?;
            }
            journal.set_plan(&plan);
            let commits = adopts || from.as_ref().is_some_and(is_prepared);
            let scribe = Scribe::new(journal, Arc::clone(clock));
            let job = job.clone();
            let taken =
                TakenOver { plan, coordinator, incarnation, from, adopts, commits, scribe, job, former, notices };
            return Ok(Some(taken));
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

    /// Checks a checkpoint: damage must be found while an older one can be used instead. A damaged one is
    /// recorded in `aside`.
    fn is_undamaged(
        &self,
        checkpoint: &Checkpoint<TaskState>,
        how: Check,
        own: Incarnation,
        aside: &mut BTreeMap<CheckpointId, Error>,
    ) -> Result<bool> {
        match check(&self.store, checkpoint.tasks.values(), how) {
            Ok(()) => Ok(true),
            // The next owner removes the files of checkpoints that it does not need.
            Err(error) if error.kind() == ErrorKind::Damaged && Journal::is_taken_over(&self.store, own) => {
                Err(Journal::lost(&self.store))
            }
            Err(error) if error.kind() == ErrorKind::Damaged => {
                aside.insert((checkpoint.incarnation, checkpoint.epoch), error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Checks that a place without a log has no checkpoints either: without the log it is unknown which of
    /// them count.
    fn check_new_place(&self) -> Result<()> {
        for folder in ["manifests", "state", "prepared"] {
            // Files that a crashed process was writing (`name#...`) do not belong to a checkpoint.
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

    /// A notice for the user of a new job, if its checkpoint directory contains other files.
    fn others(&self) -> Result<Option<String>> {
        let is_other = |name: &String| !FOLDERS.contains(&name.as_str()) && !name.starts_with('.');
        let others: Vec<String> = self.store.top()?.into_iter().filter(is_other).collect();
        Ok(others.iter().min().map(|name| {
            let (place, count) = (self.store.place(), others.len());
            format!("{place} contains {count} other files or folders, such as {name}; use a place for checkpoints only")
        }))
    }

    /// A job that started from a savepoint and has no checkpoint of its own must start from it again. A job
    /// that started otherwise cannot use a savepoint now.
    fn check_origin(
        &self,
        journal: &mut Journal,
        entries: &[(u64, Entry<TaskState>)],
        origin: Option<&Origin>,
    ) -> Result<()> {
        let checkpoint = newest(entries);
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
            // Epochs are repeated whose results may be visible: sinks must not treat the new results as the
            // same.
            true => format!("{job}-{}", incarnation.0),
            false => job.to_owned(),
        };
        (job, origin.map(str::to_owned))
    }
}

/// Largest number of incarnations whose names are among a job's former names.
const FORMER_NAMES_MAX: u64 = 8;

/// The names that a job had before damaged checkpoints were skipped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FormerNames {
    /// The first incarnation under the current name.
    since: Incarnation,
    /// The name in the checkpoint that the job resumes from, then the names that later incarnations may have
    /// had: the checkpoints of those can no longer be read.
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

    /// The former names that matter to tasks that resume from a checkpoint of this incarnation.
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

/// The notice that the tasks were adopted.
fn adopted(incarnation: Incarnation) -> String {
    format!("this coordinator has adopted the tasks of incarnation {}", incarnation.0)
}

/// The parts that a job resumes with: those of the newest checkpoint in a store, or else those of a
/// savepoint.
pub fn present(checkpoints: Option<&Store>, origin: Option<&Origin>) -> Result<Vec<KeptPart>> {
    let contents = checkpoints.map_or(Ok(None), Contents::read_if_any)?;
    let newest = contents.and_then(|mut contents| contents.checkpoints.pop());
    let of_origin = || origin.map(|origin| origin.parts().to_vec());
    Ok(newest.map(|newest| newest.manifest.parts).or_else(of_origin).unwrap_or_default())
}

/// The plan of a job that has no checkpoint yet. Checks the files of the savepoint that it starts from.
pub(crate) fn begin_with(origin: Option<&Origin>, plan: &Plan) -> Result<Plan> {
    let Some(origin) = origin else { return Ok(plan.clone()) };
    let plan = origin.carry(plan)?;
    origin.check(&plan)?;
    Ok(plan)
}

/// Checks everything that these snapshots refer to. Damage is an error.
pub(crate) fn check<'a>(store: &Store, tasks: impl Iterator<Item = &'a TaskState> + Clone, how: Check) -> Result<()> {
    let blobs = tasks.flat_map(|task| {
        let files = task.operators.iter().flat_map(|operator| &operator.files).map(|file| &file.blob);
        files.chain(task.prepared().map(|prepared| &prepared.blob))
    });
    if how == Check::Sizes && store.check_sizes(blobs.clone())?.is_some() {
        return Ok(());
    }
    blobs.map(|blob| store.get_blob(blob)).try_for_each(|read| read.map(drop))
}

/// Whether the checkpoint contains prepared results of sinks.
fn is_prepared(checkpoint: &Checkpoint<TaskState>) -> bool {
    checkpoint.tasks.values().any(|task| task.prepared().next().is_some())
}

/// A random number for [`Checkpointing::seed`].
#[must_use]
pub fn random_seed() -> u64 {
    #[expect(clippy::disallowed_types, reason = "its keys are random, and nothing is ordered by them")]
    let random = std::hash::RandomState::new();
    std::hash::BuildHasher::hash_one(&random, std::process::id())
}

#[cfg(test)]
mod tests;
