//! The cost of checkpoints: the same query over the same rows, with and without.

use std::sync::Arc;

use anabranch_connectors::MemorySource;
use anabranch_connectors::format::Format;
use anabranch_dataflow::CheckpointOptions;
use anabranch_model::Result;

use super::{Query, Table, grouping, main_job};
use crate::contestant::{Contestant, RunResult, program};
use crate::workload::{Keys, LogLines};

/// Time between two checkpoints, in the notation of `SET`.
pub(crate) const INTERVAL: &str = "1 s";

/// A workload without and with checkpoints, large enough that it takes some.
fn pair(sql: &str, tables: &[Table], parallelism: u32) -> Result<Vec<Contestant>> {
    let plain = Query::new(sql, tables.to_vec(), parallelism, &[("checkpoint-interval", INTERVAL)])?;
    let durable = Query::new(sql, tables.to_vec(), parallelism, &[("checkpoint-interval", INTERVAL)])?;
    let (of_plain, of_durable) = (tables.to_vec(), tables.to_vec());
    Ok(vec![
        program("without checkpoints", move || {
            let (events, _) = plain.run(of_plain.clone())?;
            Ok(RunResult { events, result_hash: None })
        }),
        program(format!("a checkpoint every {INTERVAL}"), move || {
            let folder = crate::folder()?;
            let mut durable = durable.clone();
            durable.plan.options.checkpoints = Some(CheckpointOptions::new(folder.path().display().to_string()));
            let (events, _) = durable.run(of_durable.clone())?;
            Ok(RunResult { events, result_hash: None })
        }),
    ])
}

/// The main job over JSON that is generated during the run: repeated events would be late.
pub(crate) fn durable_main_job(rows: u64, parallelism: u32) -> Result<Vec<Contestant>> {
    let generator = format!(
        "'connector' = 'ad_events', 'format' = 'json', 'rows-per-second' = 'unlimited', 'number-of-rows' = '{rows}', \
         'start-time' = '2026-01-01 00:00:00'"
    );
    let sql = main_job::SQL.replace("'connector' = 'bench_events'", &generator);
    pair(&sql.replace("'connector' = 'bench_ads'", "'connector' = 'ad_campaigns'"), &[], parallelism)
}

/// Keyed count, over keys that are read `repeat` times.
pub(crate) fn durable_grouping(keys: &Keys, parallelism: u32, repeat: u64) -> Result<Vec<Contestant>> {
    let source = MemorySource::batches(grouping::batches(keys)?).partitions(parallelism).repeat(repeat);
    pair(grouping::SQL, &[("bench_keys", Arc::new(source))], parallelism)
}

/// Grep, in lines that are read `repeat` times.
pub(crate) fn durable_grep(log: &LogLines, parallelism: u32, repeat: u64) -> Result<Vec<Contestant>> {
    let pieces = log.text.pieces(parallelism as usize);
    let source = MemorySource::text(pieces, Format::Raw(Default::default())).partitions(parallelism).repeat(repeat);
    pair(&super::grep::sql(), &[("bench_lines", Arc::new(source))], parallelism)
}
