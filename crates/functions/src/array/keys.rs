//! Elements as bytes that can be compared.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, ListArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{Row, RowConverter, Rows, SortField};
use datafusion_common::Result;

use super::build::ElementAt;

/// The elements of several arrays of one type.
pub(crate) struct Keys {
    arrays: Vec<Key>,
}

struct Key {
    rows: Rows,
    /// Which elements are NaN or contain one, if there are any.
    nan: Option<BooleanArray>,
}

impl Keys {
    pub(crate) fn new(arrays: &[&ArrayRef]) -> Result<Self> {
        let fields = arrays.iter().take(1).map(|array| SortField::new(array.data_type().clone())).collect();
        let converter = RowConverter::new(fields)?;
        let key = |array: &&ArrayRef| {
            let rows = converter.convert_columns(&[without_signs_of_zero(array)?])?;
            Ok(Key { rows, nan: not_numbers(array).filter(BooleanArray::has_true) })
        };
        Ok(Keys { arrays: arrays.iter().map(key).collect::<Result<_>>()? })
    }

    /// The element in the order of its type. NULL is the least, and NaN the greatest.
    pub(crate) fn get(&self, (source, index): ElementAt) -> Row<'_> {
        self.arrays[source].rows.row(index)
    }

    /// The element, unless it equals nothing.
    pub(crate) fn comparable(&self, (source, index): ElementAt) -> Option<Row<'_>> {
        let array = &self.arrays[source];
        let nan = array.nan.as_ref().is_some_and(|nan| nan.value(index));
        (!nan).then(|| array.rows.row(index))
    }

    /// Whether two elements are equal, or both NULL.
    pub(crate) fn equal(&self, left: ElementAt, right: ElementAt) -> bool {
        self.comparable(left).is_some_and(|key| key == self.get(right))
    }
}

/// The array with 0.0 for each -0.0.
fn without_signs_of_zero(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Float64 => unsigned_zeros::<Float64Type>(array),
        DataType::Float32 => unsigned_zeros::<Float32Type>(array),
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let values = without_signs_of_zero(list.values())?;
            Arc::new(ListArray::try_new(Arc::clone(item), list.offsets().clone(), values, list.nulls().cloned())?)
        }
        _ => Arc::clone(array),
    })
}

fn unsigned_zeros<T: ArrowPrimitiveType>(array: &ArrayRef) -> ArrayRef
where
    T::Native: std::ops::Add<Output = T::Native>,
{
    // -0.0 + 0.0 is 0.0; other numbers are unchanged.
    let numbers: PrimitiveArray<T> = array.as_primitive::<T>().unary(|number| number + T::Native::default());
    Arc::new(numbers)
}

/// Which values are NaN or contain one.
fn not_numbers(array: &ArrayRef) -> Option<BooleanArray> {
    match array.data_type() {
        DataType::Float64 => Some(BooleanArray::from_unary(array.as_primitive::<Float64Type>(), f64::is_nan)),
        DataType::Float32 => Some(BooleanArray::from_unary(array.as_primitive::<Float32Type>(), f32::is_nan)),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let values = not_numbers(list.values())?;
            let has =
                |window: &[i32]| (window[0]..window[1]).any(|i| usize::try_from(i).is_ok_and(|i| values.value(i)));
            Some(list.value_offsets().windows(2).map(|window| Some(has(window))).collect())
        }
        _ => None,
    }
}
