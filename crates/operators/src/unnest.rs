//! Unnest: each row once for each element of an array or a map.

use std::sync::Arc;

use anabranch_dataflow::UnnestSpec;
use anabranch_model::{Error, Result};
use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, RecordBatch, RecordBatchOptions, StructArray, UInt32Array, make_array,
};
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
    /// The batch whose elements are being emitted.
    open: Option<Open>,
}

/// A batch, and how far it was emitted.
struct Open {
    batch: RecordBatch,
    offsets: OffsetBuffer<i32>,
    nulls: Option<NullBuffer>,
    /// The columns of all elements.
    elements: Vec<ArrayRef>,
    /// For elements of row type: which are not NULL.
    absent: Option<NullBuffer>,
    row: usize,
    /// How many elements of the row were emitted.
    emitted: i32,
}

impl Unnest {
    pub(crate) fn new(spec: &UnnestSpec, input: &SchemaRef, functions: &Functions) -> Result<Self> {
        Ok(Unnest {
            value: CompiledExpr::new(&spec.value, input, functions)?,
            keep: spec.keep.clone(),
            ordinality: spec.ordinality,
            outer: spec.outer,
            schema: Arc::new(spec.output_schema(input)),
            open: None,
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Emits a piece of the open batch. Returns false if there is none.
    fn emit_more(&mut self, out: &mut Output) -> Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let Picked { rows, places, numbers } = open.pick(self.outer);
        let (rows, places) = (UInt32Array::from(rows), UInt32Array::from(places));
        let kept = self.keep.iter().map(|index| take(open.batch.column(*index), &rows, None));
        let elements = open.elements.iter().map(|column| take(column, &places, None));
        let mut columns = kept.chain(elements).collect::<std::result::Result<Vec<_>, _>>()?;
        if self.ordinality {
            columns.push(Arc::new(Int32Array::from(numbers)));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        out.batch(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
        if open.row == open.batch.num_rows() {
            self.open = None;
        }
        Ok(true)
    }
}

impl Open {
    /// The next rows of the output.
    fn pick(&mut self, outer: bool) -> Picked {
        let mut picked = Picked::default();
        while self.row < self.batch.num_rows() && picked.rows.len() < RESULT_ROWS {
            let (first, end) = (self.offsets[self.row], self.offsets[self.row + 1]);
            let is_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(self.row));
            let is_empty = is_null || (first..end).all(|index| self.is_absent(index));
            let count = if is_empty { 0 } else { end - first };
            if count == 0 && outer {
                picked.push(self.row, None);
            }
            while self.emitted < count && picked.rows.len() < RESULT_ROWS {
                let index = first + self.emitted;
                self.emitted += 1;
                if !self.is_absent(index) {
                    picked.push(self.row, Some((index, self.emitted)));
                }
            }
            if self.emitted == count {
                (self.row, self.emitted) = (self.row + 1, 0);
            }
        }
        picked
    }

    fn is_absent(&self, index: i32) -> bool {
        let nulls = self.absent.as_ref().zip(usize::try_from(index).ok());
        nulls.is_some_and(|(nulls, index)| nulls.is_null(index))
    }
}

/// Rows of the output.
#[derive(Default)]
struct Picked {
    /// Indices of input rows.
    rows: Vec<u32>,
    /// Indices of elements. `None`: the row has none.
    places: Vec<Option<u32>>,
    /// Ordinals of elements within their row, from 1 on.
    numbers: Vec<Option<i32>>,
}

impl Picked {
    fn push(&mut self, row: usize, element: Option<(i32, i32)>) {
        self.rows.push(u32::try_from(row).unwrap_or(u32::MAX));
        self.places.push(element.and_then(|(index, _)| u32::try_from(index).ok()));
        self.numbers.push(element.map(|(_, number)| number));
    }
}

impl Operator for Unnest {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let value = self.value.evaluate(&batch)?;
        let (offsets, elements, absent) = parts(&value)?;
        let (offsets, nulls) = (offsets.clone(), value.nulls().cloned());
        self.open = Some(Open { batch, offsets, nulls, elements, absent, row: 0, emitted: 0 });
        self.emit_more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        self.emit_more(out)
    }
}

/// The offsets of each row's elements, the columns of all elements, and which elements are not NULL.
fn parts(value: &ArrayRef) -> Result<(&OffsetBuffer<i32>, Vec<ArrayRef>, Option<NullBuffer>)> {
    match value.data_type() {
        DataType::List(_) => {
            let list = value.as_list::<i32>();
            let (columns, absent) = match list.values().as_struct_opt() {
                Some(rows) => (fields(rows)?, rows.nulls().cloned()),
                None => (vec![Arc::clone(list.values())], None),
            };
            Ok((list.offsets(), columns, absent))
        }
        DataType::Map(..) => {
            let map = value.as_map();
            Ok((map.offsets(), vec![Arc::clone(map.keys()), Arc::clone(map.values())], None))
        }
        other => Err(Error::internal(format!("{other} has no elements"))),
    }
}

/// The fields of rows. The fields of a NULL row are NULL.
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
