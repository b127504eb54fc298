//! Comparisons of floating-point numbers as in Java and IEEE 754: `0.0 = -0.0`, and NaN equals nothing. The
//! library's comparisons use a total order.

use std::sync::Arc;

use anabranch_dataflow::BinaryOp;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::ColumnarValue;

/// Whether the operator compares.
pub(super) fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// `left op right`.
pub(super) fn compare(op: BinaryOp, operands: &[ColumnarValue]) -> Result<ColumnarValue> {
    let [left, right] = operands else { return internal_err!("a comparison has two operands") };
    match left.data_type() {
        DataType::Float64 => compare_as::<Float64Type>(op, left, right),
        DataType::Float32 => compare_as::<Float32Type>(op, left, right),
        other => internal_err!("{other} is not a floating-point number"),
    }
}

fn compare_as<T: ArrowPrimitiveType>(op: BinaryOp, left: &ColumnarValue, right: &ColumnarValue) -> Result<ColumnarValue>
where
    T::Native: PartialOrd,
{
    Ok(match op {
        BinaryOp::Eq => over::<T>(left, right, |a, b| a == b)?,
        BinaryOp::NotEq => over::<T>(left, right, |a, b| a != b)?,
        BinaryOp::Lt => over::<T>(left, right, |a, b| a < b)?,
        BinaryOp::LtEq => over::<T>(left, right, |a, b| a <= b)?,
        BinaryOp::Gt => over::<T>(left, right, |a, b| a > b)?,
        BinaryOp::GtEq => over::<T>(left, right, |a, b| a >= b)?,
        BinaryOp::IsDistinctFrom => distinct::<T>(left, right, true)?,
        BinaryOp::IsNotDistinctFrom => distinct::<T>(left, right, false)?,
        other => return internal_err!("{other:?} does not compare"),
    })
}

fn over<T: ArrowPrimitiveType>(
    left: &ColumnarValue,
    right: &ColumnarValue,
    is: impl Fn(T::Native, T::Native) -> bool,
) -> Result<ColumnarValue> {
    let result = match (left, right) {
        (ColumnarValue::Array(left), ColumnarValue::Array(right)) => {
            BooleanArray::from_binary(left.as_primitive::<T>(), right.as_primitive::<T>(), is)
        }
        (ColumnarValue::Array(left), ColumnarValue::Scalar(right)) => match constant::<T>(right)? {
            Some(right) => BooleanArray::from_unary(left.as_primitive::<T>(), |left| is(left, right)),
            None => BooleanArray::new_null(left.len()),
        },
        (ColumnarValue::Scalar(left), ColumnarValue::Array(right)) => match constant::<T>(left)? {
            Some(left) => BooleanArray::from_unary(right.as_primitive::<T>(), |right| is(left, right)),
            None => BooleanArray::new_null(right.len()),
        },
        (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) => {
            let both = constant::<T>(left)?.zip(constant::<T>(right)?);
            return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(both.map(|(left, right)| is(left, right)))));
        }
    };
    Ok(ColumnarValue::Array(Arc::new(result)))
}

fn constant<T: ArrowPrimitiveType>(value: &ScalarValue) -> Result<Option<T::Native>> {
    let array = value.to_array()?;
    let array: &PrimitiveArray<T> = array.as_primitive();
    Ok(array.is_valid(0).then(|| array.value(0)))
}

/// NULL is distinct from every number and not from NULL.
fn distinct<T: ArrowPrimitiveType>(left: &ColumnarValue, right: &ColumnarValue, wanted: bool) -> Result<ColumnarValue>
where
    T::Native: PartialOrd,
{
    super::own::over_arrays(&[left.clone(), right.clone()], |arrays| {
        let pairs = arrays[0].as_primitive::<T>().iter().zip(arrays[1].as_primitive::<T>());
        let result: BooleanArray = pairs.map(|(a, b)| Some((a != b) == wanted)).collect();
        Ok(Arc::new(result) as ArrayRef)
    })
}
