//! Coordinators and workers as processes of the program `anabranch`. They end with the benchmark.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anabranch_model::{Error, Result};
use anabranch_server::cluster::TOKEN;
use anabranch_server::http::Client;
use serde_json::{Value, json};

use crate::engine::{program, resident_bytes};

const SECRET: &str = "the-secret-of-this-benchmark";
/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);
/// Time between two looks: the resolution of what is observed.
pub(crate) const LOOK: Duration = Duration::from_millis(5);
/// Longest time without a byte of an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// A process. It is killed when dropped.
pub(crate) struct Process(Child);

impl Process {
    fn start(arguments: &[&str]) -> Result<Process> {
        let program = program()?;
        let mut command = Command::new(&program);
        command.args(arguments).env(TOKEN, SECRET);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let failed = |error: std::io::Error| Error::outside(error.to_string()).at(program.display().to_string());
        Ok(Process(command.spawn().map_err(failed)?))
    }

    /// Makes it stand still where it is.
    pub(crate) fn freeze(&self) -> Result<()> {
        let pid = i32::try_from(self.0.id()).map_err(|error| Error::internal(error.to_string()))?;
        // SAFETY: the call takes numbers. The process is a child that was not waited for, so nothing else has
        // its number.
        match unsafe { libc::kill(pid, libc::SIGSTOP) } {
            0 => Ok(()),
            _ => Err(Error::outside(format!("cannot stop process {pid}: {}", std::io::Error::last_os_error()))),
        }
    }

    /// Processor time of its threads that live, by their names, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> BTreeMap<String, u64> {
        let mut times = BTreeMap::new();
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.0.id()));
        for thread in threads.into_iter().flatten().flatten().map(|thread| thread.path()) {
            let read = |file| std::fs::read_to_string(thread.join(file)).unwrap_or_default();
            let (name, time) = (read("comm").trim().to_owned(), read("schedstat"));
            let time = time.split_whitespace().next().and_then(|time| time.parse::<u64>().ok()).unwrap_or(0);
            *times.entry(name).or_default() += time;
        }
        times
    }

    /// Its resident memory.
    fn resident_bytes(&self) -> Result<u64> {
        resident_bytes(&format!("/proc/{}/statm", self.0.id()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A coordinator of a cluster; the process may be gone.
struct Coordinator {
    listen: u16,
    http: u16,
    process: Option<Process>,
}

/// A cluster of this machine.
pub(crate) struct Cluster {
    store: PathBuf,
    coordinators: Vec<Coordinator>,
    /// By their names.
    workers: BTreeMap<String, Process>,
    started: u32,
}

impl Cluster {
    /// So many coordinators and workers. The first coordinator leads.
    pub(crate) fn start(store: PathBuf, coordinators: usize, workers: u32, slots: u32) -> Result<Cluster> {
        let coordinators = (0..coordinators).map(|_| Ok(Coordinator { listen: port()?, http: port()?, process: None }));
        let coordinators = coordinators.collect::<Result<Vec<_>>>()?;
        let mut cluster = Cluster { store, coordinators, workers: BTreeMap::new(), started: 0 };
        (0..cluster.coordinators.len()).try_for_each(|which| cluster.start_coordinator(which))?;
        (0..workers).try_for_each(|_| cluster.start_worker(slots))?;
        Ok(cluster)
    }

    /// Starts a coordinator, and waits until it listens.
    pub(crate) fn start_coordinator(&mut self, which: usize) -> Result<()> {
        let store = self.store.display().to_string();
        let of = &mut self.coordinators[which];
        let (listen, http) = (format!("127.0.0.1:{}", of.listen), format!("127.0.0.1:{}", of.http));
        of.process = Some(Process::start(&["coordinator", "--store", &store, "--listen", &listen, "--http", &http])?);
        until("a coordinator", || Ok(std::net::TcpStream::connect(&http).is_ok().then_some(())))
    }

    /// Kills a coordinator.
    pub(crate) fn kill_coordinator(&mut self, which: usize) {
        self.coordinators[which].process = None;
    }

    /// Starts a worker, and waits until the coordinator that leads has it.
    pub(crate) fn start_worker(&mut self, slots: u32) -> Result<()> {
        let listen: Vec<String> = self.coordinators.iter().map(|of| format!("127.0.0.1:{}", of.listen)).collect();
        self.started += 1;
        let name = format!("worker-{}", self.started);
        let (listen, slots) = (listen.join(","), slots.to_string());
        let process = Process::start(&["worker", "--coordinator", &listen, "--name", &name, "--slots", &slots])?;
        self.workers.insert(name.clone(), process);
        let client = self.client(None);
        until("a worker", || {
            let document = client.get("/api/v1/workers").unwrap_or_default();
            Ok(items(&document["workers"]).any(|worker| worker["name"] == name).then_some(()))
        })
    }

    /// Takes a worker that has tasks out of the list.
    pub(crate) fn take_busy_worker(&mut self) -> Result<Process> {
        let document = self.client(None).get("/api/v1/workers")?;
        let busy = items(&document["workers"]).filter(|worker| worker["tasks"].as_u64() > Some(0));
        let name = busy.filter_map(|worker| worker["name"].as_str()).next();
        let process = name.and_then(|name| self.workers.remove(name));
        process.ok_or_else(|| Error::internal(format!("no worker has tasks: {document}")))
    }

    /// A client of one coordinator, or of the one that leads.
    pub(crate) fn client(&self, which: Option<usize>) -> Client {
        let of = self.coordinators.iter().enumerate().filter(|(at, of)| match which {
            Some(which) => *at == which,
            None => of.process.is_some(),
        });
        let urls = of.map(|(_, of)| format!("http://127.0.0.1:{}", of.http)).collect();
        Client { urls, token: Some(SECRET.to_owned()), wait: ANSWER, ..Client::default() }
    }

    /// Resident memory of all workers.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        self.workers.values().map(Process::resident_bytes).sum()
    }

    /// Processor time of all processes, by the kind of the process and the name of the thread, in
    /// nanoseconds.
    pub(crate) fn cpu_ns(&self) -> BTreeMap<String, u64> {
        let coordinators = self.coordinators.iter().filter_map(|of| Some(("coordinator", of.process.as_ref()?)));
        let workers = self.workers.values().map(|process| ("worker", process));
        let mut times = BTreeMap::new();
        for (kind, process) in coordinators.chain(workers) {
            for (thread, time) in process.cpu_ns() {
                *times.entry(format!("{kind}, thread {thread}")).or_default() += time;
            }
        }
        times
    }
}

/// Submits a job.
pub(crate) fn submit(client: &Client, name: &str, sql: &str, settings: &[(&str, &str)]) -> Result<()> {
    let settings: BTreeMap<&str, &str> = settings.iter().copied().collect();
    client.post("/api/v1/jobs", &json!({"name": name, "sql": sql, "settings": settings}))?;
    Ok(())
}

/// How many jobs run with all of their tasks ready.
pub(crate) fn running(client: &Client) -> Result<usize> {
    let document = client.get("/api/v1/jobs")?;
    Ok(items(&document["jobs"]).filter(|job| job["state"] == "running").count())
}

/// The elements of an array.
pub(crate) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

/// Waits until there is something.
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    until_within(LIMIT, what, look)
}

/// The same, for at most this time.
pub(crate) fn until_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if begun.elapsed() > limit {
            return Err(Error::outside(format!("{what} does not come within {} s", limit.as_secs())));
        }
        std::thread::sleep(LOOK);
    }
}

/// A port that was free a moment ago.
fn port() -> Result<u16> {
    let socket = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    socket.map(|address| address.port()).map_err(|error| Error::outside(error.to_string()))
}
