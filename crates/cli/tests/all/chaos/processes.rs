//! Jobs as processes, and their killing.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anabranch_model::Rng;

/// From the start of a process to its killing at most: long enough for some checkpoints.
pub(crate) const LIFE_MS_MAX: u64 = 2_000;

/// A busy machine starts a broker in more than the default time.
pub(crate) const PATIENT: &str = "connection.timeout=300 s";

/// How often to kill, and the seed of when; the seed is printed.
pub(crate) fn kills_and_seed() -> (u64, u64) {
    let (kills, seed) = (number("ANABRANCH_KILLS").unwrap_or(3), number("ANABRANCH_SEED").unwrap_or(1));
    println!("seed {seed}, {kills} kills");
    (kills, seed)
}

pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../../examples").join(name)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Starts a script in a separate process.
pub(crate) fn start(script: &Path, arguments: &[String]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.arg("run").arg(script).args(["--plain"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
}

/// Waits for a process to end by itself; returns its output.
pub(crate) fn finish(child: Child) -> String {
    finish_and_tell(child).0
}

/// The same; returns its messages too.
pub(crate) fn finish_and_tell(child: Child) -> (String, String) {
    let output = child.wait_with_output().expect("it ends");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{messages}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), messages)
}

pub(crate) fn options(table: &str, options: &[String]) -> Vec<String> {
    options.iter().flat_map(|option| ["--option".to_owned(), format!("{table}.{option}")]).collect()
}

/// The main job over so many generated events without a failure, and a job that sends the same events to the
/// topic of the broker that `servers` names.
pub(crate) fn undisturbed_and_fill(per_second: u32, rows: u64, servers: &str) -> (Child, Child) {
    // One partition of the generator, read by one task. A task that was held up reads what is due of one
    // partition after the other, and the rows of the second one would be late in every partition of the
    // topic.
    let generated: Vec<String> =
        ["start-time=2026-01-01 00:00:00", "seed=1", "out-of-orderness=500 ms", "partitions=1"]
            .iter()
            .map(|option| (*option).to_owned())
            .chain([format!("number-of-rows={rows}"), format!("rows-per-second={per_second}")])
            .collect();
    let direct = start(&example("ad_campaigns.sql"), &options("events", &generated));
    let alone = ["--parallelism".to_owned(), "1".to_owned()];
    let fill = [options("events", &generated), options("topic", &[servers.to_owned()]), alone.into()].concat();
    (direct, start(&example("fill_kafka.sql"), &fill))
}

/// Arguments of a job with checkpoints in this folder.
pub(crate) fn with_checkpoints(folder: &Path, parallelism: u64) -> Vec<String> {
    let directory = format!("checkpoint-directory={}", folder.display());
    let (interval, parallelism) = ("checkpoint-interval=100 ms".to_owned(), parallelism.to_string());
    ["--set".to_owned(), directory, "--set".to_owned(), interval, "--parallelism".to_owned(), parallelism].into()
}

/// Starts a job and kills it (SIGKILL) at a random moment, again and again. Every other time it has got
/// further than the job before by then: there are checkpoints of its own. Returns what each of them has said.
pub(crate) fn kill_often(kills: u64, rng: &mut Rng, checkpoints: &Path, job: impl Fn(&mut Rng) -> Child) -> String {
    let (mut killed, mut attempts, mut said) = (0, 0, String::new());
    while killed < kills {
        attempts += 1;
        assert!(attempts < kills + 100, "the job does not start");
        let entries = entries(checkpoints);
        let mut child = job(rng);
        // One entry says that it has begun, the others are checkpoints.
        let mut patience = if killed % 2 == 0 { 600 } else { 0 };
        while patience > 0 && self::entries(checkpoints) < entries + 4 && child.try_wait().expect("status").is_none() {
            anabranch_model::pause(Duration::from_millis(50));
            patience -= 1;
        }
        anabranch_model::pause(Duration::from_millis(300 + rng.below(LIFE_MS_MAX - 300)));
        // The topic of events may not have been there yet: then the job has ended by itself, and is started
        // again.
        let alive = child.try_wait().expect("status").is_none();
        child.kill().expect("killed");
        let output = child.wait_with_output().expect("output");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(alive || error.contains("does not exist"), "{error}");
        killed += u64::from(alive);
        said.push_str(&format!("\nprocess {attempts}:\n{error}"));
    }
    said
}

/// Entries that the log of the job there has ever had.
fn entries(checkpoints: &Path) -> u64 {
    let files = std::fs::read_dir(checkpoints.join("log")).into_iter().flatten().flatten();
    let number = |file: std::fs::DirEntry| file.file_name().to_str()?.split_once('.')?.0.parse().ok();
    files.filter_map(number).max().unwrap_or(0)
}
