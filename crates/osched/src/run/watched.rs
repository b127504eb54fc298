//! A target while it is scheduled: what was seen last, and the metrics that follow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result};
use anabranch_schedule::{Graph, Level, Metric, Metrics, Missing, Nodes, Provider, Target, Window};

use super::reader::{Answer, Reader};
use crate::driver::Driver;
use crate::kernel::Proc;
use crate::status::{TargetStatus, TaskStatus};

/// Longest time for an answer, after which the engine has failed. One whose threads all wait for cores may
/// need seconds.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Time until an engine that does not answer is asked again; the time doubles up to the second value.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// Failed readings in a row after which the last decisions no longer hold, and the engine's threads are
/// restored.
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
    pub(super) offers: BTreeSet<Metric>,
    /// Lines for the engine's configuration that would make it report more.
    pub(super) advice: Vec<String>,
    /// What the driver leaves alone, and why.
    pub(super) left_alone: Vec<String>,
    window: Window,
    /// What policies need, by the level at which they look.
    needs: BTreeMap<Level, BTreeSet<Metric>>,
    providers: BTreeMap<Level, Provider>,
    seen: BTreeMap<Level, (Nodes, Metrics)>,
    pub(super) read_at: Option<Nanos>,
    read_took: Duration,
    /// Whether its last answer came after the step that had asked for it.
    is_late: bool,
    failure: Option<Error>,
    failures: u32,
    retry_at: Nanos,
}

/// What came of a wait for an engine's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Nothing,
    Readings,
    /// The first answer, or the first one after a failure.
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
            is_late: false,
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

    /// One provider for each level computes what all policies need, and what views show. What is missing is
    /// left out: a policy that needs it says so.
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

    /// Sends a request, unless an answer is owed or the time for a retry has not come.
    pub(super) fn ask(&mut self) {
        let now = self.clock.now();
        if self.failure.is_none() || now >= self.retry_at {
            self.reader.ask(now);
        }
    }

    /// Sends a request although the last one has failed a moment ago.
    pub(super) fn ask_again(&mut self) {
        self.reader.ask(self.clock.now());
    }

    /// Whether an answer is owed.
    pub(super) fn owes(&self) -> bool {
        self.reader.owes_since().is_some()
    }

    /// Whether it is worth waiting for the answer that is owed.
    pub(super) fn may_answer_soon(&self) -> bool {
        self.owes() && !self.is_late
    }

    /// Takes the engine's answer if it comes within a time. A failure is kept until the next answer.
    pub(super) fn take(&mut self, wait: Duration) -> Taken {
        match self.reader.answer(wait) {
            None => {
                self.is_late |= self.owes();
                let now = self.clock.now();
                let hangs = self.reader.owes_since().is_some_and(|since| now.after(since) >= ANSWER_MAX);
                if !hangs || (self.failure.is_some() && now < self.retry_at) {
                    return Taken::Nothing;
                }
                let error = Error::outside(format!("there is no answer within {} s", ANSWER_MAX.as_secs()));
                self.fail(error.remedy("look whether the engine is overloaded or stopped; it is asked again"))
            }
            Some(Ok(answer)) => {
                let is_back = self.read_at.is_none() || self.failure.is_some();
                (self.failure, self.failures, self.read_at) = (None, 0, Some(answer.readings.at));
                self.is_late = answer.took >= super::ANSWERS;
                self.compute(answer);
                if is_back { Taken::Back } else { Taken::Readings }
            }
            Some(Err(error)) => self.fail(error),
        }
    }

    fn fail(&mut self, error: Error) -> Taken {
        let is_new = self.failure.is_none();
        self.failures += 1;
        let wait = RETRY.0.saturating_mul(1 << self.failures.min(10)).min(RETRY.1);
        self.retry_at = self.clock.now().plus(wait);
        self.failure = Some(error.at(format!("target '{}'", self.name)));
        if is_new { Taken::Failed } else { Taken::Nothing }
    }

    fn compute(&mut self, answer: Answer) {
        self.read_took = answer.took;
        let is_new = answer.graph.is_some() || answer.offers != self.offers;
        if let Some(graph) = answer.graph {
            self.graph = graph;
            self.seen.clear();
        }
        (self.offers, self.advice, self.left_alone) = (answer.offers, answer.advice, answer.left_alone);
        if is_new {
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
