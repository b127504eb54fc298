//! The slots that each job has taken at each worker, for all jobs of a process: placement spreads the tasks
//! of all jobs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_model::{StageId, TaskId};
use anabranch_protocol::membership::Process;

/// Numbers of slots.
type Slots = BTreeMap<Process, u32>;

/// The slots that these tasks take: for each process the largest number of its tasks of one stage.
fn slots<'a>(placed: impl IntoIterator<Item = (&'a TaskId, &'a Process)>) -> Slots {
    let (mut of_stage, mut slots) = (BTreeMap::<(Process, StageId), u32>::new(), Slots::new());
    for (task, process) in placed {
        let tasks = of_stage.entry((*process, task.stage)).or_default();
        *tasks += 1;
        let most = slots.entry(*process).or_default();
        *most = (*most).max(*tasks);
    }
    slots
}

/// The slots of all jobs of a coordinator's process, as their tasks were placed or adopted.
#[derive(Debug, Default)]
pub struct Occupancy(Mutex<BTreeMap<u64, Slots>>);

impl Occupancy {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Slots>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Places the tasks of a job, given the slots of the others. No other job is placed at the same time.
    pub(crate) fn place<E>(
        &self,
        job: u64,
        choose: impl FnOnce(&Slots) -> Result<BTreeMap<TaskId, Process>, E>,
    ) -> Result<BTreeMap<TaskId, Process>, E> {
        let mut jobs = self.lock();
        let placement = choose(&others(&jobs, job))?;
        jobs.insert(job, slots(&placement));
        Ok(placement)
    }

    pub(crate) fn others(&self, job: u64) -> Slots {
        others(&self.lock(), job)
    }

    /// Records the tasks of an adopted job.
    pub(crate) fn adopted(&self, job: u64, placed: &BTreeMap<TaskId, Process>) {
        self.lock().insert(job, slots(placed));
    }

    /// Forgets a job that is over in this process.
    pub(crate) fn forget(&self, job: u64) {
        self.lock().remove(&job);
    }
}

fn others(jobs: &BTreeMap<u64, Slots>, job: u64) -> Slots {
    let mut all = Slots::new();
    let taken = jobs.iter().filter(|(other, _)| **other != job).flat_map(|(_, slots)| slots);
    taken.for_each(|(process, slots)| *all.entry(*process).or_default() += slots);
    all
}

#[cfg(test)]
mod tests {
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
                let seen: Slots = seen.iter().map(|(worker, tasks)| (process(*worker), *tasks)).collect();
                assert_eq!(*others, seen, "job {job}");
                let task = |index| (TaskId { stage: StageId(0), index }, process(worker));
                Ok::<_, ()>([task(0), task(1)].into())
            });
            assert!(placed.is_ok());
        };
        at(1, 1, &[]);
        at(2, 1, &[(1, 2)]);
        at(2, 2, &[(1, 2)]);
        let placed = |stage, index| (TaskId { stage: StageId(stage), index }, process(2));
        occupancy.adopted(3, &[placed(0, 0), placed(1, 0), placed(1, 1), placed(1, 2), placed(2, 0)].into());
        at(1, 3, &[(2, 5)]);
        occupancy.forget(2);
        at(1, 1, &[(2, 3)]);
        assert_eq!(occupancy.place(1, |_| Err("no room")), Err("no room"));
        assert_eq!(occupancy.others(4), [(process(1), 2), (process(2), 3)].into(), "it keeps what it has");
    }
}
