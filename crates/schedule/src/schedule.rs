//! What a policy has decided (section 5.3 of the paper): a priority for each thread, and for groups of
//! threads.

use std::collections::{BTreeMap, BTreeSet};

use crate::ThreadId;

/// Priorities as real numbers: a greater one matters more. Translators bring them into the range of their
/// mechanism.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// The priority of each thread. With groups it counts within the thread's group only.
    pub threads: BTreeMap<ThreadId, f64>,
    /// Threads that share a part of the machine, by the group's name. A thread is in at most one.
    pub groups: BTreeMap<String, Group>,
}

/// Threads that are scheduled together against other groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Against other groups.
    pub priority: f64,
    /// Its threads.
    pub threads: BTreeSet<ThreadId>,
}
