//! What the translators for cgroups share: which group a thread belongs to, how groups are made in place,
//! filled and removed.
//!
//! In place means: a group lies in the cgroup in which its threads are found, so that all limits of that one
//! (memory, quota) stay in force. Weights of groups count within it; against the rest of the machine the
//! cgroup counts as before.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{HASH_SEED, hash_bytes};
use anabranch_schedule::{Schedule, ThreadId};

use super::{Write, reason};
use crate::kernel::{Change, GroupPath, GroupState, GroupValue, Hierarchy, State, ThreadValue};

/// Bytes of a group's name that are kept; the kernel allows 255 for the whole.
const NAME_BYTES_MAX: usize = 80;

/// Threads that share a group.
pub(super) struct Unit {
    /// In the schedule.
    name: String,
    pub(super) priority: f64,
    threads: Vec<ThreadId>,
}

impl Unit {
    /// What the kernel's default value of a group is multiplied with: a group competes with single threads in
    /// its cgroup, those that no driver names among them. With one thread's value, ten threads of a query
    /// would get as much as one such thread.
    pub(super) fn threads(&self) -> f64 {
        self.threads.len().max(1) as f64
    }
}

/// The groups of the schedule, or one for each thread if it has none.
pub(super) fn units(schedule: &Schedule) -> Vec<Unit> {
    if schedule.groups.is_empty() {
        let unit = |(id, priority): (&ThreadId, &f64)| Unit {
            name: format!("{}-{}", id.pid, id.tid),
            priority: *priority,
            threads: vec![*id],
        };
        return schedule.threads.iter().map(unit).collect();
    }
    let unit = |(name, group): (&String, &anabranch_schedule::Group)| Unit {
        name: name.clone(),
        priority: group.priority,
        threads: group.threads.iter().copied().collect(),
    };
    schedule.groups.iter().map(unit).collect()
}

/// A name of letters, digits, `-` and `_`. Where others were replaced, a hash keeps different names
/// different.
pub(super) fn plain(name: &str) -> String {
    let replaced = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    let plain: String = name.chars().map(replaced).take(NAME_BYTES_MAX).collect();
    if plain == name { plain } else { format!("{plain}-{:08x}", hash_bytes(HASH_SEED, name.as_bytes()) as u32) }
}

/// The values that a unit's group gets, given the group in which it lies.
pub(super) type Values<'a> = &'a dyn Fn(usize, &GroupState) -> GroupValue;

/// The writes that put the threads of each unit into its group and give the groups their values. Groups of
/// this mark that have no unit any more are removed.
pub(super) fn plan(units: &[Unit], mark: &str, state: &State, values: Values<'_>) -> Vec<Write> {
    let prefix = format!("{}.{mark}.", state.machine.label);
    let mut wanted: BTreeMap<GroupPath, (usize, Vec<ThreadId>)> = BTreeMap::new();
    for (index, unit) in units.iter().enumerate() {
        for id in &unit.threads {
            let Some(thread) = state.threads.get(id) else { continue };
            let Some(group) = thread.group.as_ref().filter(|_| !thread.scheduling.class.policy.is_foreign()) else {
                continue;
            };
            let target = group.home(&state.machine.label).child(&format!("{prefix}{}", plain(&unit.name)));
            wanted.entry(target).or_insert_with(|| (index, Vec::new())).1.push(*id);
        }
    }
    let mut plan = Plan { state, writes: Vec::new(), controlled: BTreeSet::new() };
    for (group, (index, threads)) in &wanted {
        let home = group.parent();
        let value = values(*index, &state.groups.get(&home).copied().unwrap_or_default());
        plan.fill(group, &units[*index], value, threads);
    }
    for group in state.groups.keys().filter(|g| g.name().starts_with(&prefix) && !wanted.contains_key(g)) {
        let change = Change::Remove { group: group.clone() };
        plan.add(change, String::new(), String::new(), "no scheduled threads".to_owned());
    }
    plan.writes
}

struct Plan<'a> {
    state: &'a State,
    writes: Vec<Write>,
    /// Groups of version 2 whose children get the cpu controller by this plan.
    controlled: BTreeSet<GroupPath>,
}

impl Plan<'_> {
    fn add(&mut self, change: Change, before: String, subject: String, reason: String) {
        self.writes.push(Write { change, before, subject, reason });
    }

    fn fill(&mut self, group: &GroupPath, unit: &Unit, value: GroupValue, threads: &[ThreadId]) {
        let present = self.state.groups.get(group);
        if present.is_none() {
            let change = Change::Create { group: group.clone() };
            self.add(change, String::new(), String::new(), format!("for '{}'", unit.name));
        }
        self.give_control(&group.parent());
        let before = present.and_then(|present| present.like(value));
        if before.is_none_or(|before| differs(before, value)) {
            let before = before.map_or_else(String::new, |before| before.to_string());
            self.add(Change::Group { group: group.clone(), value }, before, String::new(), reason(unit.priority));
        }
        for id in threads {
            let Some(thread) = self.state.threads.get(id).filter(|thread| thread.group.as_ref() != Some(group)) else {
                continue;
            };
            let before = thread.group.as_ref().map_or_else(String::new, |group| group.path.clone());
            let change = Change::Thread { thread: *id, value: ThreadValue::Group(group.clone()) };
            self.add(change, before, thread.name.clone(), reason(unit.priority));
        }
    }

    /// Groups of version 2 have a weight only if the group above passes the controller on.
    fn give_control(&mut self, home: &GroupPath) {
        let has = self.state.groups.get(home).is_some_and(|home| home.controls_cpu == Some(true));
        if home.hierarchy == Hierarchy::V1 || has || !self.controlled.insert(home.clone()) {
            return;
        }
        let change = Change::Group { group: home.clone(), value: GroupValue::CpuControl(true) };
        self.add(change, "off".to_owned(), String::new(), "its groups need weights".to_owned());
    }
}

impl GroupState {
    /// The present value of the same kind.
    fn like(&self, value: GroupValue) -> Option<GroupValue> {
        match value {
            GroupValue::Shares(_) => self.shares.map(GroupValue::Shares),
            GroupValue::Weight(_) => self.weight.map(GroupValue::Weight),
            GroupValue::Quota(_) => self.quota.map(GroupValue::Quota),
            GroupValue::Idle(_) => self.is_idle.map(GroupValue::Idle),
            GroupValue::CpuControl(_) => self.controls_cpu.map(GroupValue::CpuControl),
        }
    }
}

fn differs(present: GroupValue, wanted: GroupValue) -> bool {
    let differ = |a: f64, b: f64| super::spread::differs(a, b);
    match (present, wanted) {
        (GroupValue::Shares(a), GroupValue::Shares(b)) | (GroupValue::Weight(a), GroupValue::Weight(b)) => {
            differ(a as f64, b as f64)
        }
        (GroupValue::Quota(a), GroupValue::Quota(b)) => {
            a.quota_us.is_some() != b.quota_us.is_some() || (b.quota_us.is_some() && differ(a.cores(), b.cores()))
        }
        _ => present != wanted,
    }
}
