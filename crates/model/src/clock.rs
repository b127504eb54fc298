//! Time as an argument: only shells and drivers read a clock, and they read it through this trait.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Monotonic process time in nanoseconds since the clock was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Nanoseconds from `earlier` to `self`, 0 if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Nanos) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This point plus a duration.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Nanos {
        Nanos(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Duration from now until `self`; zero if `self` has passed.
    #[must_use]
    pub fn after(self, now: Nanos) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(now.0))
    }
}

/// The two readings a driver needs: monotonic time for intervals, wall time for comparison with event time.
pub trait Clock: Send + Sync {
    /// Monotonic nanoseconds.
    fn now(&self) -> Nanos;
    /// Nanoseconds since the Unix epoch.
    fn wall_ns(&self) -> i64;
    /// Milliseconds since the Unix epoch.
    fn wall_ms(&self) -> i64 {
        self.wall_ns().div_euclid(1_000_000)
    }
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock that starts at zero now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place where the machine's clock is read")]
    pub fn new() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place where the machine's clock is read")]
    fn wall_ns(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    }
}

/// A clock that its owner advances, for tests and simulation.
#[derive(Debug, Default)]
pub struct ManualClock {
    nanos: AtomicU64,
    /// How far the wall clock is ahead of the monotonic one.
    ahead_ms: AtomicI64,
}

impl ManualClock {
    /// Steps the wall clock forward or backward, as a time server does. The monotonic clock does not notice.
    pub fn step_wall(&self, by_ms: i64) {
        self.ahead_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.nanos.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Nanos {
        Nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn wall_ns(&self) -> i64 {
        let passed = i64::try_from(self.nanos.load(Ordering::SeqCst)).unwrap_or(i64::MAX);
        passed.saturating_add(self.ahead_ms.load(Ordering::SeqCst).saturating_mul(1_000_000))
    }
}
