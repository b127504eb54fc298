//! Rows in order of their buckets. A bucket is a slice of the keys that is small enough to be merged in memory however
//! large the state is; hashes are uniform, so all are of about one size and need no order among or within them.

use std::ops::Range;
use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, LargeListArray, ListArray, RecordBatch, RecordBatchOptions,
    StructArray, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::DataType;

/// Number of buckets: state of one task may be so many times larger than what can be merged at once.
pub const BUCKETS: usize = 256;

/// Rows with the order of their buckets.
#[derive(Debug)]
pub struct Buckets {
    rows: RecordBatch,
    /// Numbers of the rows, those of bucket 0 first.
    order: UInt32Array,
    /// Where each bucket ends in `order`.
    ends: Vec<u32>,
}

/// Neither the bits that choose a key group (the highest) nor those that choose a slot of a table (the lowest): keys of
/// one task and one bucket differ in both.
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
        // Now each is where its bucket begins, and moves to where it ends as rows are placed.
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

    /// No rows of these columns.
    pub(super) fn none(&self) -> RecordBatch {
        self.rows.slice(0, 0)
    }

    fn range(&self, bucket: usize) -> Range<usize> {
        let begin = bucket.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        begin..self.ends[bucket] as usize
    }

    /// The rows of one bucket, in an array of their own.
    pub fn rows(&self, bucket: usize) -> Result<RecordBatch> {
        let range = self.range(bucket);
        let rows = self.order.slice(range.start, range.len());
        let columns = self.rows.columns().iter().map(|column| own(&take(column, &rows, None)?));
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let columns = columns.collect::<Result<_>>()?;
        Ok(RecordBatch::try_new_with_options(self.rows.schema(), columns, &options)?)
    }
}

/// The rows without the data of others that their strings may lie among.
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
