//! What osched changes on a machine, as values: they are planned, printed, written to the journal, carried
//! out and inverted.

use std::fmt;

use anabranch_schedule::ThreadId;
use serde::{Deserialize, Serialize};

use super::{Class, GroupPath, Hierarchy};

/// One change. What it says is what holds afterwards, so carrying it out twice does no harm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Gives a thread a value.
    Thread {
        /// Which one. Nothing happens if it has ended.
        #[serde(with = "StoredThreadId")]
        thread: ThreadId,
        /// The new value.
        value: ThreadValue,
    },
    /// Gives a group a value.
    Group {
        /// Which one.
        group: GroupPath,
        /// The new value.
        value: GroupValue,
    },
    /// Makes a group; of version 2 as a threaded one, so that threads of one process can be in different
    /// groups.
    Create {
        /// Its path.
        group: GroupPath,
    },
    /// Moves the threads of a group to its parent, and removes it.
    Remove {
        /// Its path.
        group: GroupPath,
    },
}

/// What a thread has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadValue {
    /// 19 (least) to -20.
    Nice(i32),
    /// The scheduling class.
    Class(Class),
    /// How long it may run before another is considered: 100,000 to 100,000,000 ns.
    SliceNs(u64),
    /// The group to which it belongs.
    Group(GroupPath),
}

/// What a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupValue {
    /// Of version 1: 2 to 262,144, by default 1,024.
    Shares(u64),
    /// Of version 2: 1 to 10,000, by default 100.
    Weight(u64),
    /// Of either version.
    Quota(Quota),
    /// Whether it only gets what no other group wants.
    Idle(bool),
    /// Of version 2: whether the groups in it have the cpu controller.
    CpuControl(bool),
}

/// Processor time that a group may use within each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Quota {
    /// Without a bound if `None`.
    pub quota_us: Option<u64>,
    /// 1,000 to 1,000,000.
    pub period_us: u64,
}

impl Quota {
    /// The cores that it amounts to, infinite without a bound.
    #[must_use]
    pub fn cores(self) -> f64 {
        self.quota_us.map_or(f64::INFINITY, |quota| quota as f64 / self.period_us.max(1) as f64)
    }
}

/// The form of a thread in the journal.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ThreadId")]
pub struct StoredThreadId {
    pid: u32,
    process_start: u64,
    tid: u32,
    start: u64,
}

impl Change {
    /// What is changed, without the value: changes of the same value have the same one.
    #[must_use]
    pub fn subject(&self) -> Subject {
        match self {
            Change::Thread { thread, value } => {
                let hierarchy = if let ThreadValue::Group(group) = value { Some(group.hierarchy) } else { None };
                Subject::Thread(*thread, value.kind(), hierarchy)
            }
            Change::Group { group, value } => Subject::Group(group.clone(), value.kind()),
            Change::Create { group } | Change::Remove { group } => Subject::Existence(group.clone()),
        }
    }
}

/// What a [`Change`] changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A value of a thread, and for its group the tree.
    Thread(ThreadId, &'static str, Option<Hierarchy>),
    /// A value of a group.
    Group(GroupPath, &'static str),
    /// Whether a group exists.
    Existence(GroupPath),
}

impl ThreadValue {
    /// What kind of value it is, as users read it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            ThreadValue::Nice(_) => "nice",
            ThreadValue::Class(_) => "class",
            ThreadValue::SliceNs(_) => "slice",
            ThreadValue::Group(_) => "group",
        }
    }
}

impl GroupValue {
    /// What kind of value it is, as users read it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            GroupValue::Shares(_) => "shares",
            GroupValue::Weight(_) => "weight",
            GroupValue::Quota(_) => "quota",
            GroupValue::Idle(_) => "idle",
            GroupValue::CpuControl(_) => "cpu control",
        }
    }
}

impl fmt::Display for ThreadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThreadValue::Nice(nice) => write!(f, "{nice}"),
            ThreadValue::Class(class) => write!(f, "{}", class.policy),
            ThreadValue::SliceNs(slice) => write!(f, "{:.3} ms", *slice as f64 / 1e6),
            ThreadValue::Group(group) => write!(f, "{}", group.path),
        }
    }
}

impl fmt::Display for GroupValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupValue::Shares(value) | GroupValue::Weight(value) => write!(f, "{value}"),
            GroupValue::Quota(Quota { quota_us: None, .. }) => f.write_str("none"),
            GroupValue::Quota(quota) => write!(f, "{:.2} cores", quota.cores()),
            GroupValue::Idle(is_idle) => f.write_str(if *is_idle { "yes" } else { "no" }),
            GroupValue::CpuControl(has) => f.write_str(if *has { "on" } else { "off" }),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Thread { thread, value } => {
                write!(f, "{} of thread {} of process {}: {value}", value.kind(), thread.tid, thread.pid)
            }
            Change::Group { group, value } => write!(f, "{} of {group}: {value}", value.kind()),
            Change::Create { group } => write!(f, "make {group}"),
            Change::Remove { group } => write!(f, "remove {group}"),
        }
    }
}
