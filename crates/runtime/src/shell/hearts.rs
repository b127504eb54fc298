//! Heartbeats of a job's workers. Each message to a worker contains the time of its newest heartbeat: the
//! lease of its tasks begins there.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_model::Nanos;
use anabranch_protocol::membership::Process;

/// When each worker sent its newest heartbeat, by its clock. Heartbeats do not wake the coordinator of a job:
/// the process answers them for all its jobs.
#[derive(Debug, Default)]
pub(crate) struct Hearts(Mutex<BTreeMap<Process, Nanos>>);

impl Hearts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Process, Nanos>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a heartbeat.
    pub(crate) fn beat(&self, process: Process, sent: Nanos) {
        let mut hearts = self.lock();
        let newest = hearts.entry(process).or_default();
        *newest = sent.max(*newest);
    }

    /// The newest heartbeat, if there was one.
    pub(crate) fn newest(&self, process: Process) -> Option<Nanos> {
        self.lock().get(&process).copied()
    }

    /// Forgets a lost worker.
    pub(crate) fn forget(&self, process: Process) {
        self.lock().remove(&process);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_protocol::membership::WorkerId;

    use super::*;

    #[test]
    fn the_newest_heartbeat_counts_until_the_worker_is_lost() {
        let (hearts, process) = (Hearts::default(), Process { worker: WorkerId(1), life: 7 });
        assert_eq!(hearts.newest(process), None);
        hearts.beat(process, Nanos(10));
        hearts.beat(process, Nanos(5));
        assert_eq!(hearts.newest(process), Some(Nanos(10)));
        hearts.forget(process);
        assert_eq!(hearts.newest(process), None);
    }
}
