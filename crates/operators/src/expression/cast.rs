//! Conversions in which SQL differs from the library: values as text, and times.

use std::fmt::Write;
use std::sync::Arc;

use anabranch_functions::parse_whole;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, ListArray, PrimitiveArray, StringViewBuilder,
    UInt32Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::CastOptions;
use arrow::datatypes::{
    DataType, FieldRef, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
};
use arrow::error::ArrowError;
use arrow::temporal_conversions::{
    timestamp_ms_to_datetime, timestamp_ns_to_datetime, timestamp_s_to_datetime, timestamp_us_to_datetime,
};
use chrono::NaiveDateTime;
use chrono::format::{Item, StrftimeItems};
use datafusion_common::{DataFusionError, Result, internal_err};

use crate::event_time::all_within;
use crate::key_hash::timestamp_values;

/// Seconds since 1970 of 0000-01-01 00:00:00 and of 9999-12-31 23:59:59: values beyond are not valid times.
const SECONDS_MIN: i64 = -62_167_219_200;
const SECONDS_MAX: i64 = 253_402_300_799;

/// Whether [`convert`] makes this conversion; the library makes the others.
pub(super) fn is_own(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Boolean | DataType::Float32 | DataType::Float64 | DataType::Timestamp(..), to) if to.is_string() => {
            true
        }
        (from, DataType::Timestamp(..)) if from.is_signed_integer() => true,
        (from, to) if from.is_string() && to.is_signed_integer() => true,
        (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) => per_second(*from) > per_second(*to),
        (DataType::List(_), to) if to.is_string() => true,
        (DataType::List(_), DataType::List(_)) => true,
        _ => false,
    }
}

/// The values of an array in another type. What does not fit is an error, or NULL if `safe`.
pub(super) fn convert(array: &ArrayRef, to: &DataType, safe: bool) -> Result<ArrayRef> {
    match (array.data_type(), to) {
        (_, to) if to.is_string() => {
            let text = text_of(array, safe)?;
            Ok(if text.data_type() == to { text } else { arrow::compute::cast(&text, to)? })
        }
        (DataType::Timestamp(from, _), DataType::Timestamp(unit, _)) => {
            let by = per_second(*from) / per_second(*unit);
            let values = timestamp_values(array, *from).iter().map(|value| value.div_euclid(by));
            let values = PrimitiveArray::<Int64Type>::new(values.collect(), array.nulls().cloned());
            Ok(arrow::compute::cast(&values, to)?)
        }
        (DataType::List(_), DataType::List(item)) => list(array.as_list(), item, safe),
        (from, DataType::Int8) if from.is_string() => whole_numbers::<Int8Type>(array, safe),
        (from, DataType::Int16) if from.is_string() => whole_numbers::<Int16Type>(array, safe),
        (from, DataType::Int32) if from.is_string() => whole_numbers::<Int32Type>(array, safe),
        (from, DataType::Int64) if from.is_string() => whole_numbers::<Int64Type>(array, safe),
        (_, DataType::Timestamp(unit, _)) => to_timestamp(array, *unit, to, safe),
        (from, to) => internal_err!("no conversion of our own from {from} to {to}"),
    }
}

/// The arrays with their own elements alone. A slice of a column has those of other rows too, and a NULL may have some
/// that nobody sees: these may not fit.
fn compact(array: &ListArray) -> Result<ListArray> {
    let offsets = array.offsets();
    let has_elements = |row: usize| offsets[row] < offsets[row + 1];
    if array.nulls().is_some_and(|nulls| (0..array.len()).any(|row| nulls.is_null(row) && has_elements(row))) {
        let rows = UInt32Array::from_iter_values(0..u32::try_from(array.len()).unwrap_or(u32::MAX));
        return Ok(arrow::compute::take(array, &rows, None)?.as_list().clone());
    }
    let place = |offset: i32| usize::try_from(offset).unwrap_or(0);
    let (start, end) = (place(offsets[0]), place(offsets[offsets.len() - 1]));
    let values = array.values().slice(start, end - start);
    let DataType::List(item) = array.data_type() else { return Ok(array.clone()) };
    let lengths = OffsetBuffer::from_lengths(offsets.lengths());
    Ok(ListArray::try_new(Arc::clone(item), lengths, values, array.nulls().cloned())?)
}

/// An array with elements of another type. It is NULL if `safe` and one of its elements does not fit.
fn list(array: &ListArray, item: &FieldRef, safe: bool) -> Result<ArrayRef> {
    let array = &compact(array)?;
    let (from, to) = (array.values(), item.data_type());
    let values = match from.data_type() {
        same if same == to => Arc::clone(from),
        other if is_own(other, to) => convert(from, to, safe)?,
        _ => arrow::compute::cast_with_options(from, to, &CastOptions { safe, ..CastOptions::default() })?,
    };
    let fits = |bounds: &[i32]| {
        let mut places = (bounds[0]..bounds[1]).filter_map(|place| usize::try_from(place).ok());
        places.all(|place| values.is_valid(place) || from.is_null(place))
    };
    let mut nulls = array.nulls().cloned();
    if values.null_count() > from.null_count() {
        let fitting: NullBuffer = array.value_offsets().windows(2).map(fits).collect();
        nulls = NullBuffer::union(nulls.as_ref(), Some(&fitting));
    }
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), array.offsets().clone(), values, nulls)?))
}

/// The whole numbers that texts show.
fn whole_numbers<T: ArrowPrimitiveType>(array: &ArrayRef, safe: bool) -> Result<ArrayRef>
where
    T::Native: TryFrom<i64>,
{
    let texts = arrow::compute::cast(array, &DataType::Utf8View)?;
    let numbers = texts.as_string_view().iter().map(|text| {
        let Some(text) = text else { return Ok(None) };
        match parse_whole(text).and_then(|number| T::Native::try_from(number).ok()) {
            None if !safe => Err(unfit(format!("Cannot cast string '{text}' to value of {:?} type", T::DATA_TYPE))),
            number => Ok(number),
        }
    });
    Ok(Arc::new(numbers.collect::<Result<PrimitiveArray<T>>>()?))
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Numbers since 1970 as times, if they lie in the years 0 to 9999.
fn to_timestamp(array: &ArrayRef, unit: TimeUnit, to: &DataType, safe: bool) -> Result<ArrayRef> {
    let numbers = arrow::compute::cast(array, &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let least = SECONDS_MIN.saturating_mul(per_second(unit));
    let most = (SECONDS_MAX + 1).saturating_mul(per_second(unit)).saturating_sub(1);
    // The distance of the bounds is too large for nanoseconds, but all their values are in range.
    if unit == TimeUnit::Nanosecond || all_within(numbers.values(), least, most) {
        return Ok(arrow::compute::cast(numbers, to)?);
    }
    let fits = |number: i64| (least..=most).contains(&number);
    if !safe && let Some(number) = numbers.iter().flatten().find(|number| !fits(*number)) {
        return Err(unfit(format!("{number} is not a time in the years 0 to 9999")));
    }
    let numbers: PrimitiveArray<Int64Type> = numbers.unary_opt(|number| fits(number).then_some(number));
    Ok(arrow::compute::cast(&numbers, to)?)
}

fn unfit(message: String) -> DataFusionError {
    DataFusionError::from(ArrowError::CastError(message))
}

fn text_of(array: &ArrayRef, safe: bool) -> Result<ArrayRef> {
    let mut text = StringViewBuilder::with_capacity(array.len());
    match array.data_type() {
        DataType::Boolean => {
            let values: &BooleanArray = array.as_boolean();
            values.iter().for_each(|value| text.append_option(value.map(|value| if value { "TRUE" } else { "FALSE" })));
        }
        DataType::Float64 => floats::<Float64Type>(array, &mut text),
        DataType::Float32 => floats::<Float32Type>(array, &mut text),
        DataType::List(_) => lists(array.as_list(), safe, &mut text)?,
        DataType::Timestamp(unit, _) => times(array, *unit, safe, &mut text)?,
        _ => {
            let options = CastOptions { safe, ..CastOptions::default() };
            return Ok(arrow::compute::cast_with_options(array, &DataType::Utf8View, &options)?);
        }
    }
    Ok(Arc::new(text.finish()))
}

/// Appends `[1, NULL, 3]` for each array.
fn lists(array: &ListArray, safe: bool, text: &mut StringViewBuilder) -> Result<()> {
    let array = &compact(array)?;
    let elements = text_of(array.values(), safe)?;
    let elements = elements.as_string_view();
    let mut shown = String::new();
    // Only if `safe`: otherwise an element without a text has been an error.
    let has_text = |index: i32| {
        let index = usize::try_from(index).unwrap_or(0);
        elements.is_valid(index) || array.values().is_null(index)
    };
    for (row, bounds) in array.value_offsets().windows(2).enumerate() {
        if array.is_null(row) || !(bounds[0]..bounds[1]).all(has_text) {
            text.append_null();
            continue;
        }
        shown.clear();
        shown.push('[');
        for index in bounds[0]..bounds[1] {
            let separator = if index > bounds[0] { ", " } else { "" };
            shown.push_str(separator);
            let element = usize::try_from(index).ok().filter(|index| elements.is_valid(*index));
            shown.push_str(element.map_or("NULL", |index| elements.value(index)));
        }
        shown.push(']');
        text.append_value(&shown);
    }
    Ok(())
}

/// Appends `2024-05-06 07:08:09.123` for each time, with as many digits as the unit has.
fn times(array: &ArrayRef, unit: TimeUnit, safe: bool, text: &mut StringViewBuilder) -> Result<()> {
    let (time, pattern): (fn(i64) -> Option<NaiveDateTime>, _) = match unit {
        TimeUnit::Second => (timestamp_s_to_datetime, "%Y-%m-%d %H:%M:%S"),
        TimeUnit::Millisecond => (timestamp_ms_to_datetime, "%Y-%m-%d %H:%M:%S%.3f"),
        TimeUnit::Microsecond => (timestamp_us_to_datetime, "%Y-%m-%d %H:%M:%S%.6f"),
        TimeUnit::Nanosecond => (timestamp_ns_to_datetime, "%Y-%m-%d %H:%M:%S%.9f"),
    };
    let items: Vec<Item> = StrftimeItems::new(pattern).collect();
    let mut shown = String::new();
    for (row, value) in timestamp_values(array, unit).iter().enumerate() {
        if array.is_null(row) {
            text.append_null();
            continue;
        }
        shown.clear();
        let written = time(*value).map(|time| write!(shown, "{}", time.format_with_items(items.iter())));
        match written {
            Some(Ok(())) => text.append_value(&shown),
            _ if safe => text.append_null(),
            _ => return Err(unfit(format!("{value} is not a time that can be written"))),
        }
    }
    Ok(())
}

fn floats<T: ArrowPrimitiveType>(array: &ArrayRef, text: &mut StringViewBuilder)
where
    T::Native: std::fmt::Display + std::fmt::LowerExp + Into<f64>,
{
    for value in array.as_primitive::<T>() {
        text.append_option(value.map(float_text));
    }
}

/// A floating-point number as Java writes it: `1.0`, `1.5E10`, `1.0E-5`.
fn float_text<F: Copy + std::fmt::Display + std::fmt::LowerExp + Into<f64>>(value: F) -> String {
    let wide: f64 = value.into();
    if wide.is_nan() {
        return "NaN".into();
    }
    if wide.is_infinite() {
        return if wide > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    if wide == 0.0 || (1e-3..1e7).contains(&wide.abs()) {
        let text = value.to_string();
        return if text.contains('.') { text } else { text + ".0" };
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if digits.contains('.') => format!("{digits}E{exponent}"),
        Some((digits, exponent)) => format!("{digits}.0E{exponent}"),
        None => text,
    }
}
