//! Routes messages at a worker's process: to the coordinator of each job, and to all coordinators of hosted
//! tasks.

use std::collections::{BTreeMap, VecDeque};

use anabranch_protocol::worker::Term;

use crate::shell::adoption::Hosted;
use crate::shell::messages::ToWorker;

/// Limit of the finished jobs whose terms are remembered.
const FORGOTTEN_MAX: usize = 1000;

/// Routes to coordinators. `C` is a connection to a coordinator.
pub struct Routes<C> {
    jobs: BTreeMap<u64, Route<C>>,
    /// The newest terms of jobs that are over here, the latest last: a coordinator that has lost such a job
    /// may not know it yet.
    forgotten: VecDeque<(u64, Term)>,
    /// The tasks that run.
    hosted: BTreeMap<u64, Hosted>,
    /// Coordinators that have accepted this process, by their numbers here.
    coordinators: BTreeMap<u64, C>,
    /// Number of workers that this process has had for jobs so far.
    lives: u64,
}

/// A job here.
struct Route<C> {
    /// The coordinator of the job, and its term.
    coordinator: C,
    term: Term,
    /// The number of the present worker of the job, among the workers of all jobs.
    life: u64,
}

/// What to do with a coordinator's message to a job's worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Refuse it: a later coordinator has the job.
    Refused,
    /// Reject it: it concerns tasks that are not here, or no longer. Its coordinator must be told.
    Missing,
    /// Pass it to the present worker of the job.
    Present,
    /// Pass it to a new worker of the job, of this life.
    New(u64),
}

impl<C> Default for Routes<C> {
    fn default() -> Self {
        Routes {
            jobs: BTreeMap::new(),
            forgotten: VecDeque::new(),
            hosted: BTreeMap::new(),
            coordinators: BTreeMap::new(),
            lives: 0,
        }
    }
}

impl<C> Routes<C> {
    /// A coordinator has accepted this process.
    pub fn joined(&mut self, number: u64, coordinator: C) {
        self.coordinators.insert(number, coordinator);
    }

    /// The connection to a coordinator is over.
    pub fn left(&mut self, number: u64) {
        self.coordinators.remove(&number);
    }

    /// The coordinators that have accepted this process.
    pub fn coordinators(&self) -> impl Iterator<Item = &C> {
        self.coordinators.values()
    }

    /// Handles a message of a job's coordinator. If it is accepted, the messages of the job's worker go to
    /// this coordinator from now on.
    pub fn arrives(&mut self, job: u64, (term, coordinator): (Term, C), message: &ToWorker) -> Arrival {
        if !self.accepts(job, term) {
            return Arrival::Refused;
        }
        let (life, arrival) = match self.jobs.get(&job) {
            Some(route) => (route.life, Arrival::Present),
            // Other messages concern tasks that were here.
            None if !matches!(message, ToWorker::Deploy(_)) => return Arrival::Missing,
            None => {
                self.lives += 1;
                (self.lives, Arrival::New(self.lives))
            }
        };
        self.jobs.insert(job, Route { coordinator, term, life });
        arrival
    }

    /// The jobs whose coordinator has this connection, and their terms.
    pub fn jobs_of(&self, is_it: impl Fn(&C) -> bool) -> impl Iterator<Item = (u64, Term)> {
        let reached = move |(job, route): (&u64, &Route<C>)| is_it(&route.coordinator).then_some((*job, route.term));
        self.jobs.iter().filter_map(reached)
    }

    /// Whether a message of this coordinator is accepted. False if a later coordinator has the job.
    #[must_use]
    pub fn accepts(&self, job: u64, term: Term) -> bool {
        let forgotten = || self.forgotten.iter().rev().find(|(other, _)| *other == job).map(|(_, term)| *term);
        let newest = self.jobs.get(&job).map(|route| route.term).or_else(forgotten);
        newest.is_none_or(|newest| term >= newest)
    }

    /// A job is over here. Later messages of its worker are dropped.
    pub fn forget(&mut self, job: u64) {
        if let Some(route) = self.jobs.remove(&job) {
            if self.forgotten.len() == FORGOTTEN_MAX {
                self.forgotten.pop_front();
            }
            self.forgotten.push_back((job, route.term));
        }
    }

    /// The coordinator of the job's worker of this life. `None`: the job is over here.
    #[must_use]
    pub fn coordinator(&self, job: u64, life: u64) -> Option<&C> {
        self.jobs.get(&job).filter(|route| route.life == life).map(|route| &route.coordinator)
    }

    /// The tasks that run here, by the numbers of their jobs.
    #[must_use]
    pub fn hosted(&self) -> &BTreeMap<u64, Hosted> {
        &self.hosted
    }

    /// The tasks of a job run here, or no longer. Returns the coordinators that must be told.
    pub fn hosts(&mut self, job: u64, hosted: Option<Hosted>) -> impl Iterator<Item = &C> {
        let is_news = hosted.is_some() || self.hosted.contains_key(&job);
        match hosted {
            Some(hosted) => drop(self.hosted.insert(job, hosted)),
            None => drop(self.hosted.remove(&job)),
        }
        self.coordinators.values().filter(move |_| is_news)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::Incarnation;
    use anabranch_protocol::message::Downward;

    use super::*;

    fn hold() -> ToWorker {
        ToWorker::Protocol(Box::new(Downward::Hold { incarnation: Incarnation(1), held: false }))
    }

    #[test]
    fn a_worker_of_a_job_that_is_over_is_not_heard_and_an_older_coordinator_is_refused() {
        let mut routes = Routes::default();
        assert_eq!(routes.arrives(7, (Term(4), "later"), &hold()), Arrival::Missing);
        let deploy = crate::shell::messages::tests::to_worker().remove(0);
        assert_eq!(routes.arrives(7, (Term(4), "later"), &deploy), Arrival::New(1));
        assert_eq!(routes.coordinator(7, 1), Some(&"later"));
        assert_eq!(routes.arrives(7, (Term(3), "former"), &deploy), Arrival::Refused);
        assert_eq!(routes.arrives(7, (Term(4), "later"), &hold()), Arrival::Present);
        routes.forget(7);
        assert_eq!(routes.coordinator(7, 1), None);
        assert!(!routes.accepts(7, Term(3)), "its tasks would run without a coordinator");
        assert!(routes.accepts(7, Term(5)) && routes.accepts(8, Term(1)));
        assert_eq!(routes.arrives(7, (Term(5), "next"), &deploy), Arrival::New(2));
        assert_eq!((routes.coordinator(7, 1), routes.coordinator(7, 2)), (None, Some(&"next")));
    }
}
