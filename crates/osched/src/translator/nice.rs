//! Nice values: one step is a ratio of 1.25 between the shares of two threads. They count within a session
//! (with autogroups) or a cgroup.

use anabranch_schedule::{Range, Scale, Schedule, normalize};

use super::{Options, Ranked, Translator, Write, priorities, ranked, write};
use crate::kernel::{State, ThreadValue};

pub(super) struct Nice {
    range: Range,
}

impl Nice {
    pub(super) fn new(options: &Options) -> Nice {
        let (worst, best) = options.nice;
        Nice { range: Range { worst: worst.into(), best: best.into() } }
    }

    /// The writes for threads that compete with each other.
    pub(super) fn plan_of(&self, threads: &[Ranked<'_>], scale: Scale) -> Vec<Write> {
        let priorities = priorities(threads);
        // A policy without an opinion leaves threads where they were.
        let values = match are_alike(&priorities) {
            true => vec![0.clamp(self.range.best, self.range.worst); threads.len()],
            false => normalize(&priorities, self.range, scale),
        };
        let pairs = threads.iter().zip(values).map(|(thread, nice)| (thread, nice as i32));
        let differing = pairs.filter(|(thread, nice)| thread.state.scheduling.nice != *nice);
        differing
            .map(|(thread, nice)| {
                write(thread, &ThreadValue::Nice(thread.state.scheduling.nice), ThreadValue::Nice(nice))
            })
            .collect()
    }
}

/// Whether all finite priorities are equal. Threads of the engine itself have an infinite one.
fn are_alike(priorities: &[f64]) -> bool {
    let mut known = priorities.iter().filter(|priority| priority.is_finite());
    let first = known.next();
    known.all(|priority| Some(priority) == first)
}

impl Translator for Nice {
    fn plan(&mut self, schedule: &Schedule, scale: Scale, state: &State) -> Vec<Write> {
        self.plan_of(&ranked(schedule, state), scale)
    }
}
