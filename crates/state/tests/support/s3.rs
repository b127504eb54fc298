//! A real S3 server for tests, started by `tests/s3/server.sh`. To be included with `#[path]` by the tests of
//! any crate under `crates/`; needs nothing but the standard library.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A running server. It ends with this process, however that ends, and its data is removed.
pub(crate) struct Server {
    dir: PathBuf,
    url: String,
}

/// The one server that all tests of a run share. Each test has a prefix of its own.
///
/// # Panics
/// If no server can run (no Java, no jars): tests against S3 fail then, they are not skipped.
pub(crate) fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| {
        let start = |dir: &Path, parent| run_for(parent, &["start", &dir.display().to_string()]);
        let (dir, url) = crate::runner::server_of_run("s3", start);
        Server { dir, url }
    })
}

fn run(arguments: &[&str]) -> String {
    run_for(std::process::id(), arguments)
}

/// A server that is started ends with this process.
fn run_for(parent: u32, arguments: &[&str]) -> String {
    let script =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../../tests/s3/server.sh");
    let output = Command::new("bash")
        .arg(&script)
        .args(arguments)
        .env("ANABRANCH_SERVER_PARENT", parent.to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{} does not run: {error}", script.display()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {}: {said}", script.display(), arguments.join(" "));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[allow(dead_code, reason = "each test file that includes this uses what it needs")]
impl Server {
    /// Starts a separate server.
    pub(crate) fn start() -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("anabranch-s3-{}-{number}", std::process::id()));
        // A killed process with the same number may have left files behind.
        let _ = std::fs::remove_dir_all(&dir);
        let url = run(&["start", &dir.display().to_string()]);
        Server { dir, url }
    }

    /// A place in its bucket.
    pub(crate) fn place(&self, prefix: &str) -> String {
        format!("{}/checkpoints/{prefix}", self.url)
    }

    /// The variables that give access to it.
    pub(crate) fn variables() -> [(String, String); 2] {
        [("AWS_ACCESS_KEY_ID", "anabranch"), ("AWS_SECRET_ACCESS_KEY", "anabranch-secret")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    }

    /// The file behind an object.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join("data/checkpoints").join(name)
    }

    /// Ends the server. Its data stays.
    pub(crate) fn stop(&self) {
        run(&["stop", &self.dir.display().to_string()]);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
