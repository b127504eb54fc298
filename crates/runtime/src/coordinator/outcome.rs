//! Why an incarnation has failed, and how the job ends.

use anabranch_model::{Error, ErrorKind, Incarnation, TaskId};

use super::Shell;
use crate::job::Committed;

impl Shell {
    pub(super) fn failed(&mut self, incarnation: Incarnation, task: TaskId, error: Error) {
        if incarnation != self.coordinator.incarnation() {
            return;
        }
        let retry = !matches!(error.kind(), ErrorKind::User | ErrorKind::Damaged);
        let counts = match &self.failure {
            None => true,
            // Tables are opened at the same time: which of several errors comes first must not depend on chance.
            Some((first, known)) if !self.was_open => known.kind() == error.kind() && task < *first,
            Some((_, known)) => !retry && known.kind() != ErrorKind::User,
        };
        if counts {
            self.failure = Some((task, error));
        }
    }

    pub(super) fn committed(&mut self, committed: Committed) {
        self.waiting.retain(|waiting| {
            let fulfilled = waiting.epoch.is_some_and(|epoch| epoch <= committed.epoch);
            // A caller that has stopped waiting needs no answer.
            let sent = fulfilled.then(|| waiting.answer.send(committed));
            sent.is_none()
        });
    }

    /// The job has ended. If it takes checkpoints, the last one covers everything.
    pub(super) fn finish(&mut self) {
        if let Some(last) = self.coordinator.newest_checkpoint() {
            let committed = Committed { incarnation: last.incarnation, epoch: last.epoch };
            for waiting in self.waiting.drain(..).filter(|_| committed.incarnation == self.coordinator.incarnation()) {
                let _ = waiting.answer.send(committed);
            }
        }
        self.outcome = Some(Ok(()));
    }

    /// Why the incarnation has failed. A failure that no task reported was found by the coordinator: a restore without
    /// progress, or checkpoints that do not complete.
    pub(super) fn take_failure(&mut self) -> Error {
        if let Some((_, failure)) = self.failure.take() {
            return failure;
        }
        if let Some(unplaced) = &self.unplaced {
            let missing = &unplaced.missing;
            return Error::outside(format!("the job was stopped while it waited for workers: {missing}"));
        }
        let mut restoring = std::mem::take(&mut self.restoring);
        // Of the tasks here it is known which have restored theirs.
        restoring.retain(|task| self.remotes.is_some() || self.worker.restoring().contains(&task.as_str()));
        if !restoring.is_empty() {
            return Error::outside(format!("restoring state makes no progress in {}", restoring.join(", ")))
                .remedy("check the place of the checkpoints, or allow more time ('checkpoint-timeout')");
        }
        Error::outside("several checkpoints in a row failed or took too long")
            .remedy("check the place where they are kept, or allow more time ('checkpoint-timeout')")
    }
}
