//! Retries transient failures, for a bounded time, and notifies the user.

use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result};
use anabranch_operators::{Host, TaskContext};

use super::failure::Failure;
use super::options::JdbcTable;
use super::session::Bounds;
use crate::outage::Outage;
use crate::wait::wait_until;

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
    /// The database, for messages.
    system: String,
    outage: Outage,
}

impl Attempts {
    pub(super) fn new(table: &JdbcTable, context: &TaskContext) -> Attempts {
        let system = format!("the database at {}", table.url);
        let (key, answers) = (format!("table {} at {}", table.table, table.url), format!("{system} answers again"));
        let (clock, host) = (Arc::clone(&context.clock), Arc::clone(&context.host));
        Attempts { clock, host, outage: Outage::new(context, key, answers), system }
    }

    /// Retries until something succeeds, fails permanently, or the time limit of an option is over.
    pub(super) fn repeat<T>(
        &self,
        timeout: Duration,
        what: &str,
        option: &str,
        mut attempt: impl FnMut(&Bounds<'_>) -> Result<T, Failure>,
    ) -> Result<T> {
        let (clock, host) = (self.clock.as_ref(), self.host.as_ref());
        let begun = clock.now();
        let place = &self.system;
        let until = format!("the job tries for up to {timeout:?} ('{option}')");
        let waits = |since: Nanos| {
            if clock.now() >= since.plus(NOTICE_AFTER) {
                self.outage.begins(since, || format!("{place} {what}: it has not answered for {NOTICE_AFTER:?}, and may wait for a lock of another connection; {until}"));
            }
        };
        let bounds = Bounds { deadline: begun.plus(timeout), clock, host, waits: &waits };
        let mut pause = PAUSE;
        loop {
            let reason = match attempt(&bounds).map_err(|failure| failure.of_values(VALUES)) {
                Ok(done) => {
                    self.outage.ends();
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
                self.outage.begins(begun, || format!("{place} {what} ({reason}); {until}"));
            }
            wait_until(clock.now().plus(pause).min(bounds.deadline), LOOK, clock, host);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
