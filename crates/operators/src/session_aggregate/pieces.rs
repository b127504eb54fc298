//! Aggregate states of sessions, as rows of columns. A session has one or more of them, which are merged when
//! they are needed.

use std::collections::BTreeMap;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::interleave;
use datafusion_expr::{EmitTo, GroupsAccumulator};

use crate::expression::runtime_error;
use crate::keyed_state::narrow;
use crate::window_aggregate::AggregateFunctions;

/// Fewer released rows are not worth removing.
const DEAD_MIN: usize = if cfg!(test) { 8 } else { 1 << 14 };

/// A row of states: the number of its chunk, and its index there.
pub(super) type Piece = (u32, u32);

/// The states of all sessions.
pub(super) struct Pieces {
    functions: AggregateFunctions,
    chunks: BTreeMap<u32, Chunk>,
    /// The number of the next chunk.
    next: u32,
    /// Number of rows of all chunks.
    rows: usize,
    /// Number of rows that belong to sessions.
    live: usize,
    bytes: usize,
}

/// States that were added at once.
struct Chunk {
    states: Vec<ArrayRef>,
    rows: usize,
    /// Number of rows that belong to sessions.
    live: usize,
    bytes: usize,
}

impl Pieces {
    pub(super) fn new(functions: AggregateFunctions) -> Pieces {
        Pieces { functions, chunks: BTreeMap::new(), next: 0, rows: 0, live: 0, bytes: 0 }
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// Aggregates rows: one piece for each group.
    pub(super) fn add_rows(&mut self, batch: &RecordBatch, group_of: &[usize], groups: usize) -> Result<Vec<Piece>> {
        let (values, filters) = self.functions.arguments(batch)?;
        let mut states = Vec::new();
        for ((mut accumulator, values), filter) in self.functions.accumulators()?.into_iter().zip(values).zip(filters) {
            accumulator.update_batch(&values, group_of, filter.as_ref(), groups).map_err(|e| runtime_error(&e))?;
            states.extend(states_of(accumulator.as_mut(), groups)?);
        }
        self.add(states, groups)
    }

    pub(super) fn add(&mut self, states: Vec<ArrayRef>, rows: usize) -> Result<Vec<Piece>> {
        if rows == 0 {
            return Ok(Vec::new());
        }
        let (number, end) = (self.next, narrow(rows)?);
        self.next = self.next.checked_add(1).ok_or_else(|| Error::internal("states without a number"))?;
        let bytes = states.iter().map(|column| column.get_array_memory_size()).sum();
        self.chunks.insert(number, Chunk { states, rows, live: rows, bytes });
        (self.rows, self.live, self.bytes) = (self.rows + rows, self.live + rows, self.bytes + bytes);
        Ok((0..end).map(|row| (number, row)).collect())
    }

    /// Releases pieces that no session has any more.
    pub(super) fn release(&mut self, pieces: &[Piece]) {
        use std::collections::btree_map::Entry;
        self.live -= pieces.len();
        for (number, _) in pieces {
            let Entry::Occupied(mut entry) = self.chunks.entry(*number) else { continue };
            entry.get_mut().live -= 1;
            if entry.get().live == 0 {
                let Chunk { rows, bytes, .. } = entry.remove();
                (self.rows, self.bytes) = (self.rows - rows, self.bytes - bytes);
            }
        }
    }

    /// Releases all pieces.
    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        (self.rows, self.live, self.bytes, self.next) = (0, 0, 0, 0);
    }

    /// Whether most rows are released.
    pub(super) fn is_sparse(&self) -> bool {
        self.rows > 4 * self.live + DEAD_MIN
    }

    /// Moves all pieces to one chunk, and merges each of these lists into one piece.
    pub(super) fn gather_all(&mut self, lists: &mut [&mut Vec<Piece>]) -> Result<()> {
        let states = self.merged(&lists.iter().map(|list| list.as_slice()).collect::<Vec<_>>())?;
        self.clear();
        let pieces = self.add(states, lists.len())?;
        lists.iter_mut().zip(pieces).for_each(|(list, piece)| **list = vec![piece]);
        Ok(())
    }

    /// One row of states for each of these lists.
    pub(super) fn merged(&self, lists: &[&[Piece]]) -> Result<Vec<ArrayRef>> {
        if lists.iter().all(|list| list.len() == 1) {
            return self.columns(lists);
        }
        let mut states = Vec::new();
        for mut accumulator in self.accumulators(lists)? {
            states.extend(states_of(accumulator.as_mut(), lists.len())?);
        }
        Ok(states)
    }

    /// One row of results for each of these lists.
    pub(super) fn results(&self, lists: &[&[Piece]]) -> Result<Vec<ArrayRef>> {
        let evaluate = |mut accumulator: Box<dyn GroupsAccumulator>| {
            accumulator.evaluate(EmitTo::All).map_err(|error| runtime_error(&error))
        };
        self.accumulators(lists)?.into_iter().map(evaluate).collect()
    }

    fn accumulators(&self, lists: &[&[Piece]]) -> Result<Vec<Box<dyn GroupsAccumulator>>> {
        let columns = self.functions.split_states(&self.columns(lists)?)?;
        let lengths = lists.iter().enumerate();
        let group_of: Vec<usize> = lengths.flat_map(|(group, list)| std::iter::repeat_n(group, list.len())).collect();
        let mut accumulators = self.functions.accumulators()?;
        for (accumulator, states) in accumulators.iter_mut().zip(&columns) {
            accumulator.merge_batch(states, &group_of, lists.len()).map_err(|error| runtime_error(&error))?;
        }
        Ok(accumulators)
    }

    /// The rows of these pieces.
    fn columns(&self, lists: &[&[Piece]]) -> Result<Vec<ArrayRef>> {
        let mut numbers: Vec<u32> = lists.iter().flat_map(|list| list.iter().map(|(number, _)| *number)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let chunks: Option<Vec<&Chunk>> = numbers.iter().map(|number| self.chunks.get(number)).collect();
        let chunks = chunks.ok_or_else(|| Error::internal("states of a session are gone"))?;
        let place = |(number, row): &Piece| Some((numbers.binary_search(number).ok()?, *row as usize));
        let places: Vec<(usize, usize)> = lists.iter().flat_map(|list| list.iter().filter_map(place)).collect();
        let columns = chunks.first().map_or(0, |chunk| chunk.states.len());
        let column = |index: usize| {
            let arrays: Vec<&dyn Array> = chunks.iter().map(|chunk| chunk.states[index].as_ref()).collect();
            Ok(interleave(&arrays, &places)?)
        };
        (0..columns).map(column).collect()
    }

    /// Takes over the states of the same functions of a former plan version.
    pub(super) fn take_over(&mut self, former: &mut Pieces) {
        std::mem::swap(&mut self.chunks, &mut former.chunks);
        (self.next, self.rows) = (former.next, former.rows);
        (self.live, self.bytes) = (former.live, former.bytes);
    }
}

/// The states of all groups. No columns for zero groups, whose states not every accumulator can emit.
fn states_of(accumulator: &mut dyn GroupsAccumulator, groups: usize) -> Result<Vec<ArrayRef>> {
    if groups == 0 {
        return Ok(Vec::new());
    }
    accumulator.state(EmitTo::All).map_err(|error| runtime_error(&error))
}
