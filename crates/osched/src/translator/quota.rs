//! Bounds of processor time for groups, by `cpu.cfs_quota_us` of version 1 or `cpu.max` of version 2. Unlike
//! weights they hold even if cores are free.

use anabranch_schedule::{Scale, Schedule};

use super::groups::{plan, units};
use super::{Options, Translator, Write};
use crate::kernel::{GroupState, GroupValue, Needs, Quota, State};

/// Short, since a group that has used its quota stands still until the period ends.
const PERIOD_US: u64 = 20_000;
/// The least quota of the kernel.
const QUOTA_US_MIN: u64 = 1_000;

pub(super) struct QuotaOfGroups {
    shares: (f64, f64),
    mark: String,
}

impl QuotaOfGroups {
    pub(super) fn new(options: &Options) -> QuotaOfGroups {
        QuotaOfGroups { shares: options.quota, mark: options.mark.clone() }
    }
}

impl Translator for QuotaOfGroups {
    fn needs(&self) -> Needs {
        Needs { groups: true, usage: false }
    }

    fn plan(&mut self, schedule: &Schedule, scale: Scale, state: &State) -> Vec<Write> {
        let units = units(schedule);
        let priorities: Vec<f64> = units.iter().map(|unit| unit.priority).collect();
        let shares = super::spread::spread(&priorities, self.shares, scale);
        plan(&units, &self.mark, state, &|index, home| {
            GroupValue::Quota(quota(shares[index], state.machine.cores, home))
        })
    }
}

/// A share of the cores that the group above may use.
fn quota(share: f64, cores: usize, home: &GroupState) -> Quota {
    let cores = home.quota.map_or(f64::INFINITY, Quota::cores).min(cores as f64);
    let quota_us = (cores * share * PERIOD_US as f64) as u64;
    Quota { quota_us: (share < 0.999).then_some(quota_us.max(QUOTA_US_MIN)), period_us: PERIOD_US }
}
