//! Batches that travel from one process to another: numbers, or numbers and strings.

use std::sync::Arc;

use anabranch_model::{HASH_SEED, Result, Rng, hash_u64};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::buffer::Buffer;
use arrow::datatypes::Int64Type;

use super::BLOCK_ROWS;

/// Batches that are sent in turn: more than the processor's caches hold.
const BATCHES: usize = 16;

/// Batches of one shape.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// The batches that are sent in turn.
    pub(crate) batches: Vec<RecordBatch>,
    /// How many batches are sent.
    pub(crate) count: usize,
}

impl Columns {
    /// Four columns of numbers.
    pub(crate) fn numbers(rows: u64, seed: u64) -> Result<Columns> {
        Self::generate(rows, seed, 4, 0)
    }

    /// Two columns of numbers and two of strings of 20 to 40 bytes.
    pub(crate) fn strings(rows: u64, seed: u64) -> Result<Columns> {
        Self::generate(rows, seed, 2, 2)
    }

    fn generate(rows: u64, seed: u64, numbers: usize, strings: usize) -> Result<Columns> {
        let mut rng = Rng::new(seed);
        let batch = |_| {
            let numbers: Vec<ArrayRef> = (0..numbers)
                .map(|_| Int64Array::from_iter_values((0..BLOCK_ROWS).map(|_| rng.next_u64().cast_signed() >> 20)))
                .map(|column| Arc::new(column) as ArrayRef)
                .collect();
            let mut text = || {
                let length = 20 + rng.below(21) as usize;
                let letter = |_| char::from(b'a' + rng.below(26) as u8);
                (0..length).map(letter).collect::<String>()
            };
            let strings = (0..strings)
                // Collected as after a decoder: in one buffer.
                .map(|_| StringViewArray::from_iter_values((0..BLOCK_ROWS).map(|_| text())).gc())
                .map(|column| Arc::new(column) as ArrayRef);
            let strings: Vec<ArrayRef> = strings.collect();
            let columns = numbers.into_iter().chain(strings).enumerate();
            Ok(RecordBatch::try_from_iter(columns.map(|(index, column)| (format!("c{index}"), column)))?)
        };
        let batches = (0..BATCHES).map(batch).collect::<Result<_>>()?;
        Ok(Columns { batches, count: (rows as usize).div_ceil(BLOCK_ROWS) })
    }

    /// Rows that are sent.
    pub(crate) fn rows(&self) -> u64 {
        (self.count * BLOCK_ROWS) as u64
    }

    /// The batches in the order of sending.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = &RecordBatch> {
        self.batches.iter().cycle().take(self.count)
    }
}

/// The buffers of a column: its values or views, and then the strings.
pub(crate) fn buffers(column: &dyn Array) -> Vec<Buffer> {
    match column.as_primitive_opt::<Int64Type>() {
        Some(numbers) => vec![numbers.values().inner().clone()],
        None => {
            let strings = column.as_string_view();
            std::iter::once(strings.views().inner()).chain(strings.data_buffers()).cloned().collect()
        }
    }
}

/// Hash of what a receiver looks at: the last row of each batch, so that looking costs next to nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastRows(pub(crate) u64);

impl LastRows {
    /// No batch yet.
    pub(crate) fn new() -> Self {
        LastRows(HASH_SEED)
    }

    /// Adds the last row of a column: its number, or the length and the first bytes of its string.
    pub(crate) fn add(&mut self, value: u64) {
        self.0 = hash_u64(self.0, value);
    }

    /// Adds the last row of a batch.
    pub(crate) fn add_batch(&mut self, batch: &RecordBatch) {
        for column in batch.columns() {
            self.add(match column.as_primitive_opt::<Int64Type>() {
                Some(numbers) => numbers.values().last().map_or(0, |value| value.cast_unsigned()),
                None => column.as_string_view().views().last().map_or(0, |view| *view as u64),
            });
        }
    }
}
