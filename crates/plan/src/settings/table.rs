//! Options that begin with `table.`, as in Flink: how statements are planned.

use std::time::Duration;

use anabranch_model::{Error, Result};

use super::parse_duration;
use crate::zones::parse_zone;

/// The options by their names, without those of sinks.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableSettings {
    /// `table.exec.sink.not-null-enforcer`: whether rows with NULL for a NOT NULL column of a sink are dropped instead of stopping the job.
    pub(crate) drop_nulls: bool,
    /// `table.exec.state.ttl`: for how long state is kept that nothing changes. `None`: for ever.
    pub(crate) time_to_live: Option<Duration>,
    /// `table.exec.source.idle-timeout`: after how long a partition without rows holds event time back no more, where a table does not say
    /// it. `None`: never.
    pub(crate) idle_timeout: Option<Duration>,
    /// `table.exec.emit.allow-lateness`: for how long after the end of its window, in event time, a row changes its result.
    pub(crate) lateness: Duration,
    /// `table.exec.emit.early-fire.enabled`: whether results of windows are emitted as they change, before the windows end.
    pub(crate) early: bool,
    /// `table.exec.emit.early-fire.delay`, `table.exec.emit.late-fire.delay`: changes come at once, and so not later than that.
    delays: [Option<Duration>; 2],
    /// `table.exec.emit.late-fire.enabled`: has no meaning of its own.
    late: bool,
    /// `table.exec.mini-batch.enabled`: whether aggregates gather rows until the end of an epoch.
    gathers: bool,
    /// `table.exec.mini-batch.allow-latency`.
    latency: Duration,
    /// `table.exec.mini-batch.size`: how many rows they gather at most.
    rows: Option<u64>,
    /// `table.local-time-zone`: the time zone of the session. `None`: UTC.
    pub(crate) zone: Option<String>,
    /// `table.optimizer.multi-join.enabled`, if it is 'false': each join has two inputs.
    pub(crate) joins_two: bool,
}

/// Names of the options, in the order of [`TableSettings::list`].
pub(super) const NAMES: [&str; 13] = [
    "table.exec.sink.not-null-enforcer",
    "table.exec.state.ttl",
    "table.exec.source.idle-timeout",
    "table.exec.emit.allow-lateness",
    "table.exec.emit.early-fire.enabled",
    "table.exec.emit.early-fire.delay",
    "table.exec.emit.late-fire.enabled",
    "table.exec.emit.late-fire.delay",
    "table.exec.mini-batch.enabled",
    "table.exec.mini-batch.allow-latency",
    "table.exec.mini-batch.size",
    "table.local-time-zone",
    "table.optimizer.multi-join.enabled",
];

impl TableSettings {
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let some = |time: Duration| Some(time).filter(|time| !time.is_zero());
        match name {
            "table.exec.sink.not-null-enforcer" => self.drop_nulls = parse_enforcer(value)?,
            "table.exec.state.ttl" => self.time_to_live = some(parse_duration(value)?),
            "table.exec.source.idle-timeout" => self.idle_timeout = some(parse_duration(value)?),
            "table.exec.emit.allow-lateness" => self.lateness = parse_duration(value)?,
            "table.exec.emit.early-fire.enabled" => self.early = parse_switch(value)?,
            "table.exec.emit.early-fire.delay" => self.delays[0] = Some(parse_duration(value)?),
            "table.exec.emit.late-fire.enabled" => self.late = parse_switch(value)?,
            "table.exec.emit.late-fire.delay" => self.delays[1] = Some(parse_duration(value)?),
            "table.exec.mini-batch.enabled" => self.gathers = parse_switch(value)?,
            "table.exec.mini-batch.allow-latency" => self.latency = parse_duration(value)?,
            "table.exec.mini-batch.size" => self.rows = parse_rows(value)?,
            "table.optimizer.multi-join.enabled" => self.joins_two = !parse_switch(value)?,
            _ => self.zone = parse_zone(value)?,
        }
        Ok(())
    }

    pub(super) fn list(&self) -> [String; NAMES.len()] {
        let ms = |time: Option<Duration>| format!("{} ms", time.map_or(0, |time| time.as_millis()));
        [
            if self.drop_nulls { "DROP".into() } else { "ERROR".into() },
            ms(self.time_to_live),
            ms(self.idle_timeout),
            ms(Some(self.lateness)),
            self.early.to_string(),
            ms(self.delays[0]),
            self.late.to_string(),
            ms(self.delays[1]),
            self.gathers.to_string(),
            ms(Some(self.latency)),
            self.rows.map_or_else(|| "-1".into(), |rows| rows.to_string()),
            self.zone.clone().unwrap_or_else(|| "UTC".into()),
            (!self.joins_two).to_string(),
        ]
    }

    /// Whether windows emit results early, or change them for late rows.
    ///
    /// # Errors
    /// An option needs another one, as in Flink.
    pub(crate) fn emits(&self) -> Result<bool> {
        let missing = |name: &str, other: &str, example: &str| {
            Error::user(format!("'table.exec.emit.{name}' needs 'table.exec.emit.{other}'"))
                .remedy(format!("SET 'table.exec.emit.{other}' = '{example}'"))
        };
        if self.late && self.lateness.is_zero() {
            return Err(missing("late-fire.enabled", "allow-lateness", "1 h"));
        }
        if self.early && self.delays[0].is_none() {
            return Err(missing("early-fire.enabled", "early-fire.delay", "1 s"));
        }
        Ok(self.early || !self.lateness.is_zero())
    }

    /// How many rows an aggregate gathers until the end of an epoch. `None`: it takes each batch as it comes.
    ///
    /// # Errors
    /// It is to gather rows, and an option is missing or does not fit to the length of an epoch.
    pub(crate) fn mini_batch(&self, epoch: Duration) -> Result<Option<u64>> {
        if !self.gathers {
            return Ok(None);
        }
        let missing = |what: &str, example: &str| {
            Error::user(format!("'table.exec.mini-batch.enabled' needs 'table.exec.mini-batch.{what}'"))
                .remedy(format!("SET 'table.exec.mini-batch.{what}' = '{example}'"))
        };
        if self.latency.is_zero() {
            return Err(missing("allow-latency", "2 s"));
        }
        if self.latency < epoch {
            let (latency, epoch) = (self.latency.as_millis(), epoch.as_millis());
            let error = Error::user(format!(
                "'table.exec.mini-batch.allow-latency' is {latency} ms, and rows are gathered until the end of an epoch, which has {epoch} ms"
            ));
            return Err(error.remedy("allow more, or SET 'epoch-interval' to less"));
        }
        self.rows.map(Some).ok_or_else(|| missing("size", "50000"))
    }
}

/// Whether rows with NULL for a NOT NULL column are dropped.
fn parse_enforcer(text: &str) -> Result<bool> {
    match text.trim().to_uppercase().as_str() {
        "ERROR" => Ok(false),
        "DROP" => Ok(true),
        _ => Err(Error::user(format!("'{text}' is not a way to enforce NOT NULL"))
            .remedy("use 'ERROR' to stop the job, or 'DROP' to drop the row")),
    }
}

fn parse_switch(text: &str) -> Result<bool> {
    match text.trim().to_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Error::user(format!("'{text}' is neither true nor false")).remedy("use 'true' or 'false'")),
    }
}

fn parse_rows(text: &str) -> Result<Option<u64>> {
    match text.trim().parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(rows) if rows > 0 => Ok(Some(rows.unsigned_abs())),
        _ => Err(Error::user(format!("'{text}' is not a number of rows")).remedy("use a whole number from 1, or -1")),
    }
}
