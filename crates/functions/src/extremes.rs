//! `GREATEST` and `LEAST`: NULL if any argument is NULL. NaN is greater than every number.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, make_array};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::cmp::{gt_eq, lt_eq};
use arrow::compute::kernels::zip::zip;
use arrow::error::ArrowError;
use datafusion_common::Result;

use crate::arguments::Arguments;
use crate::definition::{Definition, Kind, Returns, function};

const ARGUMENTS: &[&[Kind]] = &[&[Kind::Alike]];

pub(crate) const DEFINITIONS: &[Definition] = &[
    function("greatest", ARGUMENTS, Returns::First, |a| extreme(a, |left, right| gt_eq(&left, &right)))
        .never_fails()
        .variadic(),
    function("least", ARGUMENTS, Returns::First, |a| extreme(a, |left, right| lt_eq(&left, &right)))
        .never_fails()
        .variadic(),
];

fn extreme(
    arguments: &Arguments,
    keeps_left: fn(&dyn Array, &dyn Array) -> Result<BooleanArray, ArrowError>,
) -> Result<ArrayRef> {
    let mut result = arguments.full(0)?;
    let mut nulls = result.logical_nulls();
    for index in 1..arguments.len() {
        let other = arguments.full(index)?;
        nulls = NullBuffer::union(nulls.as_ref(), other.logical_nulls().as_ref());
        result = zip(&keeps_left(&result, &other)?, &result, &other)?;
    }
    if result.data_type().is_null() {
        return Ok(result);
    }
    Ok(Arc::new(make_array(result.to_data().into_builder().nulls(nulls).build()?)))
}
