//! Makes the values of columns, an array at a time.

use std::collections::HashSet;
use std::sync::Arc;

use anabranch_model::{Error, Result, Rng, hash_u64};
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, ListArray, MapArray,
    StringArray, StructArray, TimestampMillisecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{CastOptions, cast_with_options, filter, nullif};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};

use super::fields::{Generated, GeneratedColumn, Length};
use crate::generator::{between, faker, fraction};

/// Distinguishes the random numbers for NULL and lengths from those for values.
const OF_NULLS: u64 = 0x6e75_6c6c;
const OF_LENGTHS: u64 = 0x6c65_6e67;

/// The values to generate: for each the number that determines it, and the time of its row.
pub(in crate::generator) struct Cells {
    pub(in crate::generator) numbers: Vec<u64>,
    pub(in crate::generator) times_ms: Vec<i64>,
}

impl Cells {
    fn len(&self) -> usize {
        self.numbers.len()
    }

    /// A random number for each cell.
    fn bits(&self, key: u64) -> impl Iterator<Item = u64> + '_ {
        self.numbers.iter().map(move |number| random(key, *number).next_u64())
    }

    /// The cells of the elements of collections: `length` for each cell of `self`.
    fn inner(&self, length: u32) -> Cells {
        let each = || 0..u64::from(length);
        let number = |number: &u64| number.wrapping_mul(u64::from(length));
        Cells {
            numbers: self.numbers.iter().flat_map(|n| each().map(move |index| number(n).wrapping_add(index))).collect(),
            times_ms: self.times_ms.iter().flat_map(|time| each().map(|_| *time)).collect(),
        }
    }
}

/// The random numbers of a cell.
pub(in crate::generator) fn random(key: u64, number: u64) -> Rng {
    Rng::new(hash_u64(key, number))
}

/// The values of a column in these cells.
pub(super) fn generate(column: &GeneratedColumn, cells: &Cells) -> Result<ArrayRef> {
    let key = column.key;
    let values: ArrayRef = match &column.content {
        Generated::Boolean => Arc::new(BooleanArray::from_iter(cells.bits(key).map(|bits| Some(bits >> 63 == 1)))),
        Generated::Integer { min, max } => {
            Arc::new(Int64Array::from_iter_values(cells.bits(key).map(|bits| between(bits, *min, *max))))
        }
        Generated::Float { min, max } => {
            // `max - min` may be infinite.
            let value = |bits| (min * (1.0 - fraction(bits)) + max * fraction(bits)).clamp(*min, *max);
            Arc::new(Float64Array::from_iter_values(cells.bits(key).map(value)))
        }
        Generated::Decimal { min, max } => decimals(column, cells, *min, *max)?,
        Generated::Text(length) => texts(key, cells, *length)?,
        Generated::Bytes(length) => bytes(key, cells, *length)?,
        Generated::Time { past_ms } => {
            let past = cells.bits(key).map(|bits| between(bits, 0, i64::try_from(*past_ms).unwrap_or(i64::MAX)));
            let times = cells.times_ms.iter().zip(past).map(|(time, past)| time.saturating_sub(past));
            Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone_opt(zone(&column.data_type)))
        }
        Generated::Sequence { start } => {
            let values = cells.numbers.iter().map(|number| start.wrapping_add_unsigned(*number));
            Arc::new(Int64Array::from_iter_values(values))
        }
        Generated::List { length, item } => list(column, cells, *length, item)?,
        Generated::Map { length, key, value } => map(column, cells, *length, (key, value))?,
        Generated::Row(fields) => row(column, cells, fields)?,
        Generated::Expression { expression, path } => faker::generate(expression, path, column, cells)?,
    };
    let values = if *values.data_type() == column.data_type {
        values
    } else {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(&values, &column.data_type, &options)?
    };
    if column.null_rate == 0.0 {
        return Ok(values);
    }
    let nulls = cells.bits(hash_u64(OF_NULLS, key)).map(|bits| Some(fraction(bits) < column.null_rate));
    Ok(nullif(&values, &nulls.collect::<BooleanArray>())?)
}

fn zone(data_type: &DataType) -> Option<Arc<str>> {
    if let DataType::Timestamp(_, zone) = data_type { zone.clone() } else { None }
}

fn decimals(column: &GeneratedColumn, cells: &Cells, min: i128, max: i128) -> Result<ArrayRef> {
    let wrong = || Error::internal("a decimal of another type");
    let DataType::Decimal128(precision, scale) = column.data_type else { return Err(wrong()) };
    // Bounds have up to 127 bits.
    let span = max.abs_diff(min) + 1;
    let value = |number: &u64| {
        let mut random = random(column.key, *number);
        let bits = (u128::from(random.next_u64()) << 64) | u128::from(random.next_u64());
        min.wrapping_add_unsigned(bits % span)
    };
    let values = Decimal128Array::from_iter_values(cells.numbers.iter().map(value));
    Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
}

/// Where each text begins and ends.
fn offsets(key: u64, cells: &Cells, length: Length) -> OffsetBuffer<i32> {
    let Length { most, varies } = length;
    if !varies || most == 0 {
        return OffsetBuffer::from_repeated_length(most as usize, cells.len());
    }
    OffsetBuffer::from_lengths(cells.bits(hash_u64(OF_LENGTHS, key)).map(|bits| between(bits, 1, most.into()) as usize))
}

/// The lengths of values, with their random numbers.
fn lengths<'a>(key: u64, cells: &'a Cells, offsets: &'a OffsetBuffer<i32>) -> impl Iterator<Item = (usize, Rng)> + 'a {
    let starts = cells.numbers.iter().map(move |number| random(key, *number));
    offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize).zip(starts)
}

fn texts(key: u64, cells: &Cells, length: Length) -> Result<ArrayRef> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let offsets = offsets(key, cells, length);
    let mut text = Vec::with_capacity(offsets.last().map_or(0, |end| *end as usize) + 16);
    for (length, mut random) in lengths(key, cells, &offsets) {
        let end = text.len() + length;
        while text.len() < end {
            let bits = random.next_u64();
            let digits: [u8; 16] = std::array::from_fn(|index| DIGITS[(bits >> (4 * index)) as usize & 15]);
            text.extend_from_slice(&digits);
        }
        text.truncate(end);
    }
    Ok(Arc::new(StringArray::try_new(offsets, text.into(), None)?))
}

fn bytes(key: u64, cells: &Cells, length: Length) -> Result<ArrayRef> {
    let offsets = offsets(key, cells, length);
    let mut bytes = Vec::with_capacity(offsets.last().map_or(0, |end| *end as usize) + 8);
    for (length, mut random) in lengths(key, cells, &offsets) {
        let end = bytes.len() + length;
        while bytes.len() < end {
            bytes.extend_from_slice(&random.next_u64().to_le_bytes());
        }
        bytes.truncate(end);
    }
    Ok(Arc::new(BinaryArray::try_new(offsets, bytes.into(), None)?))
}

fn list(column: &GeneratedColumn, cells: &Cells, length: u32, item: &GeneratedColumn) -> Result<ArrayRef> {
    let DataType::List(field) = &column.data_type else { return Err(Error::internal("a list of another type")) };
    let items = generate(item, &cells.inner(length))?;
    let offsets = OffsetBuffer::from_repeated_length(length as usize, cells.len());
    Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, items, None)?))
}

/// Generates maps. Of entries with equal keys, the first one stays.
fn map(
    column: &GeneratedColumn,
    cells: &Cells,
    length: u32,
    (key, value): (&GeneratedColumn, &GeneratedColumn),
) -> Result<ArrayRef> {
    let wrong = || Error::internal("a map of another type");
    let DataType::Map(entries, is_sorted) = &column.data_type else { return Err(wrong()) };
    let DataType::Struct(fields) = entries.data_type() else { return Err(wrong()) };
    let inner = cells.inner(length);
    let (keys, values) = (generate(key, &inner)?, generate(value, &inner)?);
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(&keys))?;
    let mut seen = HashSet::new();
    let mut kept = Vec::with_capacity(keys.len());
    let mut lengths = Vec::with_capacity(cells.len());
    for cell in 0..cells.len() {
        seen.clear();
        let indexes = cell * length as usize..(cell + 1) * length as usize;
        kept.extend(indexes.map(|index| seen.insert(rows.row(index))));
        lengths.push(seen.len());
    }
    let kept = BooleanArray::from(kept);
    let columns = vec![filter(&keys, &kept)?, filter(&values, &kept)?];
    let pairs = StructArray::try_new(fields.clone(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, None, *is_sorted)?))
}

fn row(column: &GeneratedColumn, cells: &Cells, parts: &[GeneratedColumn]) -> Result<ArrayRef> {
    let DataType::Struct(fields) = &column.data_type else { return Err(Error::internal("a row of another type")) };
    let arrays = parts.iter().map(|part| generate(part, cells)).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StructArray::try_new(fields.clone(), arrays, None)?))
}
