//! Constant arrays, maps and rows.

use std::sync::Arc;

use anabranch_dataflow::Expr;
use anabranch_model::Error;
use arrow::array::{ArrayRef, ListArray, MapArray, StructArray, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use datafusion_common::{DataFusionError, Result, ScalarValue};

use super::compile::scalar;

/// The value of a literal, or of an array, a map or a row of literals, possibly empty. `None` for any other
/// expression. Elements are cast to the element types of the whole.
pub(super) fn constant(expr: &Expr) -> Result<Option<ScalarValue>> {
    let (function, args, returns) = match expr {
        Expr::Literal(literal) => {
            return scalar(literal).map(Some).map_err(|e: Error| DataFusionError::External(Box::new(e)));
        }
        Expr::Call { function, args, returns, .. } => (function.as_str(), args, returns),
        _ => return Ok(None),
    };
    let every = |first: usize, step: usize, field: &Field| column(args.iter().skip(first).step_by(step), field);
    Ok(match (function, returns) {
        ("make_array", DataType::List(item)) => {
            let Some(values) = every(0, 1, item)? else { return Ok(None) };
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            Some(ScalarValue::List(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, None)?)))
        }
        ("make_map", DataType::Map(entries, ordered)) => {
            let DataType::Struct(fields) = entries.data_type() else { return Ok(None) };
            let (Some(keys), Some(values)) = (every(0, 2, &fields[0])?, every(1, 2, &fields[1])?) else {
                return Ok(None);
            };
            let offsets = OffsetBuffer::from_lengths([keys.len()]);
            let pairs = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
            let map = MapArray::try_new(Arc::clone(entries), offsets, pairs, None, *ordered)?;
            Some(ScalarValue::Map(Arc::new(map)))
        }
        ("named_struct", DataType::Struct(fields)) => {
            let columns =
                fields.iter().enumerate().map(|(index, field)| column(args.iter().skip(2 * index + 1).take(1), field));
            let Some(columns) = columns.collect::<Result<Option<Vec<_>>>>()? else { return Ok(None) };
            Some(ScalarValue::Struct(Arc::new(StructArray::try_new(fields.clone(), columns, None)?)))
        }
        _ => None,
    })
}

/// The values of constants as a column. `None` if one of them is not constant.
fn column<'a>(exprs: impl Iterator<Item = &'a Expr>, field: &Field) -> Result<Option<ArrayRef>> {
    let mut values = Vec::new();
    for expr in exprs {
        let Some(value) = constant(expr)? else { return Ok(None) };
        values.push(if value.data_type() == *field.data_type() { value } else { value.cast_to(field.data_type())? });
    }
    Ok(Some(if values.is_empty() { new_empty_array(field.data_type()) } else { ScalarValue::iter_to_array(values)? }))
}
