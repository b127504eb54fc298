//! Notices about an outside system that does not answer: one for all tasks of a job when an outage begins,
//! and one when it is over.

use std::cell::Cell;
use std::sync::Arc;

use anabranch_model::{Clock, Nanos};
use anabranch_operators::{Host, TaskContext};

/// The outages of one system, as one task sees them. Dropping it withdraws the task from a present outage.
pub(crate) struct Outage {
    clock: Arc<dyn Clock>,
    host: Arc<dyn Host>,
    /// Identifies the system among those of the job.
    system: String,
    /// The notice that the system answers again, without the time.
    answers: String,
    since: Cell<Option<Nanos>>,
}

impl Outage {
    pub(crate) fn new(context: &TaskContext, system: String, answers: String) -> Outage {
        let (clock, host) = (Arc::clone(&context.clock), Arc::clone(&context.host));
        Outage { clock, host, system, answers, since: Cell::new(None) }
    }

    /// Since when the system has not answered.
    pub(crate) fn since(&self) -> Option<Nanos> {
        self.since.get()
    }

    /// The system has not answered this task since `since`. The first task that finds an outage reports it:
    /// the others may have nothing to send.
    pub(crate) fn begins(&self, since: Nanos, notice: impl FnOnce() -> String) {
        if self.since.get().is_none() {
            self.since.set(Some(since));
            if self.host.outage_begins(&self.system, since) {
                self.host.notify(notice());
            }
        }
    }

    /// The system has answered.
    pub(crate) fn ends(&self) {
        if let Some(since) = self.since.take()
            && let Some(since) = self.host.outage_ends(&self.system, since)
        {
            let seconds = self.clock.now().since(since) / 1_000_000_000;
            self.host.notify(format!("{}, after {seconds} s", self.answers));
        }
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        if let Some(since) = self.since.get() {
            self.host.outage_ends(&self.system, since);
        }
    }
}
