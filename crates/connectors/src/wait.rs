//! Waiting in `Source::poll`, the only place where waiting is allowed.
//!
//! A source that follows a clock or a folder has nobody who could wake it, so it waits on a condition that never comes
//! true. `thread::park_timeout` would do as well but for wake-ups left over from other users of the thread.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Waits for `duration`.
pub(crate) fn wait(duration: Duration) {
    if duration.is_zero() {
        return;
    }
    let never = Mutex::new(());
    let guard = never.lock().unwrap_or_else(PoisonError::into_inner);
    // The outcome can only be that the time is over.
    drop(Condvar::new().wait_timeout_while(guard, duration, |()| true));
}
