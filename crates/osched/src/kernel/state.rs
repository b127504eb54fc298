//! What threads and groups have now: translators plan the differences to it.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Nanos, Result};
use anabranch_schedule::ThreadId;

use super::{GroupPath, GroupValue, Hierarchy, Proc, Quota, Scheduling, Usage, UsageReader};

/// What of the machine a translator looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// In which groups threads are, and what these have.
    pub groups: bool,
    /// How long threads ran.
    pub usage: bool,
}

/// The machine as far as schedules are concerned, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// When it was read, on the clock of the caller.
    pub at: Nanos,
    /// What does not change while osched runs.
    pub machine: Machine,
    /// The threads that were asked for and are there.
    pub threads: BTreeMap<ThreadId, ThreadState>,
    /// The groups in which the engines were found, and those that osched has made in them.
    pub groups: BTreeMap<GroupPath, GroupState>,
}

/// What does not change while osched runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// At least 1.
    pub cores: usize,
    /// The tree of cgroups that has the cpu controller.
    pub groups: Option<Hierarchy>,
    /// The slice of threads that have none of their own. `None` where the kernel has no slices per thread.
    pub default_slice_ns: Option<u64>,
    /// The share of each second that real-time threads may have; NaN if it is not known.
    pub real_time_share: f64,
    /// The beginning of the names of groups that this osched makes.
    pub label: String,
}

/// What a thread has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadState {
    /// As the engine calls it.
    pub name: String,
    /// Class, nice, slice.
    pub scheduling: Scheduling,
    /// Its group in the tree with the cpu controller, if groups were asked for.
    pub group: Option<GroupPath>,
    /// How long it ran, if that was asked for.
    pub usage: Option<Usage>,
}

/// What a group has. `None` where the kernel has no such value for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupState {
    /// `cpu.shares` of version 1.
    pub shares: Option<u64>,
    /// `cpu.weight` of version 2.
    pub weight: Option<u64>,
    /// How much processor time it may use.
    pub quota: Option<Quota>,
    /// Whether it only gets what no other wants.
    pub is_idle: Option<bool>,
    /// Of version 2: whether the groups in it have the cpu controller.
    pub controls_cpu: Option<bool>,
    /// Why no groups can be made in it, `None` if they can.
    pub takes_no_groups: Option<&'static str>,
}

impl Machine {
    /// This machine, for an osched that calls its groups `label`.
    pub fn of(kernel: &Proc, label: &str) -> Machine {
        Machine {
            cores: kernel.cores(),
            groups: kernel.cgroups().with_cpu(),
            default_slice_ns: kernel.default_slice_ns(),
            real_time_share: kernel.real_time_share(),
            label: label.to_owned(),
        }
    }
}

impl State {
    /// Reads what the threads, given with the names by which their engine calls them, have now. Those that
    /// have ended are left out.
    pub fn read(
        kernel: &Proc,
        machine: &Machine,
        threads: &BTreeMap<ThreadId, String>,
        needs: Needs,
        usages: &mut UsageReader,
        now: Nanos,
    ) -> Result<State> {
        let mut state = State { at: now, machine: machine.clone(), ..State::default() };
        let mut homes = BTreeSet::new();
        for (&id, name) in threads {
            let Some(scheduling) = kernel.scheduling(id)? else { continue };
            let mut thread = ThreadState { name: name.clone(), scheduling, group: None, usage: None };
            if needs.usage {
                thread.usage = usages.read(kernel, id)?;
            }
            if let Some(hierarchy) = machine.groups.filter(|_| needs.groups) {
                thread.group = kernel.thread_group(id, hierarchy)?;
                homes.extend(thread.group.iter().map(|group| group.home(&machine.label)));
            }
            state.threads.insert(id, thread);
        }
        for home in homes {
            let Ok(children) = kernel.children(&home) else { continue };
            for group in children.into_iter().filter(|group| group.is_of(&machine.label)).chain([home]) {
                state.groups.insert(group.clone(), kernel.group_state(&group)?);
            }
        }
        Ok(state)
    }
}

impl GroupState {
    pub(crate) fn set(&mut self, value: GroupValue) {
        match value {
            GroupValue::Shares(shares) => self.shares = Some(shares),
            GroupValue::Weight(weight) => self.weight = Some(weight),
            GroupValue::Quota(quota) => self.quota = Some(quota),
            GroupValue::Idle(is_idle) => self.is_idle = Some(is_idle),
            GroupValue::CpuControl(has) => self.controls_cpu = Some(has),
        }
    }
}

impl Proc {
    fn group_state(&self, group: &GroupPath) -> Result<GroupState> {
        let mut state = GroupState::default();
        let quota = GroupValue::Quota(Quota { quota_us: None, period_us: 0 });
        let of_version = match group.hierarchy {
            Hierarchy::V1 => [GroupValue::Shares(0), quota, GroupValue::Idle(false)].to_vec(),
            Hierarchy::V2 => {
                [GroupValue::Weight(0), quota, GroupValue::Idle(false), GroupValue::CpuControl(false)].to_vec()
            }
        };
        for like in of_version {
            if let Some(value) = self.present_of_group(group, like)? {
                state.set(value);
            }
        }
        state.takes_no_groups = self.takes_no_groups(group);
        Ok(state)
    }
}
