//! The contract of outside tables that are looked up while a job runs. Operators request rows and never wait:
//! threads of the connector make the calls, and wake the task when an answer has arrived.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_model::{LookupCounters, Result};
use arrow::array::RecordBatch;

use crate::TaskContext;

/// An outside table, as one task looks it up. Dropping it ends its calls without waiting for them.
pub trait Lookup: Send {
    /// Requests the rows with these keys, which are distinct and without NULL, in the columns of
    /// [`LookupJoinSpec::keys`]. Does not wait. The answer may have rows with other keys too.
    ///
    /// [`LookupJoinSpec::keys`]: anabranch_dataflow::LookupJoinSpec::keys
    fn request(&mut self, keys: &RecordBatch) -> Result<Arc<PendingRows>>;

    /// Bytes of answers that have arrived and wait for earlier ones.
    fn waiting_bytes(&self) -> usize {
        0
    }
}

/// What a lookup knows of its task.
#[derive(Clone)]
pub struct LookupContext {
    /// The task.
    pub task: TaskContext,
    /// Wakes the task to check its answers. Called after each answer that arrives after the request has
    /// returned.
    pub wake: Arc<dyn Fn() + Send + Sync>,
    /// Counters of calls.
    pub counters: Arc<LookupCounters>,
    /// Limit of the bytes that the connector may cache of the table.
    pub bytes_max: usize,
}

/// The rows of a request, once they have arrived.
#[derive(Debug, Default)]
pub struct PendingRows(Mutex<Option<ArrivedRows>>);

#[derive(Debug)]
struct ArrivedRows {
    rows: Result<Arc<RecordBatch>>,
    /// Counts the bytes of the answer while it waits.
    _waiting: Option<Waiting>,
}

/// Counts bytes until it is dropped.
#[derive(Debug)]
pub struct Waiting {
    total: Arc<AtomicUsize>,
    bytes: usize,
}

impl Waiting {
    /// Counts bytes.
    #[must_use]
    pub fn new(total: &Arc<AtomicUsize>, bytes: usize) -> Waiting {
        total.fetch_add(bytes, Ordering::Relaxed);
        Waiting { total: Arc::clone(total), bytes }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl PendingRows {
    /// An answer that has arrived, with rows that are cached anyway.
    #[must_use]
    pub fn arrived(rows: Arc<RecordBatch>) -> PendingRows {
        PendingRows(Mutex::new(Some(ArrivedRows { rows: Ok(rows), _waiting: None })))
    }

    /// Gives the rows, or the error. Rows that several answers share are indexed once.
    pub fn complete(&self, rows: Result<Arc<RecordBatch>>) {
        *self.given() = Some(ArrivedRows { rows, _waiting: None });
    }

    /// Like [`PendingRows::complete`], for rows that are counted while the answer waits.
    pub fn complete_counted(&self, rows: Arc<RecordBatch>, waiting: Waiting) {
        *self.given() = Some(ArrivedRows { rows: Ok(rows), _waiting: Some(waiting) });
    }

    /// Whether the answer has arrived.
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        self.given().is_some()
    }

    /// Takes the rows, if they have arrived.
    #[must_use]
    pub fn take(&self) -> Option<Result<Arc<RecordBatch>>> {
        self.given().take().map(|given| given.rows)
    }

    fn given(&self) -> MutexGuard<'_, Option<ArrivedRows>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
