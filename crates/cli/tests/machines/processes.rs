//! Coordinator, workers and commands on machines, which end with the test.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use crate::network::Network;

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);
pub(crate) const SECRET: &str = "the-secret-of-this-test";
const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");

/// Files of a cluster: the coordinator's certificate, its key, and the token.
pub(crate) struct Files {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) token: String,
}

/// A file with this text; its path.
pub(crate) fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_owned()
}

/// A certificate for these names and addresses, valid until the beginning of a year.
pub(crate) fn certificate(names: &[String], until: i32) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(names).expect("names");
    params.is_ca = IsCa::ExplicitNoCa;
    (params.not_before, params.not_after) = (rcgen::date_time_ymd(2001, 1, 1), rcgen::date_time_ymd(until, 1, 1));
    (params.self_signed(&key).expect("signed").pem(), key.serialize_pem())
}

/// An authority that has signed nothing.
pub(crate) fn authority() -> String {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::generate().expect("a key")).expect("signed").pem()
}

/// A process that does not outlive the test, and what it says on standard error.
pub(crate) struct Process {
    child: Child,
    stderr: Receiver<String>,
    said: std::cell::RefCell<String>,
}

impl Process {
    fn start(mut command: Command) -> Process {
        let mut child = command.stdout(Stdio::null()).spawn().expect("starts");
        let (sender, stderr) = channel();
        let stream = BufReader::new(child.stderr.take().expect("piped"));
        let read = move || {
            // The test may have heard enough; the process must still be able to write.
            stream.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        };
        std::thread::Builder::new().name("lines".into()).spawn(read).expect("thread");
        Process { child, stderr, said: std::cell::RefCell::default() }
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        let mut said = self.said.borrow_mut();
        self.stderr.try_iter().for_each(|line| *said += &format!("{line}\n"));
        said.clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A coordinator and its workers.
pub(crate) struct Cluster<'a> {
    network: Option<&'a Network>,
    pub(crate) files: Files,
    listen: SocketAddr,
    http: SocketAddr,
    coordinator: Option<Process>,
    pub(crate) workers: Vec<(String, Process)>,
}

impl<'a> Cluster<'a> {
    /// The coordinator listens at these addresses, with a certificate for the first one.
    pub(crate) fn start(folder: &Path, network: Option<&'a Network>, places: [SocketAddr; 2]) -> Cluster<'a> {
        let (certificate, key) = certificate(&[places[0].ip().to_string()], 4000);
        let [certificate, key] =
            [("cert.pem", certificate), ("key.pem", key)].map(|(name, text)| file(folder, name, &text));
        Cluster::with(folder, network, places, (&certificate, &key))
    }

    /// The same with another certificate.
    pub(crate) fn with(
        folder: &Path,
        network: Option<&'a Network>,
        [listen, http]: [SocketAddr; 2],
        (certificate, key): (&str, &str),
    ) -> Cluster<'a> {
        let (certificate, key, token) = (certificate.to_owned(), key.to_owned(), file(folder, "token", SECRET));
        let (files, store) = (Files { certificate, key, token }, folder.join("store"));
        let mut cluster = Cluster { network, files, listen, http, coordinator: None, workers: Vec::new() };
        let (store, listen, http) = (store.to_str().expect("text"), listen.to_string(), http.to_string());
        let mut command = cluster.on("coordinator", &["coordinator", "--store", store, "--listen", &listen]);
        command.args(["--http", &http, "--tls-cert", &cluster.files.certificate, "--tls-key", &cluster.files.key]);
        command.args(["--token-file", &cluster.files.token]);
        let process = Process::start(command);
        cluster.until("the coordinator", || process.said().contains("workers connect to"));
        cluster.coordinator = Some(process);
        cluster
    }

    pub(crate) fn listen(&self) -> String {
        self.listen.to_string()
    }

    /// A command on a machine.
    fn on(&self, machine: &str, arguments: &[&str]) -> Command {
        let mut command = match self.network {
            Some(network) => network.command(machine, PROGRAM),
            None => Command::new(PROGRAM),
        };
        command.args(arguments).env_remove("ANABRANCH_TOKEN");
        command.env("ANABRANCH_COORDINATOR", format!("https://{}", self.http));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a worker on the machine of its name.
    pub(crate) fn worker(&mut self, name: &str, slots: u32, more: &[&str]) {
        let (listen, slots) = (self.listen(), slots.to_string());
        let mut command = self.on(name, &["worker", "--coordinator", &listen, "--name", name, "--slots", &slots]);
        command.args(["--tls-ca", &self.files.certificate, "--token-file", &self.files.token]).args(more);
        self.workers.push((name.to_owned(), Process::start(command)));
    }

    /// What a worker has said.
    pub(crate) fn worker_said(&self, name: &str) -> String {
        self.workers.iter().filter(|(of, _)| of == name).map(|(_, process)| process.said()).collect()
    }

    /// What a command prints that succeeds.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let mut command = self.on("coordinator", arguments);
        command.args(["--tls-ca", &self.files.certificate, "--token-file", &self.files.token]);
        let Output { status, stdout, stderr } = command.output().expect("runs");
        assert!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8_lossy(&stdout).into_owned()
    }

    /// A command ends in time with this code, and says all of this.
    pub(crate) fn refused(&self, arguments: &[&str], code: i32, what: &[&str]) {
        let mut child = self.on("coordinator", arguments).spawn().expect("runs");
        let mut looks = 0;
        while child.try_wait().expect("a child").is_none() {
            looks += 1;
            if LOOK * looks > LIMIT {
                let _ = child.kill();
                panic!("{arguments:?} hangs");
            }
            std::thread::park_timeout(LOOK);
        }
        let Output { status, stderr, .. } = child.wait_with_output().expect("it has ended");
        let said = String::from_utf8_lossy(&stderr);
        let has_all = what.iter().all(|part| said.contains(part));
        assert!(status.code() == Some(code) && has_all, "{arguments:?}: {status} {said}");
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
        for _ in 0..LIMIT.as_millis() / LOOK.as_millis() {
            if is_there() {
                return;
            }
            std::thread::park_timeout(LOOK);
        }
        let said: Vec<_> = self.workers.iter().map(|(name, process)| format!("{name}: {}", process.said())).collect();
        let last = |said: &String| said[said.floor_char_boundary(said.len().saturating_sub(1000))..].to_owned();
        let said: Vec<_> = said.iter().map(last).collect();
        panic!("{what} does not come: {said:?}, {:?}", self.coordinator.as_ref().map(Process::said));
    }
}
