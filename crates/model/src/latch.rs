//! Waits for an event that happens once, or for a time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Something that happens once, such as the end of a process. Threads that wait for it continue when it
/// happens.
#[derive(Debug, Default)]
pub struct Latch {
    is_set: Mutex<bool>,
    was_set: Condvar,
}

impl Latch {
    /// It happens. Setting it again has no effect.
    pub fn set(&self) {
        *self.lock() = true;
        self.was_set.notify_all();
    }

    /// Whether it has happened.
    pub fn is_set(&self) -> bool {
        *self.lock()
    }

    /// Waits until it happens, but no longer than `at_most`. Returns whether it has happened.
    pub fn wait(&self, at_most: Duration) -> bool {
        let waited = self.was_set.wait_timeout_while(self.lock(), at_most, |is_set| !*is_set);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits between two polls of something without notifications, such as a store or another process. What
/// announces itself has a channel, a condition or a [`Latch`], whose wait ends at once.
pub fn pause(time: Duration) {
    Latch::default().wait(time);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_wait_ends_when_it_happens() {
        let latch = Arc::new(Latch::default());
        assert!(!latch.wait(Duration::from_millis(1)));
        let waiting = Arc::clone(&latch);
        let waits = move || waiting.wait(Duration::from_secs(600));
        let thread = std::thread::Builder::new().spawn(waits).expect("a thread");
        latch.set();
        assert!(thread.join().expect("no panic") && latch.is_set());
        assert!(latch.wait(Duration::ZERO));
    }
}
