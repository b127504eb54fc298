//! Conversions from text to numbers, dates and times; of floating point to DECIMAL, by its shortest decimal
//! text; of intervals to text.

use std::fmt::Write;
use std::sync::Arc;

use anabranch_dataflow::sql_name;
use anabranch_functions::{parse_date, parse_decimal, parse_time, parse_timestamp, parse_whole, per_second};
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Date32Array, Decimal128Array, PrimitiveArray, StringViewArray,
    StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DecimalType, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, TimeUnit,
};
use datafusion_common::{Result, internal_err};

use super::unfit;

const DAY_MS: i64 = 86_400_000;

/// Parses texts as values of another type. A text that does not parse is an error, or NULL if `safe`.
pub(super) fn read(array: &ArrayRef, to: &DataType, safe: bool) -> Result<ArrayRef> {
    let texts = cast(array, &DataType::Utf8View)?;
    let texts = texts.as_string_view();
    match to {
        DataType::Int8 => whole_numbers::<Int8Type>(texts, to, safe),
        DataType::Int16 => whole_numbers::<Int16Type>(texts, to, safe),
        DataType::Int32 => whole_numbers::<Int32Type>(texts, to, safe),
        DataType::Int64 => whole_numbers::<Int64Type>(texts, to, safe),
        DataType::Decimal128(precision, scale) => {
            let numbers = each(texts, to, safe, |text| parse_decimal(text, *precision, *scale))?;
            Ok(Arc::new(Decimal128Array::from(numbers).with_precision_and_scale(*precision, *scale)?))
        }
        DataType::Date32 => {
            let days = each(texts, to, safe, |text| Some(Date32Type::from_naive_date(parse_date(text)?)))?;
            Ok(Arc::new(Date32Array::from(days)))
        }
        DataType::Time32(TimeUnit::Second) => {
            Ok(cast(&PrimitiveArray::<Int32Type>::from(each(texts, to, safe, parse_time)?), to)?)
        }
        DataType::Timestamp(unit, _) => {
            let times = each(texts, to, safe, |text| parse_timestamp(text, *unit))?;
            Ok(cast(&PrimitiveArray::<Int64Type>::from(times), to)?)
        }
        to => internal_err!("texts are not read as {to}"),
    }
}

fn whole_numbers<T: ArrowPrimitiveType>(texts: &StringViewArray, to: &DataType, safe: bool) -> Result<ArrayRef>
where
    T::Native: TryFrom<i64>,
{
    let numbers = each(texts, to, safe, |text| T::Native::try_from(parse_whole(text)?).ok())?;
    Ok(Arc::new(numbers.into_iter().collect::<PrimitiveArray<T>>()))
}

fn each<T>(
    texts: &StringViewArray,
    to: &DataType,
    safe: bool,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<Option<T>>> {
    let values = texts.iter().map(|text| {
        let Some(text) = text else { return Ok(None) };
        match parse(text) {
            None if !safe => Err(unfit(format!("'{text}' is no {}", sql_name(to)))),
            value => Ok(value),
        }
    });
    values.collect()
}

/// Floating-point numbers as DECIMAL: the number that the shortest text shows, as in Flink.
pub(super) fn decimals(array: &ArrayRef, (precision, scale): (u8, i8), safe: bool) -> Result<ArrayRef> {
    let numbers = cast(array, &DataType::Float64)?;
    let mut text = String::new();
    let numbers = numbers.as_primitive::<Float64Type>().iter().map(|number| {
        let Some(number) = number else { return Ok(None) };
        text.clear();
        let written = write!(text, "{number:e}").ok();
        match written.and_then(|()| parse_decimal(&text, precision, scale)) {
            None if !safe && number.is_finite() => {
                Err(unfit(format!("{number} has too many digits for DECIMAL({precision}, {scale})")))
            }
            None if !safe => Err(unfit(format!("{number} cannot be a DECIMAL"))),
            number => Ok(number),
        }
    });
    let numbers = numbers.collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(numbers.with_precision_and_scale(precision, scale)?))
}

/// DECIMALs as the nearest floating-point numbers.
pub(super) fn doubles(numbers: &Decimal128Array) -> ArrayRef {
    /// Whole numbers up to this one are exact in floating point, and so are powers of ten up to 10^22. Their
    /// quotient is therefore the nearest floating-point number (Clinger, 1990).
    const WHOLE_MAX: u128 = 1 << f64::MANTISSA_DIGITS;
    const POWER_MAX: i8 = 22;
    let scale = numbers.scale();
    let by = 10_f64.powi(i32::from(scale));
    Arc::new(numbers.unary::<_, Float64Type>(|number| {
        if (0..=POWER_MAX).contains(&scale) && number.unsigned_abs() <= WHOLE_MAX {
            return number as f64 / by;
        }
        let text = Decimal128Type::format_decimal(number, numbers.precision(), scale);
        text.parse().unwrap_or(f64::NAN)
    }))
}

/// Appends `+1 02:03:04.500` for each interval of days and times, and `+1-02` for one of months.
pub(super) fn intervals(array: &ArrayRef, text: &mut StringViewBuilder) -> Result<()> {
    let mut shown = String::new();
    let mut append = |interval: Option<(i64, i64)>| {
        let Some((months, ms)) = interval else { return text.append_null() };
        shown.clear();
        let sign = if months < 0 || ms < 0 { '-' } else { '+' };
        let (months, ms) = (months.abs(), ms.abs());
        let (days, rest) = (ms / DAY_MS, ms % DAY_MS);
        let (hours, minutes, seconds) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
        let written = match months {
            0 => write!(shown, "{sign}{days} {hours:02}:{minutes:02}:{seconds:02}.{:03}", rest % 1000),
            months => write!(shown, "{sign}{}-{:02}", months / 12, months % 12),
        };
        debug_assert!(written.is_ok(), "a String takes all texts");
        text.append_value(&shown);
    };
    match array.data_type() {
        DataType::Duration(unit) => {
            let by = per_second(*unit);
            let numbers = cast(array, &DataType::Int64)?;
            let ms = |number: i64| (i128::from(number) * 1000 / i128::from(by)) as i64;
            numbers.as_primitive::<Int64Type>().iter().for_each(|number| append(number.map(|number| (0, ms(number)))));
        }
        _ => array.as_primitive::<IntervalMonthDayNanoType>().iter().for_each(|interval| {
            append(interval.map(|value| {
                (i64::from(value.months), i64::from(value.days) * DAY_MS + value.nanoseconds / 1_000_000)
            }));
        }),
    }
    Ok(())
}
