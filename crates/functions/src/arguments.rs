//! The arguments of a call as typed columns, and columns of results.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BinaryBuilder, BooleanArray, PrimitiveArray,
    StringViewArray, StringViewBuilder,
};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion_common::Result;
use datafusion_expr::ColumnarValue;

use crate::definition::failure;

/// The arguments of one call.
pub(crate) struct Arguments<'a> {
    /// Values, and the distance to the value of the next row: 0 for a constant, which has one value.
    columns: Vec<(ArrayRef, usize)>,
    /// Rows to compute.
    pub(crate) rows: usize,
    /// Type of the result.
    pub(crate) returns: &'a DataType,
}

/// One argument: a value per row, or one for all rows.
pub(crate) struct Column<A> {
    array: A,
    step: usize,
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(values: &[ColumnarValue], rows: usize, returns: &'a DataType) -> Result<Self> {
        let column = |value: &ColumnarValue| match value {
            ColumnarValue::Array(array) => Ok((Arc::clone(array), 1)),
            ColumnarValue::Scalar(scalar) => Ok((scalar.to_array_of_size(1)?, 0)),
        };
        Ok(Arguments { columns: values.iter().map(column).collect::<Result<_>>()?, rows, returns })
    }

    pub(crate) fn len(&self) -> usize {
        self.columns.len()
    }

    /// The argument, with one value if it is a constant.
    pub(crate) fn array(&self, index: usize) -> &ArrayRef {
        &self.columns[index].0
    }

    /// The place of a row's value in [`Arguments::array`].
    pub(crate) fn index(&self, index: usize, row: usize) -> usize {
        row * self.columns[index].1
    }

    /// The argument with a value per row.
    pub(crate) fn full(&self, index: usize) -> Result<ArrayRef> {
        let (array, step) = &self.columns[index];
        if *step == 1 || self.rows == 1 {
            return Ok(Arc::clone(array));
        }
        Ok(arrow::compute::take(array, &arrow::array::UInt32Array::from_value(0, self.rows), None)?)
    }

    pub(crate) fn is_constant(&self, index: usize) -> bool {
        self.columns[index].1 == 0
    }

    /// Bytes of the arguments of all rows. It may count more than there are, and counts long constants in
    /// part.
    fn bytes_of_all(&self) -> usize {
        let of_column = |(array, step): &(ArrayRef, usize)| {
            let bytes = match array.as_string_view_opt() {
                Some(texts) => texts.lengths().map(|length| usize::try_from(length).unwrap_or(0)).sum(),
                None => array.get_array_memory_size(),
            };
            if *step == 0 { bytes.min(LONG_CONSTANT).saturating_mul(self.rows) } else { bytes }
        };
        // The text of a number or of NULL has a few bytes, too.
        self.columns.iter().map(of_column).sum::<usize>().saturating_add(self.rows.saturating_mul(16))
    }

    pub(crate) fn text(&self, index: usize) -> Column<StringViewArray> {
        let (array, step) = &self.columns[index];
        Column { array: array.as_string_view().clone(), step: *step }
    }

    pub(crate) fn bytes(&self, index: usize) -> Column<BinaryArray> {
        let (array, step) = &self.columns[index];
        Column { array: array.as_binary::<i32>().clone(), step: *step }
    }

    pub(crate) fn integer(&self, index: usize) -> Column<PrimitiveArray<Int64Type>> {
        self.primitive(index)
    }

    pub(crate) fn double(&self, index: usize) -> Column<PrimitiveArray<Float64Type>> {
        self.primitive(index)
    }

    pub(crate) fn boolean(&self, index: usize) -> Column<BooleanArray> {
        let (array, step) = &self.columns[index];
        Column { array: array.as_boolean().clone(), step: *step }
    }

    pub(crate) fn primitive<T: ArrowPrimitiveType>(&self, index: usize) -> Column<PrimitiveArray<T>> {
        let (array, step) = &self.columns[index];
        Column { array: array.as_primitive::<T>().clone(), step: *step }
    }

    /// A whole number, or `default` if the call omits the argument.
    pub(crate) fn integer_or(&self, index: usize, default: i64) -> Column<PrimitiveArray<Int64Type>> {
        if index < self.len() {
            return self.integer(index);
        }
        Column { array: PrimitiveArray::from_value(default, 1), step: 0 }
    }
}

impl Column<StringViewArray> {
    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        let row = row * self.step;
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}

impl Column<BinaryArray> {
    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        let row = row * self.step;
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}

impl Column<BooleanArray> {
    pub(crate) fn get(&self, row: usize) -> Option<bool> {
        let row = row * self.step;
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}

impl<T: ArrowPrimitiveType> Column<PrimitiveArray<T>> {
    pub(crate) fn get(&self, row: usize) -> Option<T::Native> {
        let row = row * self.step;
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}

/// Bytes of text that one call may always make for one batch.
const BATCH_BYTES: usize = if cfg!(test) { 1 << 10 } else { 1 << 30 };
/// How many times as long as its arguments a text may always be. Functions that need more may fail.
pub(crate) const GROWTH: usize = 32;
/// Bytes of a constant text that count for each row. A call with a longer one may fail.
pub(crate) const LONG_CONSTANT: usize = 1 << 16;

/// A column of text: `write` returns the text of a row, or `None` for NULL.
pub(crate) fn texts(
    arguments: &Arguments,
    mut write: impl FnMut(usize, &mut String) -> Option<()>,
) -> Result<ArrayRef> {
    try_texts(arguments, |row, out| Ok(write(row, out)))
}

/// A column of text whose computation may fail.
pub(crate) fn try_texts(
    arguments: &Arguments,
    mut write: impl FnMut(usize, &mut String) -> Result<Option<()>>,
) -> Result<ArrayRef> {
    let mut texts = StringViewBuilder::with_capacity(arguments.rows);
    let mut text = String::new();
    let (mut written, mut most) = (0, BATCH_BYTES);
    for row in 0..arguments.rows {
        text.clear();
        match write(row, &mut text)? {
            Some(()) => texts.try_append_value(&text).map_err(|_| failure("a text is longer than 4 GiB"))?,
            None => texts.append_null(),
        }
        written += text.len();
        if written > most {
            most = most.max(arguments.bytes_of_all().saturating_mul(GROWTH));
        }
        if written > most {
            return Err(failure(format!(
                "the texts of {} rows have more than {most} bytes; make batches smaller: SET 'batch-rows'",
                row + 1
            )));
        }
    }
    Ok(Arc::new(texts.finish()))
}

/// A column of text whose values are parts of the arguments.
pub(crate) fn slices<'a>(rows: usize, slice: impl Fn(usize) -> Option<&'a str>) -> Result<ArrayRef> {
    let mut texts = StringViewBuilder::with_capacity(rows);
    for row in 0..rows {
        match slice(row) {
            Some(text) => texts.try_append_value(text).map_err(|_| failure("a text is longer than 4 GiB"))?,
            None => texts.append_null(),
        }
    }
    Ok(Arc::new(texts.finish()))
}

/// A column of bytes.
pub(crate) fn bytes(rows: usize, mut write: impl FnMut(usize, &mut Vec<u8>) -> Option<()>) -> Result<ArrayRef> {
    try_bytes(rows, |row, out| Ok(write(row, out)))
}

/// A column of bytes whose computation may fail.
pub(crate) fn try_bytes(
    rows: usize,
    mut write: impl FnMut(usize, &mut Vec<u8>) -> Result<Option<()>>,
) -> Result<ArrayRef> {
    let mut values = BinaryBuilder::new();
    let (mut value, mut written) = (Vec::new(), 0);
    for row in 0..rows {
        value.clear();
        let valid = write(row, &mut value)?.is_some();
        written += value.len();
        if i32::try_from(written).is_err() {
            return Err(failure("the bytes of a batch are more than 2 GiB; make batches smaller: SET 'batch-rows'"));
        }
        values.append_option(valid.then_some(&value));
    }
    Ok(Arc::new(values.finish()))
}

/// A column of numbers or times.
pub(crate) fn primitives<T: ArrowPrimitiveType>(
    rows: usize,
    value: impl FnMut(usize) -> Option<T::Native>,
) -> Result<ArrayRef> {
    Ok(Arc::new((0..rows).map(value).collect::<PrimitiveArray<T>>()))
}

/// A column of numbers or times whose computation may fail.
pub(crate) fn try_primitives<T: ArrowPrimitiveType>(
    rows: usize,
    value: impl FnMut(usize) -> Result<Option<T::Native>>,
) -> Result<ArrayRef> {
    Ok(Arc::new((0..rows).map(value).collect::<Result<PrimitiveArray<T>>>()?))
}

/// A column of truth values.
pub(crate) fn booleans(rows: usize, value: impl FnMut(usize) -> Option<bool>) -> Result<ArrayRef> {
    Ok(Arc::new((0..rows).map(value).collect::<BooleanArray>()))
}

/// A column of truth values whose computation may fail.
pub(crate) fn try_booleans(rows: usize, value: impl FnMut(usize) -> Result<Option<bool>>) -> Result<ArrayRef> {
    Ok(Arc::new((0..rows).map(value).collect::<Result<BooleanArray>>()?))
}
