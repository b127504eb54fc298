//! A job whose true costs are known: it gives samples as a real one would.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{Nanos, Rng, StageId};

use super::super::*;

/// Seconds of an interval.
pub(super) const SECONDS: f64 = 10.0;

#[derive(Clone)]
pub(super) struct World {
    pub(super) graph: Graph,
    pub(super) parallelism: BTreeMap<StageId, u32>,
    /// Nanoseconds of useful time for a row, by one task alone.
    pub(super) cost_ns: BTreeMap<StageId, f64>,
    /// The share by which each further task makes a row dearer.
    pub(super) overhead: f64,
    pub(super) selectivity: BTreeMap<StageId, f64>,
    /// Rows per second that arrive at each source.
    pub(super) arrivals: BTreeMap<StageId, f64>,
    pub(super) tells_lag: bool,
    lag: BTreeMap<StageId, f64>,
    /// Measured costs and selectivities differ from the true ones by up to these shares.
    pub(super) noise: (f64, f64),
    pub(super) rng: Rng,
    at: Nanos,
}

impl World {
    /// Stages in a chain, from a source with `arrival` rows per second. Each stage has a cost of 1 µs,
    /// selectivity 1, one task, and 1 to 100 tasks as its bounds.
    pub(super) fn chain(stages: u32, arrival: f64) -> Self {
        let limits = (0..stages).map(|id| StageLimits { id: StageId(id), min: 1, max: 100 }).collect();
        let edges = (1..stages).map(|id| Edge { from: StageId(id - 1), to: StageId(id), forward: false }).collect();
        let all = |value: f64| (0..stages).map(|id| (StageId(id), value)).collect::<BTreeMap<_, _>>();
        World {
            graph: Graph { stages: limits, edges, uniform: false },
            parallelism: (0..stages).map(|id| (StageId(id), 1)).collect(),
            cost_ns: all(1_000.0),
            overhead: 0.0,
            selectivity: all(1.0),
            arrivals: [(StageId(0), arrival)].into(),
            tells_lag: true,
            lag: BTreeMap::new(),
            noise: (0.0, 0.0),
            rng: Rng::new(0),
            at: Nanos(0),
        }
    }

    /// A random graph with random costs, in which no stage needs more than about 60 tasks.
    pub(super) fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let stages = 1 + rng.below(8) as u32;
        let mut world = World::chain(stages, 0.0);
        (world.graph.edges, world.arrivals) = (Vec::new(), BTreeMap::new());
        for id in 0..stages {
            let to = StageId(id);
            let from: Vec<u32> = (0..id).filter(|_| rng.below(2) == 0).collect();
            if from.is_empty() {
                world.arrivals.insert(to, 1e6 + rng.below(100_000_000) as f64);
            }
            let edge = |from: u32| Edge { from: StageId(from), to, forward: rng.below(6) == 0 };
            world.graph.edges.extend(from.into_iter().map(edge));
            world.selectivity.insert(to, 0.05 + rng.below(200) as f64 / 100.0);
        }
        world.overhead = rng.below(4) as f64 / 1_000.0;
        world.tells_lag = rng.below(4) > 0;
        let demand = world.demand();
        for id in (0..stages).map(StageId) {
            let tasks = 0.15 + rng.below(480) as f64 / 10.0;
            world.cost_ns.insert(id, tasks * 1e9 * 0.8 / demand[&id]);
        }
        world.parallelism = world.equal_within_groups(|_| 1 + rng.below(40) as u32);
        if !world.tells_lag {
            // A source that cannot keep up must tell its lag.
            world.parallelism.values_mut().for_each(|tasks| *tasks = 90);
        }
        world.rng = rng;
        world
    }

    fn equal_within_groups(&self, mut draw: impl FnMut(StageId) -> u32) -> BTreeMap<StageId, u32> {
        let groups = Groups::of(&self.graph, &Settings::default()).expect("a graph");
        let drawn = groups.all.iter().map(|group| (group, draw(group.stages[0])));
        drawn.flat_map(|(group, tasks)| group.stages.iter().map(move |stage| (*stage, tasks))).collect()
    }

    /// Rows per second that each stage must process.
    pub(super) fn demand(&self) -> BTreeMap<StageId, f64> {
        let mut demand: BTreeMap<StageId, f64> = BTreeMap::new();
        for stage in &self.graph.stages {
            let inputs = self.graph.edges.iter().filter(|edge| edge.to == stage.id);
            let sent: f64 = inputs.map(|edge| demand[&edge.from] * self.selectivity[&edge.from]).sum();
            demand.insert(stage.id, sent + self.arrivals.get(&stage.id).copied().unwrap_or_default());
        }
        demand
    }

    /// Rows per second that one of the present tasks of a stage processes without waiting.
    fn true_rate(&self, stage: StageId) -> f64 {
        let tasks = f64::from(self.parallelism[&stage]);
        1e9 / (self.cost_ns[&stage] * (1.0 + self.overhead * (tasks - 1.0)))
    }

    /// Tasks that each stage needs with the costs of its present number of tasks; that of the neediest of its
    /// group.
    pub(super) fn needs(&self, utilization: f64) -> BTreeMap<StageId, f64> {
        let demand = self.demand();
        let of = |stage: StageId| demand[&stage] / self.true_rate(stage) / utilization;
        let groups = Groups::of(&self.graph, &Settings::default()).expect("a graph");
        let most = groups.all.iter().map(|group| (group, group.stages.iter().map(|s| of(*s)).fold(0.0, f64::max)));
        most.flat_map(|(group, need)| group.stages.iter().map(move |stage| (*stage, need))).collect()
    }

    fn noisy(&mut self, share: f64) -> f64 {
        1.0 + share * (self.rng.below(2_001) as f64 / 1_000.0 - 1.0)
    }

    /// The next interval. Back-pressure slows all sources alike, so that the slowest stage keeps up.
    pub(super) fn interval(&mut self) -> Sample {
        let demand = self.demand();
        let possible = demand.iter().filter(|(_, demand)| **demand > 0.0);
        let possible =
            possible.map(|(stage, demand)| self.true_rate(*stage) * f64::from(self.parallelism[stage]) / demand);
        let possible = possible.fold(f64::INFINITY, f64::min);
        // What waits is read too, if there is time.
        let waiting = self.arrivals.iter().map(|(stage, arrival)| {
            let lag = self.lag.get(stage).copied().unwrap_or_default();
            if *arrival > 0.0 { 1.0 + lag / (arrival * SECONDS) } else { 1.0 }
        });
        let pace = possible.min(waiting.fold(1.0, f64::max));
        let is_slow = possible < 1.0;
        let mut stages = BTreeMap::new();
        for stage in self.graph.stages.iter().map(|stage| stage.id).collect::<Vec<_>>() {
            let tasks = self.parallelism[&stage];
            let rows = demand[&stage] * pace * SECONDS;
            let (cost, selectivity) = (self.noisy(self.noise.0), self.noisy(self.noise.1));
            let share = rows / f64::from(tasks);
            let task = TaskSample {
                rows_in: share.round() as u64,
                rows_out: (share * self.selectivity[&stage] * selectivity).round() as u64,
                busy_ns: (share / self.true_rate(stage) * 1e9 * cost).round() as u64,
                backpressured_ns: if is_slow { (SECONDS * 1e9 * (1.0 - possible)) as u64 } else { 0 },
            };
            let mut lag_rows = None;
            if let Some(arrival) = self.arrivals.get(&stage).copied() {
                let lag = self.lag.entry(stage).or_default();
                *lag = (*lag + arrival * SECONDS - rows).max(0.0);
                lag_rows = self.tells_lag.then_some(lag.round() as u64);
            }
            let tasks_of = vec![task; tasks as usize];
            stages.insert(stage, StageSample { parallelism: tasks, tasks: tasks_of, lag_rows });
        }
        self.at = self.at.plus(Duration::from_secs_f64(SECONDS));
        Sample { at: self.at, interval: Duration::from_secs_f64(SECONDS), warming: false, stages }
    }

    /// Gives so many intervals to an autoscaler, carries out what it decides, and returns each change with
    /// the interval's number.
    pub(super) fn run(&mut self, scaler: &mut Autoscaler, intervals: usize) -> Vec<(usize, BTreeMap<StageId, u32>)> {
        let mut changes = Vec::new();
        for number in 0..intervals {
            let decision = scaler.observe(&self.interval());
            if let Action::Change(change) = decision.action {
                self.parallelism.extend(change.clone());
                changes.push((number, change));
            }
        }
        changes
    }
}
