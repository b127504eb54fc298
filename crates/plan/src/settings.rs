//! Options of `SET 'name' = 'value'` and the notation of durations and sizes.

mod autoscale;
mod parallelism;
mod runtime_mode;
mod scheduling;
mod state;
mod table;
mod without_effect;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use anabranch_dataflow::{AutoscaleOptions, CheckpointOptions, JobOptions, Scheduling, StateBackendKind};
use anabranch_model::{Error, Result, nearest};

pub use self::autoscale::{autoscale_options, autoscale_settings};
pub(crate) use self::parallelism::parse_parallelism;
use self::parallelism::{parse_max_parallelism, parse_shares, parse_stages};
pub use self::parallelism::{share_setting, stage_setting};
pub(crate) use self::runtime_mode::RuntimeMode;
pub(crate) use self::table::TableSettings;

/// The values of `SET`.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) job: JobOptions,
    pub(crate) parallelism: Option<u32>,
    /// Key groups of the job.
    max_parallelism: Option<u16>,
    pub(crate) table: TableSettings,
    pub(crate) runtime_mode: RuntimeMode,
    /// Used only with a directory.
    checkpoints: CheckpointOptions,
    /// Used only if `autoscale` is not `off`.
    autoscale: AutoscaleOptions,
    /// Options, by the names in [`NAMES`], that `SET` does not change.
    fixed: BTreeSet<String>,
    /// What it was before the first `SET`, and the last value that each option was set to since.
    before: Option<Box<Settings>>,
    changes: Vec<(String, String)>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            job: JobOptions::default(),
            parallelism: None,
            max_parallelism: None,
            table: TableSettings::default(),
            runtime_mode: RuntimeMode::default(),
            checkpoints: CheckpointOptions::new(""),
            autoscale: AutoscaleOptions::default(),
            fixed: BTreeSet::new(),
            before: None,
            changes: Vec::new(),
        }
    }
}

/// Larger groups would take longer than any job.
const GROUP_EPOCHS_MAX: u64 = 1_000_000;

const NAMES: [&str; 29] = [
    "parallelism",
    "stage-parallelism",
    "stage-key-groups",
    "max-parallelism",
    "job-name",
    "epoch-interval",
    "group-epochs",
    "coordination-percent-min",
    "coordination-percent-max",
    "buffer-timeout",
    "batch-rows",
    "channel-bytes",
    "state-backend",
    "state-bytes",
    "state-directory",
    "checkpoint-directory",
    "checkpoint-interval",
    "checkpoint-timeout",
    "restart-attempts",
    "execution.runtime-mode",
    "scheduling",
    "autoscale",
    "autoscale-tasks-min",
    "autoscale-tasks-max",
    "autoscale-interval",
    "autoscale-intervals",
    "autoscale-quiet",
    "autoscale-utilization-percent",
    "autoscale-threshold-percent",
];

/// The name in [`NAMES`] of an option that Flink calls otherwise.
fn own_name(name: &str) -> &str {
    match name {
        "parallelism.default" | "table.exec.resource.default-parallelism" => "parallelism",
        "pipeline.max-parallelism" => "max-parallelism",
        "pipeline.name" => "job-name",
        "execution.buffer-timeout" => "buffer-timeout",
        "state.backend" | "state.backend.type" => "state-backend",
        "state.checkpoints.dir" | "execution.checkpointing.dir" => "checkpoint-directory",
        "execution.checkpointing.interval" => "checkpoint-interval",
        "execution.checkpointing.timeout" => "checkpoint-timeout",
        "restart-strategy.fixed-delay.attempts" => "restart-attempts",
        other => other,
    }
}

impl Settings {
    /// Carries out `SET` for a job with this number of key groups. An option that is fixed keeps its value; the new one is only checked.
    pub(crate) fn set(&mut self, name: &str, value: &str, key_groups: u16) -> Result<()> {
        let before = self.before.is_none().then(|| Box::new(self.clone()));
        self.preset(name, value, key_groups)?;
        self.before = self.before.take().or(before);
        self.changes.retain(|(other, _)| own_name(other) != own_name(name));
        self.changes.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Carries out `RESET`: the option, or each, has the value again that it had before the first `SET`.
    pub(crate) fn reset(&mut self, name: Option<&str>, key_groups: u16) -> Result<()> {
        if let Some(name) = name.filter(|name| !is_known(name)) {
            return Err(unknown(name));
        }
        let Some(before) = self.before.clone() else { return Ok(()) };
        let mut next = Settings { before: Some(before.clone()), ..*before };
        for (of, value) in self.changes.clone() {
            if name.is_some_and(|name| own_name(name) != own_name(&of)) {
                next.preset(&of, &value, key_groups)?;
                next.changes.push((of, value));
            }
        }
        *self = next;
        Ok(())
    }

    /// The number of key groups of the job, which is `default` unless it was set.
    pub(crate) fn key_groups(&self, default: u16) -> u16 {
        self.max_parallelism.unwrap_or(default)
    }

    /// Gives an option the value that it has before any statement. One that is fixed keeps its own.
    pub(crate) fn preset(&mut self, name: &str, value: &str, key_groups: u16) -> Result<()> {
        if self.fixed.contains(own_name(name)) {
            return self.clone().change(name, value, key_groups);
        }
        self.change(name, value, key_groups)
    }

    /// Sets an option to a value that `SET` does not change.
    pub(crate) fn fix(&mut self, name: &str, value: &str, key_groups: u16) -> Result<()> {
        self.change(name, value, key_groups)?;
        self.fixed.insert(own_name(name).to_owned());
        Ok(())
    }

    fn change(&mut self, name: &str, value: &str, key_groups: u16) -> Result<()> {
        let of = |error: Error| error.at(format!("option '{name}'"));
        let key_groups = self.key_groups(key_groups);
        match own_name(name) {
            "max-parallelism" => self.max_parallelism = parse_max_parallelism(value).map_err(of)?,
            "parallelism" => {
                self.parallelism = Some(parse_parallelism(value, key_groups).map_err(of)?);
            }
            "stage-parallelism" => self.job.stage_parallelism = parse_stages(value, key_groups).map_err(of)?,
            "stage-key-groups" => self.job.stage_key_groups = parse_shares(value, key_groups).map_err(of)?,
            "job-name" => self.job.job_name = value.to_string(),
            "epoch-interval" => {
                let interval = parse_duration(value).map_err(of)?;
                if interval.is_zero() {
                    return Err(of(Error::user("the interval must be positive").remedy("use for example '100 ms'")));
                }
                self.job.epoch_interval = interval;
            }
            "group-epochs" | "coordination-percent-min" | "coordination-percent-max" => {
                self.set_group(name, value).map_err(of)?;
            }
            "buffer-timeout" => self.job.buffer_timeout = parse_duration(value).map_err(of)?,
            "batch-rows" => {
                let rows: usize = value.parse().ok().filter(|rows| (1..=1 << 20).contains(rows)).ok_or_else(|| {
                    of(Error::user(format!("'{value}' is not a number of rows")).remedy("use 1 to 1048576"))
                })?;
                self.job.batch_rows = rows;
            }
            "channel-bytes" => self.job.channel_bytes = parse_bytes(value).map_err(of)?,
            "state-backend" => self.job.state_backend = state::parse_backend(value).map_err(of)?,
            "state-bytes" => self.job.state_bytes = parse_bytes(value).map_err(of)?,
            "state-directory" => {
                let directory = value.trim();
                self.job.state_directory = (!directory.is_empty()).then(|| directory.into());
            }
            "checkpoint-directory" => {
                self.checkpoints.directory = value.trim().to_string();
                self.job.checkpoints = (!value.trim().is_empty()).then(|| self.checkpoints.clone());
            }
            "checkpoint-interval" => {
                self.checkpoints.interval = parse_duration(value).map_err(of)?;
                self.job.checkpoints = self.job.checkpoints.take().map(|_| self.checkpoints.clone());
            }
            "checkpoint-timeout" => {
                self.checkpoints.timeout = parse_duration(value).map_err(of)?;
                self.job.checkpoints = self.job.checkpoints.take().map(|_| self.checkpoints.clone());
            }
            "restart-attempts" => {
                self.checkpoints.restart_attempts = value.trim().parse().map_err(|_| {
                    of(Error::user(format!("'{value}' is not a number of attempts"))
                        .remedy("use a whole number from 0"))
                })?;
                self.job.checkpoints = self.job.checkpoints.take().map(|_| self.checkpoints.clone());
            }
            "scheduling" => self.job.scheduling = scheduling::parse(value).map_err(of)?,
            table if table::NAMES.contains(&table) => self.table.set(table, value).map_err(of)?,
            "execution.runtime-mode" => self.runtime_mode = RuntimeMode::parse(value).map_err(of)?,
            autoscale if autoscale.starts_with("autoscale") && NAMES.contains(&autoscale) => {
                self.set_autoscale(autoscale, value, key_groups).map_err(of)?;
            }
            _ => {
                if let Some(checked) = without_effect::check(name, value) {
                    return checked.map_err(of);
                }
                return Err(unknown(name));
            }
        }
        Ok(())
    }

    fn set_group(&mut self, name: &str, value: &str) -> Result<()> {
        let group = &mut self.job.group;
        let (min, max) = (group.overhead_percent_min, group.overhead_percent_max);
        match name {
            "group-epochs" => group.epochs = parse_group_epochs(value)?,
            "coordination-percent-min" => {
                group.overhead_percent_min = parse_percent(value, 0.0..=max)
                    .map_err(|e| e.remedy("stay below 'coordination-percent-max', or raise that first"))?;
            }
            _ => {
                group.overhead_percent_max = parse_percent(value, min..=100.0)
                    .map_err(|e| e.remedy("stay above 'coordination-percent-min', or lower that first"))?;
            }
        }
        Ok(())
    }

    /// Why an option has no effect, if it is one of Flink's that has none here.
    pub(crate) fn without_effect(name: &str) -> Option<&'static str> {
        without_effect::reason(name)
    }

    /// The options with their values, for people.
    pub(crate) fn list(&self) -> Vec<(String, String)> {
        let values = [
            self.parallelism.map_or_else(|| "default".to_string(), |p| p.to_string()),
            stage_setting(&self.job.stage_parallelism),
            share_setting(&self.job.stage_key_groups),
            self.max_parallelism.map_or_else(|| "default".to_string(), |groups| groups.to_string()),
            self.job.job_name.clone(),
            format!("{} ms", self.job.epoch_interval.as_millis()),
            self.job.group.epochs.map_or_else(|| "auto".to_string(), |epochs| epochs.to_string()),
            self.job.group.overhead_percent_min.to_string(),
            self.job.group.overhead_percent_max.to_string(),
            format!("{} ms", self.job.buffer_timeout.as_millis()),
            self.job.batch_rows.to_string(),
            self.job.channel_bytes.to_string(),
            match self.job.state_backend {
                StateBackendKind::Memory => "memory".into(),
                StateBackendKind::Disk => "disk".into(),
            },
            self.job.state_bytes.to_string(),
            self.job.state_directory.as_ref().map_or_else(String::new, |directory| directory.display().to_string()),
            self.checkpoints.directory.clone(),
            format!("{} ms", self.checkpoints.interval.as_millis()),
            format!("{} ms", self.checkpoints.timeout.as_millis()),
            self.checkpoints.restart_attempts.to_string(),
            self.runtime_mode.name().into(),
            self.job.scheduling.map_or(scheduling::OFF, Scheduling::name).into(),
            autoscale::mode_name(self.job.autoscale.as_ref()).into(),
        ];
        let mut list: Vec<_> = NAMES.iter().map(ToString::to_string).zip(values).collect();
        list.extend(table::NAMES.iter().map(ToString::to_string).zip(self.table.list()));
        list.extend(autoscale_settings(&self.autoscale));
        list
    }
}

fn is_known(name: &str) -> bool {
    let own = own_name(name);
    NAMES.contains(&own) || table::NAMES.contains(&own) || without_effect::check(name, "").is_some()
}

fn unknown(name: &str) -> Error {
    let near = nearest(name, NAMES.into_iter().chain(table::NAMES));
    let help = near.map_or_else(String::new, |near| format!("did you mean '{near}'? "));
    Error::user(format!("unknown option '{name}'"))
        .remedy(format!("{help}The options are: {}", [&NAMES[..], &table::NAMES].concat().join(", ")))
}

/// A number of epochs, or `auto`.
fn parse_group_epochs(text: &str) -> Result<Option<u64>> {
    match text.trim() {
        auto if auto.eq_ignore_ascii_case("auto") => Ok(None),
        number => match number.parse() {
            Ok(epochs) if (1..=GROUP_EPOCHS_MAX).contains(&epochs) => Ok(Some(epochs)),
            _ => Err(Error::user(format!("'{text}' is not a number of epochs"))
                .remedy(format!("use 'auto', or a whole number from 1 to {GROUP_EPOCHS_MAX}"))),
        },
    }
}

/// `5`, `7.5 %`.
fn parse_percent(text: &str, allowed: RangeInclusive<f64>) -> Result<f64> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if allowed.contains(&percent) => Ok(percent),
        Ok(_) => {
            let (low, high) = (allowed.start(), allowed.end());
            Err(Error::user(format!("'{text}' is not between {low} and {high} percent")))
        }
        Err(_) => Err(Error::user(format!("'{text}' is not a percentage")).remedy("use a number like 5 or '7.5 %'")),
    }
}

/// `5 s`, `100ms`, `1 min`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration> {
    let (number, unit) = number_and_unit(text);
    let unit_ms: Option<f64> = match unit.as_str() {
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => Some(1.0),
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1000.0),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60_000.0),
        "h" | "hour" | "hours" => Some(3_600_000.0),
        "d" | "day" | "days" => Some(86_400_000.0),
        _ => None,
    };
    match (number, unit_ms) {
        (Some(number), Some(unit)) => Ok(Duration::from_micros((number * unit * 1000.0).round() as u64)),
        _ => Err(Error::user(format!("'{text}' is not a duration"))
            .remedy("write a number and ms, s, min, h or d, like '5 s'")),
    }
}

/// `4 mb`, `65536`.
fn parse_bytes(text: &str) -> Result<usize> {
    let (number, unit) = number_and_unit(text);
    let unit_bytes: Option<f64> = match unit.as_str() {
        "" | "b" | "bytes" => Some(1.0),
        "k" | "kb" | "kib" => Some(1024.0),
        "m" | "mb" | "mib" => Some(1024.0 * 1024.0),
        "g" | "gb" | "gib" => Some(1024.0 * 1024.0 * 1024.0),
        _ => None,
    };
    match (number, unit_bytes) {
        (Some(number), Some(unit)) if number * unit >= 1.0 => Ok((number * unit).round() as usize),
        _ => {
            Err(Error::user(format!("'{text}' is not a size"))
                .remedy("write a number and b, kb, mb or gb, like '4 mb'"))
        }
    }
}

fn number_and_unit(text: &str) -> (Option<f64>, String) {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (text[..digits].parse().ok(), text[digits..].trim().to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes() {
        for (text, ms) in [("5 s", 5000), ("100ms", 100), ("1 min", 60_000), ("0.5 h", 1_800_000), ("7", 7)] {
            assert_eq!(parse_duration(text).expect(text), Duration::from_millis(ms), "{text}");
        }
        for text in ["", "s", "5 parsecs", "-1 s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_bytes("4 mb").expect("size"), 4 << 20);
        assert!(parse_bytes("0").is_err());
    }

    #[test]
    fn every_listed_option_can_be_set() {
        let mut settings = Settings::default();
        settings.set("parallelism", "3", 128).expect("set");
        for (name, value) in settings.clone().list() {
            settings.set(&name, &value, 128).expect("set");
        }
        assert!(
            settings
                .set("paralelism", "3", 128)
                .expect_err("unknown")
                .to_string()
                .contains("did you mean 'parallelism'")
        );
    }

    #[test]
    fn what_is_fixed_is_checked_and_keeps_its_value() {
        let mut settings = Settings::default();
        settings.fix("parallelism.default", "3", 128).expect("fixed");
        settings.set("parallelism", "2", 128).expect("without effect");
        settings.set("parallelism", "0", 128).expect_err("still checked");
        settings.set("batch-rows", "7", 128).expect("not fixed");
        assert_eq!((settings.parallelism, settings.job.batch_rows), (Some(3), 7));
        settings.fix("parallelism", "4", 128).expect("fixed again");
        assert_eq!(settings.parallelism, Some(4));
    }

    #[test]
    fn groups_are_sized_by_number_or_by_bounds() {
        let mut settings = Settings::default();
        let mut set = |name: &str, value: &str| settings.set(name, value, 128).map_err(|error| error.to_string());
        set("group-epochs", " Auto ").expect("automatic");
        set("group-epochs", "20").expect("fixed");
        for (name, value, expected) in [
            ("group-epochs", "0", "'0' is not a number of epochs"),
            ("group-epochs", "many", "use 'auto', or a whole number from 1"),
            ("coordination-percent-min", "11", "'11' is not between 0 and 10 percent"),
            ("coordination-percent-max", "4 %", "lower that first"),
            ("coordination-percent-max", "NaN", "is not between"),
            ("coordination-percent-max", "a lot", "is not a percentage"),
        ] {
            let error = set(name, value).expect_err(value);
            assert!(error.contains(expected) && error.contains(name) && error.contains("help:"), "{error}");
        }
        set("coordination-percent-max", "20 %").expect("higher");
        set("coordination-percent-min", "12.5").expect("below it");
        let group = settings.job.group;
        assert_eq!((group.epochs, group.overhead_percent_min, group.overhead_percent_max), (Some(20), 12.5, 20.0));
    }
}
