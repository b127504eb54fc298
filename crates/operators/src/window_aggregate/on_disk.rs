//! Keeps state within its memory bound: which groups go to the disk, and when; conversion of groups to rows
//! of state and back.

use std::ops::Range;
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, StateBackendKind};
use anabranch_model::{Error, Result, batch_bytes};
use anabranch_state::{BUCKETS, Merge, NewMerge, PaneRuns};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use super::function::AggregateFunctions;
use super::groups::{Grouped, Groups, Input};
use super::{PANE_TYPE, Pane, Panes};
use crate::event_time::{event_times, time_column};
use crate::keyed_state::{directory, hash_in_windows};

/// With a disk, tables are full at the limit divided by this number. A table that grows holds its old slots
/// beside twice as many new ones.
const TABLES_SHARE: usize = 4;
/// With a disk, tables are never larger: a table's strings must fit into one array, and rows wait while it is
/// written.
const TABLES_BYTES_MAX: usize = 1 << 30;
/// Upper estimates of the memory that a row adds before the next check of the tables' size: for states of
/// fixed size, and for others (a sketch of a set, a list).
const ROW_BYTES: usize = 256;
const VARIABLE_ROW_BYTES: usize = 16 << 10;
/// How much more memory a value may take in such a state than in a column.
const VARIABLE_FACTOR: usize = 8;
/// Number of bytes after which the size is checked at the latest.
const BYTES_PER_LOOK_MAX: usize = 128 << 20;
/// The least limit of a slice of a window, however small the limit of the state.
const SLICE_BYTES: usize = 1 << 20;

/// When to check the size of the tables next: summing over all panes for every batch would cost too much.
pub(super) struct Sizes {
    bytes_until_look: usize,
    /// Estimated memory per row.
    row_bytes: usize,
    /// Estimated memory per byte of a row.
    factor: usize,
    /// The limit of the tables.
    tables_max: usize,
    /// The limit of a slice of a window.
    slice_max: usize,
}

impl Sizes {
    pub(super) fn new(options: &JobOptions, functions: &AggregateFunctions) -> Sizes {
        let (row_bytes, factor) = match functions.states_vary() {
            true => (VARIABLE_ROW_BYTES, VARIABLE_FACTOR),
            false => (ROW_BYTES, 1),
        };
        let tables_max = match options.state_backend {
            StateBackendKind::Memory => options.state_bytes,
            StateBackendKind::Disk => (options.state_bytes / TABLES_SHARE).min(TABLES_BYTES_MAX),
        };
        let slice_max = options.state_bytes.max(SLICE_BYTES);
        Sizes { bytes_until_look: 0, row_bytes, factor, tables_max, slice_max }
    }
}

/// The disk for groups that do not fit into memory, if the options ask for one. `keys`: the key columns of
/// rows of state.
pub(super) fn disk(schema: &SchemaRef, keys: Range<usize>, options: &JobOptions) -> Result<Option<PaneRuns>> {
    if options.state_backend != StateBackendKind::Disk {
        return Ok(None);
    }
    let runs = PaneRuns::new(SchemaRef::clone(schema), keys, hash_in_windows, directory(options))?;
    Ok(Some(runs.with_file_bytes(options.thresholds.run_file_bytes)))
}

/// Refuses open windows in memory that exceed the limit.
pub(super) fn check_size(bytes: usize, max: usize) -> Result<()> {
    if bytes <= max {
        return Ok(());
    }
    Err(Error::user(format!("the open windows of this task take {bytes} bytes; the limit is {max}")).remedy(
        "SET 'state-bytes' higher or 'state-backend' = 'disk', use shorter windows or a shorter watermark delay, or \
         group by fewer keys",
    ))
}

impl Panes {
    /// Called after these rows were added. The state has a stated limit: beyond it, groups go to the disk, or
    /// the job stops with an error, before the machine runs out of memory.
    pub(super) fn keep_to_size(&mut self, rows: &RecordBatch) -> Result<()> {
        self.with_disk(|disk, merge| disk.work(merge))?;
        let added = (batch_bytes(rows) * self.sizes.factor).max(rows.num_rows() * self.sizes.row_bytes);
        if let Some(left) = self.sizes.bytes_until_look.checked_sub(added) {
            self.sizes.bytes_until_look = left;
            return Ok(());
        }
        let mut bytes: usize = self.panes.values().map(Pane::size_bytes).sum();
        if self.disk.is_none() {
            check_size(bytes, self.sizes.tables_max)?;
        } else if bytes > self.sizes.tables_max {
            // The largest first: few large runs are better than many small ones. Not all: what stays in
            // memory needs no merge.
            let size = |(start, pane): (&i64, &Pane)| (pane.size_bytes(), *start);
            let mut panes: Vec<(usize, i64)> = self.panes.iter().map(size).collect();
            panes.sort_unstable();
            let enough = bytes / 2;
            while bytes > enough
                && let Some((size, pane)) = panes.pop()
            {
                self.put_away(pane)?;
                bytes -= size;
            }
        }
        self.sizes.bytes_until_look = self.sizes.tables_max.saturating_sub(bytes).min(BYTES_PER_LOOK_MAX);
        Ok(())
    }

    /// Puts all groups of a pane on the disk.
    pub(super) fn put_away(&mut self, pane: i64) -> Result<()> {
        if let Some(Pane::Open(open)) = self.panes.get_mut(&pane).filter(|_| self.snapshots.add()) {
            self.snapshots.keep(pane, open)?;
            self.snapshots.keep_to(self.sizes.slice_max);
        }
        if self.disk.is_none() {
            return Err(no_disk());
        }
        if let Some(rows) = self.take_rows(pane)? {
            self.with_disk(|disk, merge| disk.put(pane, &rows, merge))?;
            self.snapshots.put_away();
        }
        Ok(())
    }

    /// Takes the pane's groups out of memory, as rows of state.
    pub(super) fn take_rows(&mut self, pane: i64) -> Result<Option<RecordBatch>> {
        let states = match self.panes.get_mut(&pane).map(|pane| std::mem::replace(pane, Pane::Away)) {
            Some(Pane::Open(open)) => open.whole()?.states()?,
            Some(Pane::Sealed(states)) => states,
            Some(Pane::Away) | None => return Ok(None),
        };
        if states.len == 0 {
            return Ok(None);
        }
        let panes = self.times.map(|_| vec![pane; states.len]);
        batch_of(&self.state_schema, panes, states).map(Some)
    }

    /// Whether some groups of these panes are on the disk.
    pub(super) fn are_away(&self, panes: Range<i64>) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.holds(panes))
    }

    /// Removes the panes from the disk that no longer exist.
    pub(super) fn forget_panes_away(&mut self) {
        let first = self.panes.keys().next().copied().unwrap_or(i64::MAX);
        self.disk.iter_mut().for_each(|disk| disk.remove_before(first));
    }

    /// Calls `act` with the disk, if there is one, and a function that creates a merge of its rows.
    fn with_disk(&mut self, act: impl FnOnce(&mut PaneRuns, NewMerge<'_, '_>) -> Result<()>) -> Result<()> {
        let Panes { disk, state_schema: schema, times, key_types, functions, sizes, .. } = self;
        let Some(disk) = disk else { return Ok(()) };
        let (windowed, bytes_max) = (times.is_some(), sizes.slice_max);
        act(disk, &|| {
            let groups = Groups::new(key_types.clone(), functions)?;
            Ok(Box::new(MergeStates { groups, pane: 0, functions, schema, windowed, bytes_max }))
        })
    }

    /// Returns a merge of rows of state, of any panes, into empty groups.
    pub(super) fn merge(&self, groups: Groups) -> MergeStates<'_> {
        let Panes { state_schema: schema, times, functions, sizes, .. } = self;
        MergeStates { groups, pane: 0, functions, schema, windowed: times.is_some(), bytes_max: sizes.slice_max }
    }
}

/// The error of an operation that needs the disk, if there is none.
pub(super) fn no_disk() -> Error {
    Error::internal("state in memory was taken out of its tables")
}

/// Merges rows of state into groups.
pub(super) struct MergeStates<'a> {
    pub(super) groups: Groups,
    /// Pane of the last rows that were added.
    pane: i64,
    functions: &'a AggregateFunctions,
    schema: &'a SchemaRef,
    windowed: bool,
    bytes_max: usize,
}

impl Merge for MergeStates<'_> {
    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let (input, panes) = states_of(rows, self.windowed, self.functions)?;
        if let Some(panes) = panes {
            self.pane = event_times(&panes)?.first().copied().unwrap_or(self.pane);
        }
        self.groups.update(&input)?;
        let bytes = self.groups.size_bytes();
        if bytes <= self.bytes_max {
            return Ok(());
        }
        let max = self.bytes_max;
        if self.groups.len() == 1 {
            return Err(Error::user(format!("the values that one key collects take {bytes} bytes; the limit is {max}"))
                .remedy(
                    "SET 'state-bytes' higher: the values of one key (COUNT(DISTINCT ...), ARRAY_AGG) are in memory at once; \
                     or divide the key, and add the counts of its parts",
                ));
        }
        Err(Error::user(format!("one of {BUCKETS} slices of a window takes {bytes} bytes; the limit is {max}"))
            .remedy(
                "SET 'state-bytes' higher, use shorter windows, or collect fewer values per key; if one key collects most of them \
                 (COUNT(DISTINCT ...), ARRAY_AGG), divide it, and add the counts of its parts",
            ))
    }

    fn take(&mut self) -> Result<RecordBatch> {
        let states = self.groups.states()?;
        self.groups.clear();
        batch_of(self.schema, self.windowed.then(|| vec![self.pane; states.len]), states)
    }
}

/// Keys and states of a batch of states, and the start of their panes.
pub(super) fn states_of(
    batch: &RecordBatch,
    windowed: bool,
    functions: &AggregateFunctions,
) -> Result<(Input, Option<ArrayRef>)> {
    let pane = windowed.then(|| Arc::clone(batch.column(0)));
    let columns = &batch.columns()[usize::from(windowed)..];
    let first_state = columns.len().saturating_sub(functions.state_columns());
    let (keys, states) = columns.split_at(first_state);
    let grouped = functions.split_states(states)?;
    Ok((Input { rows: batch.num_rows(), keys: keys.to_vec(), grouped, filters: None }, pane))
}

/// States as rows, each with the start of its pane if there are windows.
pub(super) fn batch_of(schema: &SchemaRef, panes: Option<Vec<i64>>, states: Grouped) -> Result<RecordBatch> {
    if states.len == 0 {
        return Ok(RecordBatch::new_empty(Arc::clone(schema)));
    }
    let mut columns = Vec::with_capacity(schema.fields().len());
    if let Some(panes) = panes {
        columns.push(time_column(panes, &PANE_TYPE)?);
    }
    columns.extend(states.keys);
    columns.extend(states.values.into_iter().flatten());
    let options = RecordBatchOptions::new().with_row_count(Some(states.len));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
