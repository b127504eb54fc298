//! From the configuration to policies that decide.

use std::path::PathBuf;
use std::sync::Arc;

use anabranch_model::{Clock, Result};

use super::Formulas;
use super::applied::{Applied, policy_of};
use super::watched::{ANSWER_MAX, Watched};
use crate::config::{Config, PolicyConfig, Property, Target};
use crate::driver::Driver;
use crate::journal::StateFolder;
use crate::kernel::{Machine, Proc, ThreadValue};
use crate::permission::user;
use crate::translator::{self, Options};

/// Requests at the start to an engine that answers with errors.
const FIRST_ASKED_MAX: u32 = 3;

/// The targets after their first answers. An engine whose threads all wait for cores may answer with an error
/// at first, so each is asked up to three times.
pub(super) fn watched(
    config: &Config,
    drivers: Vec<Box<dyn Driver>>,
    kernel: &Proc,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<Watched>> {
    let targets = config.targets.iter().zip(drivers);
    let start = |(target, driver): (&Target, _)| {
        Watched::start(target.name.clone(), target.engine.name(), driver, kernel.clone(), Arc::clone(clock))
    };
    let mut targets: Vec<Watched> = targets.map(start).collect::<Result<_>>()?;
    let until = clock.now().plus(ANSWER_MAX);
    for _ in 0..FIRST_ASKED_MAX {
        let silent = |watched: &&mut Watched| watched.read_at.is_none();
        targets.iter_mut().filter(silent).for_each(Watched::ask_again);
        for watched in targets.iter_mut().filter(silent) {
            watched.take(until.after(clock.now()));
        }
    }
    Ok(targets)
}

/// A policy with its mechanism. Errors: a name is unknown, a metric of a target is missing.
pub(super) fn applied(
    index: usize,
    config: PolicyConfig,
    formulas: Formulas,
    machine: &Machine,
    targets: &mut [Watched],
) -> Result<Applied> {
    let place = format!("policy '{}'", config.name);
    let policy = policy_of(&config, formulas).map_err(|error| error.at(place.clone()))?;
    let translator = translator::by_name(config.translator(), &options_of(index, &config), machine);
    let applied = Applied::new(config, policy, translator.map_err(|error| error.at(place))?);
    for watched in targets.iter_mut().filter(|watched| applied.config.targets.contains(&watched.name)) {
        let prepared = applied.prepare(watched);
        // What one that does not answer offers is known once it does.
        if watched.failure().is_none() {
            prepared?;
        }
    }
    Ok(applied)
}

fn options_of(index: usize, config: &PolicyConfig) -> Options {
    let usual = Options::default();
    let nice = config.range().map_or(usual.nice, |(best, worst)| (worst, best));
    Options { nice, real_time: config.translator() == "real-time", mark: format!("p{index}"), ..usual }
}

pub(super) fn property_of(value: &ThreadValue) -> Property {
    match value {
        ThreadValue::Nice(_) => Property::Nice,
        ThreadValue::Class(_) => Property::Class,
        ThreadValue::SliceNs(_) => Property::Slice,
        ThreadValue::Group(_) => Property::Group,
    }
}

/// Where journals are unless the configuration says otherwise.
#[must_use]
pub fn state_directory() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    StateFolder::usual(user(), runtime.as_deref())
}

/// Processor time of this process.
pub(super) fn own_processor_ms(kernel: &Proc) -> f64 {
    let threads = kernel.threads(std::process::id()).unwrap_or_default();
    let run_ns = threads.iter().filter_map(|thread| kernel.usage(thread.id).ok().flatten()).map(|usage| usage.run_ns);
    run_ns.sum::<u64>() as f64 / 1e6
}
