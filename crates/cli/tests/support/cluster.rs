//! A cluster of processes, which end with the test: coordinators, workers and commands, on this machine or on
//! several, plain or with TLS.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::process::{LIMIT, Process};

const LOOK: Duration = Duration::from_millis(50);
pub(crate) const TOKEN: &str = "ANABRANCH_TOKEN";
pub(crate) const SECRET: &str = "the-secret-of-this-test";
const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");

/// Files of a cluster with TLS: the coordinator's certificate, its key, and the token.
#[derive(Clone)]
pub(crate) struct Files {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) token: String,
}

/// Gives a program that is started on the machine of this name.
pub(crate) type Machines = Box<dyn Fn(&str, &str) -> Command>;

pub(crate) struct Cluster {
    store: String,
    machines: Machines,
    files: Option<Files>,
    coordinators: Vec<Coordinator>,
    /// With their names.
    workers: Vec<(String, Process)>,
}

/// A coordinator of a cluster; the process may be gone.
struct Coordinator {
    listen: SocketAddr,
    http: SocketAddr,
    process: Option<Process>,
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file with this text; its path.
pub(crate) fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_owned()
}

/// A port that was free a moment ago, of this machine alone.
pub(crate) fn free() -> SocketAddr {
    free_at([127, 0, 0, 1])
}

/// Ports that the system gives to no connection of its own accord: one of those could be taken again before a
/// process listens there.
const PORTS: std::ops::Range<u32> = 12_000..32_000;

/// The same at another address of this machine. No other test of this program gets it.
pub(crate) fn free_at(address: impl Into<std::net::IpAddr>) -> SocketAddr {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let (address, count) = (address.into(), PORTS.end - PORTS.start);
    let mut ports = (0..count).map(|_| {
        // Programs that run one after the other begin elsewhere.
        let given = GIVEN.fetch_add(1, Relaxed).wrapping_add(std::process::id().wrapping_mul(97));
        (PORTS.start + given % count) as u16
    });
    let free = ports.find_map(|port| TcpListener::bind((address, port)).ok());
    free.and_then(|socket| socket.local_addr().ok()).expect("a free port")
}

impl Cluster {
    /// A coordinator without workers.
    pub(crate) fn start(folder: &Path) -> Cluster {
        Cluster::of(folder, 1)
    }

    /// So many coordinators, without workers. The first one leads.
    pub(crate) fn of(folder: &Path, coordinators: usize) -> Cluster {
        Cluster::at(folder.join("store").to_str().expect("text"), coordinators)
    }

    /// The same with another store.
    pub(crate) fn at(store: &str, coordinators: usize) -> Cluster {
        let places = (0..coordinators).map(|_| [free(), free()]);
        Cluster::with(store, Box::new(|_, program| Command::new(program)), None, places.collect())
    }

    /// A coordinator for each two addresses, for workers and for commands. It is on the machine
    /// `coordinator`, workers are on those of their names.
    pub(crate) fn with(store: &str, machines: Machines, files: Option<Files>, places: Vec<[SocketAddr; 2]>) -> Cluster {
        let coordinator = |[listen, http]: [SocketAddr; 2]| Coordinator { listen, http, process: None };
        let coordinators: Vec<_> = places.into_iter().map(coordinator).collect();
        let count = coordinators.len();
        let mut cluster = Cluster { store: store.to_owned(), machines, files, coordinators, workers: Vec::new() };
        (0..count).for_each(|which| cluster.start_coordinator(which));
        cluster
    }

    pub(crate) fn files(&self) -> &Files {
        self.files.as_ref().expect("it has TLS")
    }

    fn addresses(&self, address: impl Fn(&Coordinator) -> String) -> String {
        self.coordinators.iter().map(address).collect::<Vec<_>>().join(",")
    }

    /// Where workers connect.
    pub(crate) fn listen(&self) -> String {
        self.addresses(|of| of.listen.to_string())
    }

    /// Where commands connect.
    pub(crate) fn http(&self) -> String {
        self.addresses(|of| self.url(of))
    }

    fn url(&self, of: &Coordinator) -> String {
        format!("http{}://{}", if self.files.is_some() { "s" } else { "" }, of.http)
    }

    /// The program on a machine.
    fn on(&self, machine: &str, arguments: &[&str]) -> Command {
        let mut command = (self.machines)(machine, PROGRAM);
        command.args(arguments).env_remove("ANABRANCH_COORDINATOR").env_remove(TOKEN);
        if self.files.is_none() {
            command.env(TOKEN, SECRET);
        }
        // Those of the S3 server of tests.
        command.env("AWS_ACCESS_KEY_ID", "anabranch").env("AWS_SECRET_ACCESS_KEY", "anabranch-secret");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What a client of the coordinators needs.
    pub(crate) fn trust(&self) -> Vec<&str> {
        match &self.files {
            Some(Files { certificate, token, .. }) => vec!["--tls-ca", certificate, "--token-file", token],
            None => Vec::new(),
        }
    }

    /// Whether a coordinator has said this since its last start.
    pub(crate) fn has_said(&self, which: usize, what: &str) -> bool {
        self.coordinators[which].process.as_ref().is_some_and(|process| process.said().contains(what))
    }

    /// Starts a coordinator, and waits until it leads or stands by.
    pub(crate) fn start_coordinator(&mut self, which: usize) {
        let Coordinator { listen, http, .. } = &self.coordinators[which];
        let (listen, http) = (listen.to_string(), http.to_string());
        let arguments = ["coordinator", "--store", &self.store, "--listen", &listen, "--http", &http];
        let mut command = self.on("coordinator", &arguments);
        if let Some(Files { certificate, key, token }) = &self.files {
            command.args(["--tls-cert", certificate, "--tls-key", key, "--token-file", token]);
        }
        let process = Process::start(command);
        process.wait_for("workers connect to");
        self.coordinators[which].process = Some(process);
    }

    fn coordinator(&self, which: usize) -> &Process {
        self.coordinators[which].process.as_ref().expect("it runs")
    }

    pub(crate) fn kill_coordinator(&mut self, which: usize) {
        self.coordinators[which].process = None;
    }

    /// Sends a coordinator a signal.
    pub(crate) fn signal(&self, which: usize, signal: &str) {
        self.coordinator(which).signal(signal);
    }

    /// Ends a coordinator in order.
    pub(crate) fn stop_coordinator(&mut self, which: usize) {
        self.signal(which, "TERM");
        let process = self.coordinators[which].process.take().expect("it runs");
        assert_eq!(process.end(), Some(0));
    }

    pub(crate) fn worker(&mut self, name: &str, slots: u32) {
        self.worker_with(name, slots, &[]);
    }

    /// A worker with copies of state in a directory.
    pub(crate) fn worker_with_state(&mut self, name: &str, slots: u32, state: &Path) {
        self.worker_with(name, slots, &["--state", state.to_str().expect("text")]);
    }

    /// A worker with further options.
    pub(crate) fn worker_with(&mut self, name: &str, slots: u32, more: &[&str]) {
        let process = self.spawn_worker(name, slots, more);
        self.workers.push((name.to_owned(), process));
    }

    fn spawn_worker(&self, name: &str, slots: u32, more: &[&str]) -> Process {
        let arguments = ["worker", "--coordinator", &self.listen(), "--name", name, "--slots", &slots.to_string()];
        let mut command = self.on(name, &arguments);
        command.args(self.trust()).args(more);
        Process::start(command)
    }

    /// What a worker has said.
    pub(crate) fn worker_said(&self, name: &str) -> String {
        self.workers.iter().filter(|(of, _)| of == name).map(|(_, process)| process.said()).collect()
    }

    /// A worker's process is killed, and its end has been seen.
    pub(crate) fn kill_worker(&mut self, which: usize) {
        self.workers[which].1.kill();
    }

    /// Starts a worker in the place of one that was killed.
    pub(crate) fn start_worker(&mut self, which: usize, name: &str, slots: u32) {
        self.workers[which] = (name.to_owned(), self.spawn_worker(name, slots, &[]));
    }

    pub(crate) fn signal_worker(&self, which: usize, signal: &str) {
        self.workers[which].1.signal(signal);
    }

    /// The coordinator that leads, as far as they say. Waits until one does.
    pub(crate) fn leader(&self) -> usize {
        let mut leader = None;
        self.until("a leader", || {
            leader = (0..self.coordinators.len()).find(|which| self.leads(*which));
            leader.is_some()
        });
        leader.expect("one")
    }

    fn leads(&self, which: usize) -> bool {
        let url = self.url(&self.coordinators[which]);
        let output = self.command(&["jobs", "--coordinator", &url]).args(self.trust()).output().expect("runs");
        output.status.success()
    }

    pub(crate) fn kill_workers(&mut self) {
        self.workers.clear();
    }

    /// A command for these coordinators.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.on("coordinator", arguments);
        command.env("ANABRANCH_COORDINATOR", self.http());
        command
    }

    /// Starts a command that takes a while.
    pub(crate) fn begin(&self, arguments: &[&str]) -> Process {
        Process::start(self.command(arguments))
    }

    /// The same with a pipe for its standard input.
    pub(crate) fn child(&self, arguments: &[&str]) -> Process {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped());
        Process::start(command)
    }

    /// What a command prints that succeeds.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).args(self.trust()).output().expect("runs");
        let Output { status, stdout, stderr } = output;
        assert!(status.success(), "{arguments:?}: {}", text(&stderr));
        text(&stdout)
    }

    /// A command ends with this code and says this.
    pub(crate) fn refused(&self, arguments: &[&str], code: i32, what: &str) {
        self.refused_with(arguments, code, &[what]);
    }

    /// A command ends in time with this code, and says all of this.
    pub(crate) fn refused_with(&self, arguments: &[&str], code: i32, what: &[&str]) {
        let process = Process::start(self.command(arguments));
        let (ended, said) = process.end_with_said();
        let has_all = what.iter().all(|part| said.contains(part));
        assert!(ended == Some(code) && has_all, "{arguments:?}: {ended:?} {said}");
    }

    /// The state of a job, as the list of jobs has it.
    pub(crate) fn state(&self, job: &str) -> String {
        let listed = self.ok(&["jobs"]);
        let line = listed.lines().find(|line| line.split_whitespace().next() == Some(job));
        line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or_default().to_owned()
    }

    /// Whether a worker is listed.
    pub(crate) fn has(&self, worker: &str) -> bool {
        self.ok(&["jobs"]).lines().any(|line| line.split_whitespace().next() == Some(worker))
    }

    /// Waits for something that will come.
    pub(crate) fn until(&self, what: &str, mut is_there: impl FnMut() -> bool) {
        let (_never, pause) = channel::<()>();
        for _ in 0..LIMIT.as_millis() / LOOK.as_millis() {
            if is_there() {
                return;
            }
            let _ = pause.recv_timeout(LOOK);
        }
        let of_worker = |(name, process): &(String, Process)| format!("{name}: {}", process.said_last());
        let workers: Vec<_> = self.workers.iter().map(of_worker).collect();
        let of_coordinator = |of: &Coordinator| of.process.as_ref().map(Process::said_last);
        let coordinators: Vec<_> = self.coordinators.iter().map(of_coordinator).collect();
        let jobs = self.command(&["jobs"]).args(self.trust()).output().map(|output| text(&output.stdout));
        panic!("{what} does not come: {workers:#?}, {coordinators:#?}, {jobs:#?}");
    }
}
