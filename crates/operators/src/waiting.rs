//! Rows that wait until they are due: each batch is a run that is sorted by a number, which is the event time
//! or a prefix of a column.
//!
//! With state on a local disk, runs that take too much memory are written as rows of state, in the order of
//! their numbers. When they are due, they are read in slices of a few blocks of each run, and merged with
//! those in memory.

mod order;

use std::sync::Arc;

use anabranch_dataflow::JobOptions;
use anabranch_model::{EventTime, Result, batch_bytes};
use anabranch_state::{KeyedTable, Merge};
use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array, new_empty_array};
use arrow::compute::{concat, concat_batches, filter_record_batch, interleave, take, take_record_batch};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};

pub(crate) use self::order::Order;
use self::order::{hash_of, number_of};
use crate::Dropped;
use crate::event_time::event_times;
use crate::keyed_state::{
    Extent, Latest, Needed, OnDisk, Snapshots, check_columns, keyed_table, narrow, number, numbers, with_latest,
};
use crate::operator::{StateChange, StateShape};

/// Memory of a row besides its columns.
const ROW_BYTES: usize = 2 * size_of::<i64>();

/// Rows that wait, in the order of their numbers. Rows of equal numbers are in order of arrival.
pub(crate) struct Waiting {
    /// The schema of the rows.
    schema: SchemaRef,
    /// The table of state: the columns of the rows, and their sequence numbers.
    shape: StateShape,
    order: Order,
    runs: Vec<SortedRun>,
    bytes: usize,
    /// The sequence number of the next row.
    sequence: i64,
    /// Rows with lower numbers wait no more. `None`: no row does.
    first: Option<i64>,
    due: Option<Due>,
    /// Restored rows that are not yet processed: more may follow, and event time may advance meanwhile.
    restored: Vec<RecordBatch>,
    snapshots: Snapshots,
    /// The table as it is on the disk.
    table: KeyedTable,
    disk: Option<OnDisk>,
}

/// Rows in the order of their numbers.
struct SortedRun {
    rows: RecordBatch,
    numbers: Vec<i64>,
    /// The sequence numbers of the rows.
    sequences: Vec<i64>,
    /// The first row that still waits.
    first: usize,
    /// Whether the run is part of a snapshot.
    noted: bool,
    /// Whether the run was read from the disk.
    is_stored: bool,
    bytes: usize,
}

/// Due rows in their order: those up to `reached`, out of those up to `to`.
struct Due {
    reached: i64,
    to: i64,
    /// Runs with due rows.
    runs: Vec<usize>,
    /// Run and row.
    rows: Vec<(usize, usize)>,
    numbers: Vec<i64>,
    /// The first row that has not been taken.
    next: usize,
}

/// Due rows, with their numbers.
pub(crate) struct DueRows {
    pub(crate) rows: RecordBatch,
    pub(crate) numbers: Vec<i64>,
}

/// Which rows wait: late rows and rows without a time are dropped and counted.
pub(crate) fn timely(column: &ArrayRef, watermark: i64, dropped: &mut Dropped) -> Result<Vec<usize>> {
    let times = event_times(column)?;
    let mut kept = Vec::with_capacity(times.len());
    for (row, time) in times.iter().enumerate() {
        match (column.is_null(row), *time <= watermark) {
            (true, _) => dropped.rows_without_event_time += 1,
            (_, true) => dropped.late_rows += 1,
            _ => kept.push(row),
        }
    }
    Ok(kept)
}

/// The rows at or after a time.
pub(crate) fn later(batches: &[RecordBatch], time: usize, first: i64) -> Result<Vec<RecordBatch>> {
    let filtered = batches.iter().map(|rows| {
        let times = event_times(rows.column(time))?;
        let is_needed = times.iter().map(|time| Some(*time >= first));
        Ok(filter_record_batch(rows, &is_needed.collect())?)
    });
    filtered.collect()
}

impl Waiting {
    /// A queue of rows of this schema, whose first columns are the keys.
    pub(crate) fn new(schema: SchemaRef, keys: usize, order: Order, options: &JobOptions) -> Result<Waiting> {
        let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let stored = Arc::new(Schema::new(fields.chain([number("$sequence")]).collect::<Vec<_>>()));
        let mut shape = StateShape { table: String::new(), schema: stored, keys: 0..keys, pane: None };
        let (by, sequence) = (order.column(), schema.fields().len());
        let table = keyed_table(&shape, (0..keys).chain([by, sequence]).collect(), None);
        let time = matches!(order, Order::Time(_)).then(|| with_latest(by));
        let table = KeyedTable { keys: by..by + 1, time, hash: order.hash(), ..table };
        let disk = OnDisk::in_order(table.clone(), options)?;
        // With a disk, files of changes are kept no longer than a run.
        if let (Order::Time(time), None) = (order, &disk) {
            shape.pane = Some(time);
        }
        Ok(Waiting {
            schema,
            shape,
            order,
            runs: Vec::new(),
            bytes: 0,
            sequence: 0,
            first: Some(i64::MIN),
            due: None,
            restored: Vec::new(),
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            table,
            disk,
        })
    }

    pub(crate) fn shape(&self) -> StateShape {
        self.shape.clone()
    }

    pub(crate) fn add(&mut self, rows: &RecordBatch, kept: Vec<usize>) -> Result<()> {
        self.end_restore()?;
        self.push(rows, kept, None)?;
        let Some(disk) = &mut self.disk else { return Ok(()) };
        if disk.is_full(self.bytes)? {
            self.put_away()?;
        }
        self.disk.as_mut().map_or(Ok(()), OnDisk::work)
    }

    fn push(&mut self, rows: &RecordBatch, mut kept: Vec<usize>, sequences: Option<&[i64]>) -> Result<()> {
        if kept.is_empty() {
            return Ok(());
        }
        let numbers = self.order.numbers(rows.column(self.order.column()))?;
        kept.sort_by_key(|row| numbers[*row]);
        let before = self.sequence;
        let sequence = |row: &usize| sequences.map_or(before + *row as i64, |numbers| numbers[*row]);
        let sequences: Vec<i64> = kept.iter().map(sequence).collect();
        self.sequence = sequences.iter().fold(before, |last, number| last.max(number + 1));
        let in_order = kept.len() == rows.num_rows() && kept.is_sorted();
        let at: UInt32Array = kept.iter().map(|row| narrow(*row)).collect::<Result<Vec<_>>>()?.into();
        let sorted = if in_order { rows.clone() } else { take_record_batch(rows, &at)? };
        let bytes = size_of::<SortedRun>() + batch_bytes(&sorted) + kept.len() * ROW_BYTES;
        self.bytes += bytes;
        let numbers = kept.iter().map(|row| numbers[*row]).collect();
        self.runs.push(SortedRun { rows: sorted, numbers, sequences, first: 0, noted: false, is_stored: false, bytes });
        Ok(())
    }

    /// Rows up to this number become due: [`Waiting::take_due`] returns them.
    pub(crate) fn reach(&mut self, to: i64) -> Result<()> {
        self.end_restore()?;
        self.due = Some(self.slice(to)?);
        Ok(())
    }

    /// The next rows up to a number, including those on the disk.
    fn slice(&mut self, to: i64) -> Result<Due> {
        let mut reached = to;
        if let (Some(disk), Some(first)) = (&mut self.disk, self.first.filter(|first| *first <= to)) {
            disk.restored()?;
            let (tables, last) = disk.read_range(&(hash_of(first)..=hash_of(to)))?;
            reached = number_of(last);
            for rows in tables {
                // They arrived before those in memory.
                if let Some((rows, sequences)) = self.in_order(&rows)? {
                    self.push(&rows, (0..rows.num_rows()).collect(), Some(&sequences))?;
                    if let Some(mut run) = self.runs.pop() {
                        run.is_stored = true;
                        self.runs.insert(0, run);
                    }
                }
            }
        }
        let (mut runs, mut found) = (Vec::new(), Vec::new());
        for (index, run) in self.runs.iter().enumerate() {
            let end = run.first + run.numbers[run.first..].partition_point(|number| *number <= reached);
            if end > run.first {
                found.extend((run.first..end).map(|row| (run.numbers[row], runs.len(), row)));
                runs.push(index);
            }
        }
        found.sort_by_key(|(number, ..)| *number);
        let numbers = found.iter().map(|(number, ..)| *number).collect();
        let rows = found.into_iter().map(|(_, run, row)| (run, row)).collect();
        Ok(Due { reached, to, runs, rows, numbers, next: 0 })
    }

    /// Takes about `rows` due rows, and all rows of the last number. `None`: no row is due.
    pub(crate) fn take_due(&mut self, rows: usize) -> Result<Option<DueRows>> {
        while let Some(mut due) = self.due.take() {
            if let Some(piece) = self.piece(&mut due, rows)? {
                self.due = Some(due);
                return Ok(Some(piece));
            }
            self.remove(due.reached)?;
            self.due = if due.reached < due.to { Some(self.slice(due.to)?) } else { None };
        }
        self.disk.as_mut().map_or(Ok(()), OnDisk::work)?;
        Ok(None)
    }

    fn piece(&self, due: &mut Due, rows: usize) -> Result<Option<DueRows>> {
        let last = due.numbers.get(due.numbers.len().min(due.next + rows).saturating_sub(1));
        let Some(last) = last else { return Ok(None) };
        let end = due.next + due.numbers[due.next..].partition_point(|number| number <= last);
        if end == due.next {
            return Ok(None);
        }
        let taken = std::mem::replace(&mut due.next, end)..end;
        let places = &due.rows[taken.clone()];
        // Only the runs that have rows of the piece: there may be many others.
        let mut runs: Vec<usize> = places.iter().map(|(run, _)| *run).collect();
        runs.sort_unstable();
        runs.dedup();
        let places =
            places.iter().map(|(run, row)| (runs.partition_point(|other| other < run), *row)).collect::<Vec<_>>();
        let runs: Vec<&SortedRun> = runs.iter().map(|run| &self.runs[due.runs[*run]]).collect();
        let column = |column: usize| {
            let arrays: Vec<_> = runs.iter().map(|run| run.rows.column(column).as_ref()).collect();
            Ok(interleave(&arrays, &places)?)
        };
        let columns = (0..self.schema.fields().len()).map(column).collect::<Result<Vec<_>>>()?;
        let rows = RecordBatch::try_new(SchemaRef::clone(&self.schema), columns)?;
        Ok(Some(DueRows { rows, numbers: due.numbers[taken].to_vec() }))
    }

    /// Removes the rows up to a number.
    fn remove(&mut self, to: i64) -> Result<()> {
        for run in &mut self.runs {
            run.first += run.numbers[run.first..].partition_point(|number| *number <= to);
            let left = run.numbers.len() - run.first;
            // A few remaining rows must not keep the whole batch in memory.
            if left > 0 && left < run.numbers.len() / 2 {
                let at: UInt32Array = (run.first..run.numbers.len()).map(narrow).collect::<Result<Vec<_>>>()?.into();
                run.rows = take_record_batch(&run.rows, &at)?;
                run.numbers.drain(..run.first);
                run.sequences.drain(..run.first);
                run.first = 0;
                run.bytes = size_of::<SortedRun>() + batch_bytes(&run.rows) + left * ROW_BYTES;
            }
        }
        self.runs.retain(|run| run.first < run.numbers.len());
        self.bytes = self.runs.iter().map(|run| run.bytes).sum();
        self.first = to.checked_add(1);
        self.forget();
        Ok(())
    }

    /// Tells the disk that rows up to `first` are not needed.
    fn forget(&mut self) {
        let Some(disk) = &mut self.disk else { return };
        let Some(first) = self.first else { return disk.clear() };
        if let Order::Time(_) = self.order {
            disk.forget_before(0, first);
        }
        disk.remove_below(hash_of(first));
    }

    /// Writes the runs in memory to the disk.
    fn put_away(&mut self) -> Result<()> {
        let rows = self.rows_of(Extent::Unwritten)?;
        self.disk.as_mut().map_or(Ok(()), |disk| disk.put(&[rows]))?;
        (self.runs, self.bytes) = (Vec::new(), 0);
        Ok(())
    }

    /// Waiting rows, with their sequence numbers.
    fn rows_of(&self, part: Extent) -> Result<RecordBatch> {
        let is_wanted = |run: &&SortedRun| !run.is_stored && (part != Extent::Changed || !run.noted);
        let runs: Vec<&SortedRun> = self.runs.iter().filter(is_wanted).collect();
        let slices: Vec<RecordBatch> =
            runs.iter().map(|run| run.rows.slice(run.first, run.numbers.len() - run.first)).collect();
        let column = |(column, field): (usize, &FieldRef)| match slices.as_slice() {
            [] => Ok(new_empty_array(field.data_type())),
            slices => {
                let parts: Vec<_> = slices.iter().map(|slice| slice.column(column).as_ref()).collect();
                Ok(concat(&parts)?)
            }
        };
        let mut columns = self.schema.fields().iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        let sequences: Int64Array = runs.iter().flat_map(|run| run.sequences[run.first..].iter().copied()).collect();
        columns.push(Arc::new(sequences));
        Ok(RecordBatch::try_new(SchemaRef::clone(&self.shape.schema), columns)?)
    }

    /// The table's part of a snapshot.
    pub(crate) fn snapshot(&mut self, adds: bool) -> Result<StateChange> {
        self.end_restore()?;
        let (complete, part, mut files) = self.snapshots.begin(self.disk.as_mut(), adds)?;
        let rows = self.rows_of(part)?;
        self.runs.iter_mut().for_each(|run| run.noted = true);
        self.snapshots.emitted(complete, rows.num_rows());
        let rows = if rows.num_rows() > 0 { vec![rows] } else { Vec::new() };
        // An incremental snapshot keeps all files.
        let by_time = matches!(self.order, Order::Time(_)) && !adds;
        let first_pane = EventTime(if by_time { self.first.unwrap_or(i64::MAX) } else { i64::MIN });
        Ok(StateChange { rows, complete, runs: files.pop().unwrap_or_default(), first_pane })
    }

    /// Takes rows of a snapshot.
    pub(crate) fn restore(&mut self, rows: &RecordBatch) -> Result<()> {
        check_columns(&rows.schema(), &self.shape.schema)?;
        self.snapshots.restoring_rows(rows.num_rows());
        let rows = RecordBatch::try_new(SchemaRef::clone(&self.shape.schema), rows.columns().to_vec())?;
        let last = numbers(rows.columns(), self.schema.fields().len())?.values().iter().max().copied();
        self.sequence = last.map_or(self.sequence, |last| self.sequence.max(last + 1));
        match &mut self.disk {
            Some(disk) => disk.restore(0, rows),
            None => {
                self.restored.push(rows);
                Ok(())
            }
        }
    }

    /// Drops the restored rows that wait no more: those up to the event time of the checkpoint, or in the
    /// order of another column all rows, if event time had ended.
    pub(crate) fn restored(&mut self, watermark: EventTime) -> Result<()> {
        match self.order {
            Order::Time(column) => {
                self.first = watermark.0.checked_add(1);
                self.restored = later(&self.restored, column, watermark.0.saturating_add(1))?;
            }
            Order::Column(..) if watermark == EventTime::MAX => {
                self.first = None;
                self.restored.clear();
            }
            Order::Column(..) => {}
        }
        self.forget();
        Ok(())
    }

    pub(crate) fn goes_on(&mut self) {
        self.snapshots.go_on(self.restored.iter().map(RecordBatch::num_rows).sum());
        self.disk.iter_mut().for_each(OnDisk::goes_on);
    }

    /// Takes over the rows of a former plan version. This state has no rows of its own yet.
    pub(crate) fn succeed(&mut self, former: &mut Waiting) {
        std::mem::swap(self, former);
        self.snapshots = std::mem::take(&mut self.snapshots).succeed();
    }

    /// Ends the restore: inserts the restored rows.
    fn end_restore(&mut self) -> Result<()> {
        if self.restored.is_empty() {
            return Ok(());
        }
        let rows = concat_batches(&self.shape.schema, &std::mem::take(&mut self.restored))?;
        let mut found = self.in_order(&rows)?;
        if found.as_ref().is_some_and(|(_, sequences)| sequences.windows(2).any(|pair| pair[0] == pair[1])) {
            // The files of several snapshots may contain the same rows. The rows of several tasks may have
            // the same sequence numbers.
            let mut latest = Latest::new(&self.table, Needed::All)?;
            latest.add(&rows)?;
            found = self.in_order(&latest.take()?)?;
        }
        if let Some((rows, sequences)) = found {
            self.push(&rows, (0..rows.num_rows()).collect(), Some(&sequences))?;
            self.runs.iter_mut().for_each(|run| run.noted = true);
        }
        Ok(())
    }

    /// Rows of state in order of arrival, with their sequence numbers. `None`: there are no rows.
    fn in_order(&self, rows: &RecordBatch) -> Result<Option<(RecordBatch, Vec<i64>)>> {
        if rows.num_rows() == 0 {
            return Ok(None);
        }
        let came = numbers(rows.columns(), self.schema.fields().len())?;
        let mut order: Vec<u32> = (0..narrow(rows.num_rows())?).collect();
        order.sort_by_key(|row| came.value(*row as usize));
        let sequences = order.iter().map(|row| came.value(*row as usize)).collect();
        let at = UInt32Array::from(order);
        let columns = rows.columns()[..self.schema.fields().len()].iter().map(|column| Ok(take(column, &at, None)?));
        let batch = RecordBatch::try_new(SchemaRef::clone(&self.schema), columns.collect::<Result<_>>()?)?;
        Ok(Some((batch, sequences)))
    }

    /// Whether no row is in memory.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.bytes == 0
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes + self.restored.iter().map(batch_bytes).sum::<usize>()
    }

    pub(crate) fn is_on_disk(&self) -> bool {
        self.disk.is_some()
    }
}
