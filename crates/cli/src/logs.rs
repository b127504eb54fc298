//! `anabranch logs`: the notices of a coordinator's job.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::arguments::Logs;
use crate::client::{client, path};
use crate::console::Console;
use crate::failure::Failure;
use crate::jobs::{is_over, items, string};
use crate::signals::Signals;

/// How often further notices are polled.
const LOOK: Duration = Duration::from_millis(500);

/// Runs the command.
pub(crate) fn logs(arguments: &Logs) -> Result<(), Failure> {
    let client = client(&arguments.target.client)?;
    let path = path(&arguments.target.job);
    let signals = Signals::catch(&[SIGINT, SIGTERM])?;
    let (mut written, mut output) = (0, Console::output());
    loop {
        // Read before the notices, so that the job's last notice is printed too.
        let job = client.get(&path)?;
        for notice in items(&client.get(&format!("{path}/notices"))?["notices"]) {
            let number = notice["number"].as_u64().unwrap_or(0);
            if number <= written {
                continue;
            }
            written = number;
            let at = DateTime::from_timestamp_millis(notice["at_ms"].as_i64().unwrap_or(0)).unwrap_or_default();
            let at = at.to_rfc3339_opts(SecondsFormat::Millis, true);
            let text = string(&notice["text"]).replace("\n  help: ", "; ").replace('\n', " ");
            let times = notice["times"].as_u64().filter(|times| *times > 1);
            let times = times.map(|times| format!(" ({times} times)")).unwrap_or_default();
            output.line(&format!("{at} {text}{times}"))?;
        }
        let has_ended = is_over(&string(&job["state"]));
        if !arguments.follow || has_ended || signals.stop_asked() || output.reader_left() {
            return Ok(());
        }
        signals.wait(LOOK);
    }
}
