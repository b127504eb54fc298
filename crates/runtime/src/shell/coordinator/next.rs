//! The incarnations after the first: after a failure, or with another plan version.

use anabranch_model::{Error, Incarnation};
use anabranch_protocol::change::Input as ChangeInput;
use anabranch_protocol::coordinator::Checkpoint;
use anabranch_state::TaskState;

use super::Shell;
use crate::durable::scribe;
use crate::durable::takeover::resumes;
use crate::shell::watch::Watch;

impl Shell {
    /// Starts the next incarnation from the newest checkpoint: after a failure, or with another plan version.
    pub(super) fn restart(&mut self, incarnation: Incarnation, from: Option<Checkpoint<TaskState>>) {
        self.watch = Watch::default();
        self.switches(from.as_ref());
        self.change(ChangeInput::Begins(self.coordinator.version()), None);
        // Tasks that ended for a change have not failed.
        if std::mem::take(&mut self.cancelled) {
            let error = self.take_failure();
            if !self.can_restart(&error) {
                self.outcome.get_or_insert(Err(error));
                return;
            }
            self.shared.restarted(error.to_string());
            if let Some(Checkpoint { epoch, incarnation, .. }) = &from {
                self.shared.notify(resumes(*incarnation, *epoch));
            }
            self.worker.retries_opening();
        }
        if let Some(durable) = &self.durable {
            // The scribe ends only after this thread.
            let _ = durable.scribe.send(scribe::Task::Begin(incarnation));
        }
        self.last_grant = None;
        self.waiting.iter_mut().for_each(|waiting| waiting.epoch = None);
        self.restoring.clear();
        self.begins(incarnation, from.as_ref());
        self.place_tasks(incarnation, from);
    }

    /// Whether another incarnation can follow a failed one. Only a job with checkpoints restarts.
    fn can_restart(&mut self, error: &Error) -> bool {
        if let Some(hung) = self.worker.unfinished() {
            let message = format!(
                "the job cannot restart in this process because it still waits for {hung}; the failure before: {error}"
            );
            self.outcome =
                Some(Err(Error::outside(message).remedy("start the job again: it resumes from its newest checkpoint")));
            return false;
        }
        self.durable.is_some()
    }

    pub(super) fn begins(&self, incarnation: Incarnation, from: Option<&Checkpoint<TaskState>>) {
        let (term, from) = (self.coordinator.term(), from.map(|from| from.epoch));
        self.shared.life.begins(incarnation, term, from, self.clock.now());
    }
}
