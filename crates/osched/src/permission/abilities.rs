//! What this user may do here, found by trying each mechanism on a thread that is started for that, and on an
//! empty cgroup.

use std::io;

use anabranch_model::{Error, Result};

use crate::kernel::{
    Change, Class, GroupPath, Hierarchy, NICE_RANGE, Policy, Proc, Scheduling, has_cpu_controller, system_calls,
};

/// Whether a mechanism works for this user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ability {
    /// It does, and can be taken back.
    Yes,
    /// It does not.
    No {
        /// The reason.
        why: String,
        /// What would make it work.
        remedy: String,
    },
}

/// What this user may do with threads of its own, and root with those of all users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// The best nice value that this user may set: -20 for root, 19 at the least. A thread whose nice is
    /// better cannot be restored, and is left alone.
    pub best_nice: i32,
    /// The batch class.
    pub batch: Ability,
    /// The idle class, and to leave it again.
    pub idle: Ability,
    /// Slices per thread.
    pub slice: Ability,
    /// The real-time classes.
    pub real_time: Ability,
    /// Groups of cgroup version 1 in the group of this process.
    pub v1: Ability,
    /// Threaded groups of cgroup version 2 in the group of this process.
    pub v2: Ability,
}

const NICE_REMEDY: &str = "run osched as root or with CAP_SYS_NICE (setcap cap_sys_nice+ep), or raise RLIMIT_NICE: \
                           'USER - nice -10' in /etc/security/limits.conf, LimitNICE=-10 of a systemd unit";
const SLICE_REMEDY: &str = "use Linux 6.12 or later; the other mechanisms do not need it";

impl Ability {
    /// Whether it works.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        *self == Ability::Yes
    }

    fn no(why: impl Into<String>, remedy: &str) -> Ability {
        Ability::No { why: why.into(), remedy: remedy.to_owned() }
    }

    fn of(tried: io::Result<()>, remedy: &str) -> Ability {
        match tried {
            Ok(()) => Ability::Yes,
            Err(error) => Ability::no(format!("the kernel refuses it: {error}"), remedy),
        }
    }
}

impl Abilities {
    /// Tries everything. What is tried ends with a thread or is removed at once.
    pub fn find(kernel: &Proc) -> Result<Abilities> {
        let has_slices = kernel.default_slice_ns().is_some();
        let tried =
            std::thread::Builder::new().name("osched-trial".to_owned()).spawn(move || try_on_itself(has_slices));
        let tried = tried.ok().and_then(|thread| thread.join().ok());
        let (best_nice, batch, idle, slice, real_time) = tried.ok_or_else(|| {
            Error::outside("cannot start a thread to try what this user may do")
                .remedy("raise the limit of threads (ulimit -u)")
        })?;
        let (v1, v2) = (try_groups(kernel, Hierarchy::V1), try_groups(kernel, Hierarchy::V2));
        Ok(Abilities { best_nice, batch, idle, slice, real_time, v1, v2 })
    }

    /// Whether groups of a version can be made.
    #[must_use]
    pub fn groups(&self, hierarchy: Hierarchy) -> &Ability {
        match hierarchy {
            Hierarchy::V1 => &self.v1,
            Hierarchy::V2 => &self.v2,
        }
    }
}

/// The best nice value, then batch, idle, slice and real-time. Changes the calling thread, which ends
/// afterwards.
fn try_on_itself(has_slices: bool) -> (i32, Ability, Ability, Ability, Ability) {
    let Ok(own) = system_calls::scheduling(0) else {
        let no = Ability::no("the kernel does not tell a thread its class", "run osched on Linux");
        return (NICE_RANGE.0, no.clone(), no.clone(), no.clone(), no);
    };
    let class = |policy: Policy| Scheduling { class: Class { policy, ..own.class }, ..own };
    let there_and_back =
        |there: Scheduling| system_calls::set_scheduling(0, there).and_then(|()| system_calls::set_scheduling(0, own));
    let real_time_remedy =
        "run osched as root or with CAP_SYS_NICE, outside of cgroups v1 whose cpu.rt_runtime_us is 0";
    let real_time = Ability::of(there_and_back(class(Policy::Fifo(1))), real_time_remedy);
    let batch = Ability::of(
        there_and_back(class(Policy::Batch)),
        "a filter of system calls forbids it: run osched outside of it",
    );
    let slice = match has_slices {
        true => Ability::of(there_and_back(Scheduling { slice_ns: Some(1_000_000), ..own }), SLICE_REMEDY),
        false => Ability::no("this kernel has no slices per thread", SLICE_REMEDY),
    };
    let best_nice = best_nice(own.nice);
    // The kernel lets a thread leave the idle class if it lets it have its nice value. Where it does not,
    // trying would leave this thread in a class in which it may not get a core for long.
    let idle = match best_nice <= own.nice {
        true => Ability::of(there_and_back(class(Policy::Idle)), NICE_REMEDY),
        false => Ability::no("this user could not take a thread out of it again", NICE_REMEDY),
    };
    (best_nice, batch, idle, slice, real_time)
}

/// From the worst nice value upwards: what can be set after the worst was, can be set at any time.
fn best_nice(own: i32) -> i32 {
    let (worst, best) = NICE_RANGE;
    if system_calls::set_nice(0, worst).is_err() {
        return own;
    }
    (best..=worst).find(|nice| system_calls::set_nice(0, *nice).is_ok()).unwrap_or(worst)
}

/// Makes an empty group in that of this process and removes it.
fn try_groups(kernel: &Proc, hierarchy: Hierarchy) -> Ability {
    let is_v1 = hierarchy == Hierarchy::V1;
    let mount_remedy = "mount them at /sys/fs/cgroup; in a container, with its own cgroup namespace and writable";
    match kernel.cgroups().is_writable(hierarchy) {
        None => {
            return Ability::no(format!("cgroups {hierarchy} with the cpu controller are not mounted"), mount_remedy);
        }
        Some(false) => return Ability::no("mounted for reading only", mount_remedy),
        Some(true) => {}
    }
    let Ok(Some(home)) = kernel.process_group(std::process::id(), hierarchy) else {
        return Ability::no("this process is in no group that is visible here", mount_remedy);
    };
    if !is_v1 && let Some(missing) = controller_missing(kernel, &home) {
        return missing;
    }
    let group = home.child(&format!("osched-trial-{}", std::process::id()));
    let made = kernel.carry_out(&Change::Create { group: group.clone() });
    let removed = kernel.carry_out(&Change::Remove { group });
    match made.and(removed) {
        Ok(_) => Ability::Yes,
        Err(error) => Ability::no(error.message().to_owned(), error.help().unwrap_or_default()),
    }
}

/// Groups of version 2 have a weight only where the group in which they are made has the cpu controller.
fn controller_missing(kernel: &Proc, home: &GroupPath) -> Option<Ability> {
    if has_cpu_controller(&kernel.group_folder(home).ok()?) {
        return None;
    }
    let (why, remedy) = match kernel.cgroups().with_cpu() {
        Some(Hierarchy::V1) => ("version 1 has the cpu controller", "use 'shares' or 'groups'"),
        _ => (
            "this cgroup has no cpu controller",
            "give the unit a CPUWeight= or Delegate=cpu (systemd), or write +cpu to cgroup.subtree_control above it",
        ),
    };
    Some(Ability::no(why, remedy))
}
