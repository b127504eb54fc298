//! Elements of arrays, and values of maps.

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::Result;
use datafusion_expr::ReturnFieldArgs;

use crate::arguments::Arguments;
use crate::definition::{Definition, Kind, Returns, failure, function};

pub(crate) const DEFINITIONS: &[Definition] =
    &[function("item", &[&[Kind::Array, Kind::Integer], &[Kind::Map, Kind::Key]], Returns::Of(element), item)
        .never_fails()];

fn element(args: &ReturnFieldArgs) -> Result<DataType> {
    match args.arg_fields[0].data_type() {
        DataType::List(element) => Ok(element.data_type().clone()),
        other => match crate::map::parts(other) {
            Some((_, value)) => Ok(value.clone()),
            None => Err(failure(format!("{other} has no elements"))),
        },
    }
}

/// The element at a place from 1 on, or the value of a key; NULL where there is none.
fn item(arguments: &Arguments) -> Result<ArrayRef> {
    if arguments.array(0).as_map_opt().is_some() {
        return crate::map::value_of_key(arguments);
    }
    let arrays = arguments.full(0)?;
    let arrays = arrays.as_list_opt::<i32>().ok_or_else(|| failure("ITEM takes an ARRAY"))?;
    let (places, offsets) = (arguments.primitive::<Int64Type>(1), arrays.value_offsets());
    let index = |row: usize| {
        let place = places.get(row).filter(|_| arrays.is_valid(row))?;
        let (start, end) = (i64::from(offsets[row]), i64::from(offsets[row + 1]));
        let within = (1..=end - start).contains(&place);
        within.then(|| u64::try_from(start + place - 1).ok()).flatten()
    };
    let indexes: UInt64Array = (0..arguments.rows).map(index).collect();
    Ok(take(arrays.values(), &indexes, None)?)
}
