//! Decides how many tasks the stages of a job need, from what their tasks have done: a value without a clock.
//!
//! The method is DS2 (Kalavri, Liagouris, Hoffmann, Dimitrova, Forshaw, Roscoe: *Three steps is all you need:
//! fast, accurate, automatic scaling decisions for distributed streaming dataflows*, OSDI 2018). Its idea:
//! the rate of a task is measured by the time in which it was useful, not by all time. So the rate is that of
//! a task that never waits, also while it does wait for its input or for room downstream.
//!
//! With `R` rows in and `S` rows out in the *useful time* `W` of a stage (busy time, without waiting), summed
//! over its tasks:
//!
//! * the *true rate* of one task is `R / W`, and its *selectivity* is `S / R`;
//! * the *demand* of a stage that reads a source is the rate at which rows arrive there. That of another
//!   stage is the sum, over the stages that send to it, of their demand multiplied by their selectivity;
//! * the stage needs `demand / (true rate * utilization)` tasks, rounded up.
//!
//! All stages get their need at once, so one step would do if the rate of a task did not depend on their
//! number. In practice it takes two or three. Where the paper takes the mean of the tasks' true rates, this
//! takes all rows and all useful time: a task with few rows then counts little. The paper has no utilization
//! (1 there): it is what a job has left for peaks, and to work off its lag.
//!
//! **When it acts.** Every interval gives a need. A change is decided if the need of a stage differs by more
//! than a threshold in several successive intervals, and then only for such stages. The largest need of those
//! intervals counts. After a change there is a quiet time, and intervals in which tasks restore state do not
//! count. An interval that lacks anything decides nothing.
//!
//! **Why it does not oscillate.** A number of tasks that was too low for a demand is not returned to before
//! the demand falls. At a constant demand, a stage therefore grows and shrinks at most as often as it has
//! numbers of tasks, whatever is measured.
//!
//! **Limits accepted.** An interval must be longer than the windows of the job, because a stage that emits
//! its results seldom has another selectivity in each interval; the largest need then counts, which is too
//! much. Where keys are skewed, the hottest task limits the stage, and more tasks do not help: a [`Finding`]
//! says so, and nobody acts on it.

mod decision;
mod graph;
mod rates;
mod sample;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anabranch_model::{Nanos, Result, StageId};
use serde::{Deserialize, Serialize};

pub use self::decision::{Action, Decision, Finding, Hot, Stay, Why};
pub use self::graph::{Edge, Graph, Settings, StageLimits};
use self::graph::{Group, Groups};
use self::rates::{Measured, measure};
pub use self::sample::{Sample, StageSample, TaskSample};

/// Decides for one job. See the module.
#[derive(Clone, Debug)]
pub struct Autoscaler {
    graph: Graph,
    settings: Settings,
    groups: Groups,
    /// The last sample that was in order and complete.
    last: Option<Sample>,
    /// No change is decided before this time.
    quiet_until: Nanos,
    /// The needs of each group of stages in the last intervals, newest last.
    needs: Vec<VecDeque<Need>>,
    /// For each group, a number of tasks that was too low, and the demand at that time.
    too_few: Vec<Option<(u32, f64)>>,
}

/// The need of a group in one interval.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// Tasks, without bounds; `None` if it is not known.
    wanted: Option<u32>,
    /// Rows per second that arrive at its stages.
    demand: f64,
}

impl Autoscaler {
    /// A value that has seen no sample.
    ///
    /// # Errors
    /// Settings that contradict each other, or a graph that is none.
    pub fn new(graph: Graph, settings: Settings) -> Result<Self> {
        settings.check()?;
        let groups = Groups::of(&graph, &settings)?;
        let count = groups.all.len();
        Ok(Autoscaler {
            graph,
            settings,
            groups,
            last: None,
            quiet_until: Nanos(0),
            needs: vec![VecDeque::new(); count],
            too_few: vec![None; count],
        })
    }

    /// The job goes on by another plan. What was measured before does not count any more, and a quiet time
    /// begins. `forgets`: which numbers of tasks were too low is forgotten too, because the work is another
    /// one.
    ///
    /// # Errors
    /// As [`Autoscaler::new`].
    pub fn go_on(&mut self, graph: Graph, at: Nanos, forgets: bool) -> Result<()> {
        let groups = Groups::of(&graph, &self.settings)?;
        let count = groups.all.len();
        if forgets || count != self.groups.all.len() {
            self.too_few = vec![None; count];
        }
        (self.graph, self.groups, self.last) = (graph, groups, None);
        self.needs = vec![VecDeque::new(); count];
        self.quiet_until = self.quiet_until.max(at.plus(self.settings.quiet));
        Ok(())
    }

    /// Takes what the tasks have done in an interval, and decides.
    pub fn observe(&mut self, sample: &Sample) -> Decision {
        let (action, findings) = match self.prepare(sample) {
            Ok(measured) => self.decide(sample, &measured),
            Err(reason) => {
                self.needs.iter_mut().for_each(VecDeque::clear);
                (Action::Stay(reason), Vec::new())
            }
        };
        if !matches!(action, Action::Stay(Stay::OutOfOrder | Stay::Incomplete { .. })) {
            self.last = Some(sample.clone());
        }
        Decision { at: sample.at, action, findings }
    }

    /// What the interval shows, or why it shows nothing.
    fn prepare(&mut self, sample: &Sample) -> std::result::Result<Vec<Measured>, Stay> {
        let before = self.last.as_ref();
        if before.is_some_and(|before| sample.at <= before.at) || sample.interval.is_zero() {
            return Err(Stay::OutOfOrder);
        }
        sample.check(&self.graph)?;
        let adjoins = before.is_some_and(|before| sample.at.since(before.at) < 2 * nanos(sample.interval));
        let changed = before.is_some_and(|before| before.parallelism() != sample.parallelism());
        if changed {
            self.quiet_until = self.quiet_until.max(sample.at.plus(self.settings.quiet));
        }
        if sample.warming {
            return Err(Stay::Warming);
        }
        if sample.at < self.quiet_until {
            return Err(Stay::Quiet { left: Duration::from_nanos(self.quiet_until.since(sample.at)) });
        }
        if !adjoins {
            self.needs.iter_mut().for_each(VecDeque::clear);
        }
        measure(&self.graph, &self.settings, sample, before.filter(|_| adjoins))
    }

    fn decide(&mut self, sample: &Sample, measured: &[Measured]) -> (Action, Vec<Finding>) {
        let parallelism = sample.parallelism();
        let mut change = BTreeMap::new();
        let mut whys: BTreeMap<StageId, Why> = BTreeMap::new();
        for index in 0..self.groups.all.len() {
            let group = self.groups.all[index].clone();
            let present = group.present(&parallelism);
            let need = group.need(measured);
            let needs = &mut self.needs[index];
            needs.push_back(need);
            while needs.len() > self.settings.intervals as usize {
                needs.pop_front();
            }
            let (target, why) = self.target(index, &group, present);
            if target != present {
                if target > present {
                    self.too_few[index] = Some((present, need.demand));
                }
                change.extend(group.stages.iter().map(|stage| (*stage, group.tasks_of(*stage, target))));
            }
            let own = |stage: StageId| match measured.iter().find(|measured| measured.stage == stage) {
                Some(of) if self.graph.uniform && group.limited(of) < need.wanted => Why::Follows,
                _ => why.clone(),
            };
            whys.extend(group.stages.iter().map(|stage| (*stage, own(*stage))));
        }
        let findings = measured.iter().map(|m| m.finding(whys.remove(&m.stage).unwrap_or(Why::Unknown))).collect();
        if change.is_empty() {
            return (Action::Stay(Stay::NoNeed), findings);
        }
        self.needs.iter_mut().for_each(VecDeque::clear);
        self.quiet_until = sample.at.plus(self.settings.quiet);
        (Action::Change(change), findings)
    }

    /// The number of tasks that a group is to have now, and why.
    fn target(&self, index: usize, group: &Group, present: u32) -> (u32, Why) {
        let needs = &self.needs[index];
        if present != group.bounded(present) {
            return (group.bounded(present), Why::OutOfBounds);
        }
        let wanted: Option<Vec<u32>> = needs.iter().map(|need| need.wanted).collect();
        let Some(wanted) = wanted else { return (present, Why::Unknown) };
        let Some(largest) = wanted.iter().copied().max() else { return (present, Why::Unknown) };
        let compare = |wanted: u32| self.settings.compare(wanted, group.bounded(wanted), present);
        let now = wanted.last().map_or(std::cmp::Ordering::Equal, |wanted| compare(*wanted));
        let successive = wanted.iter().rev().take_while(|wanted| compare(**wanted) == now).count();
        let successive = u32::try_from(successive).unwrap_or(u32::MAX);
        let bounded = group.bounded(largest);
        match now {
            std::cmp::Ordering::Equal => (present, Why::Fits),
            _ if successive < self.settings.intervals => (present, Why::NotYet { intervals: successive }),
            std::cmp::Ordering::Greater if bounded <= present => (present, Why::AtMax),
            std::cmp::Ordering::Greater => (bounded, Why::Grows),
            std::cmp::Ordering::Less => {
                let demand = needs.iter().fold(0.0, |demand: f64, need| demand.max(need.demand));
                let floor = self.too_few[index].filter(|(_, then)| demand >= then * (1.0 - self.settings.threshold));
                match floor {
                    Some((tasks, _)) if tasks + 1 >= present => (present, Why::TooFewBefore { tasks }),
                    Some((tasks, _)) => (bounded.max(tasks + 1), Why::Shrinks),
                    None => (bounded, Why::Shrinks),
                }
            }
        }
    }
}

/// What was observed of a job in an interval, as it is recorded for rehearsals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The stages at that time.
    pub graph: Graph,
    /// What their tasks have done.
    pub sample: Sample,
}

/// The decisions that would have been made for what was recorded. Nothing carries them out: the numbers of
/// tasks are those of the record.
///
/// # Errors
/// As [`Autoscaler::new`].
pub fn rehearse(settings: &Settings, record: &[Observation]) -> Result<Vec<Decision>> {
    let mut decisions = Vec::new();
    let mut present: Option<(&Graph, Autoscaler)> = None;
    for Observation { graph, sample } in record {
        let mut autoscaler = match present.take() {
            None => Autoscaler::new(graph.clone(), settings.clone())?,
            Some((before, mut autoscaler)) => {
                if before != graph {
                    autoscaler.go_on(graph.clone(), sample.at, false)?;
                }
                autoscaler
            }
        };
        decisions.push(autoscaler.observe(sample));
        present = Some((graph, autoscaler));
    }
    Ok(decisions)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
