//! State that does not fit into memory: rows of state in runs on a local disk.
//!
//! A key is in memory with all of its rows in all tables of the operator, or not at all. So an operator looks
//! up the unknown keys of a batch, and then works as if everything were in memory. When its tables are full
//! it writes their changes as rows of state, and empties them. Keys that return soon are looked up again, all
//! keys of a batch at once.
//!
//! Snapshots contain all runs, and the changes since the tables were written. An incremental snapshot
//! (`adds`) contains the runs of the snapshots before it: these runs are frozen. Runs that were written since
//! are merged among themselves only, and keep the rows that say that a key is removed.
//!
//! Restored rows go to the disk unchanged, because the operator may have read an earlier or later row of the
//! key.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, StateBackendKind};
use anabranch_model::{Error, Result, batch_bytes};
use anabranch_state::{KeyedRuns, KeyedTable, LatestTime, Merge, Run, in_window};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::Schema;

use super::check_at_once;
use super::latest::{Latest, Needed};
use super::snapshots::{RunsOfTables, Snapshots};
use super::windows::Slice;
use crate::event_time::{event_times, latest_time};
use crate::hash_keys;
use crate::operator::StateShape;

/// Tables are full at the limit divided by this number. A table that grows holds its old slots beside twice
/// as many new ones.
const FULL_SHARE: usize = 4;
/// Filters take at most the limit divided by this number.
const FILTERS_SHARE: usize = 4;
/// The least limit of the tables in memory, however small the limit of the state.
pub(crate) const LEAST_BYTES: usize = 1 << 20;
/// The least limit of the rows that a table reads at once in the order of hashes, in bytes, however small the
/// limit of the state.
const MERGED_BYTES: usize = 4 << 20;
/// A slice of a window takes at most the limit divided by this number, and at most this number of blocks.
const SLICE_SHARE: usize = 8;
const SLICE_BLOCKS_MAX: usize = 64;
const BLOCK_BYTES: usize = 32 << 10;
/// Default folder of state that does not fit into memory: it exists on every system and is not itself in
/// memory.
const DIRECTORY: &str = "/var/tmp";

/// The folder of state that does not fit into memory.
pub(crate) fn directory(options: &JobOptions) -> PathBuf {
    let usual = || Some(PathBuf::from(DIRECTORY)).filter(|usual| usual.is_dir());
    options.state_directory.clone().or_else(usual).unwrap_or_else(std::env::temp_dir)
}

/// The part of an operator's state in one task that is on the disk.
pub(crate) struct OnDisk {
    tables: Vec<Table>,
    bytes_max: usize,
    /// Rows were written that earlier snapshots contain as changes.
    has_written: bool,
    /// The next snapshot is a successor of those that were restored.
    follows: bool,
    /// Restored rows are frozen once they are written.
    freezes: bool,
}

struct Table {
    runs: KeyedRuns,
    /// Rows of snapshots that are not yet written, in any order.
    restored: Vec<RecordBatch>,
    restored_bytes: usize,
    /// Files of incremental snapshots: all frozen runs.
    adding: Option<Vec<Arc<Run>>>,
    needed: Needed,
    /// Limit of the rows that are read at once in the order of hashes, in bytes. It is an error to exceed it.
    merged_max: usize,
}

impl OnDisk {
    /// A disk for these tables, if the options ask for one.
    pub(crate) fn open(tables: Vec<KeyedTable>, options: &JobOptions) -> Result<Option<OnDisk>> {
        if options.state_backend != StateBackendKind::Disk {
            return Ok(None);
        }
        let filters = options.state_bytes / FILTERS_SHARE / tables.len().max(1);
        let table = |table: KeyedTable| Table::new(table, filters, options);
        let tables = tables.into_iter().map(table).collect::<Result<_>>()?;
        Ok(Some(OnDisk { tables, bytes_max: options.state_bytes, has_written: false, follows: false, freezes: false }))
    }

    /// A disk for a table that is read only in the order of its hashes, if the options ask for one. Its rows
    /// are never replaced. Rows with the same hash must fit into memory.
    pub(crate) fn in_order(table: KeyedTable, options: &JobOptions) -> Result<Option<OnDisk>> {
        if options.state_backend != StateBackendKind::Disk {
            return Ok(None);
        }
        let mut table = Table::new(table, 0, options)?;
        table.merged_max = options.state_bytes.max(MERGED_BYTES);
        Ok(Some(OnDisk {
            tables: vec![table],
            bytes_max: options.state_bytes,
            has_written: false,
            follows: false,
            freezes: false,
        }))
    }

    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.iter().all(|table| table.runs.is_empty())
    }

    /// Number of files of all tables.
    #[cfg(test)]
    pub(crate) fn files(&self) -> usize {
        self.tables.iter().map(|table| table.runs.files().len()).sum()
    }

    /// Whether tables of this size must be written. An error if the keys of one batch do not fit into memory.
    pub(crate) fn is_full(&self, bytes: usize) -> Result<bool> {
        check_at_once(bytes, self.bytes_max.max(LEAST_BYTES))?;
        Ok(bytes > self.bytes_max / FULL_SHARE)
    }

    /// The current rows of the keys with these hashes, for each table. `None` if they do not fit into memory
    /// and belong to several keys.
    pub(crate) fn look_up(&self, mut hashes: Vec<u64>) -> Result<Option<Vec<RecordBatch>>> {
        hashes.sort_unstable();
        hashes.dedup();
        // The limit covers all tables. Rows take more memory in tables than in a batch.
        let mut bytes_max = if hashes.len() > 1 { self.bytes_max / FULL_SHARE / 2 } else { usize::MAX };
        let mut found = Vec::with_capacity(self.tables.len());
        for Table { runs, needed, .. } in &self.tables {
            let mut latest = Latest::new(runs.table(), *needed)?;
            if !runs.look_up(&hashes, bytes_max, &mut latest)? {
                return Ok(None);
            }
            let rows = latest.take()?;
            bytes_max = bytes_max.saturating_sub(batch_bytes(&rows));
            found.push(runs.table().those_there(rows)?);
        }
        Ok(Some(found))
    }

    /// The current rows of the first keys of a slice, for each table, and the last hash of these keys.
    pub(crate) fn read(&self, Slice { time, hashes }: &Slice) -> Result<(Vec<RecordBatch>, u64)> {
        let (mut found, last) = self.read_range(hashes)?;
        for (Table { runs, .. }, rows) in self.tables.iter().zip(&mut found) {
            let column = rows.columns().get(runs.table().window.unwrap_or(usize::MAX));
            let column = column.ok_or_else(|| Error::internal("a slice of no window"))?;
            // Keys of another window may have the same hashes.
            let is_of_window: BooleanArray = event_times(column)?.iter().map(|value| Some(value == time)).collect();
            *rows = filter_record_batch(rows, &is_of_window)?;
        }
        Ok((found, last))
    }

    /// The current rows of the first keys with hashes in a range, for each table, and the last hash of these
    /// keys.
    pub(crate) fn read_range(&self, hashes: &RangeInclusive<u64>) -> Result<(Vec<RecordBatch>, u64)> {
        let blocks = (self.bytes_max / SLICE_SHARE / BLOCK_BYTES).clamp(1, SLICE_BLOCKS_MAX);
        let ends = self.tables.iter().map(|table| table.runs.slice_end(hashes, blocks));
        let last = ends.min().unwrap_or(*hashes.end());
        let mut found = Vec::with_capacity(self.tables.len());
        for Table { runs, needed, merged_max, .. } in &self.tables {
            let mut latest = Latest::new(runs.table(), *needed)?.with_bytes_max(*merged_max);
            runs.read(&(*hashes.start()..=last), &mut latest)?;
            found.push(runs.table().those_there(latest.take()?)?);
        }
        Ok((found, last))
    }

    /// Writes rows of each table, which have the number of a new snapshot.
    pub(crate) fn put(&mut self, tables: &[RecordBatch]) -> Result<()> {
        self.restored()?;
        for (table, rows) in self.tables.iter_mut().zip(tables) {
            if rows.num_rows() > 0 {
                table.put(rows, false)?;
            }
        }
        self.has_written = true;
        Ok(())
    }

    /// Sets which rows of a table are needed from now on.
    pub(crate) fn need(&mut self, table: usize, needed: Needed) {
        if let Some(disk) = self.tables.get_mut(table) {
            disk.needed = needed;
        }
    }

    /// Drops rows of a table with earlier times.
    pub(crate) fn forget_before(&mut self, table: usize, ms: i64) {
        self.need(table, Needed::Since(ms));
    }

    /// [`OnDisk::forget_before`], of all tables.
    pub(crate) fn forget_all_before(&mut self, ms: i64) {
        (0..self.tables.len()).for_each(|table| self.forget_before(table, ms));
    }

    /// Drops keys with lower hashes from all tables.
    pub(crate) fn remove_below(&mut self, hash: u64) {
        self.tables.iter_mut().for_each(|table| table.runs.remove_below(hash));
    }

    /// Drops all rows.
    pub(crate) fn clear(&mut self) {
        self.tables.iter_mut().for_each(|table| {
            table.runs.clear();
            (table.restored, table.restored_bytes) = (Vec::new(), 0);
        });
        self.has_written = true;
    }

    /// Does a step of maintenance, after each batch.
    pub(crate) fn work(&mut self) -> Result<()> {
        self.restored()?;
        self.tables.iter_mut().try_for_each(Table::work)
    }

    /// Takes rows of a snapshot.
    pub(crate) fn restore(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        let bytes_max = self.bytes_max / FULL_SHARE / self.tables.len();
        let table = self.tables.get_mut(table).ok_or_else(|| Error::internal(format!("there is no table {table}")))?;
        table.restored_bytes += batch_bytes(&rows);
        table.restored.push(rows);
        if table.restored_bytes > bytes_max { table.write_restored() } else { Ok(()) }
    }

    /// Ends the restore.
    pub(crate) fn restored(&mut self) -> Result<()> {
        self.tables.iter_mut().try_for_each(Table::write_restored)?;
        if std::mem::take(&mut self.freezes) {
            self.tables.iter_mut().for_each(|table| table.runs.freeze());
        }
        Ok(())
    }

    /// Everything was restored, and the next snapshot need not be complete: it continues the restored ones.
    pub(crate) fn goes_on(&mut self) {
        self.tables.iter_mut().for_each(|table| table.adding = Some(Vec::new()));
        (self.follows, self.freezes) = (true, true);
    }

    /// Begins a snapshot: returns whether it is complete, and the files of each table.
    pub(crate) fn snapshot(&mut self, adds: bool, snapshots: &Snapshots) -> Result<(bool, RunsOfTables)> {
        self.restored()?;
        let continues = (adds || self.follows) && self.tables.iter().all(|table| table.adding.is_some());
        let complete = !continues && (self.has_written || self.follows || snapshots.is_complete(adds));
        let files = |table: &mut Table| match table.adding.take() {
            Some(mut adding) if continues => {
                adding.extend(table.runs.files_since_freeze());
                adding
            }
            _ => table.runs.files(),
        };
        let files: RunsOfTables = self.tables.iter_mut().map(files).collect();
        for (table, files) in self.tables.iter_mut().zip(&files) {
            if adds {
                table.adding = Some(files.clone());
                table.runs.freeze();
            } else {
                table.runs.thaw();
            }
        }
        // The rows that this snapshot omits are in the next complete one.
        self.has_written = continues;
        self.follows = false;
        Ok((complete, files))
    }
}

impl Table {
    fn new(table: KeyedTable, filter_bytes: usize, options: &JobOptions) -> Result<Table> {
        let runs = KeyedRuns::new(table, directory(options), filter_bytes)?;
        let runs = runs.with_file_bytes(options.thresholds.run_file_bytes);
        let (restored, needed) = (Vec::new(), Needed::All);
        Ok(Table { runs, restored, restored_bytes: 0, adding: None, needed, merged_max: usize::MAX })
    }

    fn write_restored(&mut self) -> Result<()> {
        if !self.restored.is_empty() {
            // Files of a former plan version may have columns that were NOT NULL.
            let schema = &self.runs.table().schema;
            let with_schema = |rows: &RecordBatch| RecordBatch::try_new(Arc::clone(schema), rows.columns().to_vec());
            let rows = self.restored.iter().map(with_schema).collect::<std::result::Result<Vec<_>, _>>()?;
            let rows = concat_batches(schema, &rows)?;
            (self.restored, self.restored_bytes) = (Vec::new(), 0);
            self.put(&rows, true)?;
        }
        Ok(())
    }

    fn put(&mut self, rows: &RecordBatch, restored: bool) -> Result<()> {
        let (table, needed, bytes_max) = (self.runs.table().clone(), self.needed, self.merged_max);
        self.runs.put(rows, restored, &|| Ok(Box::new(Latest::new(&table, needed)?.with_bytes_max(bytes_max))))
    }

    fn work(&mut self) -> Result<()> {
        if let Needed::Since(ms) | Needed::LastSince(_, ms) = self.needed {
            self.runs.remove_before(ms);
        }
        let (table, needed, bytes_max) = (self.runs.table().clone(), self.needed, self.merged_max);
        self.runs.work(&|| Ok(Box::new(Latest::new(&table, needed)?.with_bytes_max(bytes_max))))
    }
}

/// Hashes of keys. Those of one window are adjacent.
pub(crate) fn hash_in_windows(
    keys: &[ArrayRef],
    rows: usize,
    window: Option<usize>,
    hashes: &mut Vec<u64>,
) -> Result<()> {
    hash_keys(keys, rows, hashes)?;
    if let Some(window) = window {
        let times = event_times(&keys[window])?;
        hashes.iter_mut().zip(times.iter()).for_each(|(hash, time)| *hash = in_window(*time, *hash));
    }
    Ok(())
}

/// The table of rows of this shape with these columns as their identity. `count` is the column with the
/// multiplicity of a row, if rows can be removed. Every column is nullable: in a former plan version it may
/// have been.
pub(crate) fn keyed_table(shape: &StateShape, identity: Vec<usize>, count: Option<usize>) -> KeyedTable {
    let fields = shape.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let (schema, keys) = (Arc::new(Schema::new(fields.collect::<Vec<_>>())), shape.keys.clone());
    KeyedTable { schema, keys, identity, count, window: None, time: None, hash: hash_in_windows }
}

/// The column of the times of a table's rows, and a function that finds the latest of them.
pub(crate) fn with_latest(column: usize) -> (usize, LatestTime) {
    (column, |times| Ok(latest_time(&event_times(times)?)))
}
