//! `anabranch serve`: one process takes jobs, runs them, says why one gives no results, and goes on after a
//! crash. Real processes.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::process::Process;

/// A job that counts, and one whose condition no row meets.
const NUMBERS: &str = "CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000',
    'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '100000000');
    CREATE TABLE nowhere (id BIGINT) WITH ('connector' = 'blackhole');";

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_anabranch"))
}

struct Scene {
    folder: TempDir,
    server: Process,
    url: String,
}

impl Scene {
    fn start() -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        let (server, url) = Scene::serve(folder.path());
        Scene { folder, server, url }
    }

    fn serve(folder: &Path) -> (Process, String) {
        let mut command = program();
        command.args(["serve", "--listen", "127.0.0.1:0", "--slots", "2"]).current_dir(folder).stdin(Stdio::null());
        let server = Process::start(command);
        server.wait_for("page and commands at ");
        let said = server.said();
        let line = said.lines().find_map(|line| line.strip_prefix("page and commands at ")).expect("an address");
        let url = line.split(';').next().expect("an address").to_owned();
        (server, url)
    }

    fn command(&self, arguments: &[&str]) -> Output {
        let mut command = program();
        command.args(arguments).args(["--coordinator", &self.url]).current_dir(self.folder.path()).stdin(Stdio::null());
        command.output().expect("it runs")
    }

    fn submit(&self, name: &str, insert: &str) {
        std::fs::write(self.folder.path().join("job.sql"), format!("{NUMBERS} {insert}")).expect("written");
        let submitted = self.command(&["submit", "job.sql", "--name", name]);
        assert!(submitted.status.success(), "{submitted:?}");
    }

    /// Asks until what the command prints has this text.
    fn wait_for(&self, arguments: &[&str], text: &str) -> String {
        for _ in 0..300 {
            let shown = self.command(arguments);
            let printed = String::from_utf8_lossy(&shown.stdout).into_owned();
            if printed.contains(text) {
                return printed;
            }
            anabranch_model::pause(std::time::Duration::from_millis(100));
        }
        panic!("{arguments:?} does not print '{text}': {:?}", self.command(arguments));
    }
}

#[test]
fn one_process_takes_jobs_says_why_they_wait_and_resumes_them_after_a_crash() {
    let mut scene = Scene::start();
    scene.submit("well", "INSERT INTO nowhere SELECT id FROM numbers;");
    scene.submit("empty", "INSERT INTO nowhere SELECT id FROM numbers WHERE id < 0;");
    scene.wait_for(&["why", "well"], "well: well gives results, and nothing holds them up");
    let why = scene.wait_for(&["why", "empty"], "all-dropped: ");
    assert!(
        why.contains("condition: (id < 0)") && why.contains("<- the cause") && why.contains("help: check"),
        "{why}"
    );
    scene.wait_for(&["jobs"], "running");
    drop(scene.server);
    let (server, url) = Scene::serve(scene.folder.path());
    (scene.server, scene.url) = (server, url);
    scene.wait_for(&["why", "well"], "well: well gives results");
    let stopped = scene.command(&["stop", "well"]);
    assert!(stopped.status.success(), "{stopped:?}");
    scene.wait_for(&["why", "well"], "over: the job is stopped");
}
