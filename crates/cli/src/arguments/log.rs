//! The options of a process's own reports: the log, and the export to a collector.

use std::time::Duration;

use clap::{Args, ValueEnum};
use tracing_subscriber::filter::Targets;

use super::duration;

/// The heading of the options for what a process reports of itself.
pub(super) const REPORTS: &str = "Log and metrics";

/// Formats of standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// Events for programs: one JSON object in each line
    Json,
}

/// Which events a process logs.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Events {
    /// Which events are logged: off, error, warn, info, debug or trace, and MODULE=LEVEL for those of a part
    /// of the program, with commas between; else the environment has it (ANABRANCH_LOG)
    #[arg(long, help_heading = REPORTS, value_name = "LEVEL", value_parser = crate::log::levels)]
    pub(crate) log_level: Option<Targets>,
}

/// What a process that serves jobs logs to standard error.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Log {
    /// Format of the log on standard error
    #[arg(long, help_heading = REPORTS, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) log_format: LogFormat,
    #[command(flatten)]
    pub(crate) events: Events,
}

/// The export of metrics and spans.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Otlp {
    /// Send metrics and spans to a collector of OpenTelemetry, such as http://127.0.0.1:4318 (OTLP over HTTP,
    /// as JSON)
    #[arg(long, help_heading = REPORTS, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// Time between two exports
    #[arg(long, help_heading = REPORTS, value_name = "TIME", value_parser = duration, default_value = "10s", requires = "otlp")]
    pub(crate) otlp_interval: Duration,
}
