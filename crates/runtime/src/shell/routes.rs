//! Who hears what at a worker's process: the coordinator of each job, and all coordinators of what the
//! process hosts.

use std::collections::{BTreeMap, VecDeque};

use anabranch_protocol::worker::Term;

use crate::shell::adoption::Hosted;
use crate::shell::messages::ToWorker;

/// Jobs that are over here and whose terms are known still.
const FORGOTTEN_MAX: usize = 1000;

/// Who hears what. `C` is a connection to a coordinator.
pub struct Routes<C> {
    jobs: BTreeMap<u64, Route<C>>,
    /// The newest terms of jobs that are over here, the latest last: a coordinator that lost the job before
    /// may not know that yet.
    forgotten: VecDeque<(u64, Term)>,
    /// The tasks that run.
    hosted: BTreeMap<u64, Hosted>,
    /// Coordinators that have accepted this process, by their numbers here.
    coordinators: BTreeMap<u64, C>,
    /// How many workers of jobs there were.
    lives: u64,
}

/// A job here.
struct Route<C> {
    /// The coordinator that has it, and its term.
    coordinator: C,
    term: Term,
    /// Which of the workers that this process had for the job.
    life: u64,
}

/// What becomes of a message that a coordinator has sent to a job's worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A later coordinator has the job.
    Refused,
    /// It concerns tasks that are not here, or not any more. Its coordinator is to be told.
    Missing,
    /// It is for the present worker of the job.
    Present,
    /// It is for a new worker of the job, of this life.
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

    /// A message of a job's coordinator has arrived. If it is taken, what the job's worker says goes to this
    /// coordinator from now on.
    pub fn arrives(&mut self, job: u64, (term, coordinator): (Term, C), message: &ToWorker) -> Arrival {
        if !self.accepts(job, term) {
            return Arrival::Refused;
        }
        let (life, arrival) = match self.jobs.get(&job) {
            Some(route) => (route.life, Arrival::Present),
            // Everything else concerns tasks that were here.
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
        let of = move |(job, route): (&u64, &Route<C>)| is_it(&route.coordinator).then_some((*job, route.term));
        self.jobs.iter().filter_map(of)
    }

    /// A coordinator has sent a message of a job. False if a later one has the job.
    #[must_use]
    pub fn accepts(&self, job: u64, term: Term) -> bool {
        let forgotten = || self.forgotten.iter().rev().find(|(of, _)| *of == job).map(|(_, term)| *term);
        let newest = self.jobs.get(&job).map(|route| route.term).or_else(forgotten);
        newest.is_none_or(|newest| term >= newest)
    }

    /// A job is over here, whatever its worker still says.
    pub fn forget(&mut self, job: u64) {
        if let Some(route) = self.jobs.remove(&job) {
            if self.forgotten.len() == FORGOTTEN_MAX {
                self.forgotten.pop_front();
            }
            self.forgotten.push_back((job, route.term));
        }
    }

    /// The coordinator that hears the job's worker of this life. `None`: the job is over here.
    #[must_use]
    pub fn coordinator(&self, job: u64, life: u64) -> Option<&C> {
        self.jobs.get(&job).filter(|route| route.life == life).map(|route| &route.coordinator)
    }

    /// The tasks that run here, by the numbers of their jobs.
    #[must_use]
    pub fn hosted(&self) -> &BTreeMap<u64, Hosted> {
        &self.hosted
    }

    /// The tasks of a job run here, or do not any more. Returns the coordinators that must hear of it.
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
