//! Why an incarnation has failed, and how the job ends.

use anabranch_model::{Error, ErrorKind, Incarnation, TaskId};

use super::Shell;
use crate::shell::job::Committed;

/// Why an incarnation has failed: a task's error, or a cause outside of the tasks.
#[derive(Debug)]
pub(super) struct Failure {
    task: Option<TaskId>,
    error: Error,
}

impl Failure {
    pub(super) fn error(&self) -> &Error {
        &self.error
    }

    /// Whether this failure is reported instead of one that was seen before it.
    fn counts_before(&self, known: &Failure, was_open: bool) -> bool {
        let (kind, known_kind) = (self.error.kind(), known.error.kind());
        if was_open {
            matches!(kind, ErrorKind::User | ErrorKind::Damaged) && known_kind != ErrorKind::User
        } else {
            // Tables are opened concurrently: which of several errors is reported must not depend on chance,
            // so the first task's is. A cause outside of tasks (`None`) comes before all errors of tasks,
            // which are its consequences.
            kind == known_kind && self.task < known.task
        }
    }
}

impl Shell {
    /// Records a failure of the incarnation, with its task. `None`: the cause is not in a task, such as a
    /// lost worker.
    pub(super) fn failed(&mut self, incarnation: Incarnation, task: Option<TaskId>, error: Error) {
        if incarnation != self.coordinator.incarnation() {
            return;
        }
        let failure = Failure { task, error };
        if self.failure.as_ref().is_none_or(|known| failure.counts_before(known, self.was_open)) {
            self.failure = Some(failure);
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

    /// Why the incarnation has failed. If no task has reported a failure, the coordinator has found it: a
    /// restore without progress, or checkpoints that do not complete.
    pub(super) fn take_failure(&mut self) -> Error {
        if let Some(failure) = self.failure.take() {
            return failure.error;
        }
        if let Some(unplaced) = &self.unplaced {
            let missing = &unplaced.missing;
            return Error::outside(format!("the job was stopped while it waited for workers: {missing}"));
        }
        let mut restoring = std::mem::take(&mut self.restoring);
        // For tasks in this process it is known which have restored their state.
        restoring.retain(|task| self.remotes.is_some() || self.worker.restoring().contains(&task.as_str()));
        if !restoring.is_empty() {
            return Error::outside(format!("restoring state makes no progress in {}", restoring.join(", ")))
                .remedy("check the checkpoint storage, or allow more time ('checkpoint-timeout')");
        }
        Error::outside("several checkpoints in a row failed or took too long")
            .remedy("check the checkpoint storage, or allow more time ('checkpoint-timeout')")
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::StageId;

    use super::*;

    #[test]
    fn what_is_told_does_not_depend_on_the_order_of_failures() {
        let task = |index| Some(TaskId { stage: StageId(0), index });
        let failure = |task, error: fn(&str) -> Error| Failure { task, error: error("why") };
        let outside = |task| failure(task, |why| Error::outside(why));
        let user = |task| failure(task, |why| Error::user(why));
        let lost = outside(None);
        for (was_open, first, second) in [
            (false, &lost, &outside(task(0))),
            (false, &outside(task(0)), &outside(task(1))),
            (true, &user(task(1)), &outside(task(0))),
            (true, &user(task(1)), &lost),
        ] {
            assert!(first.counts_before(second, was_open), "{first:?} before {second:?}");
            assert!(!second.counts_before(first, was_open), "{second:?} before {first:?}");
        }
    }
}
