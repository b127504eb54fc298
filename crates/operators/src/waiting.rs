//! The rows that wait for the watermark: each batch as a run that is sorted by time.

use anabranch_model::{Result, batch_bytes};
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, new_empty_array};
use arrow::compute::{concat, concat_batches, filter_record_batch, interleave, take, take_record_batch};
use arrow::datatypes::SchemaRef;

use crate::Dropped;
use crate::event_time::event_times;
use crate::keyed_state::{narrow, numbers};

/// What a row takes besides its columns.
const ROW_BYTES: usize = 2 * size_of::<i64>() + size_of::<u32>();

/// See the module. Rows of equal time are in the order in which they came.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) runs: Vec<Run>,
    /// The number of the next row.
    pub(crate) sequence: i64,
    bytes: usize,
}

/// Rows in the order of their times.
pub(crate) struct Run {
    pub(crate) rows: RecordBatch,
    pub(crate) times: Vec<i64>,
    pub(crate) groups: Vec<u32>,
    /// Numbers of the rows, in the order in which they came.
    pub(crate) sequences: Vec<i64>,
    /// Rows before this one wait no more.
    pub(crate) first: usize,
    /// It is part of a snapshot.
    pub(crate) noted: bool,
    bytes: usize,
}

/// Rows whose time the watermark has reached, in the order of their times.
pub(crate) struct Due {
    /// Runs with such rows.
    runs: Vec<usize>,
    /// Run and row.
    rows: Vec<(usize, usize)>,
    times: Vec<i64>,
    /// Rows before this one have been taken.
    next: usize,
}

/// Rows of a batch with their partitions and times.
pub(crate) struct Piece {
    pub(crate) rows: RecordBatch,
    pub(crate) groups: Vec<u32>,
    pub(crate) times: Vec<i64>,
}

/// The times of rows, and which of them wait: late rows and those without a time are dropped and counted.
pub(crate) fn timely(column: &ArrayRef, watermark: i64, dropped: &mut Dropped) -> Result<(Vec<i64>, Vec<usize>)> {
    let times = event_times(column)?.to_vec();
    let mut kept = Vec::with_capacity(times.len());
    for (row, time) in times.iter().enumerate() {
        match (column.is_null(row), *time <= watermark) {
            (true, _) => dropped.rows_without_event_time += 1,
            (_, true) => dropped.late_rows += 1,
            _ => kept.push(row),
        }
    }
    Ok((times, kept))
}

/// Rows of snapshots, whose last column has their numbers, in the order in which they came, and the numbers. `None`: there are no rows.
pub(crate) fn in_order(rows: &[RecordBatch], schema: &SchemaRef) -> Result<Option<(RecordBatch, Vec<i64>)>> {
    let Some(first) = rows.first() else { return Ok(None) };
    let rows = concat_batches(&first.schema(), rows)?;
    let sequences = numbers(rows.columns(), schema.fields().len())?;
    let mut order: Vec<u32> = (0..narrow(rows.num_rows())?).collect();
    order.sort_by_key(|row| sequences.value(*row as usize));
    let sequences = order.iter().map(|row| sequences.value(*row as usize)).collect();
    let at = UInt32Array::from(order);
    let columns = rows.columns()[..schema.fields().len()].iter().map(|column| Ok(take(column, &at, None)?));
    let batch = RecordBatch::try_new(SchemaRef::clone(schema), columns.collect::<Result<_>>()?)?;
    Ok(Some((batch, sequences)))
}

/// The rows of a time or later.
pub(crate) fn later(batches: &[RecordBatch], time: usize, first: i64) -> Result<Vec<RecordBatch>> {
    let filtered = batches.iter().map(|rows| {
        let times = event_times(rows.column(time))?;
        let is_needed = times.iter().map(|time| Some(*time >= first));
        Ok(filter_record_batch(rows, &is_needed.collect())?)
    });
    filtered.collect()
}

impl Waiting {
    /// Adds rows of snapshots, in the order in which they came.
    pub(crate) fn restore(
        &mut self,
        rows: &RecordBatch,
        (groups, times): (&[usize], &[i64]),
        sequences: &[i64],
    ) -> Result<()> {
        self.add(rows, (0..rows.num_rows()).collect(), (groups, times), Some(sequences))?;
        self.runs.iter_mut().for_each(|run| run.noted = true);
        Ok(())
    }

    /// Adds these rows of a batch.
    pub(crate) fn add(
        &mut self,
        rows: &RecordBatch,
        mut kept: Vec<usize>,
        (groups, times): (&[usize], &[i64]),
        sequences: Option<&[i64]>,
    ) -> Result<()> {
        if kept.is_empty() {
            return Ok(());
        }
        kept.sort_by_key(|row| times[*row]);
        let before = self.sequence;
        let number = |row: &usize| sequences.map_or(before + *row as i64, |numbers| numbers[*row]);
        let numbers: Vec<i64> = kept.iter().map(number).collect();
        self.sequence = numbers.iter().fold(before, |last, number| last.max(number + 1));
        let in_order = kept.len() == rows.num_rows() && kept.is_sorted();
        let at: UInt32Array = kept.iter().map(|row| narrow(*row)).collect::<Result<Vec<_>>>()?.into();
        let sorted = if in_order { rows.clone() } else { take_record_batch(rows, &at)? };
        let bytes = size_of::<Run>() + batch_bytes(&sorted) + kept.len() * ROW_BYTES;
        self.bytes += bytes;
        self.runs.push(Run {
            bytes,
            rows: sorted,
            times: kept.iter().map(|row| times[*row]).collect(),
            groups: kept.iter().map(|row| narrow(groups[*row])).collect::<Result<_>>()?,
            sequences: numbers,
            first: 0,
            noted: false,
        });
        Ok(())
    }

    /// The rows up to a time.
    pub(crate) fn due(&self, to: i64) -> Due {
        let (mut runs, mut found) = (Vec::new(), Vec::new());
        for (place, run) in self.runs.iter().enumerate() {
            let end = run.first + run.times[run.first..].partition_point(|time| *time <= to);
            if end > run.first {
                found.extend((run.first..end).map(|row| (run.times[row], runs.len(), row)));
                runs.push(place);
            }
        }
        found.sort_by_key(|(time, ..)| *time);
        let times = found.iter().map(|(time, ..)| *time).collect();
        Due { runs, rows: found.into_iter().map(|(_, run, row)| (run, row)).collect(), times, next: 0 }
    }

    /// Takes about so many of the rows that are due, and all of a time. `None`: there are no more.
    pub(crate) fn take(&self, due: &mut Due, rows: usize) -> Result<Option<Piece>> {
        let Some(last) = due.times.get(due.times.len().min(due.next + rows).saturating_sub(1)) else { return Ok(None) };
        let end = due.next + due.times[due.next..].partition_point(|time| time <= last);
        if end == due.next {
            return Ok(None);
        }
        let taken = std::mem::replace(&mut due.next, end)..end;
        let places = &due.rows[taken.clone()];
        // Only the runs that have rows of the piece: there may be many others.
        let mut runs: Vec<usize> = places.iter().map(|(run, _)| *run).collect();
        runs.sort_unstable();
        runs.dedup();
        let places = places.iter().map(|(run, row)| (runs.partition_point(|of| of < run), *row)).collect::<Vec<_>>();
        let runs: Vec<&Run> = runs.iter().map(|run| &self.runs[due.runs[*run]]).collect();
        let schema = runs[0].rows.schema();
        let column = |column: usize| {
            let arrays: Vec<_> = runs.iter().map(|run| run.rows.column(column).as_ref()).collect();
            Ok(interleave(&arrays, &places)?)
        };
        let columns = (0..schema.fields().len()).map(column).collect::<Result<Vec<_>>>()?;
        let groups = places.iter().map(|(run, row)| runs[*run].groups[*row]).collect();
        Ok(Some(Piece { rows: RecordBatch::try_new(schema, columns)?, groups, times: due.times[taken].to_vec() }))
    }

    /// Rows up to a time wait no more.
    pub(crate) fn remove(&mut self, to: i64) -> Result<()> {
        for run in &mut self.runs {
            run.first += run.times[run.first..].partition_point(|time| *time <= to);
            let left = run.times.len() - run.first;
            // What is left of a batch must not keep all of it.
            if left > 0 && left < run.times.len() / 2 {
                let at: UInt32Array = (run.first..run.times.len()).map(narrow).collect::<Result<Vec<_>>>()?.into();
                run.rows = take_record_batch(&run.rows, &at)?;
                run.times.drain(..run.first);
                run.groups.drain(..run.first);
                run.sequences.drain(..run.first);
                run.first = 0;
                run.bytes = size_of::<Run>() + batch_bytes(&run.rows) + left * ROW_BYTES;
            }
        }
        self.runs.retain(|run| run.first < run.times.len());
        self.bytes = self.runs.iter().map(|run| run.bytes).sum();
        Ok(())
    }

    /// The rows that wait, with their numbers: those that no snapshot has, or all.
    pub(crate) fn snapshot(&mut self, all: bool, types: &RecordBatch) -> Result<(Vec<ArrayRef>, Vec<i64>)> {
        let runs: Vec<&Run> = self.runs.iter().filter(|run| all || !run.noted).collect();
        let slices: Vec<RecordBatch> =
            runs.iter().map(|run| run.rows.slice(run.first, run.times.len() - run.first)).collect();
        let sequences = runs.iter().flat_map(|run| &run.sequences[run.first..]).copied().collect();
        let column = |column: usize| match slices.as_slice() {
            [] => Ok(new_empty_array(types.column(column).data_type())),
            slices => {
                let parts: Vec<_> = slices.iter().map(|slice| slice.column(column).as_ref()).collect();
                Ok(concat(&parts)?)
            }
        };
        let columns = (0..types.num_columns()).map(column).collect::<Result<_>>()?;
        self.runs.iter_mut().for_each(|run| run.noted = true);
        Ok((columns, sequences))
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes
    }
}
