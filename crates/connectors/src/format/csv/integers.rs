//! Columns of integers from columns of text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, StringViewArray};
use arrow::datatypes::{DataType, Int8Type, Int16Type, Int32Type, Int64Type};

/// Digits of the longest integer that is read here: its value fits 64 bits.
const DIGITS_MAX: usize = 18;

/// The column as integers, if all of its texts are plain: an optional minus sign and a few digits, within the range.
/// Whatever else may mean an integer is left to the general conversion.
pub(super) fn integers(text: &StringViewArray, data_type: &DataType) -> Option<ArrayRef> {
    match data_type {
        DataType::Int8 => plain::<Int8Type>(text),
        DataType::Int16 => plain::<Int16Type>(text),
        DataType::Int32 => plain::<Int32Type>(text),
        DataType::Int64 => plain::<Int64Type>(text),
        _ => None,
    }
}

fn plain<T: ArrowPrimitiveType<Native: TryFrom<i64> + Default>>(text: &StringViewArray) -> Option<ArrayRef> {
    let mut values: Vec<T::Native> = Vec::with_capacity(text.len());
    for row in 0..text.len() {
        values.push(match text.is_null(row) {
            true => T::Native::default(),
            false => T::Native::try_from(integer(text.value(row).as_bytes())?).ok()?,
        });
    }
    Some(Arc::new(PrimitiveArray::<T>::new(values.into(), text.nulls().cloned())))
}

#[inline(always)]
fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    let (mut value, mut wrong) = (0_i64, false);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        wrong |= digit > 9;
        value = value * 10 + i64::from(digit.min(9));
    }
    if wrong { None } else { Some(if negative { -value } else { value }) }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::compute::cast;

    use super::*;

    #[test]
    fn plain_integers_agree_with_the_general_conversion() {
        let texts = ["0", "-1", "7", "127", "-128", "0012", "100"].map(Some);
        let text = StringViewArray::from_iter(texts.into_iter().chain([None]));
        for data_type in [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64] {
            let found = integers(&text, &data_type).unwrap();
            assert_eq!(&found, &cast(&text, &data_type).unwrap());
        }
        let long = StringViewArray::from(vec!["123456789012345678", "-999999999999999999"]);
        let found = integers(&long, &DataType::Int64).unwrap();
        assert_eq!(found.as_primitive::<Int64Type>().values(), &[123_456_789_012_345_678, -999_999_999_999_999_999]);
        assert!(integers(&long, &DataType::Int32).is_none());
        for other in ["", "-", "+1", "1 ", "1.0", "1e3", "9223372036854775807", "x"] {
            assert!(integers(&StringViewArray::from(vec![other]), &DataType::Int64).is_none(), "{other}");
        }
    }
}
