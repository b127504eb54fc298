//! Lookups in outside tables: calls on threads of their own, caches of answers, and tables that are read as a
//! whole periodically.
//!
//! The threads belong to one task of a job. When the task has ended, they end after their present call, and
//! the job does not wait for them.

mod cache;
mod calls;
mod whole;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_dataflow::{LookupCache, LookupJoinSpec};
use anabranch_model::{Error, Result};
use anabranch_operators::{Lookup, LookupContext, PendingRows, TaskContext};
use arrow::array::RecordBatch;

use self::cache::Cache;
use self::calls::Calls;
pub(crate) use self::whole::Whole;

/// How often a waiting thread checks whether it is still needed.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// How often a pausing thread checks this. The end of its task wakes it up.
const PAUSE_LOOK: Duration = Duration::from_millis(200);

/// Calls an outside table. Used by one thread.
pub(crate) trait Caller: Send {
    /// The rows with these keys, and perhaps others, in the decoded columns of the table.
    fn call(&mut self, keys: &RecordBatch) -> Result<RecordBatch, Failed>;

    /// Number of requests of the last call.
    fn requests(&self) -> u64 {
        1
    }
}

/// Why a call has failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Another call would fail in the same way.
    Final(Error),
    /// Transient, with its reason; another call may succeed.
    Passing(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Final(error)
    }
}

/// Makes the callers of a task.
pub(crate) type OpenCaller = Box<dyn Fn() -> Result<Box<dyn Caller>> + Send + Sync>;

/// How a table is called.
pub(crate) struct Calling {
    /// The system for messages: `the database at ...`.
    pub(crate) system: String,
    /// Number of concurrent calls.
    pub(crate) threads: usize,
    /// Limit of the keys of a call.
    pub(crate) keys_max: usize,
    pub(crate) open: OpenCaller,
}

/// A table that is looked up by key, with a cache.
pub(crate) struct ByKey {
    cache: Option<Arc<Mutex<Cache>>>,
    calls: Calls,
    context: LookupContext,
}

impl ByKey {
    pub(crate) fn open(spec: &LookupJoinSpec, context: &LookupContext, calling: Calling) -> Result<ByKey> {
        let cache = match &spec.cache {
            LookupCache::Partial(bounds) => Some(Arc::new(Mutex::new(Cache::new(spec, bounds.clone())?))),
            LookupCache::None | LookupCache::Full { .. } => None,
        };
        let calls = Calls::new(spec, context.clone(), calling, cache.clone());
        Ok(ByKey { cache, calls, context: context.clone() })
    }
}

impl Lookup for ByKey {
    fn request(&mut self, keys: &RecordBatch) -> Result<Arc<PendingRows>> {
        use std::sync::atomic::Ordering::Relaxed;
        let counters = &self.context.counters;
        counters.keys.fetch_add(keys.num_rows() as u64, Relaxed);
        let Some(cache) = &self.cache else { return self.calls.request(keys, None) };
        let known = lock(cache).get(keys, self.context.task.clock.now())?;
        counters.hits.fetch_add(known.hits, Relaxed);
        match known.missing {
            Some(missing) => self.calls.request(&missing, Some(known.rows)),
            None => Ok(Arc::new(PendingRows::arrived(Arc::new(known.rows)))),
        }
    }

    fn waiting_bytes(&self) -> usize {
        self.calls.waiting_bytes()
    }
}

/// Waits for this time, or until the task has ended, which `is_closed` finds in the state. `changed` is
/// notified of each change of the state. Returns false if the task has ended.
fn pause<T>(
    task: &TaskContext,
    (state, changed): (&Mutex<T>, &Condvar),
    time: Duration,
    is_closed: impl Fn(&T) -> bool,
) -> bool {
    let until = task.clock.now().plus(time);
    let mut state = lock(state);
    while task.clock.now() < until {
        if is_closed(&state) || task.host.is_cancelled() {
            return false;
        }
        let wait = until.after(task.clock.now()).min(PAUSE_LOOK);
        state = changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
    }
    true
}

/// Locks a value. Shared values are consistent after each statement, so a panic elsewhere does not matter.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
