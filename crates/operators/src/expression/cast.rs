//! Conversions in which SQL differs from the library: from and to text, of times, between floating point and
//! DECIMAL, and of nested values.

mod nested;
mod texts;

use std::fmt::Write;
use std::sync::Arc;

use anabranch_functions::{per_second, reads_texts_as};
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, StringViewBuilder};
use arrow::compute::CastOptions;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type, IntervalUnit, TimeUnit};
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
        (DataType::Boolean | DataType::Float32 | DataType::Float64 | DataType::Timestamp(..), to)
        | (DataType::Interval(IntervalUnit::MonthDayNano) | DataType::Duration(_), to)
            if to.is_string() =>
        {
            true
        }
        (from, DataType::Timestamp(..)) if from.is_signed_integer() => true,
        (from, to) if from.is_string() => reads_texts_as(to),
        (from, DataType::Decimal128(..)) => from.is_floating(),
        (DataType::Decimal128(..), DataType::Float64) => true,
        (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) => per_second(*from) > per_second(*to),
        (DataType::List(_) | DataType::Map(..) | DataType::Struct(_), to) if to.is_string() => true,
        (DataType::List(_), DataType::List(_)) | (DataType::Map(..), DataType::Map(..)) => true,
        (DataType::Struct(from), DataType::Struct(to)) => from.len() == to.len(),
        _ => false,
    }
}

/// The values of an array in another type. A value that does not fit is an error, or NULL if `safe`.
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
        (DataType::List(_), DataType::List(item)) => nested::list(array.as_list(), item, safe),
        (DataType::Map(..), DataType::Map(entries, ordered)) => nested::map(array.as_map(), entries, *ordered, safe),
        (DataType::Struct(_), DataType::Struct(fields)) => nested::row(array.as_struct(), fields, safe),
        (from, _) if from.is_string() => texts::read(array, to, safe),
        (from, DataType::Decimal128(precision, scale)) if from.is_floating() => {
            texts::decimals(array, (*precision, *scale), safe)
        }
        (DataType::Decimal128(..), DataType::Float64) => Ok(texts::doubles(array.as_primitive())),
        (_, DataType::Timestamp(unit, _)) => to_timestamp(array, *unit, to, safe),
        (from, to) => internal_err!("no conversion of our own from {from} to {to}"),
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
        DataType::List(_) => nested::lists(array.as_list(), safe, &mut text)?,
        DataType::Map(..) => nested::maps(array.as_map(), safe, &mut text)?,
        DataType::Struct(_) => nested::rows(array.as_struct(), safe, &mut text)?,
        DataType::Timestamp(unit, _) => times(array, *unit, safe, &mut text)?,
        DataType::Interval(_) | DataType::Duration(_) => texts::intervals(array, &mut text)?,
        _ => {
            let options = CastOptions { safe, ..CastOptions::default() };
            return Ok(arrow::compute::cast_with_options(array, &DataType::Utf8View, &options)?);
        }
    }
    Ok(Arc::new(text.finish()))
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
            _ => return Err(unfit(format!("the time {value} is too far from 1970 to be shown as text"))),
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
