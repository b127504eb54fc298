//! A target while it is scheduled: its driver, what was seen last, and the metrics that follow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result};
use anabranch_schedule::{
    Graph, Level, Metric, Metrics, Missing, Nodes, Provider, Readings, Target, TaskIndex, ThreadId, ThreadKind, Window,
};

use crate::driver::Driver;
use crate::kernel::{Proc, UsageReader};
use crate::status::{TargetStatus, TaskStatus};

/// Time between two looks for threads that have come or gone.
const THREADS_LOOK: Duration = Duration::from_secs(1);
/// Time until an engine that does not answer is asked again; the time doubles up to the second value.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// Failed readings in a row after which the last decisions no longer hold, and the engine's threads are restored.
pub(super) const FAILURES_MAX: u32 = 3;
/// What views show of a task where it can be had.
const SHOWN: [Metric; 14] = [
    Metric::QueueRows,
    Metric::QueueShare,
    Metric::InRate,
    Metric::OutRate,
    Metric::CpuShare,
    Metric::WaitShare,
    Metric::CostNs,
    Metric::AgeMs,
    Metric::Selectivity,
    Metric::LatencyMs,
    Metric::PathRate,
    Metric::DistanceToSink,
    Metric::UntilWindowMs,
    Metric::EpochsBehind,
];
/// What the kernel says of each thread.
const OF_KERNEL: [Metric; 2] = [Metric::CpuNs, Metric::WaitNs];

/// An engine.
pub(super) struct Watched {
    pub(super) name: String,
    engine: &'static str,
    driver: Box<dyn Driver>,
    pub(super) graph: Graph,
    window: Window,
    /// What policies need, by the level at which they look.
    needs: BTreeMap<Level, BTreeSet<Metric>>,
    providers: BTreeMap<Level, Provider>,
    seen: BTreeMap<Level, (Nodes, Metrics)>,
    /// The threads of the engine's processes when it was looked at.
    threads: BTreeSet<ThreadId>,
    looked_at: Option<Nanos>,
    pub(super) read_at: Option<Nanos>,
    read_took: Duration,
    failure: Option<Error>,
    failures: u32,
    retry_at: Nanos,
}

impl Watched {
    pub(super) fn new(name: String, engine: &'static str, driver: Box<dyn Driver>) -> Self {
        Watched {
            name,
            engine,
            driver,
            graph: Graph::default(),
            window: Window::new(),
            needs: BTreeMap::from([(Level::Task, BTreeSet::new())]),
            providers: BTreeMap::new(),
            seen: BTreeMap::new(),
            threads: BTreeSet::new(),
            looked_at: None,
            read_at: None,
            read_took: Duration::ZERO,
            failure: None,
            failures: 0,
            retry_at: Nanos(0),
        }
    }

    /// Whether decisions about this engine may be made: it was read, or has failed only a few times since.
    pub(super) fn is_known(&self) -> bool {
        self.read_at.is_some() && self.failures < FAILURES_MAX
    }

    /// Why the last reading failed.
    pub(super) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// The same, for the caller.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Lets metrics be computed from the next reading on. Errors: one can neither be fetched nor derived.
    pub(super) fn want(&mut self, level: Level, metrics: &[Metric]) -> Result<(), Missing> {
        self.needs.entry(level).or_default().extend(metrics);
        Provider::new(self.offered(), metrics.iter().copied()).map(drop)?;
        self.provide();
        Ok(())
    }

    /// The nodes of a level with their metrics, of the last reading.
    pub(super) fn at(&self, level: Level) -> Option<&(Nodes, Metrics)> {
        self.seen.get(&level)
    }

    /// Lines for the engine's configuration that would make it report more.
    pub(super) fn advice(&self) -> Vec<String> {
        self.driver.advice()
    }

    pub(super) fn offered(&self) -> BTreeSet<Metric> {
        self.driver.offers().into_iter().chain(OF_KERNEL).collect()
    }

    /// One provider for each level computes what all policies need, and what views show. What is missing is left out: a policy that needs it
    /// says so.
    fn provide(&mut self) {
        let offered = self.offered();
        for (level, needs) in &self.needs {
            let Ok(mut provider) = Provider::new(offered.iter().copied(), []) else { continue };
            for metric in needs.iter().chain(&SHOWN) {
                // A metric that is missing is not computed: what needs it finds no column.
                let _ = provider.want(*metric);
            }
            self.providers.insert(*level, provider);
        }
    }

    /// Reads the engine and the kernel's counters of its threads. A failure is kept, and the engine is asked again after a while.
    pub(super) fn refresh(&mut self, kernel: &Proc, usages: &mut UsageReader, clock: &dyn Clock) {
        let now = clock.now();
        if self.failure.is_some() && now < self.retry_at {
            return;
        }
        match self.read(kernel, usages, now) {
            Ok(()) => {
                (self.failure, self.failures, self.read_at) = (None, 0, Some(now));
                self.read_took = clock.now().after(now);
            }
            Err(error) => {
                self.failures += 1;
                let wait = RETRY.0.saturating_mul(1 << self.failures.min(10)).min(RETRY.1);
                self.retry_at = clock.now().plus(wait);
                self.failure = Some(error.at(format!("target '{}'", self.name)));
                // It may be another process when it is back.
                self.looked_at = None;
            }
        }
    }

    fn read(&mut self, kernel: &Proc, usages: &mut UsageReader, now: Nanos) -> Result<()> {
        if self.needs_look(kernel, now)? {
            self.look(kernel, now)?;
        }
        let mut readings = self.driver.read(now)?;
        if self.driver.is_stale() {
            self.look(kernel, now)?;
            readings = self.driver.read(now)?;
        }
        self.add_usage(kernel, usages, &mut readings)?;
        let readings = self.window.update(&self.graph, &readings);
        for (level, provider) in &mut self.providers {
            let nodes = match self.seen.get(level) {
                Some((nodes, _)) => nodes.later(&self.graph, &readings),
                None => Nodes::new(&self.graph, &readings, *level),
            };
            let metrics = provider.evaluate(&nodes);
            self.seen.insert(*level, (nodes, metrics));
        }
        Ok(())
    }

    fn look(&mut self, kernel: &Proc, now: Nanos) -> Result<()> {
        self.graph = self.driver.look()?;
        self.seen.clear();
        self.threads = self.present(kernel)?;
        self.looked_at = Some(now);
        self.provide();
        Ok(())
    }

    /// Whether the graph may be another one: it was never seen, or threads have come or gone.
    fn needs_look(&mut self, kernel: &Proc, now: Nanos) -> Result<bool> {
        let Some(looked_at) = self.looked_at else { return Ok(true) };
        if now.after(looked_at) < THREADS_LOOK {
            return Ok(false);
        }
        self.looked_at = Some(now);
        Ok(self.present(kernel)? != self.threads)
    }

    /// The threads of the engine's processes.
    fn present(&self, kernel: &Proc) -> Result<BTreeSet<ThreadId>> {
        let mut threads = BTreeSet::new();
        for pid in self.processes() {
            threads.extend(kernel.threads(pid)?.into_iter().map(|thread| thread.id));
        }
        Ok(threads)
    }

    /// The engine's processes on this machine.
    pub(super) fn processes(&self) -> BTreeSet<u32> {
        self.graph.threads.iter().map(|thread| thread.id.pid).collect()
    }

    /// Adds the processor time of each task: that of its thread and its helpers.
    fn add_usage(&self, kernel: &Proc, usages: &mut UsageReader, readings: &mut Readings) -> Result<()> {
        let mut of_tasks: BTreeMap<TaskIndex, [u64; 2]> = BTreeMap::new();
        for thread in &self.graph.threads {
            let (ThreadKind::Task(task) | ThreadKind::Helper(task)) = thread.kind else { continue };
            let Some(usage) = usages.read(kernel, thread.id)? else { continue };
            let sums = of_tasks.entry(task).or_default();
            *sums = [sums[0] + usage.run_ns, sums[1] + usage.wait_ns];
        }
        for (task, sums) in of_tasks {
            OF_KERNEL.into_iter().zip(sums).for_each(|(metric, ns)| readings.add(task, metric, ns as f64));
        }
        Ok(())
    }

    /// What conditions compare, with the pressure of the machine.
    pub(super) fn as_target(&self, pressure: f64, cores: usize) -> Target {
        let Some((nodes, metrics)) = self.seen.get(&Level::Task) else {
            return Target { pressure, ..Target::default() };
        };
        let used: Vec<f64> = metrics.column(Metric::CpuShare).into_iter().flatten().copied().collect();
        let used: f64 = used.iter().filter(|share| !share.is_nan()).sum();
        Target { pressure, cpu_share: used / cores as f64, ..Target::of(nodes, metrics) }
    }

    pub(super) fn status(&self) -> TargetStatus {
        TargetStatus {
            name: self.name.clone(),
            engine: self.engine.to_owned(),
            failure: self.failure.as_ref().map(ToString::to_string),
            queries: self.graph.queries.len(),
            operators: self.graph.operators.len(),
            tasks: self.graph.tasks.len(),
            threads: self.graph.threads.len(),
            read_ms: self.read_took.as_secs_f64() * 1e3,
        }
    }

    /// The tasks with what is known of them; the caller adds what was decided.
    pub(super) fn tasks(&self) -> Vec<TaskStatus> {
        let metrics = self.seen.get(&Level::Task).map(|(_, metrics)| metrics);
        let of = |(index, task): (usize, &anabranch_schedule::Task)| TaskStatus {
            target: self.name.clone(),
            query: self.graph.queries[task.query.0].name.clone(),
            task: task.name.clone(),
            metrics: metrics
                .into_iter()
                .flat_map(Metrics::iter)
                .map(|(metric, column)| (metric.name(), column.get(index).copied().unwrap_or(f64::NAN)))
                .filter(|(_, value)| value.is_finite())
                .collect(),
            priority: None,
            written: None,
        };
        self.graph.tasks.iter().enumerate().map(of).collect()
    }
}
