//! Waiting in `Source::poll`, the only place where waiting is allowed.
//!
//! A source that follows a clock or a folder waits at its host, which ends the wait when the job needs the task. Outside of a job it waits
//! on a condition that never becomes true. `thread::park_timeout` would also work, except for wake-ups left over from other users of the
//! thread.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use anabranch_operators::Host;

/// Waits for `duration`, or less if the host says so.
pub(crate) fn wait(host: &dyn Host, duration: Duration) {
    if duration.is_zero() || host.wait(duration) {
        return;
    }
    let never = Mutex::new(());
    let guard = never.lock().unwrap_or_else(PoisonError::into_inner);
    // The only outcome is that the time is over.
    drop(Condvar::new().wait_timeout_while(guard, duration, |()| true));
}
