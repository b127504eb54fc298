//! The usual, the batch and the idle class of threads, and idle groups. A thread of the batch class does not
//! interrupt others when it wakes; what is idle runs when nothing else wants the core.

use anabranch_schedule::{Range, Scale, Schedule, normalize};

use super::groups::{plan, units};
use super::spread::without_ladder;
use super::{Options, Translator, Write, priorities, ranked, write};
use crate::kernel::{Class, GroupValue, Needs, Policy, State, ThreadValue};

pub(super) struct ClassOfThreads {
    /// The lowest first.
    policies: &'static [Policy],
}

impl ClassOfThreads {
    pub(super) fn new(options: &Options) -> ClassOfThreads {
        let policies: &[Policy] = match options.idle {
            true => &[Policy::Idle, Policy::Batch, Policy::Other],
            false => &[Policy::Batch, Policy::Other],
        };
        ClassOfThreads { policies }
    }
}

impl Translator for ClassOfThreads {
    fn plan(&mut self, schedule: &Schedule, scale: Scale, state: &State) -> Vec<Write> {
        let threads = ranked(schedule, state);
        let range = Range { worst: 0, best: self.policies.len() as i64 - 1 };
        let places = normalize(&priorities(&threads), range, without_ladder(scale));
        let mut writes = Vec::new();
        for (thread, place) in threads.iter().zip(places) {
            let present = thread.state.scheduling.class;
            let wanted = Class { policy: self.policies[place as usize], ..present };
            if wanted != present {
                writes.push(write(thread, &ThreadValue::Class(present), ThreadValue::Class(wanted)));
            }
        }
        writes
    }
}

pub(super) struct IdleGroups {
    mark: String,
}

impl IdleGroups {
    pub(super) fn new(options: &Options) -> IdleGroups {
        IdleGroups { mark: options.mark.clone() }
    }
}

impl Translator for IdleGroups {
    fn needs(&self) -> Needs {
        Needs { groups: true, usage: false }
    }

    fn plan(&mut self, schedule: &Schedule, scale: Scale, state: &State) -> Vec<Write> {
        let units = units(schedule);
        let priorities: Vec<f64> = units.iter().map(|unit| unit.priority).collect();
        // The middle, which unknown and equal priorities get, is not idle.
        let range = Range { worst: 0, best: 10 };
        let places = normalize(&priorities, range, without_ladder(scale));
        plan(&units, &self.mark, state, &|index, _| GroupValue::Idle(places[index] < 5))
    }
}
