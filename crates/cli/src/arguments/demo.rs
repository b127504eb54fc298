//! The command line of the demonstration.

use std::time::Duration;

use anabranch_server::TableOption;
use clap::Args;

use super::{Run, Settings, duration};

/// What the demonstration runs.
pub(crate) const DEMO_SQL: &str = include_str!("../../../../examples/ad_campaigns.sql");

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Advertisement events per second
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: u64,
    /// Tasks per stage
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) parallelism: Option<u32>,
    /// Stop after this time: 30s, 5min, 500ms; without a unit, seconds
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Print a line per second instead of the live view
    #[arg(long)]
    pub(crate) plain: bool,
    /// Print the SQL instead of running it: save it, change it, and give it to anabranch run
    #[arg(long)]
    pub(crate) print_sql: bool,
}

impl Demo {
    /// The same as a run of the file.
    pub(crate) fn as_run(&self) -> Run {
        let rate = TableOption { table: "events".into(), name: "rows-per-second".into(), value: self.rate.to_string() };
        let mut run = Run { file: "ad_campaigns.sql".into(), ..Run::default() };
        run.settings = Settings { parallelism: self.parallelism, ..Settings::default() };
        run.tables.options.push(rate);
        run.duration = self.duration;
        run.plain = self.plain;
        run.http.page = true;
        run
    }
}
