//! Retries transient failures, for a bounded time, and notifies the user.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result};
use anabranch_operators::{Host, TaskContext};

use super::failure::Failure;
use super::options::JdbcTable;
use super::session::Bounds;

const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);
/// How long attempts fail before the user is notified.
const NOTICE_AFTER: Duration = Duration::from_secs(3);
/// The remedy for values that the database refuses.
const VALUES: &str = "change the columns of the database's table";

/// The attempts of one task.
pub(super) struct Attempts {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) host: Arc<dyn Host>,
    table: String,
    server: String,
    outage: Cell<Option<Nanos>>,
}

impl Attempts {
    pub(super) fn new(table: &JdbcTable, context: &TaskContext) -> Attempts {
        Attempts {
            clock: Arc::clone(&context.clock),
            host: Arc::clone(&context.host),
            table: table.table.clone(),
            server: table.url.to_string(),
            outage: Cell::new(None),
        }
    }

    /// Retries until something succeeds, fails permanently, or the time limit of an option is over.
    pub(super) fn repeat<T>(
        &self,
        timeout: Duration,
        what: &str,
        option: &str,
        mut attempt: impl FnMut(&Bounds<'_>) -> Result<T, Failure>,
    ) -> Result<T> {
        let (clock, host) = (Arc::clone(&self.clock), Arc::clone(&self.host));
        let begun = clock.now();
        let place = format!("the database at {}", self.server);
        let until = format!("the job tries for up to {timeout:?} ('{option}')");
        let waits = |since: Nanos| {
            if clock.now() >= since.plus(NOTICE_AFTER) {
                self.outage_begins(since, || format!("{place} {what}: it has not answered for {NOTICE_AFTER:?}, and may wait for a lock of another connection; {until}"));
            }
        };
        let (deadline, clock, host) = (begun.plus(timeout), clock.as_ref(), host.as_ref());
        let bounds = Bounds { deadline, clock, host, waits: &waits };
        let mut pause = PAUSE;
        loop {
            let reason = match attempt(&bounds).map_err(|failure| failure.of_values(VALUES)) {
                Ok(done) => {
                    self.outage_ends();
                    return Ok(done);
                }
                Err(Failure::Final(error)) => return Err(error.at(place.clone())),
                Err(Failure::Passing(reason) | Failure::Value(reason)) => reason,
            };
            if host.is_cancelled() {
                return Err(Error::outside(format!("{what}: the job's tasks are being ended")).at(place.clone()));
            }
            if bounds.are_over() {
                let seconds = timeout.as_secs_f32();
                return Err(Error::outside(format!("{what} within {seconds} s: {reason}"))
                    .at(place.clone())
                    .remedy(format!("see whether the database runs; '{option}' says how long to try")));
            }
            if clock.now() >= begun.plus(NOTICE_AFTER) {
                self.outage_begins(begun, || format!("{place} {what} ({reason}); {until}"));
            }
            let until = clock.now().plus(pause).min(bounds.deadline);
            while clock.now() < until && !host.is_cancelled() {
                anabranch_model::pause(LOOK.min(until.after(clock.now())));
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn outage_begins(&self, since: Nanos, text: impl Fn() -> String) {
        if self.outage.get().is_none() {
            self.outage.set(Some(since));
            if self.host.outage_begins(&self.system(), since) {
                self.host.notify(text());
            }
        }
    }

    fn outage_ends(&self) {
        if let Some(since) = self.outage.take()
            && let Some(since) = self.host.outage_ends(&self.system(), since)
        {
            let seconds = self.clock.now().since(since) / 1_000_000_000;
            self.host.notify(format!("the database at {} answers again, after {seconds} s", self.server));
        }
    }

    fn system(&self) -> String {
        format!("table {} at {}", self.table, self.server)
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        if let Some(since) = self.outage.get() {
            self.host.outage_ends(&self.system(), since);
        }
    }
}
