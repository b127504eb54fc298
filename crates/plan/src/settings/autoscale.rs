//! The options `autoscale` and `autoscale-...`.

use std::time::Duration;

use anabranch_dataflow::AutoscaleOptions;
use anabranch_model::{Error, Result, duration_text};

use super::option::{Opt, parse_duration, parse_duration_from, parse_percent, parse_whole, parse_word, put, word};
use super::{Settings, parse_parallelism};

/// Readings of idle tasks may be this old, so shorter intervals would show nothing.
const INTERVAL_MIN: Duration = Duration::from_millis(500);
/// Limit of the intervals that a need must last. With more, the number of tasks would hardly ever change.
const INTERVALS_MAX: u32 = 1000;
/// The prefix of the options that decisions depend on.
const PREFIX: &str = "autoscale-";

/// Whether the number of tasks follows the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Off,
    On,
    /// Decisions are shown and not carried out.
    Observe,
}

const MODES: &[(&str, Mode)] = &[("on", Mode::On), ("observe", Mode::Observe), ("off", Mode::Off)];

pub(super) const OPTIONS: &[Opt] = &[
    Opt {
        name: "autoscale",
        help: "`on`; `observe`: decisions are shown and not carried out; `off`",
        get: |s| word(&s.autoscale_mode, MODES),
        set: |s, text, _| put(&mut s.autoscale_mode, parse_word(text, MODES)),
        ..Opt::PLAIN
    },
    Opt {
        name: "autoscale-tasks-min",
        help: "smallest number of tasks of a stage",
        get: |s| s.autoscale.tasks_min.to_string(),
        set: |s, text, key_groups| {
            let tasks = parse_parallelism(text, s.key_groups(key_groups))?;
            if tasks > s.autoscale.tasks_max {
                let error =
                    Error::user(format!("{tasks} is more than 'autoscale-tasks-max', {}", s.autoscale.tasks_max));
                return Err(error.remedy("raise that first, or lower this one"));
            }
            put(&mut s.autoscale.tasks_min, Ok(tasks))
        },
        ..Opt::PLAIN
    },
    Opt {
        name: "autoscale-tasks-max",
        help: "largest number of tasks of a stage. There are never more than slots of workers",
        get: |s| s.autoscale.tasks_max.to_string(),
        set: |s, text, key_groups| {
            let tasks = parse_parallelism(text, s.key_groups(key_groups))?;
            if tasks < s.autoscale.tasks_min {
                let error =
                    Error::user(format!("{tasks} is less than 'autoscale-tasks-min', {}", s.autoscale.tasks_min));
                return Err(error.remedy("lower that first, or raise this one"));
            }
            put(&mut s.autoscale.tasks_max, Ok(tasks))
        },
        ..Opt::PLAIN
    },
    Opt {
        name: "autoscale-interval",
        help: "time between two decisions, at least 500 ms. It should be longer than the windows of the job",
        get: |s| duration_text(s.autoscale.interval),
        set: |s, text, _| put(&mut s.autoscale.interval, parse_duration_from(text, INTERVAL_MIN)),
        ..Opt::PLAIN
    },
    Opt {
        name: "autoscale-intervals",
        help: "in how many successive intervals another number must be needed. The largest need counts",
        get: |s| s.autoscale.intervals.to_string(),
        set: |s, text, _| put(&mut s.autoscale.intervals, parse_whole(text, 1..=INTERVALS_MAX)),
        ..Opt::PLAIN
    },
    Opt {
        name: "autoscale-quiet",
        help: "for how long nothing is changed after a change, also one by a user",
        get: |s| duration_text(s.autoscale.quiet),
        set: |s, text, _| put(&mut s.autoscale.quiet, parse_duration(text)),
        ..Opt::PLAIN
    },
    Opt {
        name: "autoscale-utilization-percent",
        help: "the share of its time for which a task is to be busy",
        get: |s| s.autoscale.utilization_percent.to_string(),
        set: |s, text, _| put(&mut s.autoscale.utilization_percent, parse_percent(text, 1.0..=99.0)),
        ..Opt::PLAIN
    },
    Opt {
        name: "autoscale-threshold-percent",
        help: "a need that differs by at most this share of the present number changes nothing",
        get: |s| s.autoscale.threshold_percent.to_string(),
        set: |s, text, _| put(&mut s.autoscale.threshold_percent, parse_percent(text, 0.0..=100.0)),
        ..Opt::PLAIN
    },
];

/// The options by name, except `autoscale` itself.
#[must_use]
pub fn autoscale_settings(options: &AutoscaleOptions) -> Vec<(String, String)> {
    let settings = Settings { autoscale: options.clone(), ..Settings::default() };
    let own = OPTIONS.iter().filter(|option| option.name.starts_with(PREFIX));
    own.map(|option| (option.name.to_owned(), (option.get)(&settings))).collect()
}

/// Parses options by name, as `SET` does, for jobs with this number of key groups.
///
/// # Errors
/// A name is not one of these options, or a value is wrong.
pub fn autoscale_options(given: &[(String, String)], key_groups: u16) -> Result<AutoscaleOptions> {
    let mut settings = Settings::default();
    for (name, value) in given {
        if !name.starts_with(PREFIX) {
            let error = Error::user(format!("'{name}' is no option of autoscaling"));
            return Err(error.remedy(format!("set options whose names begin with '{PREFIX}'")));
        }
        settings.set(name, value, key_groups)?;
    }
    Ok(settings.autoscale)
}

/// Fails if the options contradict each other.
pub(super) fn check(options: &AutoscaleOptions) -> Result<()> {
    // A need within the threshold adds no task, so the present tasks must suffice for it.
    if options.utilization_percent * (1.0 + options.threshold_percent / 100.0) >= 100.0 {
        let error = Error::user("with this utilization and threshold a stage would be overloaded and not be scaled");
        return Err(error.remedy("lower one of them, such as a utilization of 80 and a threshold of 10"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_follow_the_load_within_bounds() {
        let mut settings = Settings::default();
        let set = |settings: &mut Settings, name: &str, value: &str| {
            settings.set(name, value, 128).map_err(|error| error.to_string())
        };
        for (name, value, expected) in [
            ("autoscale", "yes", "use one of: on, observe, off"),
            ("autoscale-tasks-max", "0", "use a whole number from 1 to 128"),
            ("autoscale-tasks-max", "129", "more than the 128 key groups"),
            ("autoscale-interval", "100 ms", "use at least '500 ms'"),
            ("autoscale-intervals", "0", "use a whole number from 1 to 1000"),
            ("autoscale-utilization-percent", "95", "would be overloaded"),
            ("autoscale-threshold-percent", "-1", "is not between"),
            ("autoscale-tasks", "3", "did you mean 'autoscale-tasks-m"),
        ] {
            let error = set(&mut settings.clone(), name, value).expect_err(value);
            assert!(error.contains(expected) && error.contains(name), "{error}");
        }
        set(&mut settings, "autoscale-tasks-max", "8").expect("a bound");
        assert_eq!(settings.job.autoscale, None, "it is off");
        set(&mut settings, "autoscale-tasks-min", "9").expect_err("above the other bound");
        set(&mut settings, "autoscale-tasks-min", "2").expect("a bound");
        set(&mut settings, "autoscale-tasks-max", "1").expect_err("below the other bound");
        set(&mut settings, "autoscale", "Observe").expect("a mode");
        set(&mut settings, "autoscale-quiet", "5 s").expect("a time");
        let options = settings.job.autoscale.clone().expect("it observes");
        let expected =
            AutoscaleOptions { observes_only: true, tasks_min: 2, tasks_max: 8, ..AutoscaleOptions::default() };
        assert_eq!(options, AutoscaleOptions { quiet: Duration::from_secs(5), ..expected });
        set(&mut settings, "autoscale", "on").expect("a mode");
        assert_eq!(settings.job.autoscale.as_ref().map(|options| options.observes_only), Some(false));
        set(&mut settings, "autoscale", "off").expect("a mode");
        assert_eq!(settings.job.autoscale, None);
    }
}
