//! Counters of calls to outside tables, per task.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// Counters of the calls of one task. Written by the task and by the threads of its calls.
#[derive(Debug, Default)]
pub struct LookupCounters {
    /// Keys that batches of rows asked for.
    pub keys: AtomicU64,
    /// Those of them that a cache answered.
    pub hits: AtomicU64,
    /// Calls: requests, statements, or readings of the whole table.
    pub calls: AtomicU64,
    /// Calls that failed.
    pub failures: AtomicU64,
    /// Time that calls took, in nanoseconds.
    pub call_ns: AtomicU64,
}

/// A reading of [`LookupCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookupReading {
    /// Keys that batches of rows asked for.
    pub keys: u64,
    /// Those of them that a cache answered.
    pub hits: u64,
    /// Calls: requests, statements, or readings of the whole table.
    pub calls: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Time that calls took, in nanoseconds.
    pub call_ns: u64,
}

impl LookupCounters {
    /// Reads all of them.
    #[must_use]
    pub fn read(&self) -> LookupReading {
        LookupReading {
            keys: self.keys.load(Relaxed),
            hits: self.hits.load(Relaxed),
            calls: self.calls.load(Relaxed),
            failures: self.failures.load(Relaxed),
            call_ns: self.call_ns.load(Relaxed),
        }
    }

    /// So many calls at once have ended after this time. All of them have failed if one has.
    pub fn called(&self, calls: u64, nanos: u64, failed: bool) {
        self.calls.fetch_add(calls, Relaxed);
        self.call_ns.fetch_add(nanos, Relaxed);
        self.failures.fetch_add(if failed { calls } else { 0 }, Relaxed);
    }
}

impl std::ops::AddAssign for LookupReading {
    fn add_assign(&mut self, other: LookupReading) {
        self.keys += other.keys;
        self.hits += other.hits;
        self.calls += other.calls;
        self.failures += other.failures;
        self.call_ns += other.call_ns;
    }
}
