//! Columns of numbers from columns of text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, StringViewArray};
use arrow::datatypes::{DataType, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};

use crate::format::json::Fixed;

/// Digits of the longest number that is read here: their value fits 64 bits.
const DIGITS_MAX: usize = 18;

/// The column as numbers, if all of its texts are plain: an optional minus sign and a few digits, with a point among
/// them for floating-point numbers, and a value that is exact or rounded once. All other texts are left to the general
/// conversion.
pub(super) fn numbers(text: &StringViewArray, data_type: &DataType) -> Option<ArrayRef> {
    match data_type {
        DataType::Int8 => column::<Int8Type>(text, |number| i8::try_from(number.integer()?).ok()),
        DataType::Int16 => column::<Int16Type>(text, |number| i16::try_from(number.integer()?).ok()),
        DataType::Int32 => column::<Int32Type>(text, |number| i32::try_from(number.integer()?).ok()),
        DataType::Int64 => column::<Int64Type>(text, Fixed::integer),
        DataType::Float64 => column::<Float64Type>(text, Fixed::float),
        _ => None,
    }
}

fn column<T: ArrowPrimitiveType<Native: Default>>(
    text: &StringViewArray,
    value: impl Fn(Fixed) -> Option<T::Native>,
) -> Option<ArrayRef> {
    let mut values: Vec<T::Native> = Vec::with_capacity(text.len());
    for row in 0..text.len() {
        values.push(match text.is_null(row) {
            true => T::Native::default(),
            false => value(plain(text.value(row).as_bytes())?)?,
        });
    }
    Some(Arc::new(PrimitiveArray::<T>::new(values.into(), text.nulls().cloned())))
}

#[inline(always)]
fn plain(text: &[u8]) -> Option<Fixed> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits[0].is_ascii_digit() {
        return None;
    }
    let (mut value, mut fraction, mut wrong) = (0_u64, None, false);
    for (at, byte) in digits.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            value = value * 10 + u64::from(digit);
        } else {
            // One point, with digits after it.
            wrong |= *byte != b'.' || fraction.is_some() || at + 1 == digits.len();
            fraction = Some((digits.len() - at - 1) as u32);
        }
    }
    if wrong { None } else { Some(Fixed { negative, digits: Some(value), fraction: fraction.unwrap_or(0) }) }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::compute::cast;

    use super::*;

    #[test]
    fn plain_numbers_agree_with_the_general_conversion() {
        let texts = ["0", "-1", "7", "127", "-128", "0012", "100"].map(Some);
        let text = StringViewArray::from_iter(texts.into_iter().chain([None]));
        for data_type in [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64] {
            let found = numbers(&text, &data_type).unwrap();
            assert_eq!(&found, &cast(&text, &data_type).unwrap());
        }
        let long = StringViewArray::from(vec!["123456789012345678", "-999999999999999999"]);
        let found = numbers(&long, &DataType::Int64).unwrap();
        assert_eq!(found.as_primitive::<Int64Type>().values(), &[123_456_789_012_345_678, -999_999_999_999_999_999]);
        assert!(numbers(&long, &DataType::Int32).is_none());
        let floats = ["0", "-0", "1.5", "-123.456", "0.1", "00.25", "12345678901234.5"];
        let text = StringViewArray::from_iter(floats.map(Some).into_iter().chain([None]));
        assert_eq!(&numbers(&text, &DataType::Float64).unwrap(), &cast(&text, &DataType::Float64).unwrap());
        for other in ["1.", ".5", "-", "1.2.3", "1e3", "NaN", "1,5", "1234567890123456.78"] {
            assert!(numbers(&StringViewArray::from(vec![other]), &DataType::Float64).is_none(), "{other}");
        }
        for other in ["", "-", "+1", "1 ", "1.0", "1e3", "9223372036854775807", "x"] {
            assert!(numbers(&StringViewArray::from(vec![other]), &DataType::Int64).is_none(), "{other}");
        }
    }
}
