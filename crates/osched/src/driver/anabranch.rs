//! Anabranch, by its REST interface: jobs with their plans, tasks with their readings, workers with their
//! processes.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Error, Nanos, Result};
use anabranch_schedule::{
    Edge, Graph, Metric, Operator, OperatorIndex, Query, QueryIndex, Readings, Role, Task, TaskIndex, Thread, ThreadId,
    ThreadKind,
};
use serde_json::Value;

use super::Driver;

#[cfg(test)]
mod tests;

/// What the interface answers to `GET` of a path.
pub type Get = Box<dyn FnMut(&str) -> Result<Value> + Send>;
/// The threads of a process of this machine with their names; none if there is no such process.
pub type ThreadsOf = Box<dyn Fn(u32) -> Vec<(ThreadId, String)> + Send>;

/// Threads of a process by their numbers.
type Threads = BTreeMap<u64, (ThreadId, String)>;

/// Members of a task's document, and what they mean here.
const READINGS: [(&str, Metric); 8] = [
    ("rows_in", Metric::RowsIn),
    ("rows_out", Metric::RowsOut),
    ("queue_rows", Metric::QueueRows),
    ("queue_batches", Metric::QueueBatches),
    ("queue_bytes", Metric::QueueBytes),
    ("queue_share", Metric::QueueShare),
    ("oldest_read_ms", Metric::AgeMs),
    ("oldest_queued_ms", Metric::QueuedMs),
];

/// The thread that writes snapshots.
const RECORDER: &str = "snapshots";

/// The driver of one process that serves the interface: `run --http`, or a coordinator.
pub struct Anabranch {
    get: Get,
    threads_of: ThreadsOf,
    /// The tasks of the last look.
    tasks: BTreeMap<TaskKey, TaskIndex>,
    /// When the windows of stages end: time between two ends, and their offset.
    windows: BTreeMap<(String, u64), (i64, i64)>,
    /// Threads of tasks at the last look.
    threads: BTreeMap<TaskIndex, u64>,
    /// Results that tasks had written at the last reading, and the sum of their latencies in milliseconds.
    latencies: BTreeMap<TaskIndex, (f64, f64)>,
    /// Jobs that order their own threads, with their policies.
    own: BTreeMap<String, String>,
    is_stale: bool,
}

/// A task of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TaskKey {
    job: String,
    stage: u64,
    /// Within the stage.
    index: u64,
}

impl Anabranch {
    /// A driver that asks `get`, and finds threads by `threads_of`.
    #[must_use]
    pub fn new(get: Get, threads_of: ThreadsOf) -> Self {
        let (tasks, windows, threads) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (latencies, own) = (BTreeMap::new(), BTreeMap::new());
        Anabranch { get, threads_of, tasks, windows, threads, latencies, own, is_stale: false }
    }

    /// Names of the jobs that run.
    fn jobs(&mut self) -> Result<Vec<String>> {
        let jobs = (self.get)("/api/v1/jobs")?;
        let runs =
            |job: &&Value| !matches!(text(job, "state"), "ended" | "stopped" | "failed" | "cancelled" | "waiting");
        Ok(items(&jobs, "jobs")?.iter().filter(runs).map(|job| text(job, "name").to_owned()).collect())
    }

    /// The mean latency of the results that a task has written since the last reading, if there are any.
    fn latency_ms(&mut self, task: TaskIndex, document: &Value) -> Option<f64> {
        let rows = document["rows"].as_f64()?;
        let sum = rows * document["mean_ms"].as_f64()?;
        let (rows_before, sum_before) = self.latencies.insert(task, (rows, sum))?;
        (rows > rows_before).then(|| (sum - sum_before) / (rows - rows_before))
    }

    /// Processes of this machine by the names of their workers, with their threads by thread identifier.
    fn workers(&mut self) -> Result<BTreeMap<String, Threads>> {
        let workers = (self.get)("/api/v1/workers")?;
        let of = |worker: &Value| {
            let pid = worker["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
            let threads = (self.threads_of)(pid).into_iter();
            let threads = threads.map(|(id, name)| (u64::from(id.tid), (id, name))).collect();
            (text(worker, "name").to_owned(), threads)
        };
        Ok(items(&workers, "workers")?.iter().map(of).collect())
    }
}

impl Driver for Anabranch {
    fn look(&mut self) -> Result<Graph> {
        let (mut graph, mut threads, mut here) = (Graph::default(), BTreeMap::new(), BTreeSet::new());
        let mut workers = self.workers()?;
        self.tasks.clear();
        self.latencies.clear();
        self.windows.clear();
        self.own.clear();
        for name in self.jobs()? {
            let plan = (self.get)(&format!("/api/v1/jobs/{name}/plan"))?;
            let tasks = (self.get)(&format!("/api/v1/jobs/{name}/tasks"))?;
            let query = QueryIndex(graph.queries.len());
            graph.queries.push(Query { name: name.clone() });
            let own = plan["scheduling"].as_str();
            self.own.extend(own.map(|policy| (name.clone(), policy.to_owned())));
            let stages = add_operators(&mut graph, query, &plan)?;
            for stage in items(&plan, "stages")? {
                let ends = stage["window_step_ms"].as_i64().zip(stage["window_offset_ms"].as_i64());
                self.windows.extend(ends.map(|ends| ((name.clone(), number(stage, "stage")), ends)));
            }
            for task in items(&tasks, "tasks")? {
                let (stage, index) = (number(task, "stage"), number(task, "task"));
                // The plan has changed between both answers: the next look finds both alike.
                let Some(runs) = stages.get(&stage) else { continue };
                let at = TaskIndex(graph.tasks.len());
                let name_of_task = format!("{stage}.{index} {}", text(task, "stage_name"));
                graph.tasks.push(Task { query, name: name_of_task, runs: runs.clone() });
                self.tasks.insert(TaskKey { job: name.clone(), stage, index }, at);
                let Some(thread) = task["thread"].as_u64() else { continue };
                threads.insert(at, thread);
                let worker = text(task, "worker");
                let found = workers.get_mut(worker).and_then(|threads| threads.remove(&thread));
                let found = found.filter(|_| own.is_none());
                here.extend(found.is_some().then(|| worker.to_owned()));
                graph.threads.extend(found.map(|(id, name)| Thread { id, name, kind: ThreadKind::Task(at) }));
            }
        }
        // Exchange, coordination, Kafka's client: they serve all tasks of the process. The recorder has a low
        // priority on purpose. A worker of another machine may have the number of a process of this one: then
        // it has none of the tasks' threads.
        workers.retain(|worker, _| here.contains(worker));
        let others = workers.into_values().flat_map(BTreeMap::into_values).filter(|(_, name)| name != RECORDER);
        graph.threads.extend(others.map(|(id, name)| Thread { id, name, kind: ThreadKind::Engine }));
        (self.threads, self.is_stale) = (threads, false);
        Ok(graph)
    }

    fn read(&mut self, now: Nanos) -> Result<Readings> {
        let mut readings = Readings { at: now, values: Vec::new() };
        let jobs: BTreeSet<String> = self.tasks.keys().map(|task| task.job.clone()).collect();
        self.is_stale |= self.jobs()?.into_iter().collect::<BTreeSet<_>>() != jobs;
        for job in jobs {
            let answer = (self.get)(&format!("/api/v1/jobs/{job}/tasks"));
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) if self.jobs()?.contains(&job) => return Err(error),
                // It has ended since the list was read.
                Err(_) => {
                    self.is_stale = true;
                    continue;
                }
            };
            let tasks = items(&answer, "tasks")?;
            let newest = tasks.iter().map(|task| number(task, "epoch")).max().unwrap_or(0);
            for task in tasks {
                let (stage, index) = (number(task, "stage"), number(task, "task"));
                let Some(at) = self.tasks.get(&TaskKey { job: job.clone(), stage, index }).copied() else {
                    self.is_stale = true;
                    continue;
                };
                self.is_stale |= task["thread"].as_u64() != self.threads.get(&at).copied();
                for (name, metric) in READINGS {
                    task[name].as_f64().into_iter().for_each(|value| readings.add(at, metric, value));
                }
                if let Some(latency_ms) = self.latency_ms(at, &task["result_latency"]) {
                    readings.add(at, Metric::LatencyMs, latency_ms);
                }
                readings.add(at, Metric::EpochsBehind, newest.saturating_sub(number(task, "epoch")) as f64);
                let ends = self.windows.get(&(job.clone(), stage)).copied();
                if let Some(((step, offset), watermark)) = ends.zip(task["watermark_ms"].as_i64()) {
                    let until = step - watermark.saturating_sub(offset).rem_euclid(step.max(1));
                    readings.add(at, Metric::UntilWindowMs, until as f64);
                }
            }
        }
        Ok(readings)
    }

    fn offers(&self) -> Vec<Metric> {
        let mut offered: Vec<Metric> = READINGS.iter().map(|(_, metric)| *metric).collect();
        offered.extend([Metric::EpochsBehind, Metric::LatencyMs]);
        offered.extend((!self.windows.is_empty()).then_some(Metric::UntilWindowMs));
        offered
    }

    fn is_stale(&self) -> bool {
        self.is_stale
    }

    fn left_alone(&self) -> Vec<String> {
        let says = |(job, policy): (&String, &String)| {
            format!(
                "the threads of job '{job}' are left alone: it orders them itself (scheduling = '{policy}'). Run the job without SET 'scheduling' to \
                 order them here"
            )
        };
        self.own.iter().map(says).collect()
    }
}

/// Adds the operators of a plan and their edges. Returns those of each stage, in the order in which rows pass
/// them.
fn add_operators(graph: &mut Graph, query: QueryIndex, plan: &Value) -> Result<BTreeMap<u64, Vec<OperatorIndex>>> {
    let mut stages = BTreeMap::new();
    for stage in items(plan, "stages")? {
        let number = number(stage, "stage");
        let mut chain: Vec<(String, Role)> = Vec::new();
        chain.extend(stage["source"].as_str().map(|source| (source.to_owned(), Role::Source)));
        let operators = stage["operators"].as_array().into_iter().flatten().filter_map(Value::as_str);
        chain.extend(operators.map(|operator| (operator.to_owned(), Role::Inner)));
        chain.extend(stage["sink"].as_str().map(|sink| (sink.to_owned(), Role::Sink)));
        if chain.is_empty() {
            chain.push((text(stage, "name").to_owned(), Role::Inner));
        }
        let first = graph.operators.len();
        for (place, (text, role)) in chain.into_iter().enumerate() {
            graph.operators.push(Operator { query, name: format!("{number}.{place} {text}"), role });
        }
        let runs: Vec<OperatorIndex> = (first..graph.operators.len()).map(OperatorIndex).collect();
        graph.edges.extend(runs.windows(2).map(|pair| Edge { from: pair[0], to: pair[1] }));
        stages.insert(number, runs);
    }
    for exchange in items(plan, "exchanges")? {
        let end = |key: &str| stages.get(&number(exchange, key));
        let ends = end("from").and_then(|from| from.last()).zip(end("to").and_then(|to| to.first()));
        graph.edges.extend(ends.map(|(from, to)| Edge { from: *from, to: *to }));
    }
    Ok(stages)
}

fn items<'a>(document: &'a Value, key: &str) -> Result<&'a [Value]> {
    let items = document[key].as_array().map(Vec::as_slice);
    items.ok_or_else(|| {
        Error::outside(format!("the answer has no list '{key}'"))
            .remedy("give the address of a running anabranch of this release: run --http, or a coordinator")
    })
}

fn text<'a>(document: &'a Value, key: &str) -> &'a str {
    document[key].as_str().unwrap_or_default()
}

fn number(document: &Value, key: &str) -> u64 {
    document[key].as_u64().unwrap_or_default()
}
