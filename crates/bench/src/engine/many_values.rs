//! Groups with many values, all of which every batch touches: state on disk whose keys of a batch do not fit
//! into memory at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_dataflow::CheckpointOptions;
use anabranch_model::{Error, Result};
use anabranch_server::Job;

use super::grouping::batches;
use super::large_state::written;
use super::pace::PacedSource;
use super::{Query, Table};
use crate::workload::Keys;

/// Number of groups.
pub(crate) const GROUPS: u64 = 18;
/// Time between two readings of counters.
const LOOK: Duration = Duration::from_millis(20);
/// Longest time for the state to come to be.
const LIMIT: Duration = Duration::from_secs(120);
/// As fast as rows are taken.
const ROWS_PER_S: u64 = 1_000_000_000;

/// What [`many_values`] measured.
pub(crate) struct ManyValues {
    pub(crate) rows_per_s: f64,
    /// The most files of state on disk that were open at once.
    pub(crate) files: usize,
    /// Checkpoints that were written while it was measured.
    pub(crate) checkpoints: usize,
    /// From the request to stop to the end.
    pub(crate) stopped: Duration,
}

/// Counts the distinct of so many values by group, with a checkpoint every second; once all have come,
/// measures for this time.
pub(crate) fn many_values(values: u64, set: &[(&str, &str)], duration: Duration, seed: u64) -> Result<ManyValues> {
    let (all, again) = (Keys::each(values), Keys::generate(1_000_000, values, seed));
    let source = PacedSource::new(batches(&again)?, ROWS_PER_S, u64::MAX / 2, 1).after(batches(&all)?);
    let tables: Vec<Table> = vec![("bench_keys", Arc::new(source))];
    let sql = format!(
        "CREATE TABLE events (id BIGINT) WITH ('connector' = 'bench_keys');
         CREATE TABLE results (g BIGINT, occurrences BIGINT) WITH ('connector' = 'blackhole');
         INSERT INTO results SELECT MOD(id, {GROUPS}) AS g, COUNT(DISTINCT id) AS occurrences FROM events GROUP BY MOD(id, {GROUPS});"
    );
    let mut query = Query::new(&sql, tables.clone(), 1, set)?;
    let folder = crate::folder()?;
    let options = CheckpointOptions::new(folder.path().display().to_string());
    query.plan.options.checkpoints = Some(CheckpointOptions { interval: Duration::from_secs(1), ..options });
    let mut engine = query.engine.clone();
    super::register(&mut engine, tables);
    let job = engine.start(&query.plan)?;
    let begun = Instant::now();
    while query.events_read(&job.metrics()) < values + values / 10 {
        check(&job, begun.elapsed() < LIMIT)?;
    }
    let (begun, before) = (Instant::now(), query.events_read(&job.metrics()));
    let epochs = || Ok::<_, Error>(written(&folder.path().join("state"))?.into_keys().max());
    let (mut files, mut checkpoints, mut last) = (0, 0, epochs()?);
    while begun.elapsed() < duration {
        check(&job, true)?;
        files = files.max(open_files()?);
        let newest = epochs()?;
        checkpoints += usize::from(std::mem::replace(&mut last, newest) < newest);
    }
    let rows_per_s = (query.events_read(&job.metrics()) - before) as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    job.stop();
    job.wait()?;
    Ok(ManyValues { rows_per_s, files, checkpoints, stopped: begun.elapsed() })
}

/// Lets some time pass.
fn check(job: &Job, is_in_time: bool) -> Result<()> {
    match (job.wait_timeout(LOOK), job.restarts().first()) {
        (_, Some(failure)) => Err(Error::outside(format!("the job restarted: {failure}"))),
        (true, None) => Err(Error::outside("the job has ended")),
        (false, None) if is_in_time => Ok(()),
        (false, None) => Err(Error::outside(format!("the state has not come to be within {} s", LIMIT.as_secs()))),
    }
}

/// Files without a name that this process has open: those of state on disk.
fn open_files() -> Result<usize> {
    let files = std::fs::read_dir("/proc/self/fd").map_err(|error| Error::outside(error.to_string()))?;
    let targets = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    Ok(targets.filter(|target| target.to_string_lossy().ends_with(" (deleted)")).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_with_many_values_leave_few_files_and_stop() {
        let set = [("state-backend", "disk"), ("state-bytes", "1 mb")];
        let ManyValues { rows_per_s, files, stopped, .. } =
            many_values(60_000, &set, Duration::from_millis(500), 1).expect("measured");
        assert!(rows_per_s > 0.0 && files > 0 && files <= 256, "{rows_per_s} rows per second, {files} files");
        assert!(stopped < Duration::from_secs(60), "{stopped:?}");
    }
}
