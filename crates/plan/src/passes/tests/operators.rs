//! The operators' results for an optimized plan over one table, row by row.

use std::sync::Arc;

use anabranch_model::Result;
use anabranch_operators::{CompiledExpr, Functions};
use arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    StringViewArray,
};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::ScalarValue;
use datafusion_expr::Expr;

use super::values::{Value, literal};
use crate::lower::converted;
use crate::rel::{Columns, Rel};
use crate::table::Table;

/// The rows of a plan for one row of its table. `None`: it has other nodes.
pub(super) fn run(plan: &Rel, row: &[Value]) -> Option<Result<RecordBatch>> {
    match plan {
        Rel::Get(scan) => {
            let table = Table::of_scan(scan).expect("a table");
            let columns: Vec<ArrayRef> = table.physical.fields().iter().zip(row).map(column).collect();
            let whole = RecordBatch::try_from_iter(names(columns)).expect("a row");
            Some(Ok(match &scan.projection {
                Some(places) => whole.project(places).expect("columns"),
                None => whole,
            }))
        }
        Rel::Project(projection) => {
            let input = run(&projection.input, row)?;
            Some(input.and_then(|rows| {
                let columns = projection.exprs.iter().map(|expr| evaluated(expr, projection.input.columns(), &rows));
                let columns = columns.collect::<Result<Vec<_>>>()?;
                let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
                let fields: Vec<Field> = columns
                    .iter()
                    .enumerate()
                    .map(|(place, column)| Field::new(format!("c{place}"), column.data_type().clone(), true))
                    .collect();
                Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
            }))
        }
        Rel::Filter(filter) => {
            let input = run(&filter.input, row)?;
            Some(input.and_then(|rows| {
                let passes = evaluated(&filter.predicate, filter.input.columns(), &rows)?;
                let passes: &BooleanArray = passes.as_any().downcast_ref().expect("a condition");
                Ok(filter_record_batch(&rows, passes)?)
            }))
        }
        _ => None,
    }
}

fn evaluated(expr: &Expr, columns: &Columns, rows: &RecordBatch) -> Result<ArrayRef> {
    CompiledExpr::new(&converted(expr, columns)?, rows.schema_ref(), &Functions::default())?.evaluate(rows)
}

fn names(columns: Vec<ArrayRef>) -> impl Iterator<Item = (String, ArrayRef)> {
    columns.into_iter().enumerate().map(|(place, column)| (format!("c{place}"), column))
}

fn column((field, value): (&Arc<Field>, &Value)) -> ArrayRef {
    let number = match value {
        Value::Exact(number, _) => Some(*number),
        _ => None,
    };
    match field.data_type() {
        DataType::Utf8View => Arc::new(StringViewArray::from(vec![match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        }])),
        DataType::Boolean => Arc::new(BooleanArray::from(vec![match value {
            Value::Truth(truth) => Some(*truth),
            _ => None,
        }])),
        DataType::Float64 => Arc::new(Float64Array::from(vec![match value {
            Value::Double(number) => Some(*number),
            _ => None,
        }])),
        DataType::Int16 => Arc::new(Int16Array::from(vec![number.and_then(|number| i16::try_from(number).ok())])),
        DataType::Int32 => Arc::new(Int32Array::from(vec![number.and_then(|number| i32::try_from(number).ok())])),
        DataType::Int64 => Arc::new(Int64Array::from(vec![number.and_then(|number| i64::try_from(number).ok())])),
        DataType::Decimal128(digits, scale) => {
            let array = Decimal128Array::from(vec![number]).with_precision_and_scale(*digits, *scale);
            Arc::new(array.expect("a number that fits"))
        }
        other => panic!("no column of {other}"),
    }
}

/// The rows of a batch as texts.
pub(super) fn texts(rows: &RecordBatch) -> Option<Vec<Vec<String>>> {
    let text = |row: usize, column: &ArrayRef| {
        let value = literal(&ScalarValue::try_from_array(column, row).ok()?).ok()?;
        Some(value.key())
    };
    let row = |row: usize| rows.columns().iter().map(|column| text(row, column)).collect::<Option<Vec<_>>>();
    (0..rows.num_rows()).map(row).collect()
}
