//! Weights of cgroups: a group for each group of the schedule, or for each thread, and on demand nice values
//! of the threads within it (section 5.3 of the paper: groups for queries, nice for their operators).
//!
//! Version 1 has `cpu.shares`, version 2 `cpu.weight`. A group of version 2 is a threaded one in the cgroup
//! in which the process is. That one stays the process's cgroup for all other controllers, and is an ordinary
//! one again after the undo.

use std::collections::BTreeMap;

use anabranch_schedule::{Scale, Schedule, ThreadId};

use super::groups::{Unit, plan, units};
use super::nice::Nice;
use super::spread::spread;
use super::{Options, Ranked, Translator, Write, ranked};
use crate::kernel::{GroupValue, Hierarchy, Needs, State};

pub(super) struct Weights {
    hierarchy: Hierarchy,
    factors: (f64, f64),
    mark: String,
    /// Within groups.
    nice: Option<Nice>,
}

impl Weights {
    /// For groups of a version.
    pub(super) fn new(hierarchy: Hierarchy, options: &Options, nice: Option<Nice>) -> Weights {
        Weights { hierarchy, factors: options.weight, mark: options.mark.clone(), nice }
    }

    fn plan_of(&self, units: &[Unit], scale: Scale, state: &State) -> Vec<Write> {
        // The value of groups that nobody has changed, and the least and the greatest one.
        let (default, least, most) = match self.hierarchy {
            Hierarchy::V1 => (1024.0, 2.0, 262_144.0),
            Hierarchy::V2 => (100.0, 1.0, 10_000.0),
        };
        let priorities: Vec<f64> = units.iter().map(|unit| unit.priority).collect();
        let factors = spread(&priorities, self.factors, scale);
        let values: Vec<f64> =
            factors.iter().zip(units).map(|(factor, unit)| default * factor * unit.threads()).collect();
        // All by one factor, so that their order stays.
        let fits = values.iter().copied().fold(most, f64::max) / most;
        let value = |at: usize| (values[at] / fits).round().clamp(least, most) as u64;
        plan(units, &self.mark, state, &|index, _| match self.hierarchy {
            Hierarchy::V1 => GroupValue::Shares(value(index)),
            Hierarchy::V2 => GroupValue::Weight(value(index)),
        })
    }
}

impl Translator for Weights {
    fn needs(&self) -> Needs {
        Needs { groups: true, usage: false }
    }

    fn plan(&mut self, schedule: &Schedule, scale: Scale, state: &State) -> Vec<Write> {
        let mut writes = self.plan_of(&units(schedule), scale, state);
        // Without groups in the schedule each thread is alone in its cgroup, where nice has no effect.
        if let Some(nice) = self.nice.as_ref().filter(|_| !schedule.groups.is_empty()) {
            for threads in by_group(schedule, state) {
                writes.extend(nice.plan_of(&threads, scale));
            }
        }
        writes
    }
}

/// The threads that have a priority within their group, by group; those of no group compete with each other.
fn by_group<'a>(schedule: &Schedule, state: &'a State) -> Vec<Vec<Ranked<'a>>> {
    let mut group_of: BTreeMap<ThreadId, &str> = BTreeMap::new();
    for (name, group) in &schedule.groups {
        group_of.extend(group.threads.iter().map(|id| (*id, name.as_str())));
    }
    let mut by_group: BTreeMap<Option<&str>, Vec<Ranked<'a>>> = BTreeMap::new();
    for thread in ranked(schedule, state) {
        if schedule.threads.contains_key(&thread.id) {
            by_group.entry(group_of.get(&thread.id).copied()).or_default().push(thread);
        }
    }
    by_group.into_values().collect()
}
