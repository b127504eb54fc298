//! Schedules the threads of this process's tasks by a policy (`SET 'scheduling'`), as `anabranch osched` does
//! for engines in other processes.
//!
//! `schedule` decides, from the counters of the tasks. While the tasks do not wait for cores, nothing is
//! decided and nothing is written. Threads end with their tasks, so nothing has to be restored.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_dataflow::{Plan, Scheduling, WindowEnds};
use anabranch_model::{Clock, EventTime, Latch, Nanos, Result};
use anabranch_schedule::{
    Edge, Graph, Metric, Nodes, Operator, OperatorIndex, Policy, Provider, Query, QueryIndex, Range, Readings, Role,
    Task, TaskIndex, Window, by_name, normalize, to_tasks,
};

use crate::task::processor::{ProcessorTime, processor_time, set_nice, set_slice};
use crate::task::threads::no_thread;
use crate::task::view::TaskView;

#[cfg(test)]
mod tests;

/// Time between two decisions.
const TICK: Duration = Duration::from_millis(20);
/// Number of decisions between two readings of processor times. A reading opens a file for each thread.
const TICKS_PER_SAMPLE: u32 = 10;
/// Average number of tasks that wait for a core. Below it, nothing is decided.
const PRESSURE_MIN: f64 = 0.05;
/// Nice values of threads. They are moderate: a starved thread may hold a lock that others need.
const NICE: Range = Range { worst: 10, best: -10 };
/// Nice values of threads, without the right to negative ones.
const NICE_WITHOUT_RIGHTS: Range = Range { worst: 10, best: 0 };
/// Microseconds that a thread may run before another one.
const SLICE_US: Range = Range { worst: 10_000, best: 500 };
/// The metrics that the counters of tasks provide.
const OFFERED: [Metric; 11] = [
    Metric::RowsIn,
    Metric::RowsOut,
    Metric::CpuNs,
    Metric::WaitNs,
    Metric::QueueRows,
    Metric::QueueBytes,
    Metric::QueueShare,
    Metric::AgeMs,
    Metric::QueuedMs,
    Metric::EpochsBehind,
    Metric::UntilWindowMs,
];

/// The scheduling thread. Dropping this ends it.
pub(crate) struct OwnThreads {
    ended: Arc<Latch>,
    thread: Option<JoinHandle<()>>,
}

impl OwnThreads {
    /// Schedules the threads of these tasks from now on.
    pub(crate) fn start(
        scheduling: Scheduling,
        plan: &Plan,
        views: Arc<[TaskView]>,
        clock: Arc<dyn Clock>,
    ) -> Result<OwnThreads> {
        let ended = Arc::<Latch>::default();
        let mut decider = Decider::new(scheduling, plan, &views)?;
        let ends = Arc::clone(&ended);
        let run = move || {
            let mechanism = Mechanism::find();
            let mut written = vec![None; views.len()];
            while !ends.wait(TICK) {
                let Some(values) = decider.decide(&views, clock.now(), mechanism.range()) else { continue };
                for ((view, value), written) in views.iter().zip(values).zip(&mut written) {
                    let thread = view.counters.thread.load(Relaxed);
                    if thread != 0 && *written != Some((thread, value)) && mechanism.write(thread, value) {
                        *written = Some((thread, value));
                    }
                }
            }
        };
        let thread =
            std::thread::Builder::new().name("schedule".into()).spawn(run).map_err(|error| no_thread(&error))?;
        Ok(OwnThreads { ended, thread: Some(thread) })
    }
}

impl Drop for OwnThreads {
    fn drop(&mut self) {
        self.ended.set();
        // After a panic, the threads of tasks keep their values.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What this process is allowed to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    Nice(Range),
    /// Without the right to lower nice values.
    Slice,
}

impl Mechanism {
    /// Tries it on the calling thread, which gets priority over the threads that it schedules.
    fn find() -> Mechanism {
        if set_nice(0, clamped(NICE.best)) {
            return Mechanism::Nice(NICE);
        }
        match set_nice(0, 1) && set_nice(0, 0) {
            true => Mechanism::Nice(NICE_WITHOUT_RIGHTS),
            false => Mechanism::Slice,
        }
    }

    fn range(self) -> Range {
        match self {
            Mechanism::Nice(range) => range,
            Mechanism::Slice => SLICE_US,
        }
    }

    /// Returns whether the system has accepted the value.
    fn write(self, thread: u32, value: i64) -> bool {
        match self {
            Mechanism::Nice(_) => set_nice(thread, clamped(value)),
            Mechanism::Slice => set_slice(thread, value.unsigned_abs() * 1000),
        }
    }
}

fn clamped(value: i64) -> i32 {
    i32::try_from(value.clamp(-20, 19)).unwrap_or(0)
}

/// Derives a value for each thread from the counters of the tasks.
struct Decider {
    graph: Graph,
    /// The nodes of the graph, with the readings of the last decision.
    nodes: Nodes,
    /// When the windows of each task's stage end.
    windows: Vec<Option<WindowEnds>>,
    window: Window,
    provider: Provider,
    policy: Box<dyn Policy>,
    /// Number of ticks until the next reading of processor times.
    countdown: u32,
    /// The last reading: its time, and the processor times of each task.
    sampled: Option<(Nanos, Vec<ProcessorTime>)>,
    /// Whether tasks were waiting for cores before the last reading.
    is_pressed: bool,
}

impl Decider {
    fn new(scheduling: Scheduling, plan: &Plan, views: &[TaskView]) -> Result<Decider> {
        let policy = by_name(scheduling.name(), 0)?;
        let provider = Provider::new(OFFERED, policy.needs()).map_err(anabranch_model::Error::from)?;
        let ends = |view: &TaskView| plan.stages.get(view.id.stage.0 as usize).and_then(|stage| stage.window_ends());
        let graph = graph_of(plan, views);
        Ok(Decider {
            nodes: Nodes::new(&graph, &Readings::default(), policy.level()),
            graph,
            windows: views.iter().map(ends).collect(),
            window: Window::new(),
            provider,
            policy,
            countdown: 0,
            sampled: None,
            is_pressed: false,
        })
    }

    /// A value for each task, in the order of the views. `None`: there is nothing to do.
    fn decide(&mut self, views: &[TaskView], now: Nanos, range: Range) -> Option<Vec<i64>> {
        let mut readings = Readings { at: now, values: Vec::new() };
        match self.countdown.checked_sub(1) {
            Some(left) => self.countdown = left,
            None => {
                self.countdown = TICKS_PER_SAMPLE - 1;
                let times = views.iter().map(|view| processor_time(view.counters.thread.load(Relaxed)));
                self.sample(now, times.map(Option::unwrap_or_default).collect());
            }
        }
        if !self.is_pressed {
            return None;
        }
        for (task, time) in self.sampled.iter().flat_map(|(_, times)| times).enumerate() {
            readings.add(TaskIndex(task), Metric::CpuNs, time.cpu_ns as f64);
            readings.add(TaskIndex(task), Metric::WaitNs, time.core_wait_ns as f64);
        }
        self.read(views, now, &mut readings);
        let rates = self.window.update(&self.graph, &readings);
        self.nodes = self.nodes.later(&self.graph, &rates);
        let metrics = self.provider.evaluate(&self.nodes);
        let priorities = self.policy.priorities(&self.nodes, &metrics).ok()?;
        Some(normalize(&to_tasks(&self.graph, &self.nodes, &priorities), range, self.policy.scale()))
    }

    /// Takes a reading of processor times, and determines whether tasks wait for cores.
    fn sample(&mut self, now: Nanos, times: Vec<ProcessorTime>) {
        let former = self.sampled.replace((now, times));
        let (Some((before, former)), Some((_, times))) = (former, &self.sampled) else { return };
        let waited = times.iter().zip(&former).map(|(now, then)| now.core_wait_ns.saturating_sub(then.core_wait_ns));
        let elapsed = now.since(before).max(1);
        self.is_pressed = waited.sum::<u64>() as f64 >= PRESSURE_MIN * elapsed as f64;
    }

    fn read(&self, views: &[TaskView], now: Nanos, readings: &mut Readings) {
        let newest = views.iter().map(|view| view.counters.epoch.load(Relaxed)).max().unwrap_or(0);
        for (index, view) in views.iter().enumerate() {
            let (task, counters) = (TaskIndex(index), &view.counters);
            readings.add(task, Metric::RowsIn, counters.rows_in.load(Relaxed) as f64);
            readings.add(task, Metric::RowsOut, counters.rows_out.load(Relaxed) as f64);
            let behind = newest.saturating_sub(counters.epoch.load(Relaxed));
            readings.add(task, Metric::EpochsBehind, behind as f64);
            let watermark = EventTime(counters.watermark_ms.load(Relaxed));
            if let Some(ends) = self.windows[index].filter(|_| watermark > EventTime::MIN && watermark < EventTime::MAX)
            {
                readings.add(task, Metric::UntilWindowMs, ends.until_next_ms(watermark) as f64);
            }
            let Some(queue) = view.inbox.as_ref().map(|inbox| inbox.stats(now)) else { continue };
            readings.add(task, Metric::QueueRows, queue.rows as f64);
            readings.add(task, Metric::QueueBytes, queue.bytes as f64);
            readings.add(task, Metric::QueueShare, queue.share);
            readings.add(task, Metric::AgeMs, queue.oldest_read_ns as f64 / 1e6);
            readings.add(task, Metric::QueuedMs, queue.oldest_ns as f64 / 1e6);
        }
    }
}

/// One operator for each stage of the plan, with the tasks of the views.
fn graph_of(plan: &Plan, views: &[TaskView]) -> Graph {
    let query = QueryIndex(0);
    let operator = |stage: &anabranch_dataflow::Stage| {
        let role = match (&stage.source, &stage.sink) {
            (Some(_), _) => Role::Source,
            (None, Some(_)) => Role::Sink,
            (None, None) => Role::Inner,
        };
        Operator { query, name: stage.id.to_string(), role }
    };
    let index = |stage: anabranch_model::StageId| OperatorIndex(stage.0 as usize);
    let edges = plan.exchanges.iter().map(|exchange| Edge { from: index(exchange.from), to: index(exchange.to) });
    let task = |view: &TaskView| Task { query, name: view.place(), runs: vec![index(view.id.stage)] };
    Graph {
        queries: vec![Query { name: plan.options.job_name.clone() }],
        operators: plan.stages.iter().map(operator).collect(),
        edges: edges.collect(),
        tasks: views.iter().map(task).collect(),
        ..Graph::default()
    }
}
