//! A real Kafka broker for tests, started by `tests/kafka/broker.sh`. To be included with `#[path]` by the
//! tests of any crate under `crates/`; needs nothing but the standard library.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A running broker. It dies with this process, however that ends, and its data with it.
pub(crate) struct Broker {
    dir: PathBuf,
    servers: String,
}

/// A broker that hangs.
#[allow(dead_code, reason = "each test file that includes this uses what it needs")]
pub(crate) struct Pause<'a>(&'a Broker);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.signal("-CONT");
    }
}

/// The one broker that all tests of a run share. Each test has topics of its own.
///
/// # Panics
/// When there can be no broker (no Java, no jars): tests against Kafka fail then, they are not skipped.
#[allow(dead_code, reason = "each program that includes this uses what it needs")]
pub(crate) fn shared() -> &'static Broker {
    static SHARED: OnceLock<Broker> = OnceLock::new();
    SHARED.get_or_init(|| {
        let start = |dir: &Path, parent| {
            try_run_for(parent, &["start", &dir.display().to_string()], None)
                .unwrap_or_else(|reason| panic!("so there is no Kafka to test against: {reason}"))
        };
        let (dir, servers) = crate::runner::server_of_run("kafka", start);
        Broker { dir, servers }
    })
}

/// A folder for a broker.
fn new_dir() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("anabranch-kafka-{}-{number}", std::process::id()));
    // What a killed process of the same number may have left behind is not ours.
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

fn script() -> PathBuf {
    // A program that cargo does not run takes the folder in which it was built.
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&folder).join("../../tests/kafka/broker.sh")
}

fn run(arguments: &[&str], secure: Option<&Path>) -> String {
    try_run(arguments, secure).unwrap_or_else(|reason| panic!("so there is no Kafka to test against: {reason}"))
}

fn try_run(arguments: &[&str], secure: Option<&Path>) -> Result<String, String> {
    try_run_for(std::process::id(), arguments, secure)
}

/// A broker that is started ends with this process.
fn try_run_for(parent: u32, arguments: &[&str], secure: Option<&Path>) -> Result<String, String> {
    let output = Command::new("bash")
        .arg(script())
        .args(arguments)
        .env("ANABRANCH_BROKER_PARENT", parent.to_string())
        .envs(secure.map(|keys| ("ANABRANCH_BROKER_SECURE", keys)))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} does not run: {error}", script().display()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[allow(dead_code, reason = "each test file that includes this uses what it needs")]
impl Broker {
    /// Starts a broker of one's own, for tests that stop it.
    pub(crate) fn start() -> Broker {
        Broker::start_with(None)
    }

    /// Starts a broker that also has listeners with logins and certificates, with the keys in this folder.
    pub(crate) fn start_secure(keys: &Path) -> Broker {
        Broker::start_with(Some(keys))
    }

    /// The address of another listener than the first: `sasl` or `mutual`.
    pub(crate) fn servers_of(&self, listener: &str) -> String {
        let file = self.dir.join(format!("{listener}.servers"));
        let servers = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        servers.trim().to_owned()
    }

    /// Starts a broker of one's own, or tells why there can be none.
    pub(crate) fn try_start() -> Result<Broker, String> {
        let dir = new_dir();
        let servers = try_run(&["start", &dir.display().to_string()], None)?;
        Ok(Broker { dir, servers })
    }

    fn start_with(secure: Option<&Path>) -> Broker {
        let dir = new_dir();
        let servers = run(&["start", &dir.display().to_string()], secure);
        Broker { dir, servers }
    }

    /// What goes into `properties.bootstrap.servers`.
    pub(crate) fn servers(&self) -> &str {
        &self.servers
    }

    /// Stops the broker; its data stays.
    pub(crate) fn stop(&self) {
        run(&["stop", &self.dir.display().to_string()], None);
    }

    /// Makes the broker hang until the value is dropped: its process stops where it is, and its connections
    /// stay.
    pub(crate) fn pause(&self) -> Pause<'_> {
        self.signal("-STOP");
        Pause(self)
    }

    fn signal(&self, signal: &str) {
        let pid = std::fs::read_to_string(self.dir.join("broker.pid")).expect("the broker's process");
        let status = Command::new("kill").args([signal, pid.trim()]).status().expect("kill runs");
        assert!(status.success(), "kill {signal} {pid}");
    }

    /// Starts a stopped broker again, on the same address with the same data.
    pub(crate) fn restart(&self) {
        let servers = run(&["start", &self.dir.display().to_string()], None);
        assert_eq!(servers, self.servers, "the broker came back at another address");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
