//! Columns of numbers, read from the bytes of their fields.

use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, Float64Array, Int64Array, PrimitiveArray,
    StringViewArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use crate::format::json::{Fixed, eight_digits};

/// Digits of the longest number that is read here: their value fits 64 bits.
const DIGITS_MAX: usize = 18;

/// The digit `0` in each byte. An exclusive or with it turns digits into their values.
const ZEROS: u128 = every(b'0');
/// The highest bit of each byte.
const SIGNS: u128 = every(0x80);

const fn every(byte: u8) -> u128 {
    u128::from_le_bytes([byte; 16])
}

/// A column of numbers under construction.
///
/// Plain texts are read directly: an optional minus sign and a few digits, with a point among them for
/// floating-point numbers, and a value that is exact or rounded once. All others are converted together at
/// the end, by the general conversion.
pub(super) struct Numbers {
    data_type: DataType,
    values: Values,
    /// Rows that are NULL, in order.
    nulls: Vec<usize>,
    /// Rows whose text is not plain, in order, and the views of those texts.
    others: (Vec<usize>, Vec<u128>),
}

enum Values {
    Integers { values: Vec<i64>, min: i64, max: i64 },
    Floats(Vec<f64>),
}

/// A finished column, and the rows whose text is no value of its type, with that text.
pub(super) struct Finished {
    pub(super) column: ArrayRef,
    pub(super) wrong: Vec<(usize, String)>,
}

impl Numbers {
    /// A column for `rows` rows; `None` if texts of this type are not read here.
    pub(super) fn new(data_type: &DataType, rows: usize) -> Option<Numbers> {
        let integers = |min, max| Values::Integers { values: Vec::with_capacity(rows), min, max };
        let values = match data_type {
            DataType::Int8 => integers(i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => integers(i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => integers(i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => integers(i64::MIN, i64::MAX),
            DataType::Float64 => Values::Floats(Vec::with_capacity(rows)),
            _ => return None,
        };
        Some(Numbers { data_type: data_type.clone(), values, nulls: Vec::new(), others: (Vec::new(), Vec::new()) })
    }

    /// Adds the number `bytes[start..end]`; false if it is not plain.
    #[inline(always)]
    pub(super) fn push(&mut self, bytes: &[u8], start: usize, end: usize) -> bool {
        let Some(number) = plain(bytes, start, end) else { return false };
        match &mut self.values {
            Values::Integers { values, min, max } => match number.integer() {
                Some(value) if (*min..=*max).contains(&value) => values.push(value),
                _ => return false,
            },
            Values::Floats(values) => match number.float() {
                Some(value) => values.push(value),
                None => return false,
            },
        }
        true
    }

    /// Adds a text that is not a plain number.
    #[cold]
    pub(super) fn push_other(&mut self, view: u128) {
        self.others.0.push(self.len());
        self.others.1.push(view);
        self.push_default();
    }

    /// Adds NULL.
    #[cold]
    pub(super) fn push_null(&mut self) {
        self.nulls.push(self.len());
        self.push_default();
    }

    fn push_default(&mut self) {
        match &mut self.values {
            Values::Integers { values, .. } => values.push(0),
            Values::Floats(values) => values.push(0.0),
        }
    }

    fn len(&self) -> usize {
        match &self.values {
            Values::Integers { values, .. } => values.len(),
            Values::Floats(values) => values.len(),
        }
    }

    /// The column. `texts` makes an array of views.
    pub(super) fn finish(mut self, texts: impl FnOnce(Vec<u128>) -> StringViewArray) -> Result<Finished> {
        let rows = self.len();
        let mut wrong = Vec::new();
        let (other_rows, views) = std::mem::take(&mut self.others);
        if !other_rows.is_empty() {
            let texts: ArrayRef = Arc::new(texts(views));
            let options = CastOptions { safe: true, ..CastOptions::default() };
            let found = cast_with_options(&texts, &self.data_type, &options)?;
            match &mut self.values {
                Values::Integers { values, .. } => {
                    let found = cast(&found, &DataType::Int64)?;
                    put(values, &other_rows, found.as_primitive::<Int64Type>());
                }
                Values::Floats(values) => put(values, &other_rows, found.as_primitive::<Float64Type>()),
            }
            for (at, row) in other_rows.into_iter().enumerate().filter(|(at, _)| found.is_null(*at)) {
                wrong.push((row, texts.as_string_view().value(at).to_owned()));
            }
        }
        let nulls = self.nulls.iter().chain(wrong.iter().map(|(row, _)| row));
        let nulls = (self.nulls.len() + wrong.len() > 0).then(|| valid_except(rows, nulls));
        let column: ArrayRef = match self.values {
            Values::Integers { values, .. } => {
                cast(&(Arc::new(Int64Array::new(values.into(), nulls)) as ArrayRef), &self.data_type)?
            }
            Values::Floats(values) => Arc::new(Float64Array::new(values.into(), nulls)),
        };
        Ok(Finished { column, wrong })
    }
}

/// Puts the values that are there into their rows.
fn put<T: ArrowPrimitiveType>(values: &mut [T::Native], rows: &[usize], found: &PrimitiveArray<T>) {
    for (row, value) in rows.iter().zip(found) {
        if let Some(value) = value {
            values[*row] = value;
        }
    }
}

fn valid_except<'a>(rows: usize, nulls: impl Iterator<Item = &'a usize>) -> NullBuffer {
    let mut valid = BooleanBufferBuilder::new(rows);
    valid.append_n(rows, true);
    nulls.for_each(|row| valid.set_bit(*row, false));
    NullBuffer::new(valid.finish())
}

/// The plain number `bytes[start..end]`.
#[inline(always)]
fn plain(bytes: &[u8], start: usize, end: usize) -> Option<Fixed> {
    let negative = bytes.get(start) == Some(&b'-');
    let start = start + usize::from(negative);
    let len = end.checked_sub(start).filter(|len| *len > 0)?;
    let (digits, fraction) = match end.checked_sub(16).and_then(|from| bytes.get(from..)?.first_chunk::<16>()) {
        Some(window) if len <= 16 => digits_at_end(u128::from_le_bytes(*window), len)?,
        _ => digits(&bytes[start..end])?,
    };
    Some(Fixed { negative, digits: Some(digits), fraction })
}

/// The number in the last `len` of sixteen bytes, without its point, and the number of digits after the
/// point. All bytes are examined together: lengths that change from row to row cost no mispredicted branch.
#[inline(always)]
fn digits_at_end(window: u128, len: usize) -> Option<(u64, u32)> {
    const POINT: u8 = b'.' ^ b'0';
    // A byte for each digit, the last one highest; zero before the number.
    let mut digits = (window ^ ZEROS) & (u128::MAX << (8 * (16 - len)));
    let others = (((digits & !SIGNS) + every(0x80 - 10)) | digits) & SIGNS;
    let mut fraction = 0;
    if others != 0 {
        let at = others.trailing_zeros() / 8;
        let is_point = (digits >> (8 * at)) as u8 == POINT && others & (others - 1) == 0;
        // Digits before it and after it.
        if !is_point || at as usize <= 16 - len || at == 15 {
            return None;
        }
        let before = digits & !(u128::MAX << (8 * at));
        digits = (digits & (u128::MAX << (8 * at + 8))) | before << 8;
        fraction = 15 - at;
    }
    let (high, low) = (eight_digits(digits as u64), eight_digits((digits >> 64) as u64));
    Some((high * 100_000_000 + low, fraction))
}

/// Like [`digits_at_end`], for a number of any length.
fn digits(text: &[u8]) -> Option<(u64, u32)> {
    if text.len() > DIGITS_MAX || !text[0].is_ascii_digit() {
        return None;
    }
    let (mut value, mut fraction, mut wrong) = (0_u64, None, false);
    for (at, byte) in text.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            value = value * 10 + u64::from(digit);
        } else {
            // One point, with digits after it.
            wrong |= *byte != b'.' || fraction.is_some() || at + 1 == text.len();
            fraction = Some((text.len() - at - 1) as u32);
        }
    }
    (!wrong).then_some((value, fraction.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use arrow::array::Int32Array;

    use super::*;

    /// The column of these texts, after bytes of other fields, or at the beginning of the input.
    fn column(texts: &[&str], data_type: &DataType, before: &str) -> Finished {
        let mut numbers = Numbers::new(data_type, texts.len()).expect("a type of numbers");
        let mut others = Vec::new();
        for text in texts {
            let bytes = [before, text, ",9,8.7"].concat().into_bytes();
            if !numbers.push(&bytes, before.len(), before.len() + text.len()) {
                others.push(*text);
                numbers.push_other(0);
            }
        }
        numbers.finish(|_| StringViewArray::from(others)).expect("column")
    }

    fn cast_of(texts: &[&str], data_type: &DataType) -> ArrayRef {
        cast(&StringViewArray::from(texts.to_vec()), data_type).expect("cast")
    }

    #[test]
    fn numbers_agree_with_the_general_conversion() {
        let texts = [
            "0",
            "-1",
            "7",
            "127",
            "-128",
            "128",
            "32768",
            "0012",
            "100",
            "-0",
            "1.5",
            "-123.456",
            "0.1",
            "00.25",
            "12345678901234.5",
            "1.",
            ".5",
            "-",
            "--1",
            "1.2.3",
            "1e3",
            "NaN",
            "1,5",
            "1234567890123456.78",
            "",
            "+1",
            "1 ",
            " 1",
            "1.0",
            "9223372036854775807",
            "9223372036854775808",
            "123456789012345678",
            "1234567890123456",
            "-1234567890123456",
            "12345678901234567",
            "-999999999999999999",
            "x",
            "1:5",
            "1/5",
            "1\u{b0}",
            "9.9",
            "0.000000000000001",
            "99999999",
            "100000000",
            "-.5",
            "1.-5",
        ];
        let types = [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64, DataType::Float64];
        for (data_type, before) in types.iter().flat_map(|t| ["", "a,\"bc\",123456789,4.5,"].map(|before| (t, before)))
        {
            let Finished { column, wrong } = column(&texts, data_type, before);
            let expected = cast_of(&texts, data_type);
            assert_eq!(&column, &expected, "{data_type} {before}");
            let not_numbers: Vec<_> = (0..texts.len()).filter(|row| expected.is_null(*row)).collect();
            assert_eq!(wrong, not_numbers.iter().map(|row| (*row, texts[*row].to_owned())).collect::<Vec<_>>());
        }
    }

    #[test]
    fn most_numbers_are_plain() {
        for (text, digits, fraction) in
            [("0", 0, 0), ("907", 907, 0), ("-12.50", 1250, 2), ("1234567890123456", 1_234_567_890_123_456, 0)]
        {
            for before in ["", "2026-11-22 00:00:00,"] {
                let bytes = [before, text, ",1"].concat().into_bytes();
                let found = plain(&bytes, before.len(), before.len() + text.len()).expect("plain");
                assert_eq!((found.digits, found.fraction), (Some(digits), fraction), "{text}");
                assert_eq!(found.negative, text.starts_with('-'));
            }
        }
    }

    #[test]
    fn nulls_keep_their_rows() {
        let mut numbers = Numbers::new(&DataType::Int32, 3).expect("a type of numbers");
        numbers.push_null();
        assert!(numbers.push(b"42", 0, 2));
        numbers.push_other(0);
        let Finished { column, wrong } = numbers.finish(|_| StringViewArray::from(vec!["x"])).expect("column");
        assert_eq!(column.as_ref(), &Int32Array::from(vec![None, Some(42), None]));
        assert_eq!(wrong, [(2, "x".to_owned())]);
    }
}
