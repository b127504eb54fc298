//! The log of the process: events of its parts, on standard error or in a file.

mod lines;
mod spans;

use std::fs::OpenOptions;
use std::io::stderr;
use std::path::Path;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use anabranch_server::cluster::LOG;
use anabranch_server::otlp::{Destination, Exporter};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry;

use self::lines::{Lines, Output};
use self::spans::Spans;
use crate::arguments::{self, Events, LogFormat, Otlp};

/// The events of this program; others are those of libraries.
const OWN: &str = "anabranch";
/// A process that serves jobs has many events: each checkpoint would be a line.
const OF_SERVER: LevelFilter = LevelFilter::INFO;
/// The log of one job has its checkpoints.
const OF_JOB: LevelFilter = LevelFilter::DEBUG;

/// The log of this process.
pub(crate) struct Log {
    output: Arc<Output>,
    format: LogFormat,
    levels: Targets,
}

impl Log {
    /// For a process with one job, to standard error.
    pub(crate) fn of_run(events: &Events) -> Result<Log> {
        Self::new(Output::new(Box::new(stderr())), LogFormat::Json, events, OF_JOB)
    }

    /// For a process with one job, appended to a file, which is created if it does not exist.
    pub(crate) fn to_file(path: &Path, events: &Events) -> Result<Log> {
        Self::new(file(path)?, LogFormat::Json, events, OF_JOB)
    }

    fn new(output: Output, format: LogFormat, events: &Events, default: LevelFilter) -> Result<Log> {
        Ok(Log { output: Arc::new(output), format, levels: filter(events, default)? })
    }

    /// Why the log is not complete, if it is not.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.output.failure()
    }
}

/// The reports of a process that serves jobs: begins to write the log to standard error, and to export if
/// requested.
pub(crate) fn of_server(
    options: &arguments::Log,
    otlp: &Otlp,
    role: &'static str,
    instance: String,
) -> Result<Option<Exporter>> {
    let log = Log::new(Output::new(Box::new(stderr())), options.log_format, &options.events, OF_SERVER)?;
    let exporter = exporter(otlp, role, instance)?;
    start(Some(&log), exporter.as_ref())?;
    Ok(exporter)
}

/// Begins to write the log, and to export spans. Called once.
pub(crate) fn start(log: Option<&Log>, exporter: Option<&Exporter>) -> Result<()> {
    let lines =
        log.map(|Log { output, format, levels }| Lines::new(*format, Arc::clone(output)).with_filter(levels.clone()));
    let spans = exporter.map(|exporter| Spans::new(exporter.queue()).with_filter(of_all(Targets::new(), OF_JOB)));
    registry().with(lines).with(spans).try_init().map_err(|error| Error::internal(error.to_string()))
}

/// Begins to export, if requested.
pub(crate) fn exporter(options: &Otlp, role: &'static str, instance: String) -> Result<Option<Exporter>> {
    let interval = options.otlp_interval;
    let destination = options.otlp.clone().map(|url| Destination { url, interval, role, instance });
    destination.map(|destination| Exporter::start(&destination)).transpose()
}

fn file(path: &Path) -> Result<Output> {
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
        let error = Error::user(format!("cannot write to this file: {error}"));
        error.at(format!("option --log-file {}", path.display())).remedy("give a file that this process may write")
    })?;
    Ok(Output::new(Box::new(file)))
}

/// The levels of the command line, else those of the environment, else this one for all events of this
/// program.
fn filter(events: &Events, default: LevelFilter) -> Result<Targets> {
    let of_environment = || std::env::var(LOG).ok().filter(|levels| !levels.is_empty());
    match (&events.log_level, of_environment()) {
        (Some(levels), _) => Ok(levels.clone()),
        (None, Some(text)) => levels(&text).map_err(|why| Error::user(why).at(format!("{LOG} of the environment"))),
        (None, None) => Ok(of_all(Targets::new(), default)),
    }
}

/// A level for all events of this program. Libraries keep their default level.
fn of_all(levels: Targets, level: LevelFilter) -> Targets {
    levels.with_target(OWN, level).with_default(level.min(LevelFilter::WARN))
}

/// `LEVEL` or `MODULE=LEVEL`, several with commas between.
pub(crate) fn levels(text: &str) -> Result<Targets, String> {
    let level = |text: &str| {
        text.parse::<LevelFilter>().ok().filter(|_| !text.is_empty() && text.chars().all(char::is_alphabetic))
    };
    let mut levels = of_all(Targets::new(), OF_SERVER);
    for part in text.split(',').map(str::trim) {
        levels = match part.split_once('=') {
            None => level(part).map(|level| of_all(levels, level)),
            Some((module, text)) => level(text).map(|level| levels.with_target(module, level)),
        }
        .ok_or_else(|| format!("'{part}' is no level: give off, error, warn, info, debug or trace, or MODULE=LEVEL"))?;
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_level_is_for_this_program_and_a_module_has_one_of_its_own() {
        let at = |text: &str, target: &str, level| levels(text).expect(text).would_enable(target, &level);
        assert!(at("debug", "anabranch_server::cluster", Level::DEBUG) && !at("debug", "hyper", Level::INFO));
        assert!(at("error", "hyper", Level::ERROR) && !at("error", "hyper", Level::WARN));
        assert!(!at("off", "anabranch_server", Level::ERROR));
        let mixed = "warn, anabranch_runtime=debug,hyper=trace";
        assert!(
            at(mixed, "anabranch_runtime::shell::status", Level::DEBUG) && at(mixed, "hyper::client", Level::TRACE)
        );
        assert!(!at(mixed, "anabranch_server", Level::INFO));
        assert!(at("hyper=info", "anabranch_server", Level::INFO), "the rest is as by default");
        for wrong in ["", "loud", "info,", "hyper=", "hyper=9", "7"] {
            assert!(levels(wrong).expect_err(wrong).contains("is no level"), "{wrong}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_with_its_option() {
        let folder = tempfile::tempdir().expect("folder");
        let error = file(folder.path()).err().expect("a folder").to_string();
        assert!(error.contains("--log-file") && error.contains("help: "), "{error}");
    }
}
