//! Waiting in `Source::poll`, the only place where waiting is allowed.
//!
//! Nothing can wake a source that follows a clock or a folder, so it waits on a condition that never becomes true.
//! `thread::park_timeout` would also work, except for wake-ups left over from other users of the thread.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Waits for `duration`.
pub(crate) fn wait(duration: Duration) {
    if duration.is_zero() {
        return;
    }
    let never = Mutex::new(());
    let guard = never.lock().unwrap_or_else(PoisonError::into_inner);
    // The only outcome is that the time is over.
    drop(Condvar::new().wait_timeout_while(guard, duration, |()| true));
}
