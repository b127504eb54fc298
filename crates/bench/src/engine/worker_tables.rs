//! Tables that any process of this program can open: a worker generates its keys itself, and leaves a hash of
//! its results in a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::MemorySource;
use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec, TableTraits};
use anabranch_model::{Epoch, Error, Result};
use anabranch_operators::{Connector, Positions, Sink, Source, TaskContext};
use anabranch_server::Engine;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::grouping;
use super::pace::PacedSource;
use crate::answer::Answer;
use crate::contestant::RunResult;
use crate::workload::Keys;

/// The keys of a table, as its options say.
#[derive(Clone, Debug)]
pub(crate) struct KeysTable {
    /// Keys that are generated.
    pub(crate) count: u64,
    /// Distinct values.
    pub(crate) distinct: u64,
    /// Seed of the values.
    pub(crate) seed: u64,
    /// How often the keys are read; if they have a rate, they are read as often as needed.
    pub(crate) repeat: u64,
    /// Rows per second, and rows in all; a rate of 0: as fast as possible.
    pub(crate) rows_per_s: u64,
    /// Rows in all, with a rate.
    pub(crate) rows: u64,
    /// With a rate, the time at the beginning in which it is a tenth.
    pub(crate) slow_ms: u64,
    /// Tasks that read the table.
    pub(crate) readers: u32,
    /// With a rate, the folder where each of them says how far it was behind; none if it is empty.
    pub(crate) lags: PathBuf,
}

impl KeysTable {
    /// The options of a declaration.
    pub(crate) fn options(&self) -> String {
        let KeysTable { count, distinct, seed, repeat, rows_per_s, rows, slow_ms, readers, lags } = self;
        let lags = lags.display();
        format!(
            "'connector' = 'bench_generated_keys', 'count' = '{count}', 'distinct' = '{distinct}', 'seed' = '{seed}', \
             'repeat' = '{repeat}', 'rows-per-second' = '{rows_per_s}', 'rows' = '{rows}', 'slow-ms' = '{slow_ms}', \
             'readers' = '{readers}', 'lags' = '{lags}'"
        )
    }

    fn of(spec: &ConnectorSpec) -> Result<KeysTable> {
        Ok(KeysTable {
            count: option(spec, "count")?,
            distinct: option(spec, "distinct")?,
            seed: option(spec, "seed")?,
            repeat: option(spec, "repeat")?,
            rows_per_s: option(spec, "rows-per-second")?,
            rows: option(spec, "rows")?,
            slow_ms: option(spec, "slow-ms")?,
            readers: option(spec, "readers")?,
            lags: option(spec, "lags")?,
        })
    }
}

fn option<T: FromStr>(spec: &ConnectorSpec, name: &str) -> Result<T> {
    let value = spec.options.get(name).and_then(|value| value.parse().ok());
    value.ok_or_else(|| Error::internal(format!("a benchmark's table has no option '{name}'")))
}

/// An engine with the tables of this module.
pub(crate) fn engine() -> Engine {
    let mut engine = Engine::default();
    engine.register("bench_generated_keys", Arc::new(GeneratedKeys));
    engine.register("bench_sums", Arc::new(Sums));
    engine
}

struct GeneratedKeys;

impl Connector for GeneratedKeys {
    fn describe(&self, spec: &ConnectorSpec, _columns: &SchemaRef) -> Result<TableTraits> {
        let max_readers = Some(KeysTable::of(spec)?.readers);
        Ok(TableTraits { bounded: true, readable: true, max_readers, ..TableTraits::default() })
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let table = KeysTable::of(&spec.connector)?;
        let keys = grouping::batches(&Keys::generate(table.count, table.distinct, table.seed))?;
        let mut spec = spec.clone();
        spec.connector.options = BTreeMap::new();
        match table.rows_per_s {
            0 => {
                MemorySource::batches(keys).partitions(table.readers).repeat(table.repeat).source(&spec, context, from)
            }
            rate => {
                let slow = Duration::from_millis(table.slow_ms);
                let lags = Some(table.lags).filter(|folder| !folder.as_os_str().is_empty());
                let source = PacedSource::new(keys, rate, table.rows, table.readers).slow_for(slow).with_lags(lags);
                source.source(&spec, context, from)
            }
        }
    }
}

/// Keys and their counts. Each task writes the sum of its counts and the hash of its rows into a file of its
/// own.
struct Sums;

impl Connector for Sums {
    fn describe(&self, spec: &ConnectorSpec, _columns: &SchemaRef) -> Result<TableTraits> {
        option::<String>(spec, "path")?;
        Ok(TableTraits { writable: true, ..TableTraits::default() })
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let folder: String = option(&spec.connector, "path")?;
        let path = Path::new(&folder).join(context.index.to_string());
        Ok(Box::new(SumsSink { path, events: 0, answer: Answer::default(), unsaved: true }))
    }
}

struct SumsSink {
    path: PathBuf,
    events: u64,
    answer: Answer,
    unsaved: bool,
}

impl Sink for SumsSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.events += grouping::add_counts(batch, &mut self.answer)?;
        self.unsaved = true;
        Ok(())
    }

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        if std::mem::take(&mut self.unsaved) {
            let text = format!("{} {}", self.events, self.answer.hash());
            std::fs::write(&self.path, text).map_err(|error| Error::outside(error.to_string()))?;
        }
        Ok(())
    }
}

/// What all tasks have written into the folder of the table of results.
pub(crate) fn sums(folder: &Path) -> Result<RunResult> {
    let outside = |error: std::io::Error| Error::outside(error.to_string()).at(folder.display().to_string());
    let (mut events, mut hash) = (0, 0_u64);
    for file in std::fs::read_dir(folder).map_err(outside)? {
        let text = std::fs::read_to_string(file.map_err(outside)?.path()).map_err(outside)?;
        let (counts, rows) = text.split_once(' ').unwrap_or(("", ""));
        let parsed = counts.parse::<u64>().ok().zip(rows.parse::<u64>().ok());
        let (counts, rows) = parsed.ok_or_else(|| Error::internal(format!("not a sum: '{text}'")))?;
        (events, hash) = (events + counts, hash.wrapping_add(rows));
    }
    Ok(RunResult { events, result_hash: Some(hash) })
}
