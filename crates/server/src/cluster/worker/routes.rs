//! Who hears what at a worker's process: the coordinator of each job, and all coordinators of what the process hosts.

use std::collections::{BTreeMap, VecDeque};

use anabranch_protocol::worker::Term;
use anabranch_runtime::Hosted;

use super::super::messages::FromProcess;
use crate::control::Connection;

/// Jobs that are over here and whose terms are known still.
const FORGOTTEN_MAX: usize = 1000;

/// Who hears what. `C` is a connection to a coordinator.
pub(super) struct Routes<C = Connection<FromProcess>> {
    jobs: BTreeMap<u64, Route<C>>,
    /// The newest terms of jobs that are over here, the latest last: a coordinator that lost the job before may not know that yet.
    forgotten: VecDeque<(u64, Term)>,
    /// The tasks that run.
    pub(super) hosted: BTreeMap<u64, Hosted>,
    /// Coordinators that have accepted this process, by their places in the list.
    pub(super) coordinators: BTreeMap<usize, C>,
}

/// A job here.
struct Route<C> {
    /// The coordinator that has it, and its term.
    coordinator: C,
    term: Term,
    /// Which of the workers that this process had for the job.
    life: u64,
}

impl<C> Default for Routes<C> {
    fn default() -> Self {
        Routes {
            jobs: BTreeMap::new(),
            forgotten: VecDeque::new(),
            hosted: BTreeMap::new(),
            coordinators: BTreeMap::new(),
        }
    }
}

impl<C> Routes<C> {
    /// A coordinator has sent a message of a job. False if a later one has the job.
    pub(super) fn accepts(&self, job: u64, term: Term) -> bool {
        let forgotten = || self.forgotten.iter().rev().find(|(of, _)| *of == job).map(|(_, term)| *term);
        let newest = self.jobs.get(&job).map(|route| route.term).or_else(forgotten);
        newest.is_none_or(|newest| term >= newest)
    }

    /// The coordinator of a job's worker.
    pub(super) fn insert(&mut self, job: u64, life: u64, (term, coordinator): (Term, C)) {
        self.jobs.insert(job, Route { coordinator, term, life });
    }

    /// A job is over here, whatever its worker still says.
    pub(super) fn forget(&mut self, job: u64) {
        if let Some(route) = self.jobs.remove(&job) {
            if self.forgotten.len() == FORGOTTEN_MAX {
                self.forgotten.pop_front();
            }
            self.forgotten.push_back((job, route.term));
        }
    }

    /// The coordinator that hears the job's worker of this life. `None`: the job is over here.
    pub(super) fn coordinator(&self, job: u64, life: u64) -> Option<&C> {
        self.jobs.get(&job).filter(|route| route.life == life).map(|route| &route.coordinator)
    }
}

impl Routes {
    /// The tasks of a job run here, or do not any more: all coordinators hear of it.
    pub(super) fn hosts(&mut self, job: u64, hosted: Option<Hosted>) {
        let is_known = self.hosted.contains_key(&job);
        if hosted.is_some() || is_known {
            let message = FromProcess::Hosts { job, hosted: hosted.clone() };
            self.coordinators.values().for_each(|connection| connection.send(&message));
        }
        match hosted {
            Some(hosted) => drop(self.hosted.insert(job, hosted)),
            None => drop(self.hosted.remove(&job)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_of_a_job_that_is_over_is_not_heard_and_an_older_coordinator_is_refused() {
        let mut routes = Routes::default();
        routes.insert(7, 1, (Term(4), "later"));
        assert_eq!(routes.coordinator(7, 1), Some(&"later"));
        assert!(!routes.accepts(7, Term(3)) && routes.accepts(7, Term(4)));
        routes.forget(7);
        assert_eq!(routes.coordinator(7, 1), None);
        assert!(!routes.accepts(7, Term(3)), "its tasks would run without a coordinator");
        assert!(routes.accepts(7, Term(5)) && routes.accepts(8, Term(1)));
        routes.insert(7, 2, (Term(5), "next"));
        assert_eq!((routes.coordinator(7, 1), routes.coordinator(7, 2)), (None, Some(&"next")));
    }
}
