//! Rows in order of their buckets. A bucket is a slice of the keys that is small enough to be merged in
//! memory, however large the state is. Hashes are uniform, so all buckets have about the same size, and no
//! order among or within them is needed.

use std::ops::Range;
use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, LargeListArray, ListArray, MapArray, RecordBatch, RecordBatchOptions,
    StructArray, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::DataType;

/// Number of buckets: the state of one task may be larger by this factor than what can be merged at once.
pub const BUCKETS: usize = 256;

/// Rows with the order of their buckets.
#[derive(Debug)]
pub struct Buckets {
    rows: RecordBatch,
    /// Indices of the rows, those of bucket 0 first.
    order: UInt32Array,
    /// Where each bucket ends in `order`.
    ends: Vec<u32>,
}

/// Uses neither the highest bits of the hash, which choose a key group, nor the lowest, which choose a slot
/// of a table: keys of one task and one bucket differ in both.
fn bucket_of(hash: u64) -> usize {
    (hash >> 32) as usize % BUCKETS
}

impl Buckets {
    /// Rows whose keys have these hashes.
    #[must_use]
    pub fn new(rows: RecordBatch, hashes: &[u64]) -> Buckets {
        let mut ends = vec![0_u32; BUCKETS];
        for hash in hashes {
            ends[bucket_of(*hash)] += 1;
        }
        let mut begin = 0;
        for end in &mut ends {
            begin += std::mem::replace(end, begin);
        }
        // Each entry is now where its bucket begins, and moves to where the bucket ends as rows are placed.
        let mut order = vec![0_u32; hashes.len()];
        for (row, hash) in (0_u32..).zip(hashes) {
            let place = &mut ends[bucket_of(*hash)];
            order[*place as usize] = row;
            *place += 1;
        }
        Buckets { rows, order: order.into(), ends }
    }

    /// Whether a bucket has no rows.
    pub(super) fn is_empty(&self, bucket: usize) -> bool {
        self.range(bucket).is_empty()
    }

    /// A batch of these columns without rows.
    pub(super) fn none(&self) -> RecordBatch {
        self.rows.slice(0, 0)
    }

    fn range(&self, bucket: usize) -> Range<usize> {
        let begin = bucket.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        begin..self.ends[bucket] as usize
    }

    /// A copy of the rows of one bucket.
    pub fn rows(&self, bucket: usize) -> Result<RecordBatch> {
        let range = self.range(bucket);
        let rows = self.order.slice(range.start, range.len());
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
