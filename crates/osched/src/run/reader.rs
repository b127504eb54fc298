//! Reads an engine on a thread of its own, so that the loop need not wait for an engine that answers slowly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result};
use anabranch_schedule::{Graph, Metric, Readings, TaskIndex, ThreadId, ThreadKind};

use crate::driver::Driver;
use crate::kernel::{Proc, UsageReader};

/// Time between two looks for threads that have come or gone.
const THREADS_LOOK: Duration = Duration::from_secs(1);
/// Metrics that the kernel reports for every thread.
pub(super) const OF_KERNEL: [Metric; 2] = [Metric::CpuNs, Metric::WaitNs];

/// What was read of an engine.
pub(super) struct Answer {
    /// What runs there, if it was looked at again.
    pub(super) graph: Option<Graph>,
    pub(super) readings: Readings,
    /// Metrics that the engine reports, and what its driver says, as of this reading.
    pub(super) offers: BTreeSet<Metric>,
    pub(super) advice: Vec<String>,
    pub(super) left_alone: Vec<String>,
    pub(super) took: Duration,
}

/// Handle of the reader thread. Dropping it ends the thread after the current reading.
pub(super) struct Reader {
    asks: Sender<()>,
    answers: Receiver<Result<Answer>>,
    /// Since when the thread owes an answer.
    asked_at: Option<Nanos>,
}

impl Reader {
    pub(super) fn start(name: &str, driver: Box<dyn Driver>, kernel: Proc, clock: Arc<dyn Clock>) -> Result<Reader> {
        let (asks, asked) = channel();
        let (answering, answers) = channel();
        let mut engine = Engine::new(driver, kernel, clock);
        let serve = move || {
            while asked.recv().is_ok() && answering.send(engine.answer()).is_ok() {}
        };
        // The kernel shows 15 characters.
        let thread = std::thread::Builder::new().name(format!("read {name}"));
        thread.spawn(serve).map_err(|error| Error::outside(format!("cannot start a thread: {error}")))?;
        Ok(Reader { asks, answers, asked_at: None })
    }

    /// Requests a reading. Returns false if the thread still works on the previous request.
    pub(super) fn ask(&mut self, now: Nanos) -> bool {
        if self.asked_at.is_some() {
            return false;
        }
        self.asked_at = Some(now);
        // A thread that has ended gives an error as its answer.
        let _ = self.asks.send(());
        true
    }

    /// Since when it owes an answer.
    pub(super) fn owes_since(&self) -> Option<Nanos> {
        self.asked_at
    }

    /// The answer, if it comes within a time.
    pub(super) fn answer(&mut self, wait: Duration) -> Option<Result<Answer>> {
        self.asked_at?;
        let answer = match self.answers.recv_timeout(wait) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => Err(Error::internal("the thread that reads the engine has ended")),
        };
        self.asked_at = None;
        Some(answer)
    }
}

/// An engine, on its thread.
struct Engine {
    driver: Box<dyn Driver>,
    kernel: Proc,
    clock: Arc<dyn Clock>,
    usages: UsageReader,
    /// The threads of the last look, with the tasks that they run or help.
    of_tasks: BTreeMap<ThreadId, TaskIndex>,
    /// Tasks of the last look whose threads cannot be distinguished.
    alike: Vec<Vec<TaskIndex>>,
    processes: BTreeSet<u32>,
    /// All threads of these processes when they were looked at.
    present: BTreeSet<ThreadId>,
    looked_at: Option<Nanos>,
}

impl Engine {
    fn new(driver: Box<dyn Driver>, kernel: Proc, clock: Arc<dyn Clock>) -> Self {
        Engine {
            driver,
            kernel,
            clock,
            usages: UsageReader::default(),
            of_tasks: BTreeMap::new(),
            alike: Vec::new(),
            processes: BTreeSet::new(),
            present: BTreeSet::new(),
            looked_at: None,
        }
    }

    fn answer(&mut self) -> Result<Answer> {
        let began = self.clock.now();
        let read = self.read();
        if read.is_err() {
            // The engine may return as another process, so its graph is read again.
            self.looked_at = None;
        }
        let (graph, readings) = read?;
        Ok(Answer {
            graph,
            readings,
            offers: self.driver.offers().into_iter().chain(OF_KERNEL).collect(),
            advice: self.driver.advice(),
            left_alone: self.driver.left_alone(),
            took: self.clock.now().after(began),
        })
    }

    fn read(&mut self) -> Result<(Option<Graph>, Readings)> {
        let mut graph = self.needs_look()?.then(|| self.look()).transpose()?;
        let mut readings = self.driver.read(self.clock.now())?;
        if self.driver.is_stale() {
            graph = Some(self.look()?);
            readings = self.driver.read(self.clock.now())?;
        }
        self.add_usage(&mut readings)?;
        Ok((graph, readings))
    }

    fn look(&mut self) -> Result<Graph> {
        let graph = self.driver.look()?;
        let task = |kind| match kind {
            ThreadKind::Task(task) | ThreadKind::Helper(task) => Some(task),
            ThreadKind::Engine => None,
        };
        self.of_tasks = graph.threads.iter().filter_map(|thread| Some((thread.id, task(thread.kind)?))).collect();
        self.alike.clone_from(&graph.alike);
        self.usages.retain(|thread| self.of_tasks.contains_key(&thread));
        self.processes = graph.threads.iter().map(|thread| thread.id.pid).collect();
        self.present = self.present()?;
        self.looked_at = Some(self.clock.now());
        Ok(graph)
    }

    /// Whether the graph may be another one: it was never seen, or threads have come or gone.
    fn needs_look(&mut self) -> Result<bool> {
        let (now, Some(looked_at)) = (self.clock.now(), self.looked_at) else { return Ok(true) };
        if now.after(looked_at) < THREADS_LOOK {
            return Ok(false);
        }
        self.looked_at = Some(now);
        Ok(self.present()? != self.present)
    }

    fn present(&self) -> Result<BTreeSet<ThreadId>> {
        let mut threads = BTreeSet::new();
        for pid in &self.processes {
            threads.extend(self.kernel.threads(*pid)?.into_iter().map(|thread| thread.id));
        }
        Ok(threads)
    }

    /// Adds the processor time of each task: that of its thread and its helpers, or the mean of those that
    /// cannot be distinguished.
    fn add_usage(&mut self, readings: &mut Readings) -> Result<()> {
        let mut sums: BTreeMap<TaskIndex, [u64; 2]> = BTreeMap::new();
        for (thread, task) in &self.of_tasks {
            let Some(usage) = self.usages.read(&self.kernel, *thread)? else { continue };
            let sum = sums.entry(*task).or_default();
            *sum = [sum[0] + usage.run_ns, sum[1] + usage.wait_ns];
        }
        for set in &self.alike {
            let of_set: Vec<[u64; 2]> = set.iter().filter_map(|task| sums.get(task).copied()).collect();
            let mean = [0, 1].map(|of| of_set.iter().map(|sum| sum[of]).sum::<u64>() / of_set.len().max(1) as u64);
            set.iter().filter_map(|task| sums.get_mut(task).map(|sum| *sum = mean)).for_each(drop);
        }
        for (task, sums) in sums {
            OF_KERNEL.into_iter().zip(sums).for_each(|(metric, ns)| readings.add(task, metric, ns as f64));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
