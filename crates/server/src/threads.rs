//! Threads, and the locks between them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anabranch_model::{Error, Result};

/// Locks, also after another thread has panicked with the lock.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread of this name.
pub(crate) fn spawn<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|error| Error::outside(format!("cannot start a thread: {error}")))
}
