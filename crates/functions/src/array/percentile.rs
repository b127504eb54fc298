//! `PERCENTILE`: sorts the values that `ARRAY_AGG` has gathered of a group, and interpolates between them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Float64Builder, ListBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ReturnFieldArgs;

use super::types::{list_of, refused};
use crate::arguments::Arguments;
use crate::definition::failure;

/// The type of the results: DOUBLE, or an array of them if the second argument is one.
pub(super) fn returned(args: &ReturnFieldArgs) -> Result<DataType> {
    let is_number = |data_type: &DataType| data_type.is_numeric() || data_type.is_null();
    let element = |data_type: &DataType| match data_type {
        DataType::List(item) => item.data_type().clone(),
        other => other.clone(),
    };
    let (values, shares) = (args.arg_fields[0].data_type(), args.arg_fields[1].data_type());
    if !is_number(&element(values)) || !is_number(&element(shares)) {
        return Err(refused("PERCENTILE takes numbers, and a share or an array of shares between 0 and 1"));
    }
    if let Some(Some(share)) = args.scalar_arguments.get(1)
        && let Ok(ScalarValue::Float64(Some(share))) = share.cast_to(&DataType::Float64)
    {
        check(share).map_err(|message| refused(&message))?;
    }
    Ok(if matches!(shares, DataType::List(_)) { list_of(DataType::Float64) } else { DataType::Float64 })
}

/// Takes the values of each group, and the share or shares.
pub(super) fn percentile(arguments: &Arguments) -> Result<ArrayRef> {
    let lists = cast(arguments.array(0), &list_of(DataType::Float64))?;
    let lists = lists.as_list::<i32>();
    let sorted = |row: usize| {
        let mut values: Vec<f64> = match lists.is_valid(row) {
            true => lists.value(row).as_primitive::<Float64Type>().iter().flatten().collect(),
            false => Vec::new(),
        };
        values.sort_by(f64::total_cmp);
        values
    };
    let rows = (0..arguments.rows).map(|row| (sorted(arguments.index(0, row)), arguments.index(1, row)));
    if matches!(arguments.array(1).data_type(), DataType::List(_)) {
        let shares = cast(arguments.array(1), &list_of(DataType::Float64))?;
        let shares = shares.as_list::<i32>();
        let mut results = ListBuilder::new(Float64Builder::new());
        for (values, row) in rows {
            let known = !values.is_empty() && shares.is_valid(row);
            if known {
                for share in shares.value(row).as_primitive::<Float64Type>() {
                    results.values().append_option(at_share(&values, share)?);
                }
            }
            results.append(known);
        }
        return Ok(Arc::new(results.finish()));
    }
    let shares = cast(arguments.array(1), &DataType::Float64)?;
    let shares = shares.as_primitive::<Float64Type>();
    let share = |row: usize| shares.is_valid(row).then(|| shares.value(row));
    let results = rows.map(|(values, row)| at_share(&values, share(row))).collect::<Result<Float64Array>>()?;
    Ok(Arc::new(results))
}

/// Interpolates linearly between the two values around the place of the share.
fn at_share(sorted: &[f64], share: Option<f64>) -> Result<Option<f64>> {
    let Some(share) = share else { return Ok(None) };
    check(share).map_err(failure)?;
    let Some(last) = sorted.len().checked_sub(1) else { return Ok(None) };
    let place = share * last as f64;
    let (before, after) = (place.floor(), place.ceil());
    let (low, high) = (sorted[before as usize], sorted[after as usize]);
    Ok(Some(if before == after { low } else { (after - place) * low + (place - before) * high }))
}

fn check(share: f64) -> std::result::Result<(), String> {
    match (0.0..=1.0).contains(&share) {
        true => Ok(()),
        false => Err(format!("PERCENTILE takes shares between 0 and 1, not {share}")),
    }
}
