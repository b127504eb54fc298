//! The processes of a cluster, which end with the test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);
pub(crate) const TOKEN: &str = "ANABRANCH_TOKEN";
const SECRET: &str = "the-secret-of-this-test";

/// Ports that were free a moment ago.
pub(crate) struct Free;

impl Free {
    pub(crate) fn port() -> u16 {
        TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port()
    }
}

/// A command that takes a while.
pub(crate) struct Begun {
    process: Process,
    stderr: Receiver<String>,
    said: std::cell::RefCell<String>,
}

impl Begun {
    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        let mut said = self.said.borrow_mut();
        self.stderr.try_iter().for_each(|line| said.push_str(&line));
        said.clone()
    }

    pub(crate) fn close_input(&mut self) {
        self.process.0.stdin = None;
    }

    /// Waits for its end. Returns its code, or nothing if a signal ended it.
    pub(crate) fn end(mut self) -> Option<i32> {
        loop {
            match self.stderr.recv_timeout(LIMIT) {
                Ok(line) => self.said.borrow_mut().push_str(&line),
                // Its standard error is closed: it ends.
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it hangs after: {}", self.said()),
            }
        }
        self.process.0.wait().expect("it ends").code()
    }
}

/// A process that does not outlive the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Cluster {
    store: String,
    coordinators: Vec<Coordinator>,
    workers: Vec<Process>,
}

/// A coordinator of a cluster; the process may be gone.
struct Coordinator {
    listen: u16,
    http: u16,
    process: Option<(Process, Receiver<String>)>,
    said: std::cell::RefCell<Vec<String>>,
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn send(signal: &str, process: &Process) {
    let sent = Command::new("kill").args(["-s", signal, &process.0.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// A file with this text; its path.
pub(crate) fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_owned()
}

fn anabranch(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(arguments).env(TOKEN, SECRET).env_remove("ANABRANCH_COORDINATOR");
    // Those of the S3 server of tests.
    command.env("AWS_ACCESS_KEY_ID", "anabranch").env("AWS_SECRET_ACCESS_KEY", "anabranch-secret");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Lines of a stream as they come, read by a thread so that waiting for one has a limit.
fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    let read = move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // The test may have heard enough; the process must still be able to write.
            let _ = sender.send(line);
        }
    };
    std::thread::Builder::new().name("lines".into()).spawn(read).expect("thread");
    receiver
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
        let coordinator = || Coordinator {
            listen: Free::port(),
            http: Free::port(),
            process: None,
            said: std::cell::RefCell::default(),
        };
        let all = (0..coordinators).map(|_| coordinator()).collect();
        let mut cluster = Cluster { store: store.to_owned(), coordinators: all, workers: Vec::new() };
        (0..coordinators).for_each(|which| cluster.start_coordinator(which));
        cluster
    }

    fn addresses(&self, port: impl Fn(&Coordinator) -> String) -> String {
        self.coordinators.iter().map(port).collect::<Vec<_>>().join(",")
    }

    /// Where workers connect.
    pub(crate) fn listen(&self) -> String {
        self.addresses(|of| format!("127.0.0.1:{}", of.listen))
    }

    /// Where commands connect.
    pub(crate) fn http(&self) -> String {
        self.addresses(|of| format!("http://127.0.0.1:{}", of.http))
    }

    /// Where commands connect to one of them.
    pub(crate) fn url(&self, which: usize) -> String {
        format!("http://127.0.0.1:{}", self.coordinators[which].http)
    }

    /// Whether a coordinator has said this since its last start.
    pub(crate) fn has_said(&self, which: usize, what: &str) -> bool {
        let of = &self.coordinators[which];
        let mut said = of.said.borrow_mut();
        said.extend(of.process.iter().flat_map(|(_, lines)| lines.try_iter()));
        said.iter().any(|line| line.contains(what))
    }

    /// Starts a coordinator, and waits until it leads or stands by.
    pub(crate) fn start_coordinator(&mut self, which: usize) {
        let store = self.store.clone();
        let of = &mut self.coordinators[which];
        let (listen, http) = (format!("127.0.0.1:{}", of.listen), format!("127.0.0.1:{}", of.http));
        let mut child = anabranch(&["coordinator", "--store", &store, "--listen", &listen, "--http", &http])
            .spawn()
            .expect("starts");
        let stderr = lines(child.stderr.take().expect("piped"));
        let mut said = Vec::new();
        loop {
            let line = stderr.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no coordinator: {said:?}"));
            said.push(line.clone());
            if line.starts_with("workers connect to") {
                break;
            }
        }
        (of.process, of.said) = (Some((Process(child), stderr)), said.into());
    }

    pub(crate) fn kill_coordinator(&mut self, which: usize) {
        self.coordinators[which].process = None;
    }

    /// Sends a coordinator a signal.
    pub(crate) fn signal(&self, which: usize, signal: &str) {
        let (process, _) = self.coordinators[which].process.as_ref().expect("it runs");
        send(signal, process);
    }

    /// Ends a coordinator in order.
    pub(crate) fn stop_coordinator(&mut self, which: usize) {
        self.signal(which, "TERM");
        let (mut process, _lines) = self.coordinators[which].process.take().expect("it runs");
        let status = process.0.wait().expect("it ends");
        assert_eq!(status.code(), Some(0));
    }

    pub(crate) fn worker(&mut self, name: &str, slots: u32) {
        let process = self.spawn_worker(name, slots, &[]);
        self.workers.push(process);
    }

    /// A worker with copies of state in a directory.
    pub(crate) fn worker_with_state(&mut self, name: &str, slots: u32, state: &Path) {
        let process = self.spawn_worker(name, slots, &["--state", state.to_str().expect("text")]);
        self.workers.push(process);
    }

    fn spawn_worker(&self, name: &str, slots: u32, more: &[&str]) -> Process {
        let arguments = ["worker", "--coordinator", &self.listen(), "--name", name, "--slots", &slots.to_string()];
        let mut child = anabranch(&arguments).args(more).stdout(Stdio::null()).spawn().expect("starts");
        // Read to its end, so that the worker can always write.
        drop(lines(child.stderr.take().expect("piped")));
        Process(child)
    }

    /// A worker's process is killed, and its end has been seen.
    pub(crate) fn kill_worker(&mut self, which: usize) {
        let process = &mut self.workers[which];
        process.0.kill().and_then(|()| process.0.wait()).expect("killed");
    }

    /// Starts a worker in the place of one that was killed.
    pub(crate) fn start_worker(&mut self, which: usize, name: &str, slots: u32) {
        self.workers[which] = self.spawn_worker(name, slots, &[]);
    }

    pub(crate) fn signal_worker(&self, which: usize, signal: &str) {
        send(signal, &self.workers[which]);
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
        let url = format!("http://127.0.0.1:{}", self.coordinators[which].http);
        let output = self.command(&["jobs", "--coordinator", &url]).output().expect("runs");
        output.status.success()
    }

    pub(crate) fn kill_workers(&mut self) {
        self.workers.clear();
    }

    /// A command for these coordinators.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = anabranch(arguments);
        command.env("ANABRANCH_COORDINATOR", self.http());
        command
    }

    /// Starts a command that takes a while.
    pub(crate) fn begin(&self, arguments: &[&str]) -> Begun {
        Cluster::run(&mut self.command(arguments))
    }

    /// The same with a pipe for its standard input.
    pub(crate) fn child(&self, arguments: &[&str]) -> Begun {
        Cluster::run(self.command(arguments).stdin(Stdio::piped()))
    }

    fn run(command: &mut Command) -> Begun {
        let mut child = command.stdout(Stdio::null()).spawn().expect("starts");
        let stderr = lines(child.stderr.take().expect("piped"));
        Begun { process: Process(child), stderr, said: std::cell::RefCell::default() }
    }

    /// What a command prints that succeeds.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.command(arguments).output().expect("runs");
        assert!(status.success(), "{arguments:?}: {}", text(&stderr));
        text(&stdout)
    }

    /// A command ends with this code and says this.
    pub(crate) fn refused(&self, arguments: &[&str], code: i32, what: &str) {
        let Output { status, stderr, .. } = self.command(arguments).output().expect("runs");
        let said = text(&stderr);
        assert!(status.code() == Some(code) && said.contains(what), "{arguments:?}: {status} {said}");
    }

    /// The state of a job, as the list of jobs has it.
    pub(crate) fn state(&self, job: &str) -> String {
        let listed = self.ok(&["jobs"]);
        let line = listed.lines().find(|line| line.split_whitespace().next() == Some(job));
        line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or_default().to_owned()
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
        panic!("{what} does not come: {}", self.ok(&["jobs"]));
    }
}
