//! What osched may change, and what it leaves alone. The first part are rules, for each process and each
//! thread; the second finds out what this user may do here.

mod abilities;
mod report;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use anabranch_model::{Error, Result};
use anabranch_schedule::ThreadId;

use crate::kernel::{Change, GroupPath, Proc, Process, State, ThreadState, ThreadValue, system_calls};
use crate::translator::Write;

pub use abilities::{Abilities, Ability};
pub use report::{Line, Report};

/// The user as whom this process acts.
pub fn user() -> u32 {
    system_calls::effective_user()
}

/// The rules for the writes of one osched.
#[derive(Clone, Debug)]
pub struct Rules {
    /// What this user may do.
    pub abilities: Abilities,
    /// The threads that drivers have named. Others are not touched.
    pub threads: BTreeSet<ThreadId>,
    /// Whether threads in a cpuset other than that of osched may be changed.
    pub other_cpusets: bool,
    /// Whether osched's own translator may make threads real-time.
    pub real_time: bool,
}

/// What remains of a plan.
#[derive(Debug, Default)]
pub struct Sifted {
    /// In the order of the plan.
    pub permitted: Vec<Write>,
    /// What is left out, each with the reason.
    pub refused: Vec<(Write, String)>,
}

/// Whether a process may be changed. `is_named` says that the user has named it: by its number, its address
/// or a pattern.
pub fn check_process(process: &Process, is_named: bool) -> Result<()> {
    let refuse = |message: String, remedy: &str| {
        Err(Error::user(message).at(format!("process {} ({})", process.pid, process.name)).remedy(remedy))
    };
    let own = user();
    if process.pid == std::process::id() {
        return refuse("osched does not schedule itself".to_owned(), "name the process of an engine");
    }
    if process.pid == 1 {
        return refuse("process 1 starts all others".to_owned(), "name the process of an engine");
    }
    if process.is_kernel_thread {
        return refuse("a thread of the kernel".to_owned(), "name the process of an engine");
    }
    if process.uid != own && own != 0 {
        let remedy = "run osched as that user, or as root";
        return refuse(format!("it belongs to user {}, and osched runs as user {own}", process.uid), remedy);
    }
    if process.uid != own && !is_named {
        let remedy = "name it in the configuration: by its pid, its address, or a pattern of its command line";
        return refuse(format!("it belongs to user {}, and no target names it", process.uid), remedy);
    }
    Ok(())
}

/// Whether a process is in a cpuset with other cores than that of osched: an administrator has given it a
/// part of the machine.
pub fn has_other_cpuset(kernel: &Proc, pid: u32) -> Result<bool> {
    let (own, theirs) = (kernel.cpuset(std::process::id())?, kernel.cpuset(pid)?);
    Ok(theirs.is_some() && own != theirs)
}

impl Rules {
    /// Separates what may be written from what is left out. `cpusets` are the processes that
    /// [`has_other_cpuset`].
    #[must_use]
    pub fn sift(&self, plan: Vec<Write>, state: &State, cpusets: &BTreeSet<u32>) -> Sifted {
        let mut sifted = Sifted::default();
        for write in plan {
            match self.refusal(&write.change, state, cpusets) {
                None => sifted.permitted.push(write),
                Some(why) => sifted.refused.push((write, why)),
            }
        }
        sifted
    }

    /// Why a thread is left alone, `None` if it is not.
    #[must_use]
    pub fn refusal_of_thread(&self, id: ThreadId, thread: &ThreadState, cpusets: &BTreeSet<u32>) -> Option<String> {
        let class = thread.scheduling.class;
        if !self.threads.contains(&id) {
            return Some("no driver has named this thread".to_owned());
        }
        // What osched has made real-time resets on fork; so may others be, but the journal then has their
        // class.
        if class.policy.is_foreign() && !(self.real_time && class.resets_on_fork) {
            return Some(format!("it is of class {} already, and is left alone", class.policy));
        }
        if cpusets.contains(&id.pid) && !self.other_cpusets {
            let why =
                "its cpuset is not that of osched: it is left alone, unless osched.toml says other-cpusets = true";
            return Some(why.to_owned());
        }
        None
    }

    fn refusal(&self, change: &Change, state: &State, cpusets: &BTreeSet<u32>) -> Option<String> {
        match change {
            Change::Thread { thread, value } => {
                let Some(present) = state.threads.get(thread) else { return Some("it has ended".to_owned()) };
                let refusal = self.refusal_of_thread(*thread, present, cpusets);
                refusal.or_else(|| self.refusal_of_value(value, present, state))
            }
            Change::Create { group } | Change::Remove { group } => self.refusal_of_group(group, state),
            Change::Group { group, .. } => self.refusal_of_group(group, state),
        }
    }

    /// What this user could not take back is not written.
    fn refusal_of_value(&self, value: &ThreadValue, present: &ThreadState, state: &State) -> Option<String> {
        let abilities = &self.abilities;
        let present = present.scheduling;
        match value {
            ThreadValue::Nice(_) if present.nice < abilities.best_nice => Some(format!(
                "its nice {} could not be restored: this user may set {} at best",
                present.nice, abilities.best_nice
            )),
            ThreadValue::Nice(nice) if *nice < abilities.best_nice => {
                Some(format!("this user may set nice {} at best", abilities.best_nice))
            }
            ThreadValue::Class(class)
                if class.policy.is_real_time() && !(self.real_time && abilities.real_time.is_yes()) =>
            {
                Some("real-time was not asked for, or this user may not set it".to_owned())
            }
            ThreadValue::Class(class)
                if class.policy == crate::kernel::Policy::Idle && present.nice < abilities.best_nice =>
            {
                Some("this user could not take the thread out of the idle class again".to_owned())
            }
            ThreadValue::SliceNs(_) if state.machine.default_slice_ns.is_none() => {
                Some("this kernel has no slices per thread".to_owned())
            }
            ThreadValue::Group(group) => self.refusal_of_group(group, state),
            _ => None,
        }
    }

    /// Groups are made in that in which the engine was found. Where that was not read, what this user may do
    /// in its own one counts.
    fn refusal_of_group(&self, group: &GroupPath, state: &State) -> Option<String> {
        if let Some(home) = state.groups.get(&group.home(&state.machine.label)) {
            return home.takes_no_groups.map(str::to_owned);
        }
        match self.abilities.groups(group.hierarchy) {
            Ability::Yes => None,
            Ability::No { why, .. } => Some(why.clone()),
        }
    }
}
