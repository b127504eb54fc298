//! The records for a sink's rows: one record per row, or for a table with a primary key the latest row of
//! each key.

use std::collections::HashSet;
use std::sync::Arc;

use anabranch_dataflow::SinkSpec;
use anabranch_model::{Error, Result};
use arrow::array::{Array, AsArray, BinaryArray, BooleanArray, Int64Array, RecordBatch, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{filter, filter_record_batch, take_record_batch};
use arrow::datatypes::Int64Type;

use super::attached::{AttachedRows, Attachments, Outgoing};
use super::content::ValueFormat;
use super::key::KeyEncoder;
use super::table::Table;
use crate::format::Encode;
use crate::format::debezium::DebeziumEncoder;

/// Encodes rows.
pub(super) struct Records {
    keys: Option<KeyEncoder>,
    values: Values,
    /// Columns of the value; `None`: all.
    columns: Option<Vec<usize>>,
    /// Number of columns before the weight, if rows have weights.
    weight: Option<usize>,
    attachments: Attachments,
}

/// Encodes values.
enum Values {
    Rows(Box<dyn Encode>),
    Changes(DebeziumEncoder),
}

/// Keys, if records have any, and the values of the same records. A value that is NULL deletes its key.
pub(super) struct Encoded {
    pub(super) keys: Option<BinaryArray>,
    pub(super) values: BinaryArray,
    attached: AttachedRows,
}

impl Records {
    /// The encoder of a table's records. The value may omit the columns of the key.
    pub(super) fn new(table: &Table, content: &ValueFormat, spec: &SinkSpec) -> Result<Records> {
        let all = 0..spec.schema.fields().len();
        let is_left_out = |column: &usize| {
            let is_of_key = table.key_fields.contains(spec.schema.field(*column).name());
            table.without_key && is_of_key || spec.metadata.contains_key(column)
        };
        let columns: Vec<usize> = all.clone().filter(|column| !is_left_out(column)).collect();
        let value = Arc::new(spec.schema.project(&columns)?);
        Ok(Records {
            keys: KeyEncoder::new(table, &spec.schema)?,
            values: match content {
                ValueFormat::Rows(format) => Values::Rows(format.encoder(&value)?),
                ValueFormat::Changes(changes) => Values::Changes(changes.encoder(&value)?),
            },
            columns: (columns.len() < all.len()).then_some(columns),
            weight: spec.updating.then_some(all.end),
            attachments: Attachments::new(spec),
        })
    }

    /// Whether records may have times and headers.
    pub(super) fn attach(&self) -> bool {
        !self.attachments.are_none()
    }

    /// Whether records have keys.
    pub(super) fn have_keys(&self) -> bool {
        self.keys.is_some()
    }

    pub(super) fn encode(&mut self, batch: &RecordBatch) -> Result<Encoded> {
        let Some(weight) = self.weight else { return self.encoded(batch, None) };
        let rows = batch.project(&(0..weight).collect::<Vec<_>>())?;
        let weights = batch.column(weight).as_primitive::<Int64Type>();
        match self.values {
            Values::Changes(_) => self.changes(&rows, weights.values()),
            Values::Rows(_) => self.versions(&rows, weights),
        }
    }

    /// One record per row.
    fn encoded(&mut self, rows: &RecordBatch, weights: Option<&[i64]>) -> Result<Encoded> {
        let keys = self.keys.as_mut().map(|keys| keys.encode(rows)).transpose()?;
        Ok(Encoded { keys, values: self.values(rows, weights)?, attached: self.attachments.of(rows)? })
    }

    /// The latest row of each key, or its deletion.
    fn versions(&mut self, rows: &RecordBatch, weights: &Int64Array) -> Result<Encoded> {
        let Some(keys) = &mut self.keys else {
            return Err(Error::internal("updating rows for records without a key"));
        };
        let keys = keys.encode(rows)?;
        let latest = latest(&keys);
        let (keys, rows) = (filter(&keys, &latest)?, filter_record_batch(rows, &latest)?);
        let weights = filter(weights, &latest)?;
        let exists: NullBuffer =
            weights.as_primitive::<Int64Type>().values().iter().map(|weight| *weight > 0).collect();
        let (offsets, values, nulls) = self.values(&rows, None)?.into_parts();
        let values = BinaryArray::try_new(offsets, values, NullBuffer::union(nulls.as_ref(), Some(&exists)))?;
        let attached = self.attachments.of(&rows)?;
        Ok(Encoded { keys: Some(keys.as_binary::<i32>().clone()), values, attached })
    }

    fn values(&mut self, rows: &RecordBatch, weights: Option<&[i64]>) -> Result<BinaryArray> {
        let projected = self.columns.as_ref().map(|columns| rows.project(columns)).transpose()?;
        let rows = projected.as_ref().unwrap_or(rows);
        match &mut self.values {
            Values::Rows(format) => format.encode(rows),
            Values::Changes(changes) => changes.encode(rows, weights),
        }
    }

    /// One record per insertion or deletion of a row.
    fn changes(&mut self, rows: &RecordBatch, weights: &[i64]) -> Result<Encoded> {
        if weights.iter().all(|weight| weight.unsigned_abs() == 1) {
            return self.encoded(rows, Some(weights));
        }
        let times = |weight: &i64| usize::try_from(weight.unsigned_abs()).unwrap_or(usize::MAX);
        let repeated = (0_u64..).zip(weights).flat_map(|(row, weight)| std::iter::repeat_n(row, times(weight)));
        let indexes: UInt64Array = repeated.collect::<Vec<_>>().into();
        let weights = weights.iter().flat_map(|weight| std::iter::repeat_n(*weight, times(weight)));
        self.encoded(&take_record_batch(rows, &indexes)?, Some(&weights.collect::<Vec<_>>()))
    }
}

impl Encoded {
    /// Memory of the records.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |array: &BinaryArray| array.get_array_memory_size();
        bytes(&self.values) + self.keys.as_ref().map_or(0, bytes) + self.attached.bytes()
    }

    /// The records from `first` on.
    pub(super) fn iter_from(&self, first: usize) -> impl Iterator<Item = Outgoing<'_>> {
        let key = |row: usize| self.keys.as_ref().filter(|keys| keys.is_valid(row)).map(|keys| keys.value(row));
        let value = |row: usize| self.values.is_valid(row).then(|| self.values.value(row));
        let record = move |row| Outgoing { key: key(row), value: value(row), attached: self.attached.of(row) };
        (first..self.values.len()).map(record)
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
