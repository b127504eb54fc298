//! How many tasks of which job each worker has, for all jobs of a process: placement spreads the tasks of all jobs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_model::TaskId;
use anabranch_protocol::membership::Process;

/// Numbers of tasks.
type Tasks = BTreeMap<Process, u32>;

/// The tasks of all jobs of a coordinator's process, as they were placed or adopted.
#[derive(Debug, Default)]
pub struct Occupancy(Mutex<BTreeMap<u64, Tasks>>);

impl Occupancy {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Tasks>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Places the tasks of a job, given those of the others. No other job is placed meanwhile.
    pub(crate) fn place<E>(
        &self,
        job: u64,
        choose: impl FnOnce(&Tasks) -> Result<BTreeMap<TaskId, Process>, E>,
    ) -> Result<BTreeMap<TaskId, Process>, E> {
        let mut jobs = self.lock();
        let placement = choose(&others(&jobs, job))?;
        let mut tasks = Tasks::new();
        placement.values().for_each(|process| *tasks.entry(*process).or_default() += 1);
        jobs.insert(job, tasks);
        Ok(placement)
    }

    /// The tasks of the other jobs.
    pub(crate) fn others(&self, job: u64) -> Tasks {
        others(&self.lock(), job)
    }

    /// A job has these tasks.
    pub(crate) fn adopted(&self, job: u64, tasks: Tasks) {
        self.lock().insert(job, tasks);
    }

    /// A job is over in this process.
    pub(crate) fn forget(&self, job: u64) {
        self.lock().remove(&job);
    }
}

fn others(jobs: &BTreeMap<u64, Tasks>, job: u64) -> Tasks {
    let mut all = Tasks::new();
    let tasks = jobs.iter().filter(|(other, _)| **other != job).flat_map(|(_, tasks)| tasks);
    tasks.for_each(|(process, tasks)| *all.entry(*process).or_default() += tasks);
    all
}

#[cfg(test)]
mod tests {
    use anabranch_model::StageId;
    use anabranch_protocol::membership::WorkerId;

    use super::*;

    fn process(worker: u32) -> Process {
        Process { worker: WorkerId(worker), life: 1 }
    }

    #[test]
    fn a_job_is_placed_beside_those_that_are_there_and_not_beside_itself() {
        let occupancy = Occupancy::default();
        let at = |job, worker, seen: &[(u32, u32)]| {
            let placed = occupancy.place(job, |others| {
                let seen: Tasks = seen.iter().map(|(worker, tasks)| (process(*worker), *tasks)).collect();
                assert_eq!(*others, seen, "job {job}");
                let task = |index| (TaskId { stage: StageId(0), index }, process(worker));
                Ok::<_, ()>([task(0), task(1)].into())
            });
            assert!(placed.is_ok());
        };
        at(1, 1, &[]);
        at(2, 1, &[(1, 2)]);
        at(2, 2, &[(1, 2)]);
        occupancy.adopted(3, [(process(2), 5)].into());
        at(1, 3, &[(2, 7)]);
        occupancy.forget(2);
        at(1, 1, &[(2, 5)]);
        assert_eq!(occupancy.place(1, |_| Err("no room")), Err("no room"));
        assert_eq!(occupancy.others(4), [(process(1), 2), (process(2), 5)].into(), "it keeps what it has");
    }
}
