//! Waiting in `Source::poll`, the only place where waiting is allowed.
//!
//! A source that follows a clock or a folder waits at its host, which ends the wait when the job needs the
//! task. Outside of a job it always lasts the whole time.

use std::time::Duration;

use anabranch_model::pause;
use anabranch_operators::Host;

/// Waits for `duration`, or less if the host says so.
pub(crate) fn wait(host: &dyn Host, duration: Duration) {
    if !duration.is_zero() && !host.wait(duration) {
        pause(duration);
    }
}
