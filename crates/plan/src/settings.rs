//! Options of `SET 'name' = 'value'`. Everything else derives from one table of options.

mod autoscale;
mod job;
mod option;
mod page;
mod parallelism;
mod table;
mod without_effect;

use std::collections::BTreeSet;

use anabranch_dataflow::{AutoscaleOptions, CheckpointOptions, JobOptions};
use anabranch_model::{Error, Result, nearest};

pub use self::autoscale::{autoscale_options, autoscale_settings};
pub(crate) use self::option::parse_duration;
use self::option::{Opt, Subject};
pub use self::page::options_page;
pub(crate) use self::parallelism::parse_parallelism;
pub use self::parallelism::{share_setting, stage_setting};
pub(crate) use self::table::{RuntimeMode, TableSettings};

const SUBJECTS: &[Subject] = &[
    Subject { title: "Tasks", options: parallelism::OPTIONS },
    Subject { title: "Epochs, buffers and threads", options: job::RUNNING },
    Subject { title: "State and checkpoints", options: job::STATE },
    Subject { title: "Results and event time", options: table::OPTIONS },
    Subject { title: "A number of tasks that follows the load", options: autoscale::OPTIONS },
];

const CHECKPOINT_INTERVAL: &str = "checkpoint-interval";
const NO_CHECKPOINTS: &str = "checkpoint-interval has no effect: the job takes no checkpoints, since it has no \
                              directory for them; give it one: SET 'checkpoint-directory' = '/path', or \
                              --set checkpoint-directory=/path";

/// The values of all options.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) job: JobOptions,
    pub(crate) parallelism: Option<u32>,
    /// Key groups of the job.
    max_parallelism: Option<u16>,
    pub(crate) table: TableSettings,
    pub(crate) runtime_mode: RuntimeMode,
    /// Used only if it has a directory.
    checkpoints: CheckpointOptions,
    autoscale_mode: autoscale::Mode,
    /// Used only if the mode is not `off`.
    autoscale: AutoscaleOptions,
    /// Options that `SET` cannot change.
    fixed: BTreeSet<&'static str>,
    /// The values before the first `SET`.
    before: Option<Box<Settings>>,
    /// Options set since then.
    changed: BTreeSet<&'static str>,
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
            autoscale_mode: autoscale::Mode::default(),
            autoscale: AutoscaleOptions::default(),
            fixed: BTreeSet::new(),
            before: None,
            changed: BTreeSet::new(),
        }
    }
}

impl Settings {
    /// Carries out `SET` for a job with this number of key groups. A fixed option keeps its value; the new
    /// one is only checked.
    pub(crate) fn set(&mut self, name: &str, value: &str, key_groups: u16) -> Result<()> {
        let before = self.before.is_none().then(|| Box::new(self.clone()));
        self.preset(name, value, key_groups)?;
        self.before = self.before.take().or(before);
        self.changed.extend(find(name).map(|option| option.name));
        Ok(())
    }

    /// Carries out `RESET`: restores the values before the first `SET`, of one option or of all.
    pub(crate) fn reset(&mut self, name: Option<&str>, key_groups: u16) -> Result<()> {
        let option = name.and_then(find);
        if let Some(name) = name.filter(|name| option.is_none() && without_effect::check(name, "").is_none()) {
            return Err(unknown(name));
        }
        match (self.before.as_deref(), option) {
            (Some(before), Some(option)) => {
                let value = (option.get)(before);
                self.preset(option.name, &value, key_groups)?;
                self.changed.remove(option.name);
            }
            (Some(before), None) if name.is_none() => *self = before.clone(),
            _ => {}
        }
        Ok(())
    }

    /// The number of key groups of the job. The default is `default`.
    pub(crate) fn key_groups(&self, default: u16) -> u16 {
        self.max_parallelism.unwrap_or(default)
    }

    /// Sets the initial value of an option, unless it is fixed.
    pub(crate) fn preset(&mut self, name: &str, value: &str, key_groups: u16) -> Result<()> {
        let next = self.with(name, value, key_groups)?;
        if find(name).is_none_or(|option| !self.fixed.contains(option.name)) {
            *self = next;
        }
        Ok(())
    }

    /// Sets an option to a value that `SET` cannot change.
    pub(crate) fn fix(&mut self, name: &str, value: &str, key_groups: u16) -> Result<()> {
        *self = self.with(name, value, key_groups)?;
        self.fixed.extend(find(name).map(|option| option.name));
        Ok(())
    }

    /// The settings with another value of an option.
    fn with(&self, name: &str, value: &str, key_groups: u16) -> Result<Settings> {
        let mut next = self.clone();
        let checked = match find(name) {
            Some(option) => (option.set)(&mut next, value, key_groups).and_then(|()| next.derive_job_options()),
            None => without_effect::check(name, value).ok_or_else(|| unknown(name))?,
        };
        checked.map_err(|error| error.at(format!("option '{name}'")))?;
        Ok(next)
    }

    /// Sets the options of the job that depend on several others.
    fn derive_job_options(&mut self) -> Result<()> {
        autoscale::check(&self.autoscale)?;
        self.autoscale.observes_only = self.autoscale_mode == autoscale::Mode::Observe;
        self.job.autoscale = (self.autoscale_mode != autoscale::Mode::Off).then(|| self.autoscale.clone());
        self.job.checkpoints = (!self.checkpoints.directory.is_empty()).then(|| self.checkpoints.clone());
        Ok(())
    }

    /// The reason why an option of Flink has no effect, if it is such an option.
    pub(crate) fn without_effect(name: &str) -> Option<&'static str> {
        without_effect::reason(name)
    }

    /// A note if the checkpoint interval was set without a directory: the job takes no checkpoints.
    pub(crate) fn no_checkpoints(&self) -> Option<&'static str> {
        (self.changed.contains(CHECKPOINT_INTERVAL) && self.job.checkpoints.is_none()).then_some(NO_CHECKPOINTS)
    }

    /// Whether a name, here or in Flink, means the checkpoint interval.
    pub(crate) fn is_checkpoint_interval(name: &str) -> bool {
        find(name).is_some_and(|option| option.name == CHECKPOINT_INTERVAL)
    }

    /// The options with their values, for people.
    pub(crate) fn list(&self) -> Vec<(String, String)> {
        options().map(|option| (option.name.to_owned(), (option.get)(self))).collect()
    }
}

fn options() -> impl Iterator<Item = &'static Opt> {
    SUBJECTS.iter().flat_map(|subject| subject.options)
}

/// The option with this name, here or in Flink.
fn find(name: &str) -> Option<&'static Opt> {
    options().find(|option| option.is_called(name))
}

fn unknown(name: &str) -> Error {
    let near = nearest(name, options().map(|option| option.name));
    let guess = near.map_or_else(String::new, |near| format!("did you mean '{near}'? "));
    Error::user(format!("unknown option '{name}'"))
        .remedy(format!("{guess}SET without a name lists the options; docs/sql/options.md describes them"))
}

#[cfg(test)]
mod tests;
