//! Runs the functions over rows in their order: rows enter frames and leave them, and results are read
//! between.

use std::ops::Range;

use anabranch_dataflow::Frame;
use anabranch_model::Result;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;

use super::history::History;
use super::{Over, Partitions};
use crate::group_aggregate::readings::Readings;
use crate::key_hash::canonical;
use crate::keyed_state::{KeyedState, narrow};
use crate::waiting::DueRows;

/// New rows of one partition, adjacent among all new rows.
struct NewRows<'a> {
    group: usize,
    /// Their indices among the new rows.
    rows: Range<usize>,
    /// Number of the first new row in the history.
    first: u64,
    /// Times of all new rows.
    times: &'a [i64],
    /// For each `LAG`: the number of rows before.
    lags: &'a [u64],
}

/// Rows that enter and leave frames.
#[derive(Default)]
struct Moves {
    /// Their numbers.
    rows: Vec<u64>,
    groups: Vec<usize>,
    /// 1 or -1.
    weights: Vec<i64>,
    readings: Readings,
    /// For each `LAG`: the row whose value is the result, if there is one.
    earlier: Vec<Vec<Option<u64>>>,
}

impl Moves {
    fn push(&mut self, row: u64, group: usize, weight: i64) {
        self.rows.push(row);
        self.groups.push(group);
        self.weights.push(weight);
    }

    /// Reads the result of the row that entered its frame last.
    fn read(&mut self, group: usize, history: &History, lags: &[u64]) {
        self.readings.push(self.rows.len(), group);
        let list = &history.lists[group].rows;
        for (earlier, lag) in self.earlier.iter_mut().zip(lags) {
            let index = usize::try_from(*lag).ok().and_then(|lag| list.len().checked_sub(1 + lag));
            earlier.push(index.map(|index| list[index].0));
        }
    }
}

impl Over {
    /// The results of due rows, a column for each function.
    pub(super) fn results(&mut self, piece: &DueRows) -> Result<Vec<ArrayRef>> {
        let keys: Vec<ArrayRef> = piece.rows.columns()[..self.spec.keys].iter().map(canonical).collect();
        if let Some(halves) = self.state.bring(&keys, piece.rows.num_rows())? {
            return self.results_of_halves(piece, &halves);
        }
        let KeyedState { rows: partitions, ids, times: written, .. } = &mut self.state;
        let groups_of: Vec<u32> = ids.iter().map(|id| narrow(*id)).collect::<Result<_>>()?;
        // Rows are grouped by partition, and keep their order within it.
        let mut order: Vec<u32> = (0..narrow(groups_of.len())?).collect();
        let is_sorted = groups_of.is_sorted();
        if !is_sorted {
            order.sort_by_key(|row| groups_of[*row as usize]);
        }
        let at = UInt32Array::from(order);
        let sorted = |column: &ArrayRef| if is_sorted { Ok(ArrayRef::clone(column)) } else { take(column, &at, None) };
        let columns = partitions.read.iter().map(|column| Ok(sorted(piece.rows.column(*column))?));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let groups: Vec<u32> = at.values().iter().map(|row| groups_of[*row as usize]).collect();
        let times: Vec<i64> = at.values().iter().map(|row| piece.numbers[*row as usize]).collect();
        partitions.write(&groups, written.as_mut());
        let results = match self.spec.frame.is_unbounded() {
            true => partitions.unbounded(&columns, &groups, &times)?,
            false => partitions.bounded(&columns, &groups, &times, (&piece.rows, &at))?,
        };
        if is_sorted {
            return Ok(results);
        }
        let mut places = vec![0_u32; at.len()];
        at.values().iter().zip(0..).for_each(|(row, place)| places[*row as usize] = place);
        let places = UInt32Array::from(places);
        results.iter().map(|results| Ok(take(results, &places, None)?)).collect()
    }
}

impl Partitions {
    /// Functions over all rows so far.
    fn unbounded(&mut self, columns: &[ArrayRef], groups: &[u32], times: &[i64]) -> Result<Vec<ArrayRef>> {
        let groups_of: Vec<usize> = groups.iter().map(|group| *group as usize).collect();
        let by_time = matches!(self.spec.frame, Frame::Range { .. });
        let mut readings = Readings::default();
        for (row, group) in groups_of.iter().enumerate() {
            // Rows of the same time are peers: the frame of each contains all of them.
            let same = |other: usize| by_time && (groups[other], times[other]) == (groups[row], times[row]);
            let after = match readings.after.last() {
                Some(after) if *after > row => *after,
                _ => (row + 1..groups.len()).find(|other| !same(*other)).unwrap_or(groups.len()),
            };
            let after = if by_time { after } else { row + 1 };
            readings.push(after, *group);
            self.changes.add(*group);
        }
        self.functions.run(&self.batch_of(columns.to_vec(), groups_of.len())?, (&groups_of, None), &readings)
    }

    /// Functions over bounded frames, which rows leave again.
    fn bounded(
        &mut self,
        columns: &[ArrayRef],
        groups: &[u32],
        times: &[i64],
        (piece, at): (&RecordBatch, &UInt32Array),
    ) -> Result<Vec<ArrayRef>> {
        let latest = times.iter().copied().max().unwrap_or(i64::MIN);
        let first = self.history.add(columns, groups.to_vec(), latest);
        let lags: Vec<u64> = self.functions.lags.iter().map(|lag| lag.rows).collect();
        let mut moves = Moves { earlier: vec![Vec::new(); lags.len()], ..Moves::default() };
        let mut begin = 0;
        while begin < groups.len() {
            let group = groups[begin] as usize;
            let end = begin + groups[begin..].partition_point(|other| *other as usize == group);
            let new = NewRows { group, rows: begin..end, first, times, lags: &lags };
            match self.spec.frame {
                Frame::Rows { preceding } => {
                    let preceding = usize::try_from(preceding.unwrap_or(0)).unwrap_or(usize::MAX);
                    self.enter_rows(&mut moves, &new, preceding);
                }
                Frame::Range { preceding_ms } => self.enter_range(&mut moves, &new, preceding_ms.unwrap_or(0)),
            }
            begin = end;
        }
        let batch = self.batch_of(self.history.columns(&moves.rows)?, moves.rows.len())?;
        let mut results = self.functions.run(&batch, (&moves.groups, Some(&moves.weights)), &moves.readings)?;
        for (lag, earlier) in self.functions.lags.iter().zip(&moves.earlier) {
            let otherwise = lag.otherwise.map(|column| take(piece.column(column), at, None)).transpose()?;
            let values = self.history.column(lag.column, earlier, otherwise.as_ref())?;
            results.insert(lag.place, values);
        }
        self.history.tidy()?;
        Ok(results)
    }

    fn enter_rows(&mut self, moves: &mut Moves, new: &NewRows<'_>, preceding: usize) {
        let NewRows { group, first, times, lags, .. } = *new;
        for row in new.rows.clone() {
            let number = first + row as u64;
            self.history.push(group, number, times[row]);
            moves.push(number, group, 1);
            if self.history.lists[group].rows.len() > preceding.saturating_add(1) {
                self.leave(moves, group);
            }
            moves.read(group, &self.history, lags);
        }
        // The frame of the next row contains only `preceding` of these.
        while self.history.lists[group].rows.len() > preceding {
            self.leave(moves, group);
        }
    }

    fn enter_range(&mut self, moves: &mut Moves, new: &NewRows<'_>, preceding_ms: i64) {
        let NewRows { group, first, times, lags, .. } = *new;
        let mut next = new.rows.start;
        while next < new.rows.end {
            let time = times[next];
            let end = next + times[next..new.rows.end].partition_point(|other| *other == time);
            for row in next..end {
                self.history.push(group, first + row as u64, time);
                moves.push(first + row as u64, group, 1);
            }
            let earliest = time.saturating_sub(preceding_ms);
            while self.history.lists[group].rows.front().is_some_and(|(_, time)| *time < earliest) {
                self.leave(moves, group);
            }
            (next..end).for_each(|_| moves.read(group, &self.history, lags));
            next = end;
        }
    }

    fn leave(&mut self, moves: &mut Moves, group: usize) {
        if let Some(row) = self.history.pop(group) {
            moves.push(row, group, -1);
        }
    }

    /// The columns that functions read, as a batch.
    pub(super) fn batch_of(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(std::sync::Arc::clone(&self.functions.schema), columns, &options)?)
    }

    /// Removes the rows that are too early for the frame of any later row.
    pub(super) fn drop_early(&mut self, watermark: i64) -> Result<()> {
        let Frame::Range { preceding_ms: Some(preceding_ms) } = self.spec.frame else { return Ok(()) };
        let last = watermark.saturating_sub(preceding_ms);
        while let Some((rows, groups)) = self.history.pop_chunk(last) {
            let batch = self.batch_of(self.history.columns(&rows)?, rows.len())?;
            self.functions.run(&batch, (&groups, Some(&vec![-1; rows.len()])), &Readings::default())?;
            self.history.drop_first();
        }
        Ok(())
    }
}
