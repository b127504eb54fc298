//! The values of a column as text.

use std::io::Write;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BinaryViewArray, BooleanArray, StringArray,
    StringViewArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;

use super::Field;
use super::scalar::{write_decimal, write_float, write_signed, write_string, write_unsigned};
use crate::format::json::datetime::{Time, Timestamp, TimestampFormat, write_date};
use crate::format::json::kind::ValueKind;

/// The column of a batch that belongs to a field.
pub(super) struct Cells<'a> {
    before: &'a [u8],
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

/// The column's array by type.
enum Values<'a> {
    Boolean(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Decimal(&'a [i128], i8),
    Text(&'a StringViewArray),
    OwnedText(&'a StringArray),
    BinaryView(&'a BinaryViewArray),
    Binary(&'a BinaryArray),
    Date(&'a [i32]),
    Time32(&'a [i32], Time),
    Time64(&'a [i64], Time),
    Timestamp(&'a [i64], Timestamp, TimestampFormat),
    Struct(Vec<Cells<'a>>),
    List(&'a [i32], Box<Cells<'a>>),
    /// Keys and values.
    Map(&'a [i32], Box<[Cells<'a>; 2]>),
}

fn slice<T: ArrowPrimitiveType>(array: &dyn Array) -> &[T::Native] {
    array.as_primitive::<T>().values()
}

impl<'a> Cells<'a> {
    /// `array` must have the type of the field.
    pub(super) fn new(field: &'a Field, array: &'a ArrayRef, format: TimestampFormat) -> Self {
        Cells { before: &field.before, nulls: array.nulls(), values: Values::new(field, array, format) }
    }

    #[inline]
    fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            out.extend_from_slice(b"null");
            return;
        }
        self.values.write(row, out);
    }
}

/// Appends row `row` of `columns` as an object.
pub(super) fn write_object(columns: &[Cells<'_>], row: usize, out: &mut Vec<u8>) {
    if columns.is_empty() {
        out.push(b'{');
    }
    for column in columns {
        out.extend_from_slice(column.before);
        column.write(row, out);
    }
    out.push(b'}');
}

impl<'a> Values<'a> {
    fn new(field: &'a Field, array: &'a ArrayRef, format: TimestampFormat) -> Self {
        match (array.data_type(), field.kind) {
            (DataType::Int8, _) => Values::Int8(slice::<Int8Type>(array)),
            (DataType::Int16, _) => Values::Int16(slice::<Int16Type>(array)),
            (DataType::Int32, _) => Values::Int32(slice::<Int32Type>(array)),
            (DataType::Int64, _) => Values::Int64(slice::<Int64Type>(array)),
            (DataType::UInt8, _) => Values::UInt8(slice::<UInt8Type>(array)),
            (DataType::UInt16, _) => Values::UInt16(slice::<UInt16Type>(array)),
            (DataType::UInt32, _) => Values::UInt32(slice::<UInt32Type>(array)),
            (_, ValueKind::Unsigned64 | ValueKind::Integer { .. }) => Values::UInt64(slice::<UInt64Type>(array)),
            (_, ValueKind::Boolean) => Values::Boolean(array.as_boolean()),
            (_, ValueKind::Float32) => Values::Float32(slice::<Float32Type>(array)),
            (_, ValueKind::Float64) => Values::Float64(slice::<Float64Type>(array)),
            (_, ValueKind::Decimal { scale, .. }) => Values::Decimal(slice::<Decimal128Type>(array), scale),
            (_, ValueKind::Text) => Values::Text(array.as_string_view()),
            (_, ValueKind::OwnedText) => Values::OwnedText(array.as_string()),
            (_, ValueKind::BinaryView) => Values::BinaryView(array.as_binary_view()),
            (_, ValueKind::Binary) => Values::Binary(array.as_binary()),
            (_, ValueKind::Date) => Values::Date(slice::<Date32Type>(array)),
            (DataType::Time32(TimeUnit::Second), ValueKind::Time(time)) => {
                Values::Time32(slice::<Time32SecondType>(array), time)
            }
            (DataType::Time32(_), ValueKind::Time(time)) => Values::Time32(slice::<Time32MillisecondType>(array), time),
            (DataType::Time64(TimeUnit::Microsecond), ValueKind::Time(time)) => {
                Values::Time64(slice::<Time64MicrosecondType>(array), time)
            }
            (_, ValueKind::Time(time)) => Values::Time64(slice::<Time64NanosecondType>(array), time),
            (data_type, ValueKind::Timestamp(timestamp)) => {
                let values = match data_type {
                    DataType::Timestamp(TimeUnit::Second, _) => slice::<TimestampSecondType>(array),
                    DataType::Timestamp(TimeUnit::Millisecond, _) => slice::<TimestampMillisecondType>(array),
                    DataType::Timestamp(TimeUnit::Microsecond, _) => slice::<TimestampMicrosecondType>(array),
                    _ => slice::<TimestampNanosecondType>(array),
                };
                Values::Timestamp(values, timestamp, format)
            }
            (_, ValueKind::Struct) => {
                let columns = array.as_struct().columns();
                let fields = field.children.iter().zip(columns);
                Values::Struct(fields.map(|(field, array)| Cells::new(field, array, format)).collect())
            }
            (_, ValueKind::List) => {
                let list = array.as_list::<i32>();
                let element = Cells::new(&field.children[0], list.values(), format);
                Values::List(list.value_offsets(), Box::new(element))
            }
            (_, ValueKind::Map) => {
                let map = array.as_map();
                let part = |index: usize, array| Cells::new(&field.children[index], array, format);
                Values::Map(map.value_offsets(), Box::new([part(0, map.keys()), part(1, map.values())]))
            }
        }
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Values::Boolean(array) => out.extend_from_slice(if array.value(row) { b"true" } else { b"false" }),
            Values::Int8(values) => write_signed(i64::from(values[row]), out),
            Values::Int16(values) => write_signed(i64::from(values[row]), out),
            Values::Int32(values) => write_signed(i64::from(values[row]), out),
            Values::Int64(values) => write_signed(values[row], out),
            Values::UInt8(values) => write_unsigned(u64::from(values[row]), out),
            Values::UInt16(values) => write_unsigned(u64::from(values[row]), out),
            Values::UInt32(values) => write_unsigned(u64::from(values[row]), out),
            Values::UInt64(values) => write_unsigned(values[row], out),
            Values::Float32(values) => write_float(values[row], values[row].is_finite(), out),
            Values::Float64(values) => write_float(values[row], values[row].is_finite(), out),
            Values::Decimal(values, scale) => write_decimal(values[row], *scale, out),
            Values::Text(array) => write_string(array.value(row).as_bytes(), out),
            Values::OwnedText(array) => write_string(array.value(row).as_bytes(), out),
            Values::BinaryView(array) => write_binary(array.value(row), out),
            Values::Binary(array) => write_binary(array.value(row), out),
            Values::Date(values) => write_quoted(out, |out| write_date(i64::from(values[row]), out)),
            Values::Time32(values, time) => write_quoted(out, |out| time.write(i64::from(values[row]), out)),
            Values::Time64(values, time) => write_quoted(out, |out| time.write(values[row], out)),
            Values::Timestamp(values, timestamp, format) => {
                write_quoted(out, |out| timestamp.write(values[row], *format, out));
            }
            Values::Struct(columns) => write_object(columns, row, out),
            Values::List(offsets, elements) => {
                out.push(b'[');
                for element in offsets[row] as usize..offsets[row + 1] as usize {
                    if element > offsets[row] as usize {
                        out.extend_from_slice(elements.before);
                    }
                    elements.write(element, out);
                }
                out.push(b']');
            }
            Values::Map(offsets, parts) => {
                let [keys, values] = parts.as_ref();
                out.push(b'{');
                for entry in offsets[row] as usize..offsets[row + 1] as usize {
                    if entry > offsets[row] as usize {
                        out.push(b',');
                    }
                    keys.write(entry, out);
                    out.push(b':');
                    values.write(entry, out);
                }
                out.push(b'}');
            }
        }
    }
}

#[inline]
fn write_quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

fn write_binary(bytes: &[u8], out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let written = write!(out, "\"{}\"", Base64Display::new(bytes, &STANDARD));
    debug_assert!(written.is_ok());
}
