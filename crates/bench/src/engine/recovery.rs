//! How soon a killed job has results again: the main job as a separate process, killed and started again.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anabranch_model::{Error, Result};

use super::main_job;
use crate::pingpong::Latency;

/// Number of checkpoints before a job is killed.
const CHECKPOINTS: usize = 2;

/// From the start of a process to its first result: of a new job, and of one that was killed.
pub(crate) fn recovery(parallelism: u32, rounds: u32) -> Result<[Latency; 2]> {
    let outside = |error: std::io::Error| Error::outside(error.to_string());
    let folder = tempfile::tempdir().map_err(outside)?;
    let script = folder.path().join("main_job.sql");
    let generator = "'connector' = 'ad_events', 'format' = 'json', 'rows-per-second' = 'unlimited', \
                     'start-time' = '2026-01-01 00:00:00'";
    let sql = main_job::SQL
        .replace("'connector' = 'bench_events'", generator)
        .replace("'connector' = 'bench_ads'", "'connector' = 'ad_campaigns'")
        .replace("'connector' = 'bench_results'", "'connector' = 'print'");
    std::fs::write(&script, sql).map_err(outside)?;
    let mut fresh = Latency::new("a new job, without checkpoints")?;
    let mut killed = Latency::new("a job that was killed, from its checkpoint")?;
    for round in 0..rounds {
        let job = Process::start(&script, parallelism, None)?;
        fresh.record(job.first_result);
        drop(job);
        let place = folder.path().join(format!("checkpoints-{round}"));
        let job = Process::start(&script, parallelism, Some(&place))?;
        wait_for_checkpoints(&place)?;
        drop(job);
        killed.record(Process::start(&script, parallelism, Some(&place))?.first_result);
    }
    Ok([fresh, killed])
}

/// A job that has had a result. It is killed when dropped.
struct Process {
    child: Child,
    first_result: Duration,
}

impl Process {
    fn start(script: &Path, parallelism: u32, checkpoints: Option<&Path>) -> Result<Process> {
        let program = program()?;
        let failed = |error: std::io::Error| Error::outside(error.to_string()).at(program.display().to_string());
        let mut command = Command::new(&program);
        command.arg("run").arg(script).args(["--parallelism", &parallelism.to_string()]);
        if let Some(place) = checkpoints {
            command.args(["--set", &format!("checkpoint-directory={}", place.display())]);
        }
        let start = Instant::now();
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(failed)?;
        let mut lines = BufReader::new(child.stdout.take().ok_or_else(|| Error::internal("no output"))?);
        let read = lines.read_line(&mut String::new());
        let first_result = start.elapsed();
        // The rest is read too, so that the job is not blocked.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let process = Process { child, first_result };
        match read.map_err(failed)? {
            0 => Err(Error::outside("the job ended without a result").at(program.display().to_string())),
            _ => Ok(process),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program `anabranch` that was built with this one.
pub(crate) fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(|error| Error::outside(error.to_string()))?;
    let places = own.ancestors().skip(1).take(2).map(|folder| folder.join("anabranch"));
    places.into_iter().find(|place| place.is_file()).ok_or_else(|| {
        Error::user("the program 'anabranch' is not there")
            .at(own.display().to_string())
            .remedy("build it too: make release")
    })
}

fn wait_for_checkpoints(place: &Path) -> Result<()> {
    for _ in 0..1000 {
        let entries = std::fs::read_dir(place.join("manifests")).into_iter().flatten().count();
        if entries >= CHECKPOINTS {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(Error::outside("no checkpoint within 10 s").at(place.display().to_string()))
}
