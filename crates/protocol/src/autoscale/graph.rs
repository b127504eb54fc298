//! What an autoscaler is told once: the stages, and how careful it is.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{Error, Result, StageId};
use serde::{Deserialize, Serialize};

use super::Need;
use super::rates::Measured;

/// The stages of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graph {
    /// Senders before receivers, as plans number them.
    pub stages: Vec<StageLimits>,
    /// Without side inputs: static tables are read at the start only.
    pub edges: Vec<Edge>,
    /// Whether one number holds for the job: each stage has so many tasks, or as many as it may have. Stages
    /// that may have only one number of tasks keep it.
    #[serde(default)]
    pub uniform: bool,
}

/// A stage and the numbers of tasks that it may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageLimits {
    /// The stage.
    pub id: StageId,
    /// At least this many.
    pub min: u32,
    /// At most this many: the partitions of a table, the slots of a cluster.
    pub max: u32,
}

/// Every row that leaves one stage enters the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// Sends.
    pub from: StageId,
    /// Receives.
    pub to: StageId,
    /// Whether task i sends to task i only, so both stages have the same number of tasks.
    pub forward: bool,
}

/// How careful an autoscaler is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The share of its time for which a task is to be useful.
    pub utilization: f64,
    /// Needs that differ by at most this share of the present number of tasks change nothing.
    pub threshold: f64,
    /// In how many successive intervals a need must differ.
    pub intervals: u32,
    /// For how long nothing is changed after a change.
    pub quiet: Duration,
    /// The share of its time for which a source may wait for room downstream, and still read all that
    /// arrives.
    pub backpressure: f64,
    /// A task is hot if it has so many times the rows of the mean task of its stage.
    pub skew: f64,
    /// No stage has more tasks than there are key groups.
    pub key_groups: u32,
    /// Every stage has at least so many tasks, as far as it may.
    pub tasks_min: u32,
    /// No stage has more tasks.
    pub tasks_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            utilization: 0.8,
            threshold: 0.1,
            intervals: 3,
            quiet: Duration::from_secs(60),
            backpressure: 0.05,
            skew: 2.0,
            key_groups: 128,
            tasks_min: 1,
            tasks_max: u32::MAX,
        }
    }
}

impl Settings {
    /// Refuses settings with which a job would be overloaded, or would never be changed.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |what: &str, remedy: &str| Err(Error::user(what.to_owned()).remedy(remedy.to_owned()));
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        if !is_share(self.utilization) || self.utilization == 0.0 {
            return wrong("the utilization is not a share of the time", "set it above 0 and below 1, such as 0.8");
        }
        if !is_share(self.threshold) || !is_share(self.backpressure) {
            return wrong("the threshold or the back-pressure is not a share", "set it from 0 to 1, such as 0.1");
        }
        // A need within the threshold is not met: the tasks that are there must suffice for it.
        if self.utilization * (1.0 + self.threshold) >= 1.0 {
            return wrong(
                "with this utilization and threshold a stage would be overloaded and not be changed",
                "lower one of them, such as a utilization of 0.8 and a threshold of 0.1",
            );
        }
        if self.tasks_min == 0 || self.tasks_max < self.tasks_min {
            return wrong(
                "the bounds of the tasks contradict each other",
                "set the least number from 1 to the largest",
            );
        }
        if self.intervals == 0 || self.key_groups == 0 || !self.skew.is_finite() || self.skew < 1.0 {
            return wrong("intervals, key groups and skew are at least 1", "set them, such as 3, 128 and 2.0");
        }
        Ok(())
    }

    /// How a need compares with the present number of tasks, beyond the threshold.
    pub(super) fn compare(&self, wanted: u32, bounded: u32, present: u32) -> Ordering {
        let present = f64::from(present);
        if f64::from(wanted) > present * (1.0 + self.threshold) {
            Ordering::Greater
        } else if f64::from(bounded) < present * (1.0 - self.threshold) {
            Ordering::Less
        } else {
            Ordering::Equal
        }
    }
}

/// Stages that must have the same number of tasks, as far as they may.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) stages: Vec<StageId>,
    /// The bound of each stage in a uniform graph.
    limits: BTreeMap<StageId, u32>,
    min: u32,
    max: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Groups {
    pub(super) all: Vec<Group>,
}

impl Groups {
    pub(super) fn of(graph: &Graph, settings: &Settings) -> Result<Self> {
        let max = settings.key_groups.min(settings.tasks_max);
        let ids: Vec<StageId> = graph.stages.iter().map(|stage| stage.id).collect();
        if ids.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(Error::internal("the stages of a job are not in order"));
        }
        // The first stage of each stage's group.
        let mut first: BTreeMap<StageId, StageId> = ids.iter().map(|id| (*id, *id)).collect();
        for edge in &graph.edges {
            let (Some(from), Some(to)) = (first.get(&edge.from).copied(), first.get(&edge.to).copied()) else {
                return Err(Error::internal("an edge of a stage that the job does not have"));
            };
            if edge.from >= edge.to {
                return Err(Error::internal(format!("{:?} sends to {:?}, which comes before it", edge.from, edge.to)));
            }
            if edge.forward {
                first.values_mut().filter(|group| **group == from.max(to)).for_each(|group| *group = from.min(to));
            }
        }
        let mut all: BTreeMap<StageId, Group> = BTreeMap::new();
        for stage in &graph.stages {
            let new = |max| Group { stages: Vec::new(), limits: BTreeMap::new(), min: 1, max };
            if graph.uniform && stage.min < stage.max {
                let group = all.entry(StageId(u32::MAX)).or_insert_with(|| new(1));
                let limit = stage.max.min(max);
                group.stages.push(stage.id);
                group.limits.insert(stage.id, limit);
                (group.min, group.max) = (group.min.max(stage.min), group.max.max(limit));
                continue;
            }
            // A number of its own is not bounded by that of the others.
            let largest = if graph.uniform { stage.max } else { max };
            let group = all.entry(first[&stage.id]).or_insert_with(|| new(largest));
            group.stages.push(stage.id);
            (group.min, group.max) = (group.min.max(stage.min), group.max.min(stage.max));
        }
        all.values_mut().for_each(|group| group.min = group.min.max(settings.tasks_min.min(group.max)));
        if let Some(group) = all.values().find(|group| group.min > group.max) {
            let Group { stages, min, max, .. } = group;
            let error = Error::user(format!("{stages:?} have at least {min} and at most {max} tasks"));
            return Err(error.remedy("lower the least number or raise the largest"));
        }
        Ok(Groups { all: all.into_values().collect() })
    }
}

impl Group {
    /// The number of tasks that it has.
    pub(super) fn present(&self, parallelism: &BTreeMap<StageId, u32>) -> u32 {
        self.stages.iter().filter_map(|stage| parallelism.get(stage)).copied().max().unwrap_or_default()
    }

    /// How many tasks a stage has if the group has so many.
    pub(super) fn tasks_of(&self, stage: StageId, tasks: u32) -> u32 {
        self.limits.get(&stage).map_or(tasks, |limit| tasks.min(*limit))
    }

    pub(super) fn bounded(&self, tasks: u32) -> u32 {
        tasks.clamp(self.min, self.max)
    }

    /// What a stage needs. More tasks than it may have do not help it.
    pub(super) fn limited(&self, stage: &Measured) -> Option<u32> {
        let limit = self.limits.get(&stage.stage).copied().filter(|limit| *limit < self.max).unwrap_or(u32::MAX);
        stage.wanted.map(|wanted| wanted.min(limit))
    }

    /// What the stage that needs most needs; not known if that of one of them is not.
    pub(super) fn need(&self, measured: &[Measured]) -> Need {
        let mut need = Need { wanted: Some(0), demand: 0.0 };
        for stage in measured.iter().filter(|measured| self.stages.contains(&measured.stage)) {
            need.wanted = need.wanted.zip(self.limited(stage)).map(|(most, wanted)| most.max(wanted));
            need.demand += stage.demand.unwrap_or_default();
        }
        need
    }
}
