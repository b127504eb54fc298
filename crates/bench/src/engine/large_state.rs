//! Large state: how much memory it takes, and how large a checkpoint of it is when little has changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::MemorySource;
use anabranch_dataflow::CheckpointOptions;
use anabranch_model::{Error, Result};
use anabranch_server::LatencySummary;

use super::grouping::{SQL, batches, counting_latency};
use super::pace::PacedSource;
use super::{Query, RESULTS, Table, resident};
use crate::workload::Keys;

/// Resident memory for counting these keys, in addition to the keys, in bytes. The counts are dropped.
pub(crate) fn memory(keys: &Keys, parallelism: u32, set: &[(&str, &str)]) -> Result<u64> {
    let source = MemorySource::batches(batches(keys)?).partitions(parallelism);
    let tables: Vec<Table> = vec![("bench_keys", Arc::new(source))];
    let query = Query::new(&SQL.replace(RESULTS, "blackhole"), tables.clone(), parallelism, set)?;
    resident::growth(&query, tables)
}

/// What [`changing`] measured.
pub(crate) struct Changing {
    /// From a key's reading to its counting after the exchange.
    pub(crate) latency: LatencySummary,
    /// Bytes of state that the checkpoints wrote, by epoch.
    pub(crate) bytes: BTreeMap<u64, u64>,
}

/// Counts all of `keys`, then for `duration` those of `hot` at `rows_per_s` rows per second, with a
/// checkpoint every second or without. The latency is that of the second half of the time.
pub(crate) fn changing(
    keys: &Keys,
    hot: &Keys,
    parallelism: u32,
    rows_per_s: u64,
    duration: Duration,
    checkpoints: bool,
) -> Result<Changing> {
    let rows = (rows_per_s as f64 * duration.as_secs_f64()) as u64;
    let source = Arc::new(PacedSource::new(batches(hot)?, rows_per_s, rows, parallelism).after(batches(keys)?));
    let tables: Vec<Table> = vec![("bench_keys", source)];
    let sql = SQL.replace(RESULTS, "blackhole");
    // The first half of the aggregate may hold rows back for an epoch.
    let set = [("buffer-timeout", "0"), ("epoch-interval", "2 ms")];
    let mut query = Query::new(&sql, tables.clone(), parallelism, &set)?;
    let folder = crate::folder()?;
    if checkpoints {
        let options = CheckpointOptions::new(folder.path().display().to_string());
        let interval = options.interval.min(duration / 10);
        query.plan.options.checkpoints = Some(CheckpointOptions { interval, ..options });
    }
    let mut engine = query.engine.clone();
    super::register(&mut engine, tables);
    let job = engine.start(&query.plan)?;
    while query.events_read(&job.metrics()) < keys.count + rows / 2 && !job.wait_timeout(Duration::from_millis(5)) {}
    job.reset_latencies();
    while query.events_read(&job.metrics()) < keys.count + rows * 9 / 10 && !job.wait_timeout(Duration::from_millis(5))
    {
    }
    let (latency, bytes) = (counting_latency(&job), written(&folder.path().join("state"))?);
    job.stop();
    job.wait()?;
    Ok(Changing { latency, bytes })
}

/// Sizes of the state files, whose names begin with incarnation and epoch, by epoch.
pub(super) fn written(folder: &Path) -> Result<BTreeMap<u64, u64>> {
    let mut bytes = BTreeMap::new();
    for file in std::fs::read_dir(folder).into_iter().flatten() {
        let file = file.map_err(|error| Error::outside(error.to_string()))?;
        let name = file.file_name();
        let epoch = name.to_str().and_then(|name| name.split('-').nth(1)?.parse::<u64>().ok());
        if let (Some(epoch), Ok(metadata)) = (epoch, file.metadata()) {
            *bytes.entry(epoch).or_default() += metadata.len();
        }
    }
    Ok(bytes)
}
