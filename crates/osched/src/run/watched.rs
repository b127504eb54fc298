//! A target while it is scheduled: what was seen last, and the metrics that follow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result};
use anabranch_schedule::{Graph, Level, Metric, Metrics, Missing, Nodes, Provider, Target, Window};

use super::reader::{Answer, Look, Reader};
use crate::driver::Driver;
use crate::kernel::Proc;
use crate::status::{TargetStatus, TaskStatus};

/// Time for the first answer of an engine, and how often it is asked: one whose threads all wait for cores may answer late. Later answers are
/// waited for as long as it takes.
const FIRST_ANSWER: Duration = Duration::from_secs(20);
const FIRST_ASKED_MAX: u32 = 3;
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
/// An engine.
pub(super) struct Watched {
    pub(super) name: String,
    engine: &'static str,
    reader: Reader,
    clock: Arc<dyn Clock>,
    pub(super) graph: Graph,
    offers: BTreeSet<Metric>,
    advice: Vec<String>,
    left_alone: Vec<String>,
    window: Window,
    /// What policies need, by the level at which they look.
    needs: BTreeMap<Level, BTreeSet<Metric>>,
    providers: BTreeMap<Level, Provider>,
    seen: BTreeMap<Level, (Nodes, Metrics)>,
    pub(super) read_at: Option<Nanos>,
    read_took: Duration,
    failure: Option<Error>,
    failures: u32,
    retry_at: Nanos,
}

/// What came of a wait for an engine's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Nothing,
    Readings,
    /// It has answered for the first time, or was looked at again after a failure.
    Back,
    /// It fails, and did not before.
    Failed,
}

impl Watched {
    pub(super) fn start(
        name: String,
        engine: &'static str,
        driver: Box<dyn Driver>,
        kernel: Proc,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let reader = Reader::start(&name, driver, kernel, Arc::clone(&clock))?;
        Ok(Watched {
            name,
            engine,
            reader,
            clock,
            graph: Graph::default(),
            offers: BTreeSet::new(),
            advice: Vec::new(),
            left_alone: Vec::new(),
            window: Window::new(),
            needs: BTreeMap::from([(Level::Task, BTreeSet::new())]),
            providers: BTreeMap::new(),
            seen: BTreeMap::new(),
            read_at: None,
            read_took: Duration::ZERO,
            failure: None,
            failures: 0,
            retry_at: Nanos(0),
        })
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
        Provider::new(self.offers.iter().copied(), metrics.iter().copied()).map(drop)?;
        self.provide();
        Ok(())
    }

    /// The nodes of a level with their metrics, of the last reading.
    pub(super) fn at(&self, level: Level) -> Option<&(Nodes, Metrics)> {
        self.seen.get(&level)
    }

    /// Lines for the engine's configuration that would make it report more.
    pub(super) fn advice(&self) -> &[String] {
        &self.advice
    }

    /// What the driver leaves alone, and why.
    pub(super) fn left_alone(&self) -> impl Iterator<Item = String> {
        self.left_alone.iter().map(|text| format!("target '{}': {text}", self.name))
    }

    pub(super) fn offers(&self) -> &BTreeSet<Metric> {
        &self.offers
    }

    /// One provider for each level computes what all policies need, and what views show. What is missing is left out: a policy that needs it
    /// says so.
    fn provide(&mut self) {
        for (level, needs) in &self.needs {
            let Ok(mut provider) = Provider::new(self.offers.iter().copied(), []) else { continue };
            for metric in needs.iter().chain(&SHOWN) {
                // A metric that is missing is not computed: what needs it finds no column.
                let _ = provider.want(*metric);
            }
            self.providers.insert(*level, provider);
        }
    }

    /// Asks the engine, unless it has failed a moment ago. Returns whether an answer may come soon: one that is late already may be later.
    pub(super) fn ask(&mut self) -> bool {
        let may_answer = self.failure.is_none() || self.clock.now() >= self.retry_at;
        may_answer && self.reader.ask()
    }

    /// Takes the engine's answer if it comes within a time. A failure is kept, and the engine is asked again after a while.
    pub(super) fn take(&mut self, wait: Duration) -> Taken {
        match self.reader.answer(wait) {
            None => Taken::Nothing,
            Some(Ok(answer)) => {
                let is_back = self.read_at.is_none() || self.failure.is_some();
                (self.failure, self.failures, self.read_at) = (None, 0, Some(answer.readings.at));
                self.compute(answer);
                if is_back { Taken::Back } else { Taken::Readings }
            }
            Some(Err(error)) => {
                let is_new = self.failure.is_none();
                self.fail(error);
                if is_new { Taken::Failed } else { Taken::Nothing }
            }
        }
    }

    /// Waits for the answer with which everything begins.
    pub(super) fn take_first(&mut self) {
        let mut taken = self.take(FIRST_ANSWER);
        for _ in 1..FIRST_ASKED_MAX {
            if matches!(taken, Taken::Failed) {
                self.failure = None;
                self.reader.ask();
                taken = self.take(FIRST_ANSWER);
            }
        }
        if taken == Taken::Nothing {
            let error = Error::outside(format!("there is no answer within {} s", FIRST_ANSWER.as_secs()));
            self.fail(error.remedy("look whether the engine is overloaded or stopped; it is asked again"));
        }
    }

    fn fail(&mut self, error: Error) {
        self.failures += 1;
        let wait = RETRY.0.saturating_mul(1 << self.failures.min(10)).min(RETRY.1);
        self.retry_at = self.clock.now().plus(wait);
        self.failure = Some(error.at(format!("target '{}'", self.name)));
    }

    fn compute(&mut self, answer: Answer) {
        self.read_took = answer.took;
        if let Some(Look { graph, offers, advice, left_alone }) = answer.look {
            (self.graph, self.offers, self.advice, self.left_alone) = (graph, offers, advice, left_alone);
            self.seen.clear();
            self.provide();
        }
        let readings = self.window.update(&self.graph, &answer.readings);
        for (level, provider) in &mut self.providers {
            let nodes = match self.seen.get(level) {
                Some((nodes, _)) => nodes.later(&self.graph, &readings),
                None => Nodes::new(&self.graph, &readings, *level),
            };
            let metrics = provider.evaluate(&nodes);
            self.seen.insert(*level, (nodes, metrics));
        }
    }

    /// The engine's processes on this machine.
    pub(super) fn processes(&self) -> BTreeSet<u32> {
        self.graph.threads.iter().map(|thread| thread.id.pid).collect()
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
