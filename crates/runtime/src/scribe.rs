//! Carries out the coordinator's commands for the job's log on a separate thread, and looks for requests for savepoints.
//!
//! When all tasks have acknowledged an epoch, the coordinator lets the scribe write the manifest and the entry in the job's log:
//! with that entry the checkpoint exists.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Epoch, Incarnation};
use anabranch_protocol::coordinator::{Answer, Command, Entry};
use anabranch_state::TaskState;

use crate::coordinator::Message;
use crate::journal::Journal;
use crate::mailbox::Mailbox;

/// Something to do for the scribe.
pub(crate) enum Task {
    /// A command of the coordinator for the log.
    Log(Box<Command<TaskState>>),
    /// Checkpoints are of this plan from here on.
    Plan(Arc<Plan>),
    /// The tasks of this incarnation follow; those of earlier ones are gone.
    Begin(Incarnation),
    /// State files to which no snapshot of this epoch or a later one refers.
    Dropped(Vec<(Epoch, String)>),
}

/// The writing side of a job's coordination.
pub(crate) struct Scribe {
    journal: Journal,
    /// State files, each with the epoch of the first snapshot that no longer refers to it.
    dropped: Vec<(Epoch, String)>,
    clock: Arc<dyn Clock>,
}

impl Scribe {
    pub(crate) fn new(journal: Journal, clock: Arc<dyn Clock>) -> Scribe {
        Scribe { journal, dropped: Vec::new(), clock }
    }

    #[cfg(test)]
    pub(crate) fn store(&self) -> &anabranch_state::Store {
        &self.journal.store
    }

    /// Works until all senders of work are gone.
    pub(crate) fn run(mut self, work: &Receiver<Task>, mailbox: &Mailbox) {
        loop {
            if let Some(message) = self.look() {
                mailbox.send(message);
            }
            let task = match work.recv_timeout(self.journal.until_look(self.clock.now())) {
                Ok(task) => task,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Some(message) = self.work(task) {
                mailbox.send(message);
            }
        }
        self.journal.ended();
    }

    /// Looks for a request for a savepoint, if it is time to, and requests the checkpoint that answers it.
    pub(crate) fn look(&mut self) -> Option<Message> {
        // The checkpoint itself is the answer; this message has no receiver.
        self.journal.look_for_requests(self.clock.now()).then(|| Message::Checkpoint(channel().0))
    }

    /// Does one task, and returns the report of it.
    pub(crate) fn work(&mut self, task: Task) -> Option<Message> {
        match task {
            Task::Log(command) => self.log(*command),
            Task::Plan(plan) => {
                self.journal.set_plan(&plan);
                None
            }
            Task::Begin(incarnation) => {
                self.dropped.clear();
                // Files that cannot be removed now only take space, and are removed at the next start.
                let _ = self.journal.remove_strays(incarnation);
                None
            }
            Task::Dropped(dropped) => {
                self.dropped.extend(dropped);
                None
            }
        }
    }

    fn log(&mut self, command: Command<TaskState>) -> Option<Message> {
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
            (Ok(answer), _) => answer.map(|(sequence, answer)| Message::Store(sequence, answer, None)),
            (Err(error), _) if self.journal.is_broken() => Some(Message::Cancel(error)),
            (Err(error), Some(sequence)) => Some(Message::Store(sequence, Answer::Unknown, Some(error))),
            // Files that cannot be removed now only take space, and are removed at the next start.
            (Err(_), None) => None,
        }
    }

    /// Removes state files to which only abandoned checkpoints could have referred: a checkpoint of `epoch` is in the
    /// log, so none of an earlier epoch will follow. Files of an older checkpoint are removed together with it.
    fn remove_dropped(&mut self, epoch: Epoch) {
        let decided: BTreeSet<String> =
            self.dropped.extract_if(.., |(dropped, _)| *dropped <= epoch).map(|(_, name)| name).collect();
        if decided.is_empty() {
            return;
        }
        // Files that cannot be removed now only take space, and are removed at the next start.
        let _ = self.journal.remove(&decided);
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
        // Neither the first one nor the second is committed.
        for epoch in 1..4 {
            store.put(&format!("state/1-{epoch}-1.0-0.arrow"), Vec::new().into()).expect("written");
            let before = format!("state/1-{}-1.0-0.arrow", epoch - 1);
            scribe.work(Task::Dropped(vec![(Epoch(epoch), before)]));
        }
        scribe.remove_dropped(Epoch(2));
        assert_eq!(store.list("state").expect("list"), ["state/1-2-1.0-0.arrow", "state/1-3-1.0-0.arrow"]);
        scribe.remove_dropped(Epoch(3));
        assert_eq!(store.list("state").expect("list"), ["state/1-3-1.0-0.arrow"]);
    }
}
