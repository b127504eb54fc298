//! Hashes of keys, a column at a time: the same for the exchange, the key groups and the group tables.

use std::ops::Range;
use std::sync::Arc;

use anabranch_model::{Error, HASH_SEED, KeyGroupRange, KeyGroups, Result, hash_bytes, hash_u64};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int32Type, Int64Type, TimeUnit, UInt32Type, UInt64Type};

use crate::key_table::prefetch;

/// How many texts ahead their bytes are prefetched.
const PREFETCH_DISTANCE: usize = 16;
/// A view has its length in the low 32 bits. A text of up to this number of bytes lies in the other bits; a
/// longer text has its prefix, the number of a buffer, and an offset there.
const INLINE_BYTES: u32 = 12;

/// Folded in for a null, so that a null key has a key group like any other.
const NULL: u64 = 0x6e75_6c6c_6e75_6c6c;

/// Writes the hash of each row's key into `hashes`. All columns have the same length. Without columns, each
/// hash is the seed.
pub fn hash_keys(columns: &[ArrayRef], rows: usize, hashes: &mut Vec<u64>) -> Result<()> {
    hashes.clear();
    let Some((first, others)) = columns.split_first() else {
        hashes.resize(rows, HASH_SEED);
        return Ok(());
    };
    match words(first).filter(|_| first.null_count() == 0) {
        // The usual key: one pass instead of two.
        Some(words) => hashes.extend(words.iter().map(|word| hash_u64(HASH_SEED, *word))),
        None => {
            hashes.resize(rows, HASH_SEED);
            fold_column(first, hashes)?;
        }
    }
    others.iter().try_for_each(|column| fold_column(column, hashes))
}

/// The rows whose keys are in these key groups.
pub fn rows_of_groups(
    rows: &RecordBatch,
    keys: Range<usize>,
    own: KeyGroupRange,
    groups: KeyGroups,
) -> Result<RecordBatch> {
    let mut hashes = Vec::new();
    hash_keys(&rows.columns()[keys], rows.num_rows(), &mut hashes)?;
    let own: BooleanArray = hashes.iter().map(|hash| Some(own.contains(groups.of(*hash)))).collect();
    if own.false_count() == 0 {
        return Ok(rows.clone());
    }
    Ok(filter_record_batch(rows, &own)?)
}

fn fold_column(column: &ArrayRef, hashes: &mut [u64]) -> Result<()> {
    match column.data_type() {
        DataType::Utf8View => {
            let array = column.as_string_view();
            let (views, buffers) = (array.views(), array.data_buffers());
            fold(array, hashes, |hash, i| {
                prefetch_text(views, buffers, i);
                hash_bytes(hash, array.value(i).as_bytes())
            });
        }
        DataType::Utf8 => {
            let array = column.as_string::<i32>();
            fold(array, hashes, |hash, i| hash_bytes(hash, array.value(i).as_bytes()));
        }
        DataType::Binary => {
            let array = column.as_binary::<i32>();
            fold(array, hashes, |hash, i| hash_bytes(hash, array.value(i)));
        }
        DataType::BinaryView => {
            let array = column.as_binary_view();
            fold(array, hashes, |hash, i| hash_bytes(hash, array.value(i)));
        }
        DataType::Boolean => {
            let array = column.as_boolean();
            fold(array, hashes, |hash, i| hash_u64(hash, u64::from(array.value(i))));
        }
        _ => match words(column) {
            Some(words) => {
                let words = words.as_ref();
                fold(column.as_ref(), hashes, |hash, i| hash_u64(hash, words[i]));
            }
            None => return hash_rows_of(column, hashes),
        },
    }
    Ok(())
}

/// Prefetches the bytes of the text [`PREFETCH_DISTANCE`] rows ahead. After a filter, texts outside of their
/// views lie far apart.
#[inline]
pub(crate) fn prefetch_text(views: &[u128], buffers: &[Buffer], row: usize) {
    if let Some(ahead) = views.get(row + PREFETCH_DISTANCE)
        && *ahead as u32 > INLINE_BYTES
        && let Some(buffer) = buffers.get((ahead >> 64) as u32 as usize)
    {
        let start = (ahead >> 96) as usize;
        prefetch(buffer, start);
        prefetch(buffer, start + *ahead as u32 as usize - 1);
    }
}

#[inline]
fn fold(array: &dyn Array, hashes: &mut [u64], with_value: impl Fn(u64, usize) -> u64) {
    match array.nulls().filter(|n| n.null_count() > 0) {
        None => hashes.iter_mut().enumerate().for_each(|(i, hash)| *hash = with_value(*hash, i)),
        Some(nulls) => hashes.iter_mut().enumerate().for_each(|(i, hash)| match nulls.is_valid(i) {
            true => *hash = with_value(*hash, i),
            false => *hash = hash_u64(*hash, NULL),
        }),
    }
}

/// Other types (decimals, structs, small numbers) hash as their encoding in Arrow's row format.
fn hash_rows_of(column: &ArrayRef, hashes: &mut [u64]) -> Result<()> {
    let converter = arrow::row::RowConverter::new(vec![arrow::row::SortField::new(column.data_type().clone())]);
    let no_key = |e: arrow::error::ArrowError| {
        Error::user(format!("{} cannot be a key: {e}", column.data_type())).remedy("cast it to a string or a number")
    };
    let rows = converter.map_err(no_key)?.convert_columns(&[canonical(column)]).map_err(no_key)?;
    hashes.iter_mut().zip(&rows).for_each(|(hash, row)| *hash = hash_bytes(*hash, row.data()));
    Ok(())
}

/// Whether columns of this type have [`words`].
pub(crate) fn is_word(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int64
            | DataType::UInt64
            | DataType::Int32
            | DataType::UInt32
            | DataType::Timestamp(..)
            | DataType::Float64
    )
}

/// The values of a fixed-width column as 64-bit words, without regard to nulls: Int32 is sign-extended,
/// UInt32 is zero-extended. Only for 64-bit and 32-bit integers, timestamps and 64-bit floats; 64-bit
/// integers and timestamps are not copied. Floats that are equal as keys have equal words: one zero, one NaN.
pub(crate) fn words(column: &ArrayRef) -> Option<std::borrow::Cow<'_, [u64]>> {
    use std::borrow::Cow;
    Some(match column.data_type() {
        DataType::Int64 => Cow::Borrowed(as_u64(column.as_primitive::<Int64Type>().values())),
        DataType::UInt64 => Cow::Borrowed(column.as_primitive::<UInt64Type>().values()),
        DataType::Timestamp(unit, _) => Cow::Borrowed(as_u64(timestamp_values(column, *unit))),
        DataType::Int32 => column.as_primitive::<Int32Type>().values().iter().map(|v| i64::from(*v) as u64).collect(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().values().iter().map(|v| u64::from(*v)).collect(),
        DataType::Float64 => {
            column.as_primitive::<Float64Type>().values().iter().map(|v| one_float(*v).to_bits()).collect()
        }
        _ => return None,
    })
}

/// The representative of equal floats: positive zero for both zeros, one NaN for all.
fn one_float(value: f64) -> f64 {
    match value {
        _ if value.is_nan() => f64::NAN,
        _ => value + 0.0,
    }
}

/// A key column whose equal values are made identical, for encodings that would distinguish them.
pub(crate) fn canonical(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float64 => Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(one_float)),
        DataType::Float32 => {
            let one = |value: f32| one_float(f64::from(value)) as f32;
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        _ => Arc::clone(column),
    }
}

/// The raw values of a timestamp column.
pub(crate) fn timestamp_values(column: &ArrayRef, unit: TimeUnit) -> &[i64] {
    use arrow::datatypes::{
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    };
    match unit {
        TimeUnit::Second => column.as_primitive::<TimestampSecondType>().values(),
        TimeUnit::Millisecond => column.as_primitive::<TimestampMillisecondType>().values(),
        TimeUnit::Microsecond => column.as_primitive::<TimestampMicrosecondType>().values(),
        TimeUnit::Nanosecond => column.as_primitive::<TimestampNanosecondType>().values(),
    }
}

fn as_u64(values: &[i64]) -> &[u64] {
    // SAFETY: i64 and u64 have the same size and alignment, and every bit pattern is valid in both.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u64>(), values.len()) }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float32Array, Float64Array, Int32Array, Int64Array, StringArray, StringViewArray};

    use super::*;

    fn hashes(columns: &[ArrayRef]) -> Vec<u64> {
        let mut hashes = Vec::new();
        hash_keys(columns, columns[0].len(), &mut hashes).expect("hashable");
        hashes
    }

    #[test]
    fn equal_keys_hash_alike_whatever_their_arrays_look_like() {
        let view: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("a"), None, Some("a string longer than twelve")]));
        let plain: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("a string longer than twelve")]));
        assert_eq!(hashes(&[view]), hashes(&[plain]));
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), None, Some(7)]));
        let narrow: ArrayRef = Arc::new(Int32Array::from(vec![Some(-1), None, Some(7)]));
        assert_eq!(hashes(std::slice::from_ref(&wide)), hashes(&[narrow]));
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, f64::NAN, 1.5]));
        let others: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, -f64::NAN, 1.5]));
        assert_eq!(hashes(&[zeros]), hashes(&[others]));
        let zeros: ArrayRef = Arc::new(Float32Array::from(vec![0.0, f32::NAN, 1.5]));
        let others: ArrayRef = Arc::new(Float32Array::from(vec![-0.0, -f32::NAN, 1.5]));
        assert_eq!(hashes(&[zeros]), hashes(&[others]));
        let sliced = wide.slice(1, 2);
        assert_eq!(hashes(&[wide])[1..], hashes(&[sliced]));
    }
}
