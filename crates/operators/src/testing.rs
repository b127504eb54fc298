//! A host for tests of sources and sinks outside of a job.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_model::{Epoch, Incarnation, Result, SystemClock};

use crate::{Delivery, Host, TaskContext};

/// The context of a task of a [`TestHost`]. The task writes at least once.
#[must_use]
pub fn context(index: u32, parallelism: u32, batch_rows: usize) -> TaskContext {
    TaskContext {
        index,
        parallelism,
        batch_rows,
        delivery: Delivery::AtLeastOnce,
        clock: Arc::new(SystemClock::new()),
        host: Arc::new(TestHost::default()),
    }
}

/// A host that behaves as its fields say, and records requests. The default is the first incarnation of a
/// job, which owns it.
#[derive(Debug)]
pub struct TestHost {
    /// The incarnation of the task.
    pub incarnation: Incarnation,
    /// The epoch of the checkpoint from which the job resumes.
    pub resumed_after: Option<Epoch>,
    /// Whether the job belongs to this incarnation.
    pub is_owner: bool,
    /// Whether the incarnation is over.
    pub is_cancelled: AtomicBool,
    /// Number of checkpoints that were requested.
    pub checkpoint_requests: AtomicU32,
    /// What sinks reported: whether they are full.
    pub reports_of_full: Mutex<Vec<bool>>,
    /// Notices to the user.
    pub notices: Mutex<Vec<String>>,
    /// The lists that tasks agreed on, by their keys.
    pub agreed: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Default for TestHost {
    fn default() -> Self {
        TestHost {
            incarnation: Incarnation(1),
            resumed_after: None,
            is_owner: true,
            is_cancelled: AtomicBool::new(false),
            checkpoint_requests: AtomicU32::new(0),
            reports_of_full: Mutex::default(),
            notices: Mutex::default(),
            agreed: Mutex::default(),
        }
    }
}

impl TestHost {
    /// The host of tasks of an incarnation.
    #[must_use]
    pub fn of_incarnation(incarnation: u64) -> Arc<TestHost> {
        Arc::new(TestHost { incarnation: Incarnation(incarnation), ..TestHost::default() })
    }

    /// The notices since this was last called.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.notices))
    }
}

impl Host for TestHost {
    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    fn resumed_after(&self) -> Option<Epoch> {
        self.resumed_after
    }

    fn is_owner(&self) -> Result<bool> {
        Ok(self.is_owner)
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(SeqCst)
    }

    fn agreed(&self, key: &str, list: &mut dyn FnMut() -> Result<Vec<String>>) -> Result<Vec<String>> {
        if let Some(list) = locked(&self.agreed).get(key) {
            return Ok(list.clone());
        }
        let list = list()?;
        locked(&self.agreed).insert(key.to_owned(), list.clone());
        Ok(list)
    }

    fn request_checkpoint(&self) {
        self.checkpoint_requests.fetch_add(1, SeqCst);
    }

    fn set_full(&self, full: bool) {
        locked(&self.reports_of_full).push(full);
    }

    fn notify(&self, text: String) {
        locked(&self.notices).push(text);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
