//! The matches of a batch, a piece at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};

use super::side::Side;
use super::{Of, StreamJoin, opposite, taken};
use crate::Output;
use crate::operator::RESULT_ROWS;

/// A batch whose matches are being emitted.
pub(super) struct Pending {
    of: Of,
    columns: Vec<ArrayRef>,
    weights: Vec<i64>,
    /// The key of each row.
    keys: Vec<usize>,
    /// The id of each row on its side.
    ids: Vec<usize>,
    /// Where to go on: a row, and the row of the other side that may match it.
    next: (usize, Option<usize>),
    /// The number of matches of each row so far.
    found: Vec<i64>,
    /// Rows of the other side, with what the batch adds to the numbers of their matches.
    met: BTreeMap<usize, i64>,
}

impl Pending {
    pub(super) fn new(
        of: Of,
        columns: Vec<ArrayRef>,
        weights: Vec<i64>,
        keys: Vec<usize>,
        ids: Vec<usize>,
        other: &Side,
    ) -> Pending {
        let first = keys.first().and_then(|key| other.first(*key));
        let found = vec![0; weights.len()];
        Pending { of, columns, weights, keys, ids, next: (0, first), found, met: BTreeMap::new() }
    }

    /// The next pairs of a row and a row of the other side with the same key.
    fn candidates(&mut self, other: &Side) -> (Vec<u64>, Vec<usize>) {
        let (mut rows, mut others) = (Vec::new(), Vec::new());
        let (mut row, mut at) = self.next;
        while row < self.keys.len() && rows.len() < RESULT_ROWS {
            match at {
                Some(found) => {
                    if other.weights[found] != 0 && self.weights[row] != 0 {
                        rows.push(row as u64);
                        others.push(found);
                    }
                    at = other.after(found);
                }
                None => {
                    row += 1;
                    at = self.keys.get(row).and_then(|key| other.first(*key));
                }
            }
        }
        self.next = (row, at);
        (rows, others)
    }

    fn is_done(&self) -> bool {
        self.next.0 >= self.keys.len()
    }
}

impl StreamJoin {
    /// Emits the next matches of the batch that was taken in. Returns false if there was none.
    pub(super) fn go_on(&mut self, out: &mut Output) -> Result<bool> {
        let Some(mut pending) = self.pending.take() else { return Ok(false) };
        let other = opposite(pending.of);
        let (rows, others) = pending.candidates(self.side(other));
        if !rows.is_empty() {
            self.emit_pairs(&mut pending, &rows.into(), &others, out)?;
        }
        match pending.is_done() {
            true => self.finish(pending, out)?,
            false => self.pending = Some(pending),
        }
        Ok(true)
    }

    /// Emits the pairs that satisfy the condition, and counts them.
    fn emit_pairs(
        &mut self,
        pending: &mut Pending,
        rows: &UInt64Array,
        others: &[usize],
        out: &mut Output,
    ) -> Result<()> {
        let other = opposite(pending.of);
        let own = taken(&pending.columns, rows)?;
        let theirs = self.columns_of(other, others)?;
        let mut joined: Vec<ArrayRef> = match pending.of {
            Of::Left => own.into_iter().chain(theirs).collect(),
            Of::Right => theirs.into_iter().chain(own).collect(),
        };
        let mut kept: Vec<usize> = (0..others.len()).collect();
        if let Some(filter) = &mut self.filter {
            let options = RecordBatchOptions::new().with_row_count(Some(others.len()));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&self.joined_schema), joined, &options)?;
            let passes = filter.evaluate_predicate(&batch)?;
            kept.retain(|pair| passes.value(*pair));
            let places: UInt64Array = kept.iter().map(|pair| *pair as u64).collect();
            joined =
                if kept.len() == others.len() { batch.columns().to_vec() } else { taken(batch.columns(), &places)? };
        }
        let counts = self.side(other).role.counts();
        let mut weights = Vec::with_capacity(kept.len());
        for pair in kept {
            let (row, met) = (rows.value(pair) as usize, others[pair]);
            let (own, theirs) = (pending.weights[row], self.side(other).weights[met]);
            weights.push(own * theirs);
            pending.found[row] += theirs;
            if counts {
                *pending.met.entry(met).or_default() += own;
            }
        }
        match self.gives_pairs {
            true => self.emit(&joined, weights, out),
            false => Ok(()),
        }
    }

    /// Emits what the batch changes besides its pairs.
    fn finish(&mut self, pending: Pending, out: &mut Output) -> Result<()> {
        let Pending { of, columns, weights, keys, ids, found, met, .. } = pending;
        let own = self.sides(of).0;
        if own.role.counts() {
            for (id, found) in ids.iter().zip(&found) {
                own.matches[*id] = *found;
            }
            let role = own.role;
            let shown: UInt64Array =
                (0..ids.len()).filter(|row| role.shows(found[*row])).map(|row| row as u64).collect();
            let weights = shown.values().iter().map(|row| weights[*row as usize]).collect();
            let columns = taken(&columns, &shown)?;
            self.emit_alone(of, &columns, weights, out)?;
        }
        let other = self.sides(of).1;
        let (mut rows, mut changed) = (Vec::new(), Vec::new());
        for (row, change) in met.into_iter().filter(|(_, change)| *change != 0) {
            let before = other.role.shows(other.matches[row]);
            other.matches[row] += change;
            other.changes.add(row);
            let after = other.role.shows(other.matches[row]);
            if before != after {
                rows.push(row);
                changed.push(if after { other.weights[row] } else { -other.weights[row] });
            }
        }
        self.ids = keys;
        let columns = self.columns_of(opposite(of), &rows)?;
        self.emit_alone(opposite(of), &columns, changed, out)
    }
}
