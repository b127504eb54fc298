//! What Linux tells about processes and threads, and what it lets another process change: `/proc`, cgroups of
//! both versions, and the system calls of the scheduler.
//!
//! Everything goes through a [`Proc`]. A thread is a [`ThreadId`](anabranch_schedule::ThreadId) with the
//! times at which its process and the thread started, and these are compared before each write: the kernel
//! uses numbers again. One gap is left: a thread may end, and a new one take its number, in the microseconds
//! between the comparison and the write. No interface of Linux 6.18 closes it for nice.

mod autogroup;
mod carry_out;
mod cgroup;
mod change;
mod pressure;
mod processes;
mod scheduling;
mod stat;
mod state;
pub(crate) mod system_calls;
mod usage;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};

pub use autogroup::separate_sessions;
pub use carry_out::Carried;
pub(crate) use cgroup::has_cpu_controller;
pub use cgroup::{Cgroups, GroupPath, Hierarchy};
pub use change::{Change, GroupValue, Quota, StoredThreadId, Subject, ThreadValue};
pub use pressure::Trigger;
pub use processes::{NamedThread, Process};
pub use scheduling::{Class, Policy, Scheduling};
pub use state::{GroupState, Machine, Needs, State, ThreadState};
pub use usage::{Usage, UsageReader};

/// The nice values of Linux, the one that gets least first.
pub const NICE_RANGE: (i32, i32) = (19, -20);

/// This machine's processes and cgroups.
#[derive(Clone, Debug)]
pub struct Proc {
    /// `/proc`, or another folder of the same form.
    root: PathBuf,
    cgroups: Cgroups,
}

impl Proc {
    /// The machine on which this process runs. Fails where there is no Linux `/proc`.
    pub fn new() -> Result<Proc> {
        if !cfg!(target_os = "linux") {
            return Err(Error::outside("this system is not Linux: its scheduler cannot be told which threads matter")
                .remedy("run osched on the Linux machine on which the engines run"));
        }
        let root = PathBuf::from("/proc");
        let path = root.join("self/mountinfo");
        let mounts = std::fs::read_to_string(&path).map_err(|e| unreadable(&path, &e))?;
        Ok(Proc { cgroups: Cgroups::of_mounts(&mounts), root })
    }

    /// Another folder in the place of `/proc`, with cgroups that are mounted elsewhere.
    pub fn at(root: impl Into<PathBuf>, cgroups: Cgroups) -> Proc {
        Proc { root: root.into(), cgroups }
    }

    /// Where cgroups of either version are mounted.
    pub fn cgroups(&self) -> &Cgroups {
        &self.cgroups
    }

    /// Cores that this process may use, at least 1.
    pub fn cores(&self) -> usize {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
    }

    /// A name of this boot of the machine. Start times count from the boot, so they identify within it only.
    pub fn boot(&self) -> Result<String> {
        Ok(self.text("sys/kernel/random/boot_id")?.trim().to_owned())
    }

    /// Time since the boot in the unit of start times (clock ticks, hundredths of a second).
    pub fn ticks(&self) -> Result<u64> {
        let text = self.text("uptime")?;
        let seconds: f64 = text.split(' ').next().and_then(|t| t.parse().ok()).unwrap_or(0.0);
        // Rounded down by at least one tick: a thread that starts now is never taken for one that started
        // before.
        Ok(((seconds * TICKS_PER_SECOND) as u64).saturating_sub(1))
    }

    /// The share of each second that the kernel lets real-time threads have, 1 if it sets no bound. NaN where
    /// it is not told.
    pub fn real_time_share(&self) -> f64 {
        let value = |name: &str| self.text(&format!("sys/kernel/{name}")).ok()?.trim().parse::<f64>().ok();
        match (value("sched_rt_runtime_us"), value("sched_rt_period_us")) {
            (Some(runtime), Some(_)) if runtime < 0.0 => 1.0,
            (Some(runtime), Some(period)) if period > 0.0 => runtime / period,
            _ => f64::NAN,
        }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    fn text(&self, relative: &str) -> Result<String> {
        let path = self.path(relative);
        std::fs::read_to_string(&path).map_err(|e| unreadable(&path, &e))
    }

    /// The text of a file that ends with its process: `None` once that has ended.
    fn text_if_alive(&self, relative: &str) -> Result<Option<String>> {
        let path = self.path(relative);
        // Names of threads and command lines may hold any bytes.
        let bytes = if_there(std::fs::read(&path)).map_err(|error| unreadable(&path, &error))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// Linux tells start times in hundredths of a second to user space, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// What the kernel answers about a process, a thread or a cgroup, `None` if that is not there any more.
fn if_there<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Err(error) if is_gone(&error) => Ok(None),
        answer => answer.map(Some),
    }
}

/// Whether an error says that a process, a thread or a cgroup is not there any more.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::ENODEV))
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    let error_message = format!("cannot read: {error}");
    Error::outside(error_message)
        .at(path.display().to_string())
        .remedy("mount /proc and let this user read it (hidepid=0), or run osched as the user of the engines")
}
