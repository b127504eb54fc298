//! Apache Storm 2.8: readings by its own Graphite reporter, which pushes them to a port of this driver;
//! threads by their names in the JVMs of the workers; the graph by the names of the metrics.
//!
//! A topology is a query, a spout or bolt an operator, an executor a task. `__execute-count-SOURCE:STREAM` of
//! a component says from which component it gets rows, so nothing has to be configured: an edge is known once
//! a row has passed it. The executors of ackers work for all of a topology, so they are never put behind
//! tasks.

mod executor;
mod graph;
mod line;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result, SystemClock, pause};
use anabranch_schedule::{Graph, Metric, Readings, Role, TaskIndex};
use regex::Regex;

use self::graph::{Built, Host, Place};
use self::store::{Store, TaskValues, Topology, Value};
use super::Driver;
use super::local::Local;
use crate::graphite::Graphite;
use crate::kernel::Process;

#[cfg(test)]
mod tests;

/// Workers push every 10 s unless their reporter is configured. Two are missed before the engine counts as
/// gone.
const SILENT: Duration = Duration::from_secs(25);

/// Longest wait for the first push. Before it, the driver does not know which metrics the topologies report.
const FIRST_PUSH: Duration = Duration::from_secs(11);
/// A push is complete when no new task or edge has come for this time.
const PUSH_ENDS: Duration = Duration::from_millis(300);

/// Where a cluster pushes to, and where its processes are.
pub struct StormOptions {
    /// Where this driver listens, on this machine.
    pub graphite: SocketAddr,
    /// A regular expression that the command lines of workers match. Empty: those whose command lines name
    /// Storm.
    pub process: String,
    /// Edges beside those that the metrics tell, which know one once a row has passed it: components with
    /// those that they get rows from.
    pub inputs: BTreeMap<String, Vec<String>>,
}

/// The driver of the topologies that push to one port.
pub struct Storm {
    graphite: Graphite,
    store: Arc<Mutex<Store>>,
    clock: Arc<dyn Clock>,
    process: Option<Regex>,
    inputs: BTreeMap<String, Vec<String>>,
    local: Box<dyn Local>,
    built: Built,
    /// State of the store at the last look.
    changes: u64,
    /// Until when counters were read, on `clock`.
    read_until: Option<Nanos>,
    has_processes: bool,
    /// How long the next look waits for the first push.
    patience: Duration,
}

impl Storm {
    /// A driver that listens from now on. `Err`: the address cannot be listened at, or the pattern is wrong.
    pub fn new(options: StormOptions, local: Box<dyn Local>) -> Result<Storm> {
        let storm = Storm::start(options, local, Arc::new(SystemClock::new()))?;
        Ok(Storm { patience: FIRST_PUSH, ..storm })
    }

    /// As [`Storm::new`], with the time of `clock`, and without a wait for the first push.
    pub fn start(options: StormOptions, local: Box<dyn Local>, clock: Arc<dyn Clock>) -> Result<Storm> {
        let StormOptions { graphite, process, inputs } = options;
        let store = Arc::new(Mutex::new(Store::default()));
        let (kept, time) = (Arc::clone(&store), Arc::clone(&clock));
        let take = move |path: &str, value: f64| {
            let line = line::parse(path).filter(|line| !line::is_internal(line.component) && value.is_finite());
            line.is_some_and(|line| lock(&kept).add(&line, value, time.now()))
        };
        let process = Some(process).filter(|pattern| !pattern.is_empty());
        let process = process.map(|text| super::process::pattern("process", &text)).transpose()?;
        Ok(Storm {
            graphite: Graphite::listen(graphite, Box::new(take))?,
            store,
            clock,
            process,
            inputs,
            local,
            built: Built::default(),
            changes: 0,
            read_until: None,
            has_processes: false,
            patience: Duration::ZERO,
        })
    }

    /// Before the first look, waits until all executors of this machine have pushed and no new task or edge
    /// comes. Each worker pushes at its own times.
    fn await_first_push(&mut self) -> Result<()> {
        let mut before = 0;
        while !self.patience.is_zero() {
            let changes = lock(&self.store).changes;
            if changes > 0 && changes == before && self.have_all_pushed()? {
                self.patience = Duration::ZERO;
                break;
            }
            before = changes;
            self.patience = self.patience.saturating_sub(PUSH_ENDS);
            pause(PUSH_ENDS);
        }
        Ok(())
    }

    fn have_all_pushed(&mut self) -> Result<bool> {
        let hosts = self.hosts()?;
        let store = lock(&self.store);
        let mut executors =
            hosts.iter().flat_map(|host| &host.threads.threads).filter_map(|of| executor::executor(&of.name));
        Ok(executors.all(|of| {
            line::is_internal(&of.component)
                || store.topologies.values().any(|topology| topology.has(&of.component, of.tasks.clone()))
        }))
    }

    fn hosts(&mut self) -> Result<Vec<Host>> {
        let pattern = self.process.clone();
        let is_worker = |process: &Process| match &pattern {
            Some(pattern) => pattern.is_match(&process.command),
            None => process.command.contains("java") && process.command.contains("storm"),
        };
        let mut hosts = Vec::new();
        for process in self.local.find(&is_worker)? {
            if self.local.is_jvm(&process) {
                let topology = executor::topology_of(&process.command).map(str::to_owned);
                hosts.push(Host { topology, threads: self.local.threads(&process)? });
            }
        }
        Ok(hosts)
    }
}

fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver for Storm {
    fn look(&mut self) -> Result<Graph> {
        self.await_first_push()?;
        let hosts = self.hosts()?;
        self.has_processes = !hosts.is_empty();
        let mut store = lock(&self.store);
        store.forget_gone(self.clock.now());
        self.changes = store.changes;
        self.built = graph::build(&store.topologies, &hosts, &self.inputs);
        Ok(self.built.graph.clone())
    }

    fn read(&mut self, now: Nanos) -> Result<Readings> {
        let own_now = self.clock.now();
        let store = lock(&self.store);
        if let Some(newest) = store.newest.filter(|newest| own_now.since(*newest) > SILENT.as_nanos() as u64) {
            let error = Error::outside(format!("no metrics have come for {} s", own_now.since(newest) / 1_000_000_000));
            return Err(error.at(format!("graphite port {}", self.graphite.address())).remedy(
                "check that the topology runs, and that its Graphite reporter has this address \
                 (`anabranch osched check` prints the lines)",
            ));
        }
        let mut readings = Readings { at: now, values: Vec::new() };
        for (index, place) in self.built.places.iter().enumerate() {
            if let Some(topology) = store.topologies.get(&place.topology) {
                add(TaskIndex(index), place, topology, (self.read_until, own_now), &mut readings);
            }
        }
        self.read_until = Some(own_now);
        Ok(readings)
    }

    fn offers(&self) -> Vec<Metric> {
        let store = lock(&self.store);
        let mut offers = BTreeSet::new();
        for values in store.topologies.values().flat_map(|topology| topology.tasks.values()) {
            offers.extend(values.queue_rows.map(|_| Metric::QueueRows));
            offers.extend(values.queued_ms.map(|_| Metric::QueuedMs));
            offers.extend(values.queue_share.map(|_| Metric::QueueShare));
            offers.extend(values.rows_in.values().next().map(|_| Metric::RowsIn));
            offers.extend(values.rows_out.values().next().map(|_| Metric::RowsOut));
        }
        offers.into_iter().collect()
    }

    fn is_stale(&self) -> bool {
        self.changes != lock(&self.store).changes || self.local.is_incomplete()
    }

    fn left_alone(&self) -> Vec<String> {
        self.built.left_alone.clone()
    }

    fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        if lock(&self.store).newest.is_none() {
            let address = self.graphite.address();
            advice.push("no metrics have come yet; add to storm.yaml or to the topology's configuration:".to_owned());
            advice.extend(reporter_lines(address));
        }
        if !self.has_processes {
            let missing = "no worker is found on this machine: set 'process' to a pattern of its command line, and run \
                           osched as root or as its user";
            advice.push(missing.to_owned());
        }
        advice.push(
            "to bound the rows that wait within a topology, which no priority does, use ackers and set:".to_owned(),
        );
        advice.push("topology.max.spout.pending: 1000".to_owned());
        advice.extend(self.local.notices());
        advice
    }
}

fn reporter_lines(address: SocketAddr) -> [String; 8] {
    [
        "topology.metrics.reporters:".to_owned(),
        "  - class: \"org.apache.storm.metrics2.reporters.GraphiteStormReporter\"".to_owned(),
        format!("    graphite.host: \"{}\"", address.ip()),
        format!("    graphite.port: {}", address.port()),
        "    graphite.transport: \"tcp\"".to_owned(),
        "    report.period: 500".to_owned(),
        "    report.period.units: \"MILLISECONDS\"".to_owned(),
        "topology.stats.sample.rate: 0.2".to_owned(),
    ]
}

/// Adds the readings of one executor. Counters are added only if they have come since `since`: repeated ones
/// would make rates of zero and of the double.
fn add(
    task: TaskIndex,
    place: &Place,
    topology: &Topology,
    (since, now): (Option<Nanos>, Nanos),
    readings: &mut Readings,
) {
    let of_tasks: Vec<&TaskValues> = topology.of(&place.executor.component, place.executor.tasks.clone()).collect();
    // All tasks of an executor share its queue.
    let greatest = |value: fn(&TaskValues) -> Option<Value>| {
        let current = of_tasks
            .iter()
            .filter_map(|values| value(values))
            .filter(|value| now.since(value.at) <= SILENT.as_nanos() as u64);
        current.map(|value| value.value).reduce(f64::max)
    };
    // The queue of a spout has acknowledgements, not rows.
    if place.role != Role::Source {
        for (metric, value) in [
            (Metric::QueueRows, greatest(|values| values.queue_rows)),
            (Metric::QueuedMs, greatest(|values| values.queued_ms)),
            (Metric::QueueShare, greatest(|values| values.queue_share)),
        ] {
            if let Some(value) = value {
                readings.add(task, metric, value);
            }
        }
    }
    let counter = |values: &mut dyn Iterator<Item = &Value>| {
        let (sum, newest) =
            values.fold((0.0, None), |(sum, newest), value| (sum + value.value, newest.max(Some(value.at))));
        newest.filter(|newest| since.is_none_or(|since| *newest >= since)).map(|_| sum)
    };
    let rows_in = counter(&mut of_tasks.iter().flat_map(|values| values.rows_in.values()));
    let rows_out = counter(&mut of_tasks.iter().flat_map(|values| values.rows_out.values()));
    for (metric, value) in [(Metric::RowsIn, rows_in), (Metric::RowsOut, rows_out)] {
        if let Some(value) = value {
            readings.add(task, metric, value);
        }
    }
}
