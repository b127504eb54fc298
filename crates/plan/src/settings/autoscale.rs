//! The options `autoscale` and `autoscale-...`.

use std::time::Duration;

use anabranch_dataflow::AutoscaleOptions;
use anabranch_model::{Error, Result};

use super::{Settings, parse_duration, parse_parallelism, parse_percent};

/// Readings of idle tasks are this old at most, so shorter intervals would show nothing.
const INTERVAL_MIN: Duration = Duration::from_millis(500);
/// A need that must last longer is not followed at all.
const INTERVALS_MAX: u32 = 1000;

/// How `SET` shows whether the number of tasks follows the load.
pub(super) fn mode_name(options: Option<&AutoscaleOptions>) -> &'static str {
    match options {
        None => "off",
        Some(options) if options.observes_only => "observe",
        Some(_) => "on",
    }
}

/// The options by their names, apart from `autoscale` itself.
#[must_use]
pub fn autoscale_settings(options: &AutoscaleOptions) -> Vec<(String, String)> {
    let values = [
        ("tasks-min", options.tasks_min.to_string()),
        ("tasks-max", options.tasks_max.to_string()),
        ("interval", format!("{} ms", options.interval.as_millis())),
        ("intervals", options.intervals.to_string()),
        ("quiet", format!("{} ms", options.quiet.as_millis())),
        ("utilization-percent", options.utilization_percent.to_string()),
        ("threshold-percent", options.threshold_percent.to_string()),
    ];
    values.into_iter().map(|(name, value)| (format!("autoscale-{name}"), value)).collect()
}

/// Options that are set by name, as by `SET`, for jobs with so many key groups.
///
/// # Errors
/// Another option, or a value that is wrong.
pub fn autoscale_options(given: &[(String, String)], key_groups: u16) -> Result<AutoscaleOptions> {
    let mut settings = Settings::default();
    for (name, value) in given {
        if !name.starts_with("autoscale-") {
            let error = Error::user(format!("the option '{name}' has no effect on decisions on the number of tasks"));
            return Err(error.remedy("set options whose names begin with 'autoscale-'"));
        }
        settings.set(name, value, key_groups)?;
    }
    Ok(settings.autoscale)
}

impl Settings {
    /// Sets an option that begins with `autoscale`.
    pub(super) fn set_autoscale(&mut self, name: &str, value: &str, key_groups: u16) -> Result<()> {
        let options = &mut self.autoscale;
        let mut is_on = self.job.autoscale.is_some();
        match name {
            "autoscale" => match value.trim().to_lowercase().as_str() {
                "off" => is_on = false,
                mode @ ("on" | "observe") => (is_on, options.observes_only) = (true, mode == "observe"),
                _ => {
                    let error = Error::user(format!("'{value}' is not a way to scale"));
                    return Err(error.remedy("use 'on'; 'observe', which only shows decisions; or 'off'"));
                }
            },
            "autoscale-tasks-min" => {
                let tasks = parse_parallelism(value, key_groups)?;
                if tasks > options.tasks_max {
                    let error =
                        Error::user(format!("{tasks} is more than 'autoscale-tasks-max', {}", options.tasks_max));
                    return Err(error.remedy("raise that first, or lower this one"));
                }
                options.tasks_min = tasks;
            }
            "autoscale-tasks-max" => {
                let tasks = parse_parallelism(value, key_groups)?;
                if tasks < options.tasks_min {
                    let error =
                        Error::user(format!("{tasks} is less than 'autoscale-tasks-min', {}", options.tasks_min));
                    return Err(error.remedy("lower that first, or raise this one"));
                }
                options.tasks_max = tasks;
            }
            "autoscale-interval" => {
                let interval = parse_duration(value)?;
                if interval < INTERVAL_MIN {
                    let error = Error::user(format!("an interval of '{value}' is too short to measure rates in"));
                    return Err(error.remedy(format!("use at least {} ms", INTERVAL_MIN.as_millis())));
                }
                options.interval = interval;
            }
            "autoscale-intervals" => {
                let intervals = value.trim().parse().ok().filter(|intervals| (1..=INTERVALS_MAX).contains(intervals));
                options.intervals = intervals.ok_or_else(|| {
                    let error = Error::user(format!("'{value}' is not a number of intervals"));
                    error.remedy(format!("use a whole number from 1 to {INTERVALS_MAX}"))
                })?;
            }
            "autoscale-quiet" => options.quiet = parse_duration(value)?,
            "autoscale-utilization-percent" => options.utilization_percent = parse_percent(value, 1.0..=99.0)?,
            _ => options.threshold_percent = parse_percent(value, 0.0..=100.0)?,
        }
        // A need within the threshold is not met: the tasks that are there must suffice for it.
        if options.utilization_percent * (1.0 + options.threshold_percent / 100.0) >= 100.0 {
            let error =
                Error::user("with this utilization and threshold a stage would be overloaded and not be scaled");
            return Err(error.remedy("lower one of them, such as a utilization of 80 and a threshold of 10"));
        }
        self.job.autoscale = is_on.then(|| options.clone());
        Ok(())
    }
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
            ("autoscale", "yes", "'observe', which only shows decisions"),
            ("autoscale-tasks-max", "0", "use a whole number from 1 to 128"),
            ("autoscale-tasks-max", "129", "more than the 128 key groups"),
            ("autoscale-interval", "100 ms", "use at least 500 ms"),
            ("autoscale-intervals", "0", "is not a number of intervals"),
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
