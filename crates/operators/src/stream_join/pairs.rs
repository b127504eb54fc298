//! The matches of a batch, a piece at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};

use super::{JoinSide, StreamJoin, opposite};
use crate::Output;
use crate::join_tables::{Side, SideRows, in_order, taken};
use crate::operator::RESULT_ROWS;

/// A batch whose matches are being emitted.
pub(super) struct Pending {
    side: JoinSide,
    pub(super) columns: Vec<ArrayRef>,
    weights: Vec<i64>,
    /// The key of each row.
    keys: Vec<usize>,
    /// The id of each row on its side.
    ids: Vec<usize>,
    /// Where to continue: a row, and the candidate of the other side.
    next: (usize, Option<usize>),
    /// The number of matches of each row so far.
    found: Vec<i64>,
    /// Rows of the other side that the batch has matched.
    met: BTreeMap<usize, MatchedRow>,
}

/// A row of the other side.
struct MatchedRow {
    /// The change of its number of matches.
    added: i64,
    /// Whether it is currently emitted besides its pairs.
    appears: bool,
}

impl Pending {
    pub(super) fn new(side: JoinSide, rows: SideRows, keys: Vec<usize>, ids: Vec<usize>) -> Pending {
        let SideRows { columns, weights } = rows;
        let found = vec![0; weights.len()];
        Pending { side, columns, weights, keys, ids, next: (0, None), found, met: BTreeMap::new() }
    }

    pub(super) fn takes_back(&self) -> bool {
        self.weights.iter().any(|weight| *weight < 0)
    }

    /// Adds up the weights of equal rows, and puts retractions first.
    pub(super) fn put_in_order(&mut self) -> Result<()> {
        let order = in_order(&self.ids, &self.weights);
        let rows: UInt64Array = order.iter().map(|(row, _)| *row as u64).collect();
        self.columns = taken(&self.columns, &rows)?;
        self.weights = order.iter().map(|(_, weight)| *weight).collect();
        self.keys = order.iter().map(|(row, _)| self.keys[*row]).collect();
        self.ids = order.iter().map(|(row, _)| self.ids[*row]).collect();
        self.found = vec![0; order.len()];
        Ok(())
    }

    /// Whether a row existed before the batch, which retracts it.
    fn leaves(&self, row: usize, own: &Side) -> bool {
        let id = self.ids[row];
        self.weights[row] < 0 && own.weight(id) > self.weights[row] && !own.orphans.contains(&id)
    }

    /// Retracted rows that are part of the result besides their pairs.
    pub(super) fn hidden(&self, own: &Side) -> (UInt64Array, Vec<i64>) {
        let appears = |row: &usize| own.role.counts() && own.role.shows(own.matches[self.ids[*row]]);
        let rows: Vec<usize> = (0..self.ids.len()).filter(|row| self.leaves(*row, own)).filter(appears).collect();
        let weights = rows.iter().map(|row| self.weights[*row]).collect();
        (rows.into_iter().map(|row| row as u64).collect(), weights)
    }

    /// Starts the iteration, once the other side is in memory.
    pub(super) fn begin(&mut self, other: &Side) {
        self.next = (0, self.keys.first().and_then(|key| other.first(*key)));
    }

    /// The next candidate pairs: a row and a row of the other side with the same key.
    fn candidates(&mut self, other: &Side) -> (Vec<u64>, Vec<usize>) {
        let (mut rows, mut others) = (Vec::new(), Vec::new());
        let (mut row, mut at) = self.next;
        while row < self.keys.len() && rows.len() < RESULT_ROWS {
            match at {
                Some(found) => {
                    if other.weight(found) != 0 && self.weights[row] != 0 {
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
    /// Emits the next matches of the pending batch. Returns false if there was none.
    pub(super) fn emit_more(&mut self, out: &mut Output) -> Result<bool> {
        let Some(mut pending) = self.pending.take() else { return Ok(false) };
        let other = opposite(pending.side);
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
        let other = opposite(pending.side);
        // Most often each row has one match.
        let is_whole =
            rows.len() == pending.weights.len() && rows.values().iter().enumerate().all(|(at, row)| at as u64 == *row);
        let own = if is_whole { pending.columns.clone() } else { taken(&pending.columns, rows)? };
        let theirs = self.tables.columns_of(other as usize, others)?;
        let mut joined: Vec<ArrayRef> = match pending.side {
            JoinSide::Left => own.into_iter().chain(theirs).collect(),
            JoinSide::Right => theirs.into_iter().chain(own).collect(),
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
        let side = self.side(other);
        let (mut weights, mut hidden) = (Vec::with_capacity(kept.len()), BTreeSet::new());
        for pair in kept {
            let (row, met) = (rows.value(pair) as usize, others[pair]);
            let (own, theirs) = (pending.weights[row], side.weight(met));
            weights.push(own * theirs);
            pending.found[row] += theirs;
            if side.role.counts() {
                let appears = side.role.shows(side.matches[met]);
                pending.met.entry(met).or_insert(MatchedRow { added: 0, appears }).added += own;
                hidden.insert(met);
            }
        }
        // A row that gets its first match is retracted before its pairs are emitted.
        let mut gone = Vec::new();
        for row in hidden {
            let Some(met) = pending.met.get_mut(&row) else { continue };
            if met.appears && !side.role.shows(side.matches[row] + met.added) {
                met.appears = false;
                gone.push(row);
            }
        }
        let gone_weights = gone.iter().map(|row| -side.weight(*row)).collect();
        let columns = self.tables.columns_of(other as usize, &gone)?;
        self.emit_alone(other, &columns, gone_weights, out)?;
        match self.gives_pairs {
            true => self.emit(&joined, weights, out),
            false => Ok(()),
        }
    }

    /// Emits the changes of the batch besides its pairs.
    fn finish(&mut self, pending: Pending, out: &mut Output) -> Result<()> {
        let own = self.side(pending.side);
        let emitted: Vec<bool> = (0..pending.ids.len()).map(|row| pending.leaves(row, own)).collect();
        let Pending { side, columns, weights, keys, ids, found, met, .. } = pending;
        let own = self.side_mut(side);
        if own.role.counts() {
            for (id, found) in ids.iter().zip(&found) {
                // An equal row may have matched rows that have expired.
                let before = if own.expiry.is_some() { own.matches[*id] } else { 0 };
                own.matches[*id] = before.max(*found);
            }
            let role = own.role;
            let appears = |row: &usize| !emitted[*row] && role.shows(found[*row]);
            let shown: UInt64Array = (0..ids.len()).filter(appears).map(|row| row as u64).collect();
            let weights = shown.values().iter().map(|row| weights[*row as usize]).collect();
            let columns = taken(&columns, &shown)?;
            self.emit_alone(side, &columns, weights, out)?;
        }
        let other = self.side_mut(opposite(side));
        let (mut rows, mut changed) = (Vec::new(), Vec::new());
        for (row, MatchedRow { added, appears }) in met {
            other.add_matches(row, added);
            let appears_now = other.role.shows(other.matches[row]);
            if appears != appears_now {
                rows.push(row);
                changed.push(if appears_now { other.weight(row) } else { -other.weight(row) });
            }
        }
        self.tables.give_back(keys);
        let columns = self.tables.columns_of(opposite(side) as usize, &rows)?;
        self.emit_alone(opposite(side), &columns, changed, out)?;
        // Some rows may have expired when they arrived.
        self.expire(side);
        Ok(())
    }
}
