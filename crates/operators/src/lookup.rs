//! The contract of tables outside that are asked for rows while a job runs. Operators ask and never wait: the
//! calls are made by threads of the connector, which wake the task when an answer is there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_model::{LookupCounters, Result};
use arrow::array::RecordBatch;

use crate::TaskContext;

/// A table outside, as one task asks it. Dropping it ends its calls; it does not wait for them.
pub trait Lookup: Send {
    /// Asks for the rows with these keys: different ones, without NULL, in the columns of
    /// [`LookupJoinSpec::keys`]. Does not wait. The answer may have rows with other keys too.
    ///
    /// [`LookupJoinSpec::keys`]: anabranch_dataflow::LookupJoinSpec::keys
    fn ask(&mut self, keys: &RecordBatch) -> Result<Arc<Answer>>;

    /// Bytes of answers that are there and wait for those before them.
    fn waiting_bytes(&self) -> usize {
        0
    }
}

/// What a lookup knows of its task.
#[derive(Clone)]
pub struct LookupContext {
    /// The task.
    pub task: TaskContext,
    /// Lets the task look at its answers. Called after each that came later than it was asked for.
    pub wake: Arc<dyn Fn() + Send + Sync>,
    /// What is counted of calls.
    pub counters: Arc<LookupCounters>,
    /// Bytes that it may keep of the table.
    pub bytes_max: usize,
}

/// Rows that were asked for, once they are there.
#[derive(Debug, Default)]
pub struct Answer(Mutex<Option<Given>>);

#[derive(Debug)]
struct Given {
    rows: Result<Arc<RecordBatch>>,
    /// While the answer waits.
    _waiting: Option<Waiting>,
}

/// Bytes that are counted until this is dropped.
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

impl Answer {
    /// An answer that is there, of rows that are kept anyway.
    #[must_use]
    pub fn of(rows: Arc<RecordBatch>) -> Answer {
        Answer(Mutex::new(Some(Given { rows: Ok(rows), _waiting: None })))
    }

    /// The rows are there, or it is certain that they will not come. Rows that several answers share are
    /// indexed once.
    pub fn give(&self, rows: Result<Arc<RecordBatch>>) {
        *self.given() = Some(Given { rows, _waiting: None });
    }

    /// As [`Answer::give`], of rows that are counted while the answer waits.
    pub fn give_counted(&self, rows: Arc<RecordBatch>, waiting: Waiting) {
        *self.given() = Some(Given { rows: Ok(rows), _waiting: Some(waiting) });
    }

    /// Whether it was given.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.given().is_some()
    }

    /// Takes the rows, if they are there.
    #[must_use]
    pub fn take(&self) -> Option<Result<Arc<RecordBatch>>> {
        self.given().take().map(|given| given.rows)
    }

    fn given(&self) -> MutexGuard<'_, Option<Given>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
