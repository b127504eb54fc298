//! The order of rows as numbers: a later row has a higher number, or the same one if the numbers do not
//! distinguish them.

use anabranch_dataflow::Ordering;
use anabranch_model::Result;
use anabranch_state::HashKeys;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, Int64Type};

use crate::event_time::event_times;
use crate::key_hash::canonical;

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The column has event times, without NULL: the number is the time in milliseconds.
    Time(usize),
    /// The number is a prefix of the column's value.
    Column(usize, Ordering),
}

impl Order {
    pub(crate) fn column(self) -> usize {
        match self {
            Order::Time(column) | Order::Column(column, _) => column,
        }
    }

    /// The numbers of rows with these values in the column.
    pub(super) fn numbers(self, column: &ArrayRef) -> Result<Vec<i64>> {
        match self {
            Order::Time(_) => Ok(event_times(column)?.to_vec()),
            Order::Column(_, order) => numbers(column, order),
        }
    }

    /// The hash function of rows on a disk: hashes have the order of the numbers.
    pub(super) fn hash(self) -> HashKeys {
        match self {
            Order::Time(_) => |keys, _, _, hashes| {
                hashes.clear();
                hashes.extend(event_times(&keys[0])?.iter().map(|time| hash_of(*time)));
                Ok(())
            },
            Order::Column(_, Ordering { descending: false, nulls_first: false }) => hash_ordered::<false, false>,
            Order::Column(_, Ordering { descending: false, nulls_first: true }) => hash_ordered::<false, true>,
            Order::Column(_, Ordering { descending: true, nulls_first: false }) => hash_ordered::<true, false>,
            Order::Column(_, Ordering { descending: true, nulls_first: true }) => hash_ordered::<true, true>,
        }
    }
}

fn hash_ordered<const DESCENDING: bool, const NULLS_FIRST: bool>(
    keys: &[ArrayRef],
    _rows: usize,
    _window: Option<usize>,
    hashes: &mut Vec<u64>,
) -> Result<()> {
    let order = Ordering { descending: DESCENDING, nulls_first: NULLS_FIRST };
    hashes.clear();
    hashes.extend(numbers(&keys[0], order)?.into_iter().map(hash_of));
    Ok(())
}

/// The hash of a number. Hashes have the order of the numbers.
pub(super) fn hash_of(number: i64) -> u64 {
    number as u64 ^ (1 << 63)
}

pub(super) fn number_of(hash: u64) -> i64 {
    (hash ^ (1 << 63)) as i64
}

/// The prefixes of the values, as numbers in this order.
fn numbers(column: &ArrayRef, order: Ordering) -> Result<Vec<i64>> {
    let column = canonical(column);
    let mut numbers: Vec<i64> = match column.data_type() {
        DataType::Utf8View => {
            column.as_string_view().iter().map(|text| of_bytes(text.unwrap_or_default().as_bytes())).collect()
        }
        DataType::BinaryView => column.as_binary_view().iter().map(|bytes| of_bytes(bytes.unwrap_or(&[]))).collect(),
        DataType::Float64 => {
            column.as_primitive::<Float64Type>().values().iter().map(|value| of_double(*value)).collect()
        }
        DataType::Float32 => {
            column.as_primitive::<Float32Type>().values().iter().map(|value| of_double(f64::from(*value))).collect()
        }
        DataType::Decimal128(..) => {
            let values = column.as_primitive::<Decimal128Type>().values();
            values.iter().map(|value| of_double(*value as f64)).collect()
        }
        // For other types, prefixes are equal and the full comparison decides.
        DataType::Interval(_) => vec![0; column.len()],
        value if value.is_signed_integer() || value.is_temporal() || *value == DataType::Boolean => {
            cast(&column, &DataType::Int64)?.as_primitive::<Int64Type>().values().to_vec()
        }
        _ => vec![0; column.len()],
    };
    if order.descending {
        numbers.iter_mut().for_each(|number| *number = !*number);
    }
    if column.null_count() > 0 {
        let of_null = if order.nulls_first { i64::MIN } else { i64::MAX };
        (0..column.len()).filter(|row| column.is_null(*row)).for_each(|row| numbers[row] = of_null);
    }
    Ok(numbers)
}

fn of_bytes(bytes: &[u8]) -> i64 {
    let mut first = [0; 8];
    let length = bytes.len().min(first.len());
    first[..length].copy_from_slice(&bytes[..length]);
    number_of(u64::from_be_bytes(first))
}

/// A number that sorts as the value does by `f64::total_cmp`.
fn of_double(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringViewArray};
    use arrow::compute::{SortOptions, sort};

    use super::*;

    /// Numbers are in the order of the values; distinct values may have the same number.
    #[test]
    fn numbers_are_in_the_order_of_values() {
        let texts = ["", "a", "a\0", "ab", "a text", "a text of some length", "a text of another length", "\u{10ffff}"];
        let doubles = [f64::NEG_INFINITY, -1e300, -1.5, -0.0, 0.0, 1e-300, 2.5, f64::INFINITY, f64::NAN];
        let columns: [ArrayRef; 6] = [
            Arc::new(texts.map(Some).into_iter().chain([None]).collect::<StringViewArray>()),
            Arc::new(Float64Array::from(doubles.map(Some).into_iter().chain([None]).collect::<Vec<_>>())),
            Arc::new(Int64Array::from(vec![None, Some(i64::MIN), Some(-1), Some(0), Some(7), Some(i64::MAX)])),
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
            Arc::new(Date32Array::from(vec![Some(3), None, Some(-4)])),
            Arc::new(Decimal128Array::from(vec![Some(i128::MIN / 4), Some(1), None, Some(i128::MAX / 4)])),
        ];
        for column in columns {
            for (descending, nulls_first) in [(false, false), (false, true), (true, false), (true, true)] {
                let sorted = sort(&canonical(&column), Some(SortOptions { descending, nulls_first })).expect("sorted");
                let found = numbers(&sorted, Ordering { descending, nulls_first }).expect("numbers");
                assert!(found.is_sorted(), "{sorted:?}, {found:?}");
                let distinct = found.iter().collect::<std::collections::BTreeSet<_>>().len();
                assert!(2 * distinct > found.len(), "{sorted:?}, {found:?}");
            }
        }
    }
}
