//! State of earlier versions: sums were as narrow as their results, and the number of values came before the sum of an
//! `AVG`.

use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, SchemaRef};

use super::function::AggregateFunctions;

/// The same rows of state in the columns of this version.
pub(super) fn current(rows: &RecordBatch, schema: &SchemaRef, functions: &AggregateFunctions) -> Result<RecordBatch> {
    let is_current = |(column, field): (&ArrayRef, &Arc<arrow::datatypes::Field>)| {
        column.data_type().equals_datatype(field.data_type())
    };
    let same_number = rows.num_columns() == schema.fields().len();
    if same_number && rows.columns().iter().zip(schema.fields()).all(is_current) {
        return Ok(rows.clone());
    }
    let states = rows.num_columns().checked_sub(functions.state_columns()).filter(|_| same_number);
    let Some(first_state) = states else { return Err(unknown("its rows", rows.columns(), schema)) };
    let (keys, states) = rows.columns().split_at(first_state);
    if !keys.iter().zip(schema.fields()).all(is_current) {
        return Err(unknown("its keys", keys, schema));
    }
    let mut columns = keys.to_vec();
    for ((name, fields), own) in functions.states().zip(functions.split_states(states)?) {
        let types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
        let own = if is_mean_of_former(&own) { own.into_iter().rev().collect() } else { own };
        let converted = own.iter().zip(&types).map(|(column, to)| convert(column, to));
        columns.extend(converted.collect::<Option<Result<Vec<_>>>>().ok_or_else(|| {
            let types = own.iter().map(|column| column.data_type().to_string()).collect::<Vec<_>>().join(", ");
            former_error(format!("the checkpoint has [{types}] as the state of {name}, which this version cannot read"))
        })??);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

fn is_mean_of_former(states: &[ArrayRef]) -> bool {
    let [count, sum] = states else { return false };
    count.data_type() == &DataType::UInt64 && matches!(sum.data_type(), DataType::Decimal128(..))
}

/// A column of the type `to`. `None`: earlier versions did not write such a column for it.
fn convert(column: &ArrayRef, to: &DataType) -> Option<Result<ArrayRef>> {
    let same_scale = |from: &DataType, to: &DataType| match (from, to) {
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to) | DataType::Decimal256(_, to)) => from == to,
        _ => false,
    };
    let known = match (column.data_type(), to) {
        (from, to) if from.equals_datatype(to) => return Some(Ok(Arc::clone(column))),
        (DataType::Int64, DataType::Decimal128(_, 0)) | (DataType::UInt64, DataType::Int64) => true,
        (DataType::List(from), DataType::List(to)) => {
            from.data_type() == to.data_type() || same_scale(from.data_type(), to.data_type())
        }
        (from, to) => same_scale(from, to),
    };
    let options = CastOptions { safe: false, ..CastOptions::default() };
    known.then(|| Ok(cast_with_options(column, to, &options)?))
}

fn unknown(what: &str, columns: &[ArrayRef], schema: &SchemaRef) -> Error {
    let names = |types: Vec<String>| types.join(", ");
    let then = names(columns.iter().map(|column| column.data_type().to_string()).collect());
    let now = names(schema.fields().iter().map(|field| field.data_type().to_string()).collect());
    former_error(format!("the checkpoint has [{then}] as {what} of state, the query has [{now}]"))
}

fn former_error(message: String) -> Error {
    Error::user(message).remedy(
        "finish the job with the version of Anabranch that wrote the checkpoint, or give the job a new place for its \
         checkpoints, and it begins anew",
    )
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Decimal128Array, Int64Array, UInt64Array};
    use arrow::datatypes::{Decimal128Type, Decimal256Type, i256};

    use super::*;

    fn converted(column: impl arrow::array::Array + 'static, to: &DataType) -> Option<ArrayRef> {
        convert(&(Arc::new(column) as ArrayRef), to).map(|converted| converted.expect("converted"))
    }

    #[test]
    fn narrow_sums_become_wide_ones_and_keep_their_scale() {
        let whole = converted(Int64Array::from(vec![Some(-7), None]), &DataType::Decimal128(38, 0)).expect("known");
        assert_eq!(whole.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>(), [Some(-7), None]);
        let decimal = || Decimal128Array::from(vec![Some(i128::MAX)]).with_data_type(DataType::Decimal128(20, 2));
        let wide = converted(decimal(), &DataType::Decimal256(76, 2)).expect("known");
        assert_eq!(wide.as_primitive::<Decimal256Type>().value(0), i256::from_i128(i128::MAX));
        assert!(converted(decimal(), &DataType::Decimal256(76, 3)).is_none());
        assert!(converted(UInt64Array::from(vec![7]), &DataType::Int64).is_some());
        assert!(converted(Int64Array::from(vec![7]), &DataType::Float64).is_none());
    }
}
