//! The records of a sink's rows: each row one record, or for a table with a primary key the latest of each key.

use std::collections::HashSet;
use std::sync::Arc;

use anabranch_dataflow::SinkSpec;
use anabranch_model::{Error, Result};
use arrow::array::{Array, AsArray, BinaryArray, BooleanArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::{filter, filter_record_batch};
use arrow::datatypes::Int64Type;

use super::key::KeyEncoder;
use super::table::Table;
use crate::format::{Encode, Format};

/// Encodes rows.
pub(super) struct Records {
    keys: Option<KeyEncoder>,
    values: Box<dyn Encode>,
    /// Columns of the value; `None`: all.
    columns: Option<Vec<usize>>,
    /// Rows have a weight after so many columns.
    weight: Option<usize>,
}

/// Keys, if records have any, and values: as many of each. A value that is NULL deletes its key.
pub(super) struct Encoded {
    pub(super) keys: Option<BinaryArray>,
    pub(super) values: BinaryArray,
}

impl Records {
    /// Of a table. `columns` are those of the value, if not all.
    pub(super) fn new(table: &Table, format: &Format, spec: &SinkSpec, columns: Option<Vec<usize>>) -> Result<Records> {
        let value = match &columns {
            Some(columns) => Arc::new(spec.schema.project(columns)?),
            None => Arc::clone(&spec.schema),
        };
        Ok(Records {
            keys: KeyEncoder::new(table, &spec.schema)?,
            values: format.encoder(&value)?,
            columns,
            weight: spec.updating.then(|| spec.schema.fields().len()),
        })
    }

    /// Whether records have keys.
    pub(super) fn have_keys(&self) -> bool {
        self.keys.is_some()
    }

    pub(super) fn encode(&mut self, batch: &RecordBatch) -> Result<Encoded> {
        let Some(weight) = self.weight else {
            let keys = self.keys.as_mut().map(|keys| keys.encode(batch)).transpose()?;
            return Ok(Encoded { keys, values: self.values(batch)? });
        };
        let Some(keys) = &mut self.keys else {
            return Err(Error::internal("updating rows for records without a key"));
        };
        let rows = batch.project(&(0..weight).collect::<Vec<_>>())?;
        let keys = keys.encode(&rows)?;
        let latest = latest(&keys);
        let (keys, rows) = (filter(&keys, &latest)?, filter_record_batch(&rows, &latest)?);
        let weights = filter(batch.column(weight), &latest)?;
        let exists: NullBuffer =
            weights.as_primitive::<Int64Type>().values().iter().map(|weight| *weight > 0).collect();
        let (offsets, values, nulls) = self.values(&rows)?.into_parts();
        let values = BinaryArray::try_new(offsets, values, NullBuffer::union(nulls.as_ref(), Some(&exists)))?;
        Ok(Encoded { keys: Some(keys.as_binary::<i32>().clone()), values })
    }

    fn values(&mut self, rows: &RecordBatch) -> Result<BinaryArray> {
        match &self.columns {
            Some(columns) => self.values.encode(&rows.project(columns)?),
            None => self.values.encode(rows),
        }
    }
}

impl Encoded {
    /// Their memory.
    pub(super) fn bytes(&self) -> usize {
        let of = |array: &BinaryArray| array.get_array_memory_size();
        of(&self.values) + self.keys.as_ref().map_or(0, of)
    }

    /// Key and value of each record.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Option<&[u8]>, Option<&[u8]>)> {
        self.iter_from(0)
    }

    /// The same without the first records.
    pub(super) fn iter_from(&self, first: usize) -> impl Iterator<Item = (Option<&[u8]>, Option<&[u8]>)> {
        let key = |row: usize| self.keys.as_ref().filter(|keys| keys.is_valid(row)).map(|keys| keys.value(row));
        (first..self.values.len()).map(move |row| (key(row), self.values.is_valid(row).then(|| self.values.value(row))))
    }
}

/// The last row of each key: the rows of a key are in their order.
fn latest(keys: &BinaryArray) -> BooleanArray {
    let mut seen = HashSet::with_capacity(keys.len());
    let mut latest: Vec<bool> = (0..keys.len()).rev().map(|row| seen.insert(keys.value(row))).collect();
    latest.reverse();
    latest.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_of_a_key_counts() {
        let keys = BinaryArray::from_vec(vec![b"a", b"b", b"a", b"c", b"b"]);
        assert_eq!(latest(&keys), BooleanArray::from(vec![false, false, true, true, true]));
    }
}
