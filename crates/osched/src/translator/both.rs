//! A cgroup for each group of the schedule, by the version that the machine has, and nice values of the
//! threads within it (section 5.3 of the paper: groups for queries, nice for their operators).

use std::collections::{BTreeMap, BTreeSet};

use anabranch_schedule::{Scale, Schedule, ThreadId};

use super::groups::units;
use super::nice::Nice;
use super::shares::Shares;
use super::weight::Weight;
use super::{Options, Ranked, Translator, Write, ranked};
use crate::kernel::{Hierarchy, Needs, State};

pub(super) struct Both {
    groups: Groups,
    /// Within groups.
    nice: Option<Nice>,
}

enum Groups {
    V1(Shares),
    V2(Weight),
}

impl Both {
    pub(super) fn with_nice(hierarchy: Hierarchy, options: &Options) -> Both {
        Both { nice: Some(Nice::new(options)), ..Both::without_nice(hierarchy, options) }
    }

    pub(super) fn without_nice(hierarchy: Hierarchy, options: &Options) -> Both {
        let groups = match hierarchy {
            Hierarchy::V1 => Groups::V1(Shares::new(options)),
            Hierarchy::V2 => Groups::V2(Weight::new(options)),
        };
        Both { groups, nice: None }
    }
}

impl Translator for Both {
    fn name(&self) -> &'static str {
        if self.nice.is_some() { "both" } else { "groups" }
    }

    fn describe(&self) -> String {
        let groups = match &self.groups {
            Groups::V1(shares) => shares.describe(),
            Groups::V2(weight) => weight.describe(),
        };
        match &self.nice {
            Some(nice) => format!("{groups}; in each group nice {}", nice.range()),
            None => groups,
        }
    }

    fn needs(&self) -> Needs {
        Needs { groups: true, usage: false }
    }

    fn plan(&mut self, schedule: &Schedule, scale: Scale, state: &State) -> Vec<Write> {
        let units = units(schedule);
        let mut writes = match &self.groups {
            Groups::V1(shares) => shares.plan_of(&units, scale, state),
            Groups::V2(weight) => weight.plan_of(&units, scale, state),
        };
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
    let member = |(name, threads): (&'_ String, &BTreeSet<ThreadId>)| {
        threads.iter().map(|id| (*id, name.clone())).collect::<Vec<_>>()
    };
    let group_of: BTreeMap<ThreadId, String> =
        schedule.groups.iter().flat_map(|(name, group)| member((name, &group.threads))).collect();
    let mut by_group: BTreeMap<Option<&String>, Vec<Ranked<'a>>> = BTreeMap::new();
    for thread in ranked(schedule, state) {
        if schedule.threads.contains_key(&thread.id) {
            by_group.entry(group_of.get(&thread.id)).or_default().push(thread);
        }
    }
    by_group.into_values().collect()
}
