//! Rows to emit: the differences among the first rows of the partitions that a batch has changed.

use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;

use super::partition::Entry;
use super::{Partitions, before};
use crate::Output;
use crate::keyed_state::{KeyedState, narrow};
use crate::operator::RESULT_ROWS;

/// Rows to emit.
#[derive(Default)]
pub(super) struct Emitted {
    /// Rows of the store with their partitions, each once.
    rows: Vec<usize>,
    groups: Vec<usize>,
    /// For each row to emit: its index in `rows`, its row number in its partition, and its weight.
    places: Vec<u32>,
    numbers: Vec<i64>,
    weights: Vec<i64>,
}

impl Emitted {
    /// The changes that the batch has made.
    pub(super) fn of_changes(partitions: &Partitions) -> Result<Emitted> {
        let mut emitted = Emitted::default();
        for (place, group) in partitions.touched.groups.iter().enumerate() {
            let group = *group as usize;
            let before = before(&partitions.touched.ends, &partitions.touched.before, place);
            let pairs = Pairs {
                before,
                after: partitions.partitions[group].entries(),
                is_stored: &partitions.touched.is_stored,
            };
            match partitions.spec.number {
                Some(_) => emitted.add_numbered(group, &pairs)?,
                None => emitted.add(group, &pairs, &partitions.copies)?,
            }
        }
        Ok(emitted)
    }

    /// Adds a row of the store to the rows to emit, and returns its index.
    fn row(&mut self, group: usize, row: usize) -> Result<u32> {
        self.rows.push(row);
        self.groups.push(group);
        narrow(self.rows.len() - 1)
    }

    fn push(&mut self, place: u32, number: usize, weight: i64) {
        self.places.push(place);
        self.numbers.push(number as i64);
        self.weights.push(weight);
    }

    /// Adds the rows of a partition that is emitted once and for all.
    pub(super) fn add_all(&mut self, group: usize, entries: &[Entry]) -> Result<()> {
        let mut number = 0;
        for entry in entries {
            let place = self.row(group, entry.kept())?;
            for _ in 0..entry.copies {
                number += 1;
                self.push(place, number, 1);
            }
        }
        Ok(())
    }

    /// Adds the rows that are in one of the lists only. Retractions come first, so that the last row of a key
    /// is the current one.
    fn add(&mut self, group: usize, pairs: &Pairs<'_>, copies: &[u32]) -> Result<()> {
        for entry in pairs.before {
            self.copies(group, entry, copies[entry.kept()], -1)?;
        }
        let mut former = 0;
        for entry in pairs.after {
            let others = pairs.former(entry, &mut former).map_or(0, |place| pairs.before[place].copies);
            self.copies(group, entry, others, 1)?;
        }
        Ok(())
    }

    /// Adds a row `entry.copies - others` times, if that is positive. `others`: its copies on the other side
    /// of the batch.
    fn copies(&mut self, group: usize, entry: &Entry, others: u32, weight: i64) -> Result<()> {
        if entry.copies > others {
            let place = self.row(group, entry.kept())?;
            (others..entry.copies).for_each(|_| self.push(place, 0, weight));
        }
        Ok(())
    }

    /// Adds the row numbers whose row has changed.
    fn add_numbered(&mut self, group: usize, pairs: &Pairs<'_>) -> Result<()> {
        let Pairs { before, after, .. } = pairs;
        // For each former entry: its index in `rows`, once it is needed.
        let mut places: Vec<Option<u32>> = vec![None; before.len()];
        let (mut was, mut is) = (numbered(before), numbered(after));
        let (mut former, mut last) = (0, None);
        for number in 1.. {
            let (left, entered) = (was.next(), is.next());
            if left.is_none() && entered.is_none() {
                break;
            }
            if left.map(|at| before[at].kept()) == entered.map(|at| after[at].kept()) {
                continue;
            }
            if let Some(at) = left {
                let place = self.once(&mut places[at], group, &before[at])?;
                self.push(place, number, -1);
            }
            let Some(at) = entered else { continue };
            let place = match (last, pairs.former(&after[at], &mut former)) {
                (_, Some(same)) => self.once(&mut places[same], group, &before[same])?,
                (Some((same, place)), _) if same == at => place,
                _ => self.row(group, after[at].kept())?,
            };
            last = Some((at, place));
            self.push(place, number, 1);
        }
        Ok(())
    }

    /// The index in `rows` of an entry, which is added the first time.
    fn once(&mut self, place: &mut Option<u32>, group: usize, entry: &Entry) -> Result<u32> {
        if let Some(place) = place {
            return Ok(*place);
        }
        let new = self.row(group, entry.kept())?;
        *place = Some(new);
        Ok(new)
    }
}

/// The first rows of a partition before a batch and after it, both in order.
struct Pairs<'a> {
    before: &'a [Entry],
    after: &'a [Entry],
    /// For each row of the store: whether the batch has stored it.
    is_stored: &'a [bool],
}

impl Pairs<'_> {
    /// The index that an entry had before the batch, if it existed. Entries are looked up in order: the
    /// search begins at the index `at`.
    fn former(&self, entry: &Entry, at: &mut usize) -> Option<usize> {
        if self.is_stored[entry.kept()] {
            return None;
        }
        while self.before.get(*at).is_some_and(|former| former.kept() != entry.kept()) {
            *at += 1;
        }
        (*at < self.before.len()).then_some(*at)
    }
}

/// The entry of each row number.
fn numbered(entries: &[Entry]) -> impl Iterator<Item = usize> {
    entries.iter().enumerate().flat_map(|(at, entry)| std::iter::repeat_n(at, entry.copies as usize))
}

/// Emits rows of a state.
pub(super) fn emit(
    state: &KeyedState<Partitions>,
    emitted: &Emitted,
    schema: &SchemaRef,
    out: &mut Output,
) -> Result<()> {
    let Emitted { rows, groups, places, numbers, weights } = emitted;
    if places.is_empty() {
        return Ok(());
    }
    let spec = &state.rows.spec;
    let keys = state.keys.keys_of(groups)?;
    let wanted = |column: usize| match column.checked_sub(spec.keys) {
        None => Ok(Arc::clone(&keys[column])),
        Some(column) => state.rows.rows.column_of(column, rows),
    };
    let once = spec.output.iter().map(|column| wanted(*column)).collect::<Result<Vec<ArrayRef>>>()?;
    let all_once = places.iter().enumerate().all(|(row, place)| row == *place as usize);
    for first in (0..places.len()).step_by(RESULT_ROWS) {
        let piece = first..places.len().min(first + RESULT_ROWS);
        let at = UInt32Array::from(if all_once { Vec::new() } else { places[piece.clone()].to_vec() });
        let column = |column: &ArrayRef| match all_once {
            true => Ok(column.slice(first, piece.len())),
            false => take(column, &at, None),
        };
        let mut columns = once.iter().map(column).collect::<std::result::Result<Vec<ArrayRef>, _>>()?;
        if spec.number.is_some() {
            columns.push(Arc::new(Int64Array::from(numbers[piece.clone()].to_vec())));
        }
        if spec.window.is_none() {
            columns.push(Arc::new(Int64Array::from(weights[piece.clone()].to_vec())));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(piece.len()));
        out.batch(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?);
    }
    Ok(())
}
