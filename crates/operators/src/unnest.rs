//! Unnest: each row once for each element of an array or a map.

use std::sync::Arc;

use anabranch_dataflow::UnnestSpec;
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch, StructArray, UInt32Array, make_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};

use crate::operator::RESULT_ROWS;
use crate::{CompiledExpr, Functions, Operator, Output};

pub(crate) struct Unnest {
    value: CompiledExpr,
    keep: Vec<usize>,
    ordinality: bool,
    outer: bool,
    schema: SchemaRef,
}

impl Unnest {
    pub(crate) fn new(spec: &UnnestSpec, input: &SchemaRef, functions: &Functions) -> Result<Self> {
        Ok(Unnest {
            value: CompiledExpr::new(&spec.value, input, functions)?,
            keep: spec.keep.clone(),
            ordinality: spec.ordinality,
            outer: spec.outer,
            schema: Arc::new(spec.output_schema(input)),
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn emit(&self, batch: &RecordBatch, elements: &[ArrayRef], picked: &mut Picked, out: &mut Output) -> Result<()> {
        let Picked { rows, places, numbers } = std::mem::take(picked);
        let (rows, places) = (UInt32Array::from(rows), UInt32Array::from(places));
        let kept = self.keep.iter().map(|index| take(batch.column(*index), &rows, None));
        let elements = elements.iter().map(|column| take(column, &places, None));
        let mut columns = kept.chain(elements).collect::<std::result::Result<Vec<_>, _>>()?;
        if self.ordinality {
            columns.push(Arc::new(Int32Array::from(numbers)));
        }
        out.batch(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        Ok(())
    }
}

/// Rows of the output.
#[derive(Default)]
struct Picked {
    /// Of the input.
    rows: Vec<u32>,
    /// Of the elements. `None`: the row has none.
    places: Vec<Option<u32>>,
    /// Of the elements of their row, from 1 on.
    numbers: Vec<Option<i32>>,
}

impl Picked {
    fn push(&mut self, row: usize, element: Option<(i32, i32)>) {
        self.rows.push(u32::try_from(row).unwrap_or(u32::MAX));
        self.places.push(element.and_then(|(place, _)| u32::try_from(place).ok()));
        self.numbers.push(element.map(|(_, number)| number));
    }
}

impl Operator for Unnest {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let value = self.value.evaluate(&batch)?;
        let (offsets, elements) = parts(&value)?;
        let mut picked = Picked::default();
        for (row, bounds) in offsets.windows(2).enumerate() {
            let elements_of = if value.is_null(row) { bounds[0]..bounds[0] } else { bounds[0]..bounds[1] };
            if elements_of.is_empty() && self.outer {
                picked.push(row, None);
            }
            for place in elements_of {
                picked.push(row, Some((place, place - bounds[0] + 1)));
                if picked.rows.len() >= RESULT_ROWS {
                    self.emit(&batch, &elements, &mut picked, out)?;
                }
            }
        }
        if !picked.rows.is_empty() {
            self.emit(&batch, &elements, &mut picked, out)?;
        }
        Ok(())
    }
}

/// Where the elements of each row lie, and the columns of all elements.
fn parts(value: &ArrayRef) -> Result<(&OffsetBuffer<i32>, Vec<ArrayRef>)> {
    match value.data_type() {
        DataType::List(_) => {
            let list = value.as_list::<i32>();
            let columns = match list.values().as_struct_opt() {
                Some(rows) => fields(rows)?,
                None => vec![Arc::clone(list.values())],
            };
            Ok((list.offsets(), columns))
        }
        DataType::Map(..) => {
            let map = value.as_map();
            Ok((map.offsets(), vec![Arc::clone(map.keys()), Arc::clone(map.values())]))
        }
        other => Err(Error::internal(format!("{other} has no elements"))),
    }
}

/// The fields of rows. Those of a row that is NULL are NULL.
fn fields(rows: &StructArray) -> Result<Vec<ArrayRef>> {
    let field = |column: &ArrayRef| {
        let nulls = NullBuffer::union(rows.nulls(), column.nulls());
        Ok(make_array(column.to_data().into_builder().nulls(nulls).build()?))
    };
    match rows.nulls() {
        None => Ok(rows.columns().to_vec()),
        Some(_) => rows.columns().iter().map(field).collect(),
    }
}
