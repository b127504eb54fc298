//! Rows by their numbers, a column at a time. Equal rows are not merged.

mod bytes;
mod column;
mod words;

use std::cmp::Ordering;

use anabranch_model::Result;
use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;

pub(crate) use self::column::Comparand;
use self::column::StoreColumn;
pub(crate) use self::words::Words;
use crate::key_table::Values;

/// Number of rows that are moved at once.
const PIECE_ROWS: usize = 1 << 12;

/// Rows of some columns. The first has the number 0.
pub(crate) struct RowStore {
    types: Vec<(DataType, SortOptions)>,
    columns: Vec<StoreColumn>,
    len: usize,
    /// Numbers that may be reused.
    free: Vec<u32>,
}

impl RowStore {
    /// A store of columns of these types. Rows are ordered by their first columns, then by the next ones.
    pub(crate) fn new(types: Vec<(DataType, SortOptions)>) -> Result<RowStore> {
        let columns = columns(&types)?;
        Ok(RowStore { types, columns, len: 0, free: Vec::new() })
    }

    /// Number of rows, free ones included.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Columns of a batch as they are compared and added.
    pub(crate) fn values<'a>(&self, columns: &'a [ArrayRef]) -> Result<Vec<Values<'a>>> {
        self.columns.iter().zip(columns).map(|(column, values)| column.values(values)).collect()
    }

    /// Adds these rows of a batch. The first gets the number [`RowStore::len`].
    pub(crate) fn append(&mut self, values: &[Values<'_>], rows: &[usize]) -> Result<()> {
        let at: Vec<usize> = (self.len..self.len + rows.len()).collect();
        self.len += rows.len();
        self.put(values, rows, &at)
    }

    /// Frees a row: another one may get its number. Until then its values can be read.
    pub(crate) fn free(&mut self, row: u32) {
        self.free.push(row);
    }

    /// Reserves a number for a row that is [put](RowStore::put) next.
    pub(crate) fn reserve(&mut self) -> usize {
        match self.free.pop() {
            Some(row) => row as usize,
            None => {
                self.len += 1;
                self.len - 1
            }
        }
    }

    /// Puts these rows of a batch at these numbers.
    pub(crate) fn put(&mut self, values: &[Values<'_>], rows: &[usize], at: &[usize]) -> Result<()> {
        self.columns.iter_mut().zip(values).try_for_each(|(column, values)| column.put(values, rows, at))
    }

    /// A number for each row of a batch: rows with different prefixes are ordered by them.
    pub(crate) fn prefixes(&self, values: &[Values<'_>], rows: usize) -> Vec<u64> {
        match (self.columns.first(), values.first()) {
            (Some(column), Some(values)) => column.prefixes(values, rows),
            _ => vec![0; rows],
        }
    }

    /// How a row of a batch compares with another one.
    pub(crate) fn order(&self, values: &[Values<'_>], row: usize, other: Comparand) -> Ordering {
        let orders = self.columns.iter().zip(values).map(|(column, values)| column.order(values, row, other));
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// How a row of a batch compares with another one by the first column alone.
    pub(crate) fn order_by_first(&self, values: &[Values<'_>], row: usize, other: Comparand) -> Ordering {
        let first = self.columns.first().zip(values.first());
        first.map_or(Ordering::Equal, |(column, values)| column.order(values, row, other))
    }

    pub(crate) fn column_of(&self, column: usize, rows: &[usize]) -> Result<ArrayRef> {
        self.columns[column].array_of(rows)
    }

    /// All columns of rows.
    pub(crate) fn rows(&self, rows: &[usize]) -> Result<Vec<ArrayRef>> {
        self.columns.iter().map(|column| column.array_of(rows)).collect()
    }

    /// Keeps these rows only. The first of them gets the number 0.
    pub(crate) fn keep(&mut self, rows: &[usize]) -> Result<()> {
        let mut next = RowStore::new(std::mem::take(&mut self.types))?;
        // In pieces, so that little of it exists twice.
        for rows in rows.chunks(PIECE_ROWS) {
            let columns = self.rows(rows)?;
            let all: Vec<usize> = (0..rows.len()).collect();
            let values = next.values(&columns)?;
            next.append(&values, &all)?;
        }
        *self = next;
        Ok(())
    }

    /// Removes all rows and gives their memory back.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.columns = columns(&self.types)?;
        (self.len, self.free) = (0, Vec::new());
        Ok(())
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.columns.iter().map(StoreColumn::size_bytes).sum::<usize>() + self.free.capacity() * size_of::<u32>()
    }
}

/// Each row once, and for each row its index among these; `None` if most rows occur once.
pub(crate) fn once(rows: &[usize]) -> Option<(Vec<usize>, UInt32Array)> {
    const FREE: u32 = u32::MAX;
    if rows.len() < 64 {
        return None;
    }
    let slots = (rows.len() * 2).next_power_of_two();
    let shift = u64::BITS - slots.ilog2();
    let mut table = vec![FREE; slots];
    let (mut each, mut places) = (Vec::new(), Vec::with_capacity(rows.len()));
    for row in rows {
        // Multiplicative hashing: the high bits depend on all others.
        let mut slot = ((*row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize;
        while table[slot] != FREE && each[table[slot] as usize] != *row {
            slot = (slot + 1) % slots;
        }
        if table[slot] == FREE {
            if each.len() > rows.len() / 2 {
                return None;
            }
            table[slot] = each.len() as u32;
            each.push(*row);
        }
        places.push(table[slot]);
    }
    Some((each, UInt32Array::from(places)))
}

fn columns(types: &[(DataType, SortOptions)]) -> Result<Vec<StoreColumn>> {
    types.iter().map(|(data_type, options)| StoreColumn::new(data_type, *options)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_model::Rng;
    use arrow::array::{
        BooleanArray, Float64Array, Int32Array, Int64Array, StringArray, StringViewArray, TimestampMillisecondArray,
        UInt64Array,
    };
    use arrow::row::{RowConverter, SortField};

    use super::*;
    use crate::key_hash::canonical;

    const TEXTS: [&str; 7] =
        ["", "a", "a\0", "twelve bytes", "more than twelve", "more than twelve bytes", "more then twelve"];

    /// A column with NULL now and then, and few different values.
    fn column(rng: &mut Rng, kind: u64, rows: usize) -> ArrayRef {
        let picks: Vec<Option<usize>> = (0..rows).map(|_| Some(rng.below(8) as usize).filter(|row| *row < 7)).collect();
        let some = |values: [i64; 7]| picks.iter().map(move |pick| pick.map(|at| values[at])).collect::<Vec<_>>();
        let numbers = [0, 1, -1, 7, i64::MAX, i64::MIN, 300];
        let floats = [0.0, -0.0, 1.5, -2.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        match kind {
            0 => Arc::new(Int64Array::from(some(numbers))),
            1 => Arc::new(Int32Array::from_iter(some(numbers).into_iter().map(|value| value.map(|n| n as i32)))),
            2 => Arc::new(UInt64Array::from_iter(some(numbers).into_iter().map(|value| value.map(|n| n as u64)))),
            3 => Arc::new(TimestampMillisecondArray::from(some(numbers))),
            4 => Arc::new(Float64Array::from_iter(picks.iter().map(|pick| pick.map(|at| floats[at])))),
            5 => Arc::new(StringViewArray::from_iter(picks.iter().map(|pick| pick.map(|at| TEXTS[at])))),
            6 => Arc::new(StringArray::from_iter(picks.iter().map(|pick| pick.map(|at| TEXTS[at])))),
            _ => Arc::new(BooleanArray::from_iter(picks.iter().map(|pick| pick.map(|at| at % 2 == 0)))),
        }
    }

    #[test]
    fn rows_that_occur_often_are_found_once() {
        let rows: Vec<usize> = (0..500).map(|row| row * row % 37).collect();
        let (each, places) = once(&rows).expect("few different ones");
        assert_eq!(places.values().iter().map(|place| each[*place as usize]).collect::<Vec<_>>(), rows);
        assert_eq!(each.len(), 19, "squares modulo a prime");
        assert!(once(&(0..500).collect::<Vec<_>>()).is_none());
    }

    /// Arrow's row format says how rows compare.
    #[test]
    fn rows_of_a_batch_and_kept_ones_are_ordered_as_arrow_orders_them() {
        for seed in 1..=300 {
            let mut rng = Rng::new(seed);
            let some = 1 + rng.below(3);
            let columns: Vec<ArrayRef> = (0..some)
                .map(|_| {
                    let kind = rng.below(8);
                    column(&mut rng, kind, 20)
                })
                .collect();
            let columns: Vec<ArrayRef> = columns.iter().map(canonical).collect();
            let options = |rng: &mut Rng| SortOptions { descending: rng.below(2) == 0, nulls_first: rng.below(2) == 0 };
            let types: Vec<_> = columns.iter().map(|column| (column.data_type().clone(), options(&mut rng))).collect();
            let fields =
                types.iter().map(|(column, options)| SortField::new_with_options(column.clone(), *options)).collect();
            let encoded = RowConverter::new(fields).expect("a converter").convert_columns(&columns).expect("rows");
            let mut store = RowStore::new(types).expect("a store");
            let values = store.values(&columns).expect("values");
            let all: Vec<usize> = (0..20).collect();
            store.append(&values, &all).expect("rows");
            let prefixes = store.prefixes(&values, 20);
            for (row, other) in all.iter().flat_map(|row| all.iter().map(move |other| (*row, *other))) {
                let expected = encoded.row(row).cmp(&encoded.row(other));
                let place = format!("seed {seed}, rows {row} and {other} of {columns:?}");
                assert_eq!(store.order(&values, row, Comparand::Row(other)), expected, "{place}");
                assert_eq!(store.order(&values, row, Comparand::Kept(other)), expected, "{place}");
                let by_prefix = prefixes[row].cmp(&prefixes[other]);
                assert!(by_prefix.is_eq() || by_prefix == expected, "{place}");
            }
            assert_eq!(store.rows(&all).expect("rows"), columns);
            // New rows take the numbers of free ones.
            let others: Vec<u32> = [2, 5, 11].into_iter().filter(|_| rng.below(2) == 0).collect();
            others.iter().for_each(|row| store.free(*row));
            let (rows, at): (Vec<usize>, Vec<usize>) = (6..9).map(|row| (row, store.reserve())).unzip();
            assert_eq!(store.len(), 23 - others.len());
            store.put(&values, &rows, &at).expect("rows");
            let left: Vec<usize> = all.iter().copied().filter(|row| !others.contains(&(*row as u32))).collect();
            let of_batch = |rows: &[usize]| {
                let rows: UInt64Array = rows.iter().map(|row| *row as u64).collect();
                let taken = columns.iter().map(|column| arrow::compute::take(column, &rows, None));
                taken.collect::<std::result::Result<Vec<_>, _>>().expect("rows")
            };
            assert_eq!(store.rows(&at).expect("rows"), of_batch(&rows));
            assert_eq!(store.rows(&left).expect("rows"), of_batch(&left));
            store.keep(&[3, 17]).expect("rows");
            assert_eq!(store.rows(&[0, 1]).expect("rows"), of_batch(&[3, 17]));
        }
    }
}
