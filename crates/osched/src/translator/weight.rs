//! `cpu.weight` of cgroup version 2 in place: a threaded group for each group of the schedule, or for each
//! thread, in the cgroup in which the process is. That one stays the process's cgroup for all other
//! controllers, and is an ordinary one again after the undo.

use anabranch_schedule::{Scale, Schedule};

use super::groups::{Unit, plan, units};
use super::{Options, Translator, Write};
use crate::kernel::{GroupValue, Needs, State};

/// The value of groups that nobody has changed.
const DEFAULT: f64 = 100.0;
const RANGE: (f64, f64) = (1.0, 10_000.0);

pub(super) struct Weight {
    factors: (f64, f64),
    mark: String,
}

impl Weight {
    pub(super) fn new(options: &Options) -> Weight {
        Weight { factors: options.weight, mark: options.mark.clone() }
    }

    pub(super) fn plan_of(&self, units: &[Unit], scale: Scale, state: &State) -> Vec<Write> {
        let priorities: Vec<f64> = units.iter().map(|unit| unit.priority).collect();
        let factors = super::spread::spread(&priorities, self.factors, scale);
        let values: Vec<f64> =
            factors.iter().zip(units).map(|(factor, unit)| DEFAULT * factor * unit.threads()).collect();
        // All by one factor, so that their order stays.
        let fits = values.iter().fold(RANGE.1, |most, value| most.max(*value)) / RANGE.1;
        let value = |at: usize| (values[at] / fits).round().clamp(RANGE.0, RANGE.1) as u64;
        plan(units, &self.mark, state, &|index, _| GroupValue::Weight(value(index)))
    }
}

impl Translator for Weight {
    fn name(&self) -> &'static str {
        "weight"
    }

    fn describe(&self) -> String {
        let (worst, best) = self.factors;
        format!(
            "cpu.weight {:.0} to {:.0} for each thread of a group, within the cgroup of its threads",
            DEFAULT * worst,
            DEFAULT * best
        )
    }

    fn needs(&self) -> Needs {
        Needs { groups: true, usage: false }
    }

    fn plan(&mut self, schedule: &Schedule, scale: Scale, state: &State) -> Vec<Write> {
        self.plan_of(&units(schedule), scale, state)
    }
}
