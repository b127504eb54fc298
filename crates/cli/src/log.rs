//! The events of a job for programs: one JSON object in each line, to standard error or to a file.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write, stderr};
use std::path::Path;
use std::time::Duration;

use anabranch_model::{Clock, Error, Notice, Result, SystemClock, TaskMetrics, visible};
use anabranch_server::{Job, Status};
use chrono::{DateTime, SecondsFormat};
use serde::Serialize;
use serde_json::{Value, json};

use crate::watch::Watched;

/// Where events go.
pub(crate) struct EventLog {
    out: Box<dyn Write>,
    /// Whether standard error has the events instead of lines for people.
    replaces_lines: bool,
    job: String,
    clock: SystemClock,
    /// What was logged already.
    notice: u64,
    status: Option<Status>,
    /// Why nothing more is written.
    failure: Option<Error>,
}

/// A line. Fields of the event follow those that all have.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    level: &'static str,
    event: &'static str,
    job: &'a str,
    #[serde(flatten)]
    fields: Value,
}

impl EventLog {
    /// To the end of a file, which is made if there is none.
    pub(crate) fn to_file(path: &Path, job: &str) -> Result<EventLog> {
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
            let error = Error::user(format!("cannot write to this file: {error}"));
            error.at(format!("option --log-file {}", path.display())).remedy("give a file that this process may write")
        })?;
        Ok(Self::to(Box::new(file), false, job))
    }

    /// To standard error, instead of lines for people.
    pub(crate) fn to_standard_error(job: &str) -> EventLog {
        Self::to(Box::new(stderr()), true, job)
    }

    fn to(out: Box<dyn Write>, replaces_lines: bool, job: &str) -> EventLog {
        let (job, clock) = (job.to_owned(), SystemClock::new());
        EventLog { out, replaces_lines, job, clock, notice: 0, status: None, failure: None }
    }

    /// The job has started, and is served at this address.
    pub(crate) fn started(&mut self, url: Option<&str>) {
        let version = env!("CARGO_PKG_VERSION");
        self.write("info", "job started", json!({ "pid": std::process::id(), "version": version, "listening": url }));
    }

    /// The job had ended before it was started: it does nothing.
    pub(crate) fn had_ended(&mut self) {
        self.write("info", "job had ended before", json!({}));
    }

    /// The job has ended. Returns why the log is not complete, if it is not.
    pub(crate) fn ended<T>(mut self, outcome: &Result<T>) -> Option<Error> {
        match outcome {
            Ok(_) => self.write("info", "job ended", json!({})),
            Err(error) => {
                let fields = json!({ "error": error.message(), "place": error.place(), "remedy": error.help() });
                self.write("error", "job failed", fields);
            }
        }
        self.failure
    }

    /// Writes what has happened since the last time; `notices` are those that were not written.
    fn observe(&mut self, status: &Status, restarts: &[String], notices: &[Notice]) {
        for Notice { number, times, text, .. } in notices {
            self.write("info", "notice", json!({ "number": number, "times": times, "text": text }));
        }
        self.notice = notices.last().map_or(self.notice, |newest| newest.number);
        let before = self.status.replace(status.clone());
        let since = |of: fn(&Status) -> u64| of(status).saturating_sub(before.as_ref().map_or(0, of));
        let (restarted, abandoned) = (since(|s| s.restarts), since(|s| s.checkpoints_abandoned));
        let is_new = since(|s| s.checkpoints_completed) > 0;
        if restarted > 0 {
            let fields = json!({ "restarts": status.restarts, "failure": restarts.last() });
            self.write("warn", "job restarted", fields);
        }
        if abandoned > 0 {
            self.write("warn", "checkpoint abandoned", json!({ "abandoned": status.checkpoints_abandoned }));
        }
        if let Some(last) = status.last_checkpoint.filter(|_| is_new) {
            let fields = json!({
                "completed": status.checkpoints_completed,
                "incarnation": last.committed.incarnation.0,
                "epoch": last.committed.epoch.0,
                "took_ms": last.took.as_secs_f64() * 1e3,
                "bytes": last.bytes,
            });
            self.write("info", "checkpoint completed", fields);
        }
    }

    /// After the first failure nothing more is written: a log with holes would pass for a complete one.
    fn write(&mut self, level: &'static str, event: &'static str, fields: Value) {
        if self.failure.is_some() {
            return;
        }
        let time = DateTime::from_timestamp_millis(self.clock.wall_ms()).unwrap_or_default();
        let time = time.to_rfc3339_opts(SecondsFormat::Millis, true);
        let line = serde_json::to_string(&Line { time, level, event, job: &self.job, fields });
        let line = line.map_err(std::io::Error::from).map(|line| format!("{}\n", harmless(&line)));
        let written = line.and_then(|line| self.out.write_all(line.as_bytes()).and_then(|()| self.out.flush()));
        self.failure = match written {
            // The reader of standard error has left.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => None,
            Err(error) => Some(Error::outside(format!("cannot write the log, which ends here: {error}"))),
            Ok(()) => None,
        };
    }
}

/// JSON with those characters escaped that could steer a terminal.
fn harmless(json: &str) -> String {
    let escaped = |c: char| match visible(c.encode_utf8(&mut [0; 4])).chars().count() {
        1 => c.to_string(),
        _ => format!("\\u{:04x}", u32::from(c)),
    };
    json.chars().map(escaped).collect()
}

/// A job whose events are logged whenever its watcher looks at it.
pub(crate) struct Logged<'a> {
    job: &'a Job,
    log: RefCell<Option<EventLog>>,
}

impl<'a> Logged<'a> {
    /// A job with a log, or without one.
    pub(crate) fn new(job: &'a Job, log: Option<EventLog>) -> Logged<'a> {
        Logged { job, log: RefCell::new(log) }
    }

    pub(crate) fn into_log(self) -> Option<EventLog> {
        self.log.into_inner()
    }
}

impl Watched for Logged<'_> {
    fn metrics(&self) -> Vec<TaskMetrics> {
        self.job.metrics()
    }

    fn stop(&self) {
        self.job.stop();
    }

    fn is_finished(&self) -> bool {
        // Read first, so that the last events are logged too.
        let is_finished = self.job.wait_timeout(Duration::ZERO);
        if let Some(log) = self.log.borrow_mut().as_mut() {
            log.observe(&self.job.status(), &self.job.restarts(), &self.job.notices().after(log.notice));
        }
        is_finished
    }

    fn notices(&self, number: u64) -> Vec<Notice> {
        match self.log.borrow().as_ref().is_some_and(|log| log.replaces_lines) {
            true => Vec::new(),
            false => self.job.notices().after(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_json_object_that_steers_no_terminal() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("log");
        for text in ["first", "a\u{1b}[31m \"b\" \u{202e}c\n\u{9b}d ä"] {
            let mut log = EventLog::to_file(&path, "ads").expect("a file");
            log.write("info", "notice", json!({ "text": text }));
            assert!(log.ended(&Ok(())).is_none());
        }
        let written = std::fs::read_to_string(&path).expect("written");
        assert!(written.chars().all(|c| c == '\n' || !c.is_control()) && !written.contains('\u{202e}'), "{written:?}");
        let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[2]["text"], json!("a\u{1b}[31m \"b\" \u{202e}c\n\u{9b}d ä"));
        assert!(
            written.starts_with("{\"time\":\"2")
                && written.contains("Z\",\"level\":\"info\",\"event\":\"notice\",\"job\":\"ads\"")
        );
        let error = EventLog::to_file(folder.path(), "ads").err().expect("a folder").to_string();
        assert!(error.contains("--log-file") && error.contains("help: "), "{error}");
    }
}
