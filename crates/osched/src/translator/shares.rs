//! `cpu.shares` of cgroup version 1: a group for each group of the schedule, or for each thread.

use anabranch_schedule::{Scale, Schedule};

use super::groups::{Unit, plan, units};
use super::{Options, Translator, Write};
use crate::kernel::{GroupValue, Needs, State};

/// The value of groups that nobody has changed.
const DEFAULT: f64 = 1024.0;
const RANGE: (f64, f64) = (2.0, 262_144.0);

pub(super) struct Shares {
    factors: (f64, f64),
    mark: String,
}

impl Shares {
    pub(super) fn new(options: &Options) -> Shares {
        Shares { factors: options.weight, mark: options.mark.clone() }
    }

    pub(super) fn plan_of(&self, units: &[Unit], scale: Scale, state: &State) -> Vec<Write> {
        let priorities: Vec<f64> = units.iter().map(|unit| unit.priority).collect();
        let factors = super::spread::spread(&priorities, self.factors, scale);
        let values: Vec<f64> =
            factors.iter().zip(units).map(|(factor, unit)| DEFAULT * factor * unit.threads()).collect();
        // All by one factor, so that their order stays.
        let fits = values.iter().fold(RANGE.1, |most, value| most.max(*value)) / RANGE.1;
        let value = |at: usize| (values[at] / fits).round().clamp(RANGE.0, RANGE.1) as u64;
        plan(units, &self.mark, state, &|index, _| GroupValue::Shares(value(index)))
    }
}

impl Translator for Shares {
    fn name(&self) -> &'static str {
        "shares"
    }

    fn describe(&self) -> String {
        let (worst, best) = self.factors;
        format!(
            "cpu.shares {:.0} to {:.0} for each thread of a group, within the cgroup of its threads",
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
