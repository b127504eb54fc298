//! Rows in the order of their places in a run.

use std::ops::Range;
use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, LargeListArray, ListArray, MapArray, RecordBatch, RecordBatchOptions,
    StructArray, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::DataType;

/// Rows with the order of their places. Rows with one place are in any order.
#[derive(Debug)]
pub struct Ordered {
    rows: RecordBatch,
    /// Indices of the rows, the one with the least place first. `None`: they are in order.
    order: Option<UInt32Array>,
    /// Of each row, in order.
    places: Vec<u64>,
}

impl Ordered {
    /// Rows with these places.
    pub(super) fn new(rows: RecordBatch, places: &[u64]) -> Ordered {
        let mut order: Vec<(u64, u32)> = places.iter().copied().zip(0..).collect();
        order.sort_unstable_by_key(|(place, _)| *place);
        let (places, order): (Vec<u64>, Vec<u32>) = order.into_iter().unzip();
        Ordered { rows, order: Some(order.into()), places }
    }

    /// Rows that all have this place.
    pub(super) fn at(place: u64, rows: RecordBatch) -> Ordered {
        let places = vec![place; rows.num_rows()];
        Ordered { rows, order: None, places }
    }

    /// The places of the rows, in order.
    pub(super) fn places(&self) -> &[u64] {
        &self.places
    }

    /// All rows, in any order.
    pub(super) fn all(&self) -> &RecordBatch {
        &self.rows
    }

    /// A copy of the rows of one bucket.
    pub fn bucket(&self, bucket: usize) -> Result<RecordBatch> {
        let begin = self.places.partition_point(|place| *place < bucket as u64);
        let len = self.places[begin..].partition_point(|place| *place == bucket as u64);
        self.rows(begin..begin + len)
    }

    /// A copy of these of the rows, in order, without the data of others in string buffers.
    pub(super) fn rows(&self, range: Range<usize>) -> Result<RecordBatch> {
        let Some(order) = &self.order else {
            return match range.len() == self.places.len() {
                true => Ok(self.rows.clone()),
                false => detached(&self.rows.slice(range.start, range.len())),
            };
        };
        let rows = order.slice(range.start, range.len());
        let columns = self.rows.columns().iter().map(|column| own(&take(column, &rows, None)?));
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let columns = columns.collect::<Result<_>>()?;
        Ok(RecordBatch::try_new_with_options(self.rows.schema(), columns, &options)?)
    }
}

/// A copy of the rows without the data of other rows in their string buffers.
pub(crate) fn detached(rows: &RecordBatch) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(own).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(rows.schema(), columns, &options)?)
}

fn own(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::List(field) => {
            let list = array.as_list::<i32>();
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Arc::new(ListArray::try_new(Arc::clone(field), offsets, own(list.values())?, nulls)?)
        }
        DataType::Map(field, ordered) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let (offsets, nulls, entries) = (map.offsets().clone(), map.nulls().cloned(), own(&entries)?);
            Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries.as_struct().clone(), nulls, *ordered)?)
        }
        DataType::LargeList(field) => {
            let list = array.as_list::<i64>();
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Arc::new(LargeListArray::try_new(Arc::clone(field), offsets, own(list.values())?, nulls)?)
        }
        DataType::FixedSizeList(field, size) => {
            let list = array.as_fixed_size_list();
            let nulls = list.nulls().cloned();
            Arc::new(FixedSizeListArray::try_new(Arc::clone(field), *size, own(list.values())?, nulls)?)
        }
        DataType::Struct(fields) => {
            let parts = array.as_struct();
            let columns = parts.columns().iter().map(own).collect::<Result<_>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, parts.nulls().cloned())?)
        }
        _ => Arc::clone(array),
    })
}
