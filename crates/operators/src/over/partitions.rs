//! The state of functions over rows, for each partition. Rows of bounded frames are never changed: a restore
//! takes those that are still needed, and adds them up again. For unbounded frames, the state of each
//! partition replaces its former ones, as in a group aggregate. Partitions without new rows for the time to
//! live are forgotten: a later row is the first one of its partition, as in Flink. Rows that event time
//! expires need no time to live.

use std::sync::Arc;

use anabranch_dataflow::{Frame, OverSpec};
use anabranch_model::{Error, EventTime, Result, batch_bytes};
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, TimestampMillisecondArray, UInt64Array};
use arrow::compute::{concat_batches, filter_record_batch, take};
use arrow::datatypes::{DataType, Field, TimeUnit};

use super::functions::{self, Functions};
use super::history::{Existing, History, NONE};
use crate::event_time::event_times;
use crate::group_aggregate::accumulator::Call;
use crate::group_aggregate::entries::Entries;
use crate::group_aggregate::readings::Readings;
use crate::keyed_state::{
    Changes, Extent, Identity, KeyedRows, KeyedState, Needed, Noted, SPARSE_MIN, Table, Taken, TimeToLive, narrow,
    number, numbers,
};
use crate::waiting::later;

pub(super) struct Partitions {
    pub(super) spec: OverSpec,
    /// The columns of the input that functions read.
    pub(super) read: Vec<usize>,
    pub(super) history: History,
    pub(super) functions: Functions,
    /// Partitions whose states have changed, for unbounded frames.
    pub(super) changes: Changes,
    /// Partitions whose time has changed since the last snapshot: all of their rows are in the next one.
    outdated: Vec<usize>,
    /// Restored rows that are not yet processed, because more may follow: rows of frames, and values with the
    /// times of their partitions. With the numbers of their tables.
    restored: Vec<(usize, RecordBatch)>,
    /// With more restored rows, those that no `ROWS` frame needs are dropped.
    restored_max: usize,
    /// With more partitions, those without rows are removed.
    partitions_max: usize,
    /// Partitions whose time to live is over.
    over: Vec<usize>,
}

/// What the rows of a table are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TableKind {
    /// Rows that may be in the frames of later ones.
    Before,
    /// The states of partitions.
    States,
    /// The values that a function keeps for each partition.
    Values(usize),
}

impl Partitions {
    pub(super) fn new(spec: &OverSpec, registry: &crate::Functions) -> Result<Partitions> {
        let read = functions::columns_read(spec);
        Ok(Partitions {
            history: History::new(read.iter().map(|column| spec.schema.field(*column).data_type().clone()).collect()),
            functions: Functions::new(spec, &read, registry)?,
            read,
            changes: Changes::default(),
            outdated: Vec::new(),
            restored: Vec::new(),
            restored_max: 0,
            partitions_max: SPARSE_MIN,
            over: Vec::new(),
            spec: spec.clone(),
        })
    }

    fn contents(&self) -> Vec<TableKind> {
        let keeps = |(place, call): (usize, &Call)| call.accumulator.value_field().map(|_| TableKind::Values(place));
        match self.spec.frame.is_unbounded() {
            true => std::iter::once(TableKind::States)
                .chain(self.functions.calls.iter().enumerate().filter_map(keeps))
                .collect(),
            false => vec![TableKind::Before],
        }
    }

    fn has_range(&self) -> bool {
        matches!(self.spec.frame, Frame::Range { .. })
    }

    fn table(&self, kind: TableKind) -> Table {
        let keys = self.spec.keys;
        let fields = self.spec.schema.fields().iter().take(keys);
        let mut fields: Vec<Field> = fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let lives = self.spec.time_to_live_ms.is_some();
        // The first table of an operator has no name.
        let first = |name: &str| if self.spec.time.is_none() { String::new() } else { name.to_owned() };
        match kind {
            TableKind::Before => {
                fields.extend(self.functions.schema.fields().iter().map(|field| field.as_ref().clone()));
                let pane = self.has_range().then_some(fields.len());
                let time = Field::new("$time", DataType::Timestamp(TimeUnit::Millisecond, None), false);
                fields.extend(pane.map(|_| time));
                let identity = Identity::Last { keys, read: self.read.len() };
                let table = Table::new(first("rows before"), fields, identity, lives);
                Table { pane, number: number("$place"), ..table }
            }
            TableKind::States => {
                fields.extend(self.functions.calls.iter().flat_map(|call| call.accumulator.state_fields(&call.name)));
                Table::new(first("states"), fields, Identity::First(keys), lives)
            }
            TableKind::Values(place) => {
                let call = &self.functions.calls[place];
                fields.extend(call.accumulator.value_field().into_iter().chain([number("$weight")]));
                Table::new(format!("values of {}", call.name), fields, Identity::Counted(keys + 1), lives)
            }
        }
    }

    fn entries(&mut self) -> impl Iterator<Item = &mut Entries> {
        self.functions.calls.iter_mut().filter_map(|call| call.accumulator.entries())
    }

    /// Sets the time of the last change of these partitions. If the time of a partition has increased,
    /// its rows still have the earlier one, so they are written again.
    pub(super) fn write(&mut self, groups: &[u32], times: Option<&mut TimeToLive>) {
        let Some(times) = times else { return };
        let mut last = None;
        for group in groups.iter().map(|group| *group as usize) {
            if last.replace(group) == Some(group) || !times.write(group) {
                continue;
            }
            // All of its rows have an earlier time, on the disk too.
            self.history.lists[group].stored = 0;
            if self.changes.are_noted() {
                self.outdated.push(group);
            }
        }
    }

    /// Writes all values of partitions whose time has changed.
    fn renew_values(&mut self, outdated: &[usize]) -> Result<()> {
        if outdated.is_empty() {
            return Ok(());
        }
        let mut is_outdated = vec![false; self.history.lists.len()];
        outdated.iter().for_each(|group| is_outdated[*group] = true);
        self.entries().try_for_each(|entries| entries.renew(&is_outdated))
    }

    /// The earliest time of rows that are in the frame of any later row.
    fn first_needed(watermark: i64, preceding_ms: i64) -> i64 {
        watermark.saturating_add(1).saturating_sub(preceding_ms)
    }

    /// Takes rows out of a table. `outdated`: partitions whose time has changed since the last snapshot.
    fn taken(&mut self, kind: TableKind, part: Extent, outdated: &[usize]) -> Result<Taken> {
        match kind {
            TableKind::Before => {
                let first = if part == Extent::Changed { self.history.snapshot } else { 0 };
                let Existing { rows, groups, times, places } = self.history.rows_from(first, outdated);
                self.history.snapshot = self.history.next;
                let mut columns = self.history.columns(&rows)?;
                if self.has_range() {
                    columns.push(Arc::new(TimestampMillisecondArray::from(times)));
                }
                let places: ArrayRef = Arc::new(Int64Array::from(places));
                Ok(Taken { numbers: Some(places), ..Taken::new(groups, columns) })
            }
            TableKind::States => {
                let partitions = self.history.lists.len();
                let groups = self.changes.take(part, || (0..partitions).collect());
                let states = self.functions.calls.iter().map(|call| call.accumulator.state(&groups));
                let columns = states.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
                Ok(Taken::new(groups, columns))
            }
            TableKind::Values(place) => {
                let entries = self.functions.calls[place].accumulator.entries();
                let entries = entries.ok_or_else(|| Error::internal("a function without values"))?;
                let ids = entries.take(part);
                let (groups, values, weights) = entries.with_ids(&ids)?;
                Ok(Taken::new(groups, vec![values, Arc::new(weights)]))
            }
        }
    }

    fn take_states(&mut self, ids: &[usize], rows: &RecordBatch, versions: Option<&Int64Array>) -> Result<()> {
        let latest = match versions {
            Some(versions) => self.changes.latest(ids, versions),
            None => (0..ids.len()).collect(),
        };
        let groups: Vec<usize> = latest.iter().map(|row| ids[*row]).collect();
        let at: UInt64Array = latest.iter().map(|row| *row as u64).collect();
        let columns = rows.columns()[self.spec.keys..].iter().map(|column| Ok(take(column, &at, None)?));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let mut rest = columns.as_slice();
        for call in &mut self.functions.calls {
            let (own, others) = rest
                .split_at_checked(call.state_columns)
                .ok_or_else(|| Error::internal("a state with too few columns"))?;
            call.accumulator.restore(&groups, own)?;
            rest = others;
        }
        Ok(())
    }

    /// Number of restored rows that are not yet processed.
    pub(super) fn restored_rows(&self) -> usize {
        self.restored.iter().map(|(_, rows)| rows.num_rows()).sum()
    }

    /// Takes the rows of frames of partitions that have none yet, ordered by their times and then by their
    /// indices within their partitions. Rows that are no longer in any frame are omitted, and each row is
    /// taken once: the files of several snapshots may contain it.
    fn take_before(&mut self, ids: &[usize], rows: &RecordBatch) -> Result<()> {
        let keys = self.spec.keys;
        let places = places(rows)?;
        let times = match self.has_range() {
            true => event_times(rows.column(keys + self.read.len()))?.to_vec(),
            false => vec![i64::MIN; rows.num_rows()],
        };
        let most = match self.spec.frame {
            Frame::Rows { preceding: Some(rows) } => usize::try_from(rows).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let mut order: Vec<usize> = (0..rows.num_rows()).collect();
        let identity = |row: &usize| (times[*row], ids[*row], places.value(*row));
        order.sort_by_key(identity);
        order.dedup_by_key(|row| identity(row));
        let mut left = vec![0_usize; self.history.lists.len()];
        order.iter().for_each(|row| left[ids[*row]] += 1);
        order.retain(|row| {
            let left = &mut left[ids[*row]];
            *left -= 1;
            *left < most
        });
        let at: UInt64Array = order.iter().map(|row| *row as u64).collect();
        let read = rows.columns()[keys..keys + self.read.len()].iter().map(|column| Ok(take(column, &at, None)?));
        let columns = read.collect::<Result<Vec<_>>>()?;
        let narrowed = order.iter().map(|row| narrow(ids[*row])).collect::<Result<Vec<_>>>()?;
        let first = self.history.add(&columns, narrowed, times.iter().copied().max().unwrap_or(i64::MIN));
        let mut groups = Vec::with_capacity(order.len());
        for (number, row) in order.into_iter().enumerate() {
            let group = ids[row];
            self.history.push(group, first + number as u64, times[row]);
            self.history.lists[group].count = places.value(row) + 1;
            groups.push(group);
        }
        self.functions.run(&self.batch_of(columns, groups.len())?, (&groups, None), &Readings::default())?;
        self.history.tidy()
    }
}

impl KeyedRows for Partitions {
    fn tables(&self) -> Vec<Table> {
        self.contents().into_iter().map(|content| self.table(content)).collect()
    }

    fn changes(&mut self, each: &mut dyn FnMut(&mut dyn Noted)) {
        each(&mut self.changes);
        self.entries().for_each(|entries| each(&mut entries.changes));
    }

    fn make_room(&mut self, keys: usize) {
        self.history.lists.resize_with(keys, Default::default);
        self.functions.resize(keys);
    }

    fn take_out(&mut self, part: Extent, _number: i64) -> Result<Vec<Taken>> {
        let mut outdated = std::mem::take(&mut self.outdated);
        outdated.sort_unstable();
        outdated.dedup();
        self.renew_values(&outdated)?;
        self.changes.begin_noting();
        self.contents().into_iter().map(|content| self.taken(content, part, &outdated)).collect()
    }

    fn put_in(
        &mut self,
        table: usize,
        keys: &[usize],
        rows: &RecordBatch,
        versions: Option<&Int64Array>,
    ) -> Result<()> {
        match self.contents()[table] {
            TableKind::Before => {
                self.take_before(keys, rows)?;
                let lists = &mut self.history.lists;
                keys.iter().for_each(|group| lists[*group].stored = lists[*group].rows.len());
                Ok(())
            }
            TableKind::States => self.take_states(keys, rows, versions),
            TableKind::Values(place) => {
                let columns = &rows.columns()[self.spec.keys..];
                let accumulator = &mut self.functions.calls[place].accumulator;
                let Some(entries) = accumulator.entries() else { return Ok(()) };
                let changed = entries.restore(keys, &columns[0], numbers(columns, 1)?, versions)?;
                accumulator.entries_restored(&changed)
            }
        }
    }

    fn succeed(&mut self, former: &mut Self) {
        std::mem::swap(&mut self.history, &mut former.history);
        std::mem::swap(&mut self.changes, &mut former.changes);
        std::mem::swap(&mut self.outdated, &mut former.outdated);
        std::mem::swap(&mut self.restored, &mut former.restored);
        (self.restored_max, self.partitions_max) = (former.restored_max, former.partitions_max);
        for (own, former) in self.functions.calls.iter_mut().zip(&mut former.functions.calls) {
            std::mem::swap(&mut own.accumulator, &mut former.accumulator);
        }
    }

    fn count(&mut self) -> usize {
        self.restored_rows() + self.history.lists.len()
    }

    fn size_bytes(&self) -> usize {
        let restored = self.restored.iter().map(|(_, rows)| batch_bytes(rows)).sum::<usize>();
        self.history.size_bytes() + restored + self.functions.size_bytes() + self.changes.size_bytes()
    }

    fn living(&mut self) -> Result<Option<Vec<usize>>> {
        let (over, partitions) = (std::mem::take(&mut self.over), self.history.lists.len());
        if !over.is_empty() {
            return Ok(Some((0..partitions).filter(|group| over.binary_search(group).is_err()).collect()));
        }
        if !self.spec.frame.ends_by_time() || partitions <= self.partitions_max {
            return Ok(None);
        }
        let live: Vec<usize> = (0..partitions).filter(|group| !self.history.lists[*group].rows.is_empty()).collect();
        self.partitions_max = 2 * live.len() + SPARSE_MIN;
        Ok((partitions > self.partitions_max).then_some(live))
    }

    /// The other partitions have no rows of frames.
    fn keep(&mut self, keys: &[usize]) -> Result<()> {
        let mut numbers = vec![NONE; self.history.lists.len()];
        for (new, old) in keys.iter().enumerate() {
            numbers[*old] = narrow(new)?;
        }
        self.functions.calls.iter_mut().try_for_each(|call| call.accumulator.keep(keys))?;
        self.history.renumber(&numbers, keys);
        let renumbered = |group: usize| keys.binary_search(&group).ok();
        self.changes.renumber(renumbered);
        self.outdated = std::mem::take(&mut self.outdated).into_iter().filter_map(renumbered).collect();
        self.history.tidy()
    }

    fn clear(&mut self) -> Result<()> {
        self.history =
            History::new(self.functions.schema.fields().iter().map(|field| field.data_type().clone()).collect());
        self.functions.calls.iter_mut().try_for_each(|call| call.accumulator.keep(&[]))
    }

    fn forget(&mut self, keys: &[usize]) -> Result<()> {
        for group in keys {
            while self.history.pop(*group).is_some() {}
        }
        self.over = keys.to_vec();
        Ok(())
    }

    fn end_restore(state: &mut KeyedState<Self>) -> Result<()> {
        if state.rows.restored.is_empty() {
            return Ok(());
        }
        if state.rows.spec.frame.is_unbounded() {
            for (table, rows) in std::mem::take(&mut state.rows.restored) {
                let ids = state.intern(&rows)?;
                let (ids, rows) = state.living(ids, rows)?;
                state.rows.put_in(table, &ids, &rows, Some(places(&rows)?))?;
            }
            return Ok(());
        }
        let (ids, rows): (Vec<_>, Vec<_>) = take_living(state)?.into_iter().unzip();
        let rows = concat_batches(&state.shapes()[0].schema, &rows)?;
        state.rows.take_before(&ids.concat(), &rows)?;
        state.rows.history.snapshot = state.rows.history.next;
        Ok(())
    }

    /// Drops restored rows that event time has passed.
    fn restored(state: &mut KeyedState<Self>) -> Result<()> {
        let partitions = &mut state.rows;
        if let Frame::Range { preceding_ms: Some(ms) } = partitions.spec.frame {
            let time = partitions.spec.keys + partitions.read.len();
            let first = Partitions::first_needed(state.watermark, ms);
            let rows: Vec<RecordBatch> = partitions.restored.drain(..).map(|(_, rows)| rows).collect();
            partitions.restored = later(&rows, time, first)?.into_iter().map(|rows| (0, rows)).collect();
        }
        keep_last_rows(state)
    }

    fn put_off(&mut self, table: usize, rows: RecordBatch) -> Option<RecordBatch> {
        let waits = match self.contents()[table] {
            TableKind::Before => true,
            TableKind::States => false,
            TableKind::Values(_) => self.spec.time_to_live_ms.is_some(),
        };
        if !waits {
            return Some(rows);
        }
        self.restored.push((table, rows));
        None
    }

    fn make_smaller(state: &mut KeyedState<Self>) -> Result<()> {
        let rows = &state.rows;
        match rows.restored_rows() > rows.restored_max + SPARSE_MIN || state.size_bytes() > state.bytes_max {
            true => keep_last_rows(state),
            false => Ok(()),
        }
    }

    fn needed(&self, _table: usize, watermark: i64, first_written: Option<i64>) -> Needed {
        let rows = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX);
        match (self.spec.frame, first_written) {
            (Frame::Range { preceding_ms: Some(ms) }, _) => Needed::Since(Partitions::first_needed(watermark, ms)),
            (Frame::Rows { preceding: Some(preceding) }, Some(first)) => Needed::LastSince(rows(preceding), first),
            (Frame::Rows { preceding: Some(preceding) }, None) => Needed::Last(rows(preceding)),
            (_, Some(first)) => Needed::Since(first),
            (_, None) => Needed::All,
        }
    }

    fn first_pane(&self, _table: usize, watermark: i64) -> EventTime {
        match self.spec.frame {
            Frame::Range { preceding_ms: Some(ms) } => EventTime(Partitions::first_needed(watermark, ms)),
            _ => EventTime::MIN,
        }
    }
}

/// Drops restored rows that no `ROWS` frame needs any more: the files of several snapshots contain more of
/// them.
fn keep_last_rows(state: &mut KeyedState<Partitions>) -> Result<()> {
    let Frame::Rows { preceding: Some(preceding) } = state.rows.spec.frame else { return Ok(()) };
    let preceding = i64::try_from(preceding).unwrap_or(i64::MAX);
    let (mut ends, mut found) = (Vec::new(), Vec::new());
    for (ids, rows) in take_living(state)? {
        ends.resize(state.keys.len(), i64::MIN);
        for (group, place) in ids.iter().zip(places(&rows)?.values()) {
            ends[*group] = place.saturating_add(1).max(ends[*group]);
        }
        found.push((ids, rows));
    }
    for (ids, rows) in found {
        let is_needed = |(group, place): (&usize, &i64)| Some(*place >= ends[*group].saturating_sub(preceding));
        let is_needed: BooleanArray = ids.iter().zip(places(&rows)?.values()).map(is_needed).collect();
        let rows = filter_record_batch(&rows, &is_needed)?;
        if rows.num_rows() > 0 {
            state.rows.restored.push((0, rows));
        }
    }
    state.rows.restored_max = 2 * state.rows.restored_rows();
    Ok(())
}

/// Takes the restored rows of frames, with their partitions: those that have the time of their partition.
fn take_living(state: &mut KeyedState<Partitions>) -> Result<Vec<(Vec<usize>, RecordBatch)>> {
    let rows = std::mem::take(&mut state.rows.restored).into_iter().map(|(_, rows)| {
        let ids = state.intern(&rows)?;
        state.times.as_mut().map_or(Ok(()), |times| times.restore_rows(&ids, &rows))?;
        Ok((ids, rows))
    });
    let rows = rows.collect::<Result<Vec<_>>>()?;
    rows.into_iter().map(|(ids, rows)| state.living(ids, rows)).collect()
}

/// The indices of rows among all rows of their partitions.
fn places(rows: &RecordBatch) -> Result<&Int64Array> {
    numbers(rows.columns(), rows.num_columns() - 1)
}
