//! `anabranch logs`: the notices of a coordinator's job.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::arguments::Logs;
use crate::client::{client, path};
use crate::console::Console;
use crate::failure::Failure;
use crate::jobs::{is_over, string};
use crate::signals::Signals;
use crate::top::notices;
use crate::watch::text_of;

/// How often further notices are polled.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) fn logs(arguments: &Logs) -> Result<(), Failure> {
    let client = client(&arguments.target.client)?;
    let path = path(&arguments.target.job);
    let signals = Signals::catch(&[SIGINT, SIGTERM])?;
    let (mut written, mut output) = (0, Console::output());
    loop {
        // Read before the notices, so that the job's last notice is printed too.
        let job = client.get(&path)?;
        for notice in notices(&client, &path)? {
            if notice.number <= written {
                continue;
            }
            written = notice.number;
            let at = DateTime::from_timestamp_nanos(notice.at.0.cast_signed());
            output.line(&format!("{} {}", at.to_rfc3339_opts(SecondsFormat::Millis, true), text_of(&notice)))?;
        }
        let has_ended = is_over(&string(&job["state"]));
        if !arguments.follow || has_ended || signals.stop_asked() || output.reader_left() {
            return Ok(());
        }
        signals.wait(LOOK);
    }
}
