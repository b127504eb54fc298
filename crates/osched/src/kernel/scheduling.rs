//! Class, nice value and slice of a thread.

use std::fmt;

use anabranch_model::Result;
use anabranch_schedule::ThreadId;
use serde::{Deserialize, Serialize};

use super::{Proc, if_there, system_calls};

/// A scheduling class with its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The usual class.
    Other,
    /// As the usual one, but a thread that wakes does not interrupt another.
    Batch,
    /// Runs when no thread of the usual class wants the core.
    Idle,
    /// Real-time with a priority of 1 to 99: runs until it waits, before all others of a smaller one.
    Fifo(u32),
    /// Real-time, with threads of the same priority in turns.
    RoundRobin(u32),
    /// Real-time by deadlines. Its parameters are not kept, so osched leaves such threads alone.
    Deadline,
    /// A class that this program does not know, by the kernel's number.
    Unknown(u32),
}

impl Policy {
    /// Whether threads of this class go before all of the usual one, or are of a class that is not known.
    #[must_use]
    pub fn is_foreign(self) -> bool {
        !matches!(self, Policy::Other | Policy::Batch | Policy::Idle)
    }

    /// Whether it is one of the real-time classes.
    #[must_use]
    pub fn is_real_time(self) -> bool {
        matches!(self, Policy::Fifo(_) | Policy::RoundRobin(_) | Policy::Deadline)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Other => f.write_str("other"),
            Policy::Batch => f.write_str("batch"),
            Policy::Idle => f.write_str("idle"),
            Policy::Fifo(priority) => write!(f, "fifo {priority}"),
            Policy::RoundRobin(priority) => write!(f, "round-robin {priority}"),
            Policy::Deadline => f.write_str("deadline"),
            Policy::Unknown(number) => write!(f, "class {number}"),
        }
    }
}

/// A scheduling class, and what threads inherit of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Class {
    /// The class with its priority.
    pub policy: Policy,
    /// Whether threads that it starts begin in the usual class.
    pub resets_on_fork: bool,
}

/// What the scheduler keeps for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// Its class.
    pub class: Class,
    /// 19 (least) to -20.
    pub nice: i32,
    /// How long it may run before another one of the usual class is considered. `None` where the kernel has
    /// no slices per thread (before 6.12), and for other classes.
    pub slice_ns: Option<u64>,
}

impl Proc {
    /// The scheduling of a thread, `None` once it has ended. The times of the thread are not compared: the
    /// caller does it.
    pub(crate) fn scheduling(&self, thread: ThreadId) -> Result<Option<Scheduling>> {
        if_there(system_calls::scheduling(thread.tid)).map_err(|e| super::carry_out::refused("scheduling", thread, &e))
    }

    /// The nice value of a thread, `None` once it has ended. Cheaper than all of its scheduling; the times
    /// are not compared.
    pub(crate) fn nice(&self, thread: ThreadId) -> Result<Option<i32>> {
        if_there(system_calls::nice(thread.tid)).map_err(|e| super::carry_out::refused("nice", thread, &e))
    }

    /// The slice that threads have by default, as the calling thread has it. `None` where the kernel has no
    /// slices per thread.
    pub fn default_slice_ns(&self) -> Option<u64> {
        let file = std::fs::read_to_string("/sys/kernel/debug/sched/base_slice_ns").ok();
        let base = file.and_then(|text| text.trim().parse().ok());
        let own = system_calls::scheduling(0).ok().and_then(|own| own.slice_ns);
        own.map(|own| base.unwrap_or(own))
    }
}
