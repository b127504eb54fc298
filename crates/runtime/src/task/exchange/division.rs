//! Divides the rows of a batch among targets.

use std::sync::Arc;

use anabranch_model::{Result, batch_bytes};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;

/// The indices of the rows that go to `target`.
pub(super) fn rows_of(row_targets: &[u32], target: u32) -> UInt32Array {
    let mut rows = vec![0; row_targets.len()];
    let mut count = 0;
    // Every index is written, and kept if its row matches: no branch to mispredict, no counter in memory.
    for (row, its_target) in row_targets.iter().enumerate() {
        rows[count] = row as u32;
        count += usize::from(*its_target == target);
    }
    rows.truncate(count);
    UInt32Array::from(rows)
}

/// The indices of the rows that go to each of `targets`: a counting sort.
pub(super) fn sort_rows(row_targets: &[u32], targets: usize) -> Vec<UInt32Array> {
    let mut counts = vec![0_usize; targets];
    row_targets.iter().for_each(|target| counts[*target as usize] += 1);
    let starts: Vec<usize> = counts.iter().scan(0, |end, count| Some(std::mem::replace(end, *end + count))).collect();
    let mut next = starts.clone();
    let mut sorted = vec![0_u32; row_targets.len()];
    for (row, target) in row_targets.iter().enumerate() {
        let index = &mut next[*target as usize];
        sorted[*index] = row as u32;
        *index += 1;
    }
    let sorted = UInt32Array::from(sorted);
    starts.into_iter().zip(counts).map(|(start, count)| sorted.slice(start, count)).collect()
}

pub(super) fn take_rows(batch: &RecordBatch, rows: &UInt32Array) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let columns = batch.columns().iter().map(|c| Ok(take(c, rows, None)?)).collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

/// Copies string views out of buffers that they hardly use. Otherwise a few queued rows would keep a whole
/// block of input alive, and the queue's limit in bytes would not hold.
pub(super) fn compact(batch: RecordBatch) -> Result<RecordBatch> {
    let held: usize = batch.columns().iter().map(view_buffer_bytes).sum();
    if held <= 4 * batch_bytes(&batch) + (64 << 10) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => Arc::clone(column),
    });
    let columns: Vec<ArrayRef> = columns.collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

fn view_buffer_bytes(column: &ArrayRef) -> usize {
    let buffers = match column.data_type() {
        DataType::Utf8View => column.as_string_view().data_buffers(),
        DataType::BinaryView => column.as_binary_view().data_buffers(),
        _ => return 0,
    };
    buffers.iter().map(arrow::buffer::Buffer::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scanning_and_sorting_find_the_same_rows_in_order() {
        let mut rng = anabranch_model::Rng::new(3);
        for targets in 1..10 {
            let row_targets: Vec<u32> = (0..100).map(|_| rng.below(targets) as u32).collect();
            let sorted = sort_rows(&row_targets, targets as usize);
            for (target, rows) in sorted.iter().enumerate() {
                assert_eq!(rows, &rows_of(&row_targets, target as u32));
                let expected = row_targets.iter().enumerate().filter(|(_, t)| **t == target as u32);
                assert!(rows.values().iter().copied().eq(expected.map(|(row, _)| row as u32)));
            }
        }
    }
}
