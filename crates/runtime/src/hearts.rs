//! Heartbeats of a job's workers. Each message to a worker says which heartbeat of it was the newest: the lease of its tasks begins there.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_model::Nanos;
use anabranch_protocol::membership::Process;

/// A worker that was told something since does not need a message for its newest heartbeat: a lease lasts four times as long.
const RENEWAL: Duration = Duration::from_millis(500);

/// The newest heartbeats. They do not wake the coordinator of a job, which has messages for its workers at every group.
#[derive(Debug, Default)]
pub(crate) struct Hearts(Mutex<BTreeMap<Process, Heart>>);

#[derive(Debug, Default)]
struct Heart {
    /// When the worker sent the newest one, by its clock.
    sent: Nanos,
    /// When the worker was told something last, by the clock of this process.
    told: Nanos,
}

impl Hearts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Process, Heart>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A heartbeat has come. Returns whether the worker must hear of it now.
    pub(crate) fn beat(&self, process: Process, sent: Nanos, now: Nanos) -> bool {
        let mut hearts = self.lock();
        let heart = hearts.entry(process).or_default();
        heart.sent = heart.sent.max(sent);
        let is_due = heart.told == Nanos(0) || now >= heart.told.plus(RENEWAL);
        if is_due {
            heart.told = now;
        }
        is_due
    }

    /// The worker is told something now. Returns when it sent the newest heartbeat, if there was one.
    pub(crate) fn tell(&self, process: Process, now: Nanos) -> Option<Nanos> {
        let mut hearts = self.lock();
        let heart = hearts.get_mut(&process)?;
        heart.told = now;
        Some(heart.sent)
    }

    /// The worker is lost.
    pub(crate) fn forget(&self, process: Process) {
        self.lock().remove(&process);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_protocol::membership::WorkerId;

    use super::*;

    #[test]
    fn only_a_worker_that_was_told_nothing_for_long_must_hear_of_its_heartbeat() {
        let (hearts, process) = (Hearts::default(), Process { worker: WorkerId(1), life: 7 });
        let at = |ms: u64| Nanos(ms * 1_000_000);
        assert_eq!(hearts.tell(process, at(1)), None);
        assert!(hearts.beat(process, at(10), at(1)), "the first one");
        assert!(!hearts.beat(process, at(20), at(300)));
        assert_eq!(hearts.tell(process, at(400)), Some(at(20)));
        assert!(!hearts.beat(process, at(30), at(899)));
        assert!(hearts.beat(process, at(25), at(900)));
        assert_eq!(hearts.tell(process, at(901)), Some(at(30)), "the newest");
        hearts.forget(process);
        assert_eq!(hearts.tell(process, at(902)), None);
    }
}
