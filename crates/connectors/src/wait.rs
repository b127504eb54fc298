//! Waiting: in `Source::poll`, and in a sink for its outside system.

use std::time::Duration;

use anabranch_model::{Clock, Nanos, pause};
use anabranch_operators::Host;

/// Waits in `Source::poll` for `duration`. A source that follows a clock or a folder waits at its host, which
/// ends the wait when the job needs the task. Outside of a job the wait lasts the whole time.
pub(crate) fn wait(host: &dyn Host, duration: Duration) {
    if !duration.is_zero() && !host.wait(duration) {
        pause(duration);
    }
}

/// Waits until this time, or until the tasks are cancelled, which is checked after each `look`.
pub(crate) fn wait_until(moment: Nanos, look: Duration, clock: &dyn Clock, host: &dyn Host) {
    while clock.now() < moment && !host.is_cancelled() {
        pause(look.min(moment.after(clock.now())));
    }
}
