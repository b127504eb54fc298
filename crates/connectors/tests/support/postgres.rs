//! A real PostgreSQL server for tests, started by `tests/postgres/server.sh`. To be included with `#[path]`
//! by the tests of any crate under `crates/`; needs nothing but the standard library.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The user of the tests, and the password.
pub(crate) const USER: &str = "anabranch";
pub(crate) const PASSWORD: &str = "anabranch-secret";

/// A running server. It dies with this process, however that ends, and its data with it.
pub(crate) struct Postgres {
    dir: PathBuf,
    port: String,
}

/// A server that hangs.
#[allow(dead_code, reason = "each test file that includes this uses what it needs")]
pub(crate) struct Pause<'a>(&'a Postgres);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.signal_all("-CONT");
    }
}

/// A connection that holds a lock until it is dropped.
#[allow(dead_code, reason = "each test file that includes this uses what it needs")]
pub(crate) struct Lock(Child);

impl Drop for Lock {
    fn drop(&mut self) {
        // At the end of its input it ends, and with it the transaction.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The one server that all tests of a run share. Each test has tables of its own.
///
/// # Panics
/// When there can be no server: tests against it fail then, they are not skipped.
#[allow(dead_code, reason = "each program that includes this uses what it needs")]
pub(crate) fn shared() -> &'static Postgres {
    static SHARED: OnceLock<Postgres> = OnceLock::new();
    SHARED.get_or_init(|| {
        let (dir, port) = crate::runner::server_of_run("postgres", |dir, parent| run_for(parent, "start", dir, None));
        Postgres { dir, port }
    })
}

fn script() -> PathBuf {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&folder).join("../../tests/postgres/server.sh")
}

fn run(command: &str, dir: &Path, keys: Option<&Path>) -> String {
    run_for(std::process::id(), command, dir, keys)
}

/// A server that is started ends with this process.
fn run_for(parent: u32, command: &str, dir: &Path, keys: Option<&Path>) -> String {
    let output = Command::new("bash")
        .arg(script())
        .arg(command)
        .arg(dir)
        .env("ANABRANCH_SERVER_PARENT", parent.to_string())
        .envs(keys.map(|keys| ("ANABRANCH_SERVER_KEYS", keys)))
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{} does not run: {error}", script().display()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "so there is no PostgreSQL to test against: {command}: {}", errors.trim());
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[allow(dead_code, reason = "each test file that includes this uses what it needs")]
impl Postgres {
    /// Starts a server of one's own, for tests that stop it.
    pub(crate) fn start() -> Postgres {
        Postgres::start_with(None)
    }

    /// Starts a server that encrypts connections with the key and certificate of `server.pem` in this folder.
    pub(crate) fn start_secure(keys: &Path) -> Postgres {
        Postgres::start_with(Some(keys))
    }

    fn start_with(keys: Option<&Path>) -> Postgres {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("anabranch-postgres-{}-{number}", std::process::id()));
        // What a killed process of the same number may have left behind is not ours.
        let _ = std::fs::remove_dir_all(&dir);
        let port = run("start", &dir, keys);
        Postgres { dir, port }
    }

    /// What goes into `url`.
    pub(crate) fn url(&self) -> String {
        format!("jdbc:postgresql://127.0.0.1:{}/tests", self.port)
    }

    /// Locks a table against writers.
    pub(crate) fn locked(&self, table: &str) -> Lock {
        let mut client =
            self.client().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap_or_else(|e| panic!("psql: {e}"));
        let statements = format!("BEGIN; LOCK TABLE {table} IN SHARE MODE; SELECT 'locked';\n");
        client.stdin.as_mut().expect("piped").write_all(statements.as_bytes()).expect("psql reads");
        let mut line = String::new();
        BufReader::new(client.stdout.take().expect("piped")).read_line(&mut line).expect("psql answers");
        assert_eq!(line.trim(), "locked");
        Lock(client)
    }

    /// Executes statements, and returns the lines of their results.
    pub(crate) fn sql(&self, statements: &str) -> Vec<String> {
        let output = self.client().args(["--command", statements]).stdin(Stdio::null()).output();
        let output = output.unwrap_or_else(|error| panic!("psql does not run: {error}"));
        assert!(output.status.success(), "{statements}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    fn client(&self) -> Command {
        let mut client = Command::new("psql");
        client
            .args([
                "--no-psqlrc",
                "--quiet",
                "--no-align",
                "--tuples-only",
                "--set=ON_ERROR_STOP=1",
                "--host=127.0.0.1",
            ])
            .args(["--port", &self.port, "--username", USER, "--dbname=tests"])
            .env("PGPASSWORD", PASSWORD)
            .env("PGTZ", "UTC");
        client
    }

    /// Stops the server as a crash would; its data stays.
    pub(crate) fn stop(&self) {
        run("stop", &self.dir, None);
    }

    /// Starts a stopped server again, on the same port with the same data.
    pub(crate) fn restart(&self) {
        let port = run("start", &self.dir, None);
        assert_eq!(port, self.port, "the server came back at another port");
    }

    /// Makes the server hang until the value is dropped: its processes stop where they are, and its
    /// connections stay.
    pub(crate) fn pause(&self) -> Pause<'_> {
        self.signal_all("-STOP");
        Pause(self)
    }

    fn signal_all(&self, signal: &str) {
        let pid = std::fs::read_to_string(self.dir.join("server.pid")).expect("the server's process");
        let children = format!("/proc/{0}/task/{0}/children", pid.trim());
        let children = std::fs::read_to_string(children).expect("the server's children");
        let status = Command::new("kill").args([signal, pid.trim()]).args(children.split_whitespace()).status();
        assert!(status.expect("kill runs").success(), "kill {signal} {pid}");
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        run("stop", &self.dir, None);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
