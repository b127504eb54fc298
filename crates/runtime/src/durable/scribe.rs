//! Executes the coordinator's commands for the job's log on a separate thread, and polls for requests for
//! savepoints.
//!
//! When all tasks have acknowledged an epoch, the coordinator lets the scribe write the manifest and the
//! entry in the job's log: with that entry the checkpoint exists. The scribe removes obsolete objects only
//! when it is idle, so that a slow store does not delay the job.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Epoch, Error, Incarnation};
use anabranch_protocol::coordinator::{Answer, Command, Entry};
use anabranch_state::TaskState;

use crate::durable::journal::Journal;

/// Work for the scribe.
pub(crate) enum Task {
    /// A command of the coordinator for the log.
    Log(Box<Command<TaskState>>),
    /// The plan of the following checkpoints.
    Plan(Arc<Plan>),
    /// The tasks of this incarnation follow; the tasks of earlier ones have ended.
    Begin(Incarnation),
    /// State files to which no snapshot of this epoch or a later one refers.
    Dropped(Vec<(Epoch, String)>),
}

/// What the scribe reports to the coordinator.
pub(crate) enum FromScribe {
    /// The answer to a command. If the answer is indecisive, the reason is given.
    Store(u64, Answer<TaskState>, Option<Error>),
    /// There is a request for a savepoint, which the next checkpoint answers.
    Requested,
    /// The job cannot continue with its log.
    Broken(Error),
}

/// Obsolete objects. Objects that cannot be removed only take space. The next start removes them.
enum Removal {
    /// Objects that a command of the coordinator names.
    Log(Box<Command<TaskState>>),
    /// Files that incarnations before this one have left.
    Strays(Incarnation),
    /// Files of these names, if no checkpoint has them.
    Files(BTreeSet<String>),
}

/// The writing side of a job's coordination.
pub(crate) struct Scribe {
    journal: Journal,
    /// State files, each with the epoch of the first snapshot that no longer refers to it.
    dropped: Vec<(Epoch, String)>,
    removals: VecDeque<Removal>,
    clock: Arc<dyn Clock>,
}

impl Scribe {
    pub(crate) fn new(journal: Journal, clock: Arc<dyn Clock>) -> Scribe {
        Scribe { journal, dropped: Vec::new(), removals: VecDeque::new(), clock }
    }

    #[cfg(test)]
    pub(crate) fn store(&self) -> &anabranch_state::Store {
        &self.journal.store
    }

    /// Works until all senders of work are gone.
    pub(crate) fn run(mut self, work: &Receiver<Task>, report: impl Fn(FromScribe)) {
        loop {
            if let Some(message) = self.poll() {
                report(message);
            }
            let task = match work.try_recv() {
                Ok(task) => task,
                Err(TryRecvError::Empty) if self.remove_next() => continue,
                Err(_) => match work.recv_timeout(self.journal.until_look(self.clock.now())) {
                    Ok(task) => task,
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => break,
                },
            };
            if let Some(message) = self.work(task) {
                report(message);
            }
        }
        while self.remove_next() {}
        self.journal.ended();
    }

    /// Polls for a request for a savepoint, if it is time to.
    pub(crate) fn poll(&mut self) -> Option<FromScribe> {
        self.journal.look_for_requests(self.clock.now()).then_some(FromScribe::Requested)
    }

    /// Does one task, and returns the report of it.
    pub(crate) fn work(&mut self, task: Task) -> Option<FromScribe> {
        match task {
            Task::Log(command) if matches!(*command, Command::Remove(_) | Command::Forget(..)) => {
                self.removals.push_back(Removal::Log(command));
                None
            }
            Task::Log(command) => self.log(*command),
            Task::Plan(plan) => {
                self.journal.set_plan(&plan);
                None
            }
            Task::Begin(incarnation) => {
                self.dropped.clear();
                self.removals.push_back(Removal::Strays(incarnation));
                None
            }
            Task::Dropped(dropped) => {
                self.dropped.extend(dropped);
                None
            }
        }
    }

    fn log(&mut self, command: Command<TaskState>) -> Option<FromScribe> {
        let asked = match &command {
            Command::Append(sequence, _) | Command::Read(sequence) => Some(*sequence),
            _ => None,
        };
        let committing = match &command {
            Command::Append(_, Entry::Checkpoint(checkpoint)) => Some(checkpoint.epoch),
            _ => None,
        };
        let carried_out = self.journal.carry_out(command);
        if let (Some(epoch), Ok(Some((_, Answer::Appended)))) = (committing, &carried_out) {
            self.remove_dropped(epoch);
        }
        match (carried_out, asked) {
            (Ok(answer), _) => answer.map(|(sequence, answer)| FromScribe::Store(sequence, answer, None)),
            (Err(error), _) if self.journal.is_broken() => Some(FromScribe::Broken(error)),
            (Err(error), Some(sequence)) => Some(FromScribe::Store(sequence, Answer::Unknown, Some(error))),
            (Err(_), None) => None,
        }
    }

    /// Does the next removal of obsolete objects. Returns false if there is none.
    pub(crate) fn remove_next(&mut self) -> bool {
        let Some(removal) = self.removals.pop_front() else { return false };
        // Objects that cannot be removed now are removed at the next start.
        let _ = match removal {
            Removal::Log(command) => self.journal.carry_out(*command).map(|_| ()),
            Removal::Strays(incarnation) => self.journal.remove_strays(incarnation),
            Removal::Files(names) => self.journal.remove(&names),
        };
        true
    }

    /// Removes state files to which only abandoned checkpoints could have referred: a checkpoint of `epoch`
    /// is in the log, so no checkpoint of an earlier epoch will follow. Files of an older checkpoint are
    /// removed together with it.
    fn remove_dropped(&mut self, epoch: Epoch) {
        let decided: BTreeSet<String> =
            self.dropped.extract_if(.., |(dropped, _)| *dropped <= epoch).map(|(_, name)| name).collect();
        if !decided.is_empty() {
            self.removals.push_back(Removal::Files(decided));
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_dataflow::JobOptions;
    use anabranch_model::{KeyGroups, ManualClock};
    use anabranch_state::{Access, Store};

    use super::*;

    #[test]
    fn files_of_an_abandoned_checkpoint_are_removed_with_the_next_committed_one() {
        let folder = tempfile::tempdir().expect("folder");
        let store = Store::open(folder.path().to_str().expect("text"), &Access::default()).expect("store");
        let plan = Plan::new(KeyGroups(128), JobOptions::default(), Vec::new(), Vec::new());
        let journal = Journal::new(store.clone(), "ads".into(), &plan);
        let mut scribe = Scribe::new(journal, Arc::new(ManualClock::default()));
        // Neither the first checkpoint nor the second is committed.
        for epoch in 1..4 {
            store.put(&format!("state/1-{epoch}-1.0-0.arrow"), Vec::new().into()).expect("written");
            let before = format!("state/1-{}-1.0-0.arrow", epoch - 1);
            scribe.work(Task::Dropped(vec![(Epoch(epoch), before)]));
        }
        scribe.remove_dropped(Epoch(2));
        assert!(scribe.remove_next());
        assert_eq!(store.list("state").expect("list"), ["state/1-2-1.0-0.arrow", "state/1-3-1.0-0.arrow"]);
        scribe.remove_dropped(Epoch(3));
        assert!(scribe.remove_next() && !scribe.remove_next());
        assert_eq!(store.list("state").expect("list"), ["state/1-3-1.0-0.arrow"]);
    }
}
