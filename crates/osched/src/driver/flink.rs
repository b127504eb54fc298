//! Apache Flink 1.20 and 2.x: the graph by its REST interface, threads by their names in the TaskManagers'
//! JVMs, readings by the Prometheus reporters of the TaskManagers.
//!
//! A job is a query; a vertex of its job graph is a chain of operators, and each of its subtasks is a task
//! with a thread. Rows are counted as [`graph::Outputs`] says. `busyTimeMsPerSecond` is not read: it counts
//! the time for which a thread waits for a core.

mod chain;
mod graph;
mod names;
mod reporter;
mod rest;
mod threads;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

use anabranch_model::{Error, Nanos, Result};
use anabranch_schedule::{Graph, Metric, Readings};

use self::graph::Built;
use self::reporter::Reporters;
use self::rest::Cluster;
use self::threads::{Host, Starts};
use super::Driver;
use super::local::Local;
use crate::http::{Http, HttpOptions};
use crate::kernel::Process;

#[cfg(test)]
mod tests;

/// How the main classes of TaskManagers are named, in all ways of deployment.
const TASK_MANAGER: [&str; 3] = ["TaskManagerRunner", "TaskExecutorRunner", "KubernetesTaskExecutor"];
/// Vertices of equal names whose tasks are asked for, one request each.
const EQUAL_NAMES_MAX: usize = 64;
/// Without a reporter, new jobs are found by asking so often.
const ASK_JOBS: Duration = Duration::from_secs(2);
/// Bounds the memory in TaskManagers that rows wait in.
const DEBLOAT: &str = "taskmanager.network.memory.buffer-debloat.enabled";

/// Where a cluster is.
pub struct FlinkOptions {
    /// Address of the REST interface, such as `http://127.0.0.1:8081`.
    pub url: String,
    /// Addresses of the Prometheus reporters of the TaskManagers on this machine. Empty: found by the
    /// cluster's configuration and the ports at which the TaskManagers listen.
    pub metrics: Vec<String>,
    /// How both are reached.
    pub http: HttpOptions,
}

/// The driver of one cluster.
pub struct Flink {
    url: String,
    metrics: Vec<String>,
    http: Http,
    /// For reporters.
    reporter_http: Http,
    local: Box<dyn Local>,
    reporters: Reporters,
    built: Built,
    settings: BTreeMap<String, String>,
    /// Notices of the last look: about threads that cannot be distinguished, and others.
    left_alone: Vec<String>,
    notices: Vec<String>,
    /// Tasks that were reported at the last look already and that the interface does not have.
    unknown: BTreeSet<graph::Place>,
    /// Without a reporter: identifiers of jobs at the last look, and when they were asked for.
    jobs: Vec<String>,
    asked: Nanos,
    is_stale: bool,
}

/// A process of a cluster.
struct Member {
    process: Process,
    /// The TaskManager that it is, if that is known.
    task_manager: Option<String>,
    /// At which it listens.
    ports: BTreeSet<u16>,
}

impl Flink {
    /// A driver. Nothing is read yet. `Err`: the options cannot be used.
    pub fn new(options: FlinkOptions, local: Box<dyn Local>) -> Result<Flink> {
        let of_reporters = HttpOptions { keeps_connections: false, ..options.http.clone() };
        Ok(Flink {
            reporter_http: Http::new(of_reporters)?,
            url: options.url.trim_end_matches('/').to_owned(),
            metrics: options.metrics,
            http: Http::new(options.http)?,
            local,
            reporters: Reporters::default(),
            built: Built::default(),
            settings: BTreeMap::new(),
            left_alone: Vec::new(),
            notices: Vec::new(),
            unknown: BTreeSet::new(),
            jobs: Vec::new(),
            asked: Nanos::default(),
            is_stale: false,
        })
    }

    /// The processes of this machine that belong to the cluster.
    fn members(&mut self, cluster: &Cluster) -> Result<Vec<Member>> {
        let local = &mut self.local;
        let rest_port = port_here(&self.url);
        let jvms = local.find(&|process| process.name.starts_with("java") || process.command.contains("java"))?;
        let mut found = Vec::new();
        for process in jvms {
            if !local.is_jvm(&process) {
                continue;
            }
            let ports = local.ports(&process);
            let is_listening = |manager: &&rest::TaskManager| manager.ports().any(|port| ports.contains(&port));
            let manager = cluster.task_managers.iter().find(is_listening).map(|manager| manager.id.clone());
            // A cluster within one process has no ports of its own; it is the process that serves the
            // interface.
            let is_all = rest_port.is_some_and(|port| ports.contains(&port));
            let only = || {
                cluster
                    .task_managers
                    .first()
                    .filter(|_| cluster.task_managers.len() == 1)
                    .map(|manager| manager.id.clone())
            };
            // Without its ports a TaskManager is known by its class. Threads of another cluster have other
            // names.
            let is_some = TASK_MANAGER.iter().any(|class| process.command.contains(class)) && ports.is_empty();
            if manager.is_some() || is_all || is_some {
                let task_manager = manager.or_else(|| only().filter(|_| is_all));
                found.push(Member { process, task_manager, ports });
            }
        }
        Ok(found)
    }

    /// Addresses of the reporters: those that are given, else those of the processes that listen at a port of
    /// the configuration.
    fn find_reporters(&self, cluster: &Cluster, members: &[Member]) -> BTreeSet<String> {
        if !self.metrics.is_empty() {
            return self.metrics.iter().cloned().collect();
        }
        let ranges = reporter::ports(&cluster.settings);
        let is_reporter = |port: &&u16| ranges.iter().any(|(first, last)| (first..=last).contains(port));
        // The JobManager has a reporter as well, which tells nothing about tasks.
        let is_one_process = !cluster.task_managers.iter().any(|manager| manager.ports().next().is_some());
        let hosts = members.iter().filter(|member| member.task_manager.is_some() || is_one_process);
        let ports = hosts.flat_map(|member| member.ports.iter().filter(is_reporter));
        ports.map(|port| format!("http://127.0.0.1:{port}")).collect()
    }

    /// When tasks of equal names were deployed, and whether all are known.
    fn starts(&self) -> (Starts, bool) {
        let (mut starts, mut are_all) = (Starts::new(), true);
        for (job, vertex) in threads::equal_names(&self.built).into_iter().take(EQUAL_NAMES_MAX) {
            // A job may end meanwhile. Its threads are then not distinguished until the next look.
            match rest::subtasks(&self.http, &self.url, &job, &vertex) {
                Ok(subtasks) => drop(starts.insert((job, vertex), subtasks)),
                Err(_) => are_all = false,
            }
        }
        (starts, are_all)
    }
}

impl Driver for Flink {
    fn look(&mut self) -> Result<Graph> {
        let cluster = Cluster::get(&self.http, &self.url)
            .map_err(|error| error.remedy("check the address of Flink's REST interface (rest.port)"))?;
        self.built = graph::build(&cluster.jobs);
        let members = self.members(&cluster)?;
        let mut hosts = Vec::new();
        for member in &members {
            hosts.push(Host {
                task_manager: member.task_manager.clone(),
                threads: self.local.threads(&member.process)?,
            });
        }
        let (starts, are_all) = self.starts();
        let local = &self.local;
        let started_ms = |thread: &crate::kernel::NamedThread| local.started_ms(thread).unwrap_or(0);
        let threads::Assigned { threads, alike, notices: left_alone } =
            threads::assign(&self.built, &hosts, &starts, &started_ms);
        (self.built.graph.threads, self.built.graph.alike, self.left_alone) = (threads, alike, left_alone);
        let mut notices = Vec::new();
        if members.is_empty() {
            notices.push(
                "no TaskManager of this cluster is found on this machine: run osched on the machines of the \
                 TaskManagers, as root or as their user"
                    .to_owned(),
            );
        }
        let urls = self.find_reporters(&cluster, &members);
        self.reporters.set(&urls);
        self.settings = cluster.settings;
        self.jobs = cluster.jobs.iter().map(|job| job.jid.clone()).collect();
        self.jobs.sort_unstable();
        // What is offered is known after a first read. That it fails is told by the next one, and does not
        // matter to policies of the graph.
        if let Err(error) =
            self.reporters.read(&self.reporter_http, &self.built.vertices, &self.built.places, &mut Readings::default())
        {
            notices.push(error.to_string());
        }
        (self.unknown, self.notices, self.is_stale) = (self.reporters.unknown.clone(), notices, !are_all);
        Ok(self.built.graph.clone())
    }

    fn read(&mut self, now: Nanos) -> Result<Readings> {
        let mut readings = Readings { at: now, values: Vec::new() };
        if self.reporters.is_empty() {
            if now.since(self.asked) >= ASK_JOBS.as_nanos() as u64 {
                self.asked = now;
                self.is_stale |= rest::running(&self.http, &self.url)? != self.jobs;
            }
            return Ok(readings);
        }
        let read = self.reporters.read(&self.reporter_http, &self.built.vertices, &self.built.places, &mut readings);
        // A TaskManager that comes again may have another port.
        self.is_stale |= read.is_err() || self.reporters.unknown.iter().any(|place| !self.unknown.contains(place));
        read.map(|()| readings)
    }

    fn offers(&self) -> Vec<Metric> {
        self.reporters.offers(&self.built.vertices)
    }

    fn is_stale(&self) -> bool {
        self.is_stale || self.local.is_incomplete()
    }

    fn left_alone(&self) -> Vec<String> {
        self.left_alone.clone()
    }

    fn advice(&self) -> Vec<String> {
        let mut advice = self.reporters.advice();
        if self.settings.get(DEBLOAT).is_none_or(|value| value != "true") {
            advice.push(
                "to keep fewer rows in queues between tasks, and latency low under load, add to Flink's configuration:"
                    .to_owned(),
            );
            advice.push(format!("{DEBLOAT}: true"));
        }
        advice.extend(self.local.notices());
        advice.extend(self.notices.iter().cloned());
        advice
    }
}

/// The port of an address if it is on this machine.
fn port_here(url: &str) -> Option<u16> {
    let rest = url.split_once("://")?.1;
    let host = rest.split('/').next()?;
    let mut addresses = host.to_socket_addrs().ok()?;
    // Only an own address can be bound to.
    addresses.find(|address| UdpSocket::bind((address.ip(), 0)).is_ok()).map(|address| address.port())
}

/// What tells that an address is Flink's REST interface. `Err`: it is not, or does not answer.
pub fn is_flink(http: &Http, url: &str) -> Result<String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Config {
        flink_version: String,
    }
    let url = url.trim_end_matches('/');
    let config: Config = http.get_json(&format!("{url}/config"))?;
    if config.flink_version.is_empty() {
        return Err(Error::outside("it does not tell its version")
            .at(url.to_owned())
            .remedy("check that the address is Flink's"));
    }
    Ok(config.flink_version)
}
