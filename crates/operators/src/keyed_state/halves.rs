//! Divides rows whose keys do not fit into memory at once.
//!
//! Rows are divided by the hashes of their keys, so each key is read from the disk once for a batch, however
//! many of the batch's rows have it. An operator processes one part after the other (`Operator::more`), so
//! that a job can be cancelled between them.

use arrow::array::UInt64Array;

/// The rows of each half of the keys with these hashes, in order of arrival. If all hashes are equal, each
/// half of the rows.
pub(crate) fn halves(hashes: &[u64]) -> [UInt64Array; 2] {
    let mut different = hashes.to_vec();
    different.sort_unstable();
    different.dedup();
    let middle = different.get(different.len() / 2).copied().unwrap_or(0);
    let is_before = |row: &u64| match different.len() {
        0 | 1 => *row < hashes.len() as u64 / 2,
        _ => hashes[*row as usize] < middle,
    };
    let (before, after): (Vec<u64>, Vec<u64>) = (0..hashes.len() as u64).partition(is_before);
    [before.into(), after.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_one_half_and_rows_in_order() {
        let rows = |half: &UInt64Array| half.values().to_vec();
        let [before, after] = halves(&[5, 1, 9, 5, 1, 7]);
        assert_eq!((rows(&before), rows(&after)), (vec![0, 1, 3, 4], vec![2, 5]));
        let [before, after] = halves(&[3, 3, 3]);
        assert_eq!((rows(&before), rows(&after)), (vec![0], vec![1, 2]));
    }
}
