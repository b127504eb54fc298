//! Repeat: each row as many times as a column says, or once with that weight.

use std::sync::Arc;

use anabranch_dataflow::RepeatSpec;
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{filter_record_batch, take};
use arrow::datatypes::{Int64Type, SchemaRef};

use crate::group_aggregate::same;
use crate::keyed_state::narrow;
use crate::operator::RESULT_ROWS;
use crate::{Operator, Output};

pub(crate) struct Repeat {
    copies: usize,
    weight: Option<usize>,
    kept: Vec<usize>,
    schema: SchemaRef,
    /// The batch whose rows are being repeated.
    open: Option<Open>,
}

/// A batch, and how far it was emitted.
struct Open {
    batch: RecordBatch,
    copies: Int64Array,
    row: usize,
    /// How many copies of the row were emitted.
    emitted: i64,
}

impl Repeat {
    pub(crate) fn new(spec: RepeatSpec, input: &SchemaRef) -> Result<Self> {
        let kept: Vec<usize> = (0..input.fields().len()).filter(|column| *column != spec.copies).collect();
        Ok(Repeat {
            copies: spec.copies,
            schema: Arc::new(input.project(&kept)?),
            kept,
            weight: spec.weight,
            open: None,
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Repeat {
    /// Rows with their multiplicities as weights. A retraction and its new row that differ only in the
    /// multiplicity become one row with the difference.
    fn weighed(&self, batch: &RecordBatch, copies: &Int64Array, weight: usize) -> Result<RecordBatch> {
        if batch.num_rows() == 0 {
            return Ok(RecordBatch::new_empty(Arc::clone(&self.schema)));
        }
        let weights = batch.column(weight).as_primitive_opt::<Int64Type>();
        let weights = weights.ok_or_else(|| Error::internal("the weight of a row is not BIGINT"))?;
        let rows: Vec<ArrayRef> =
            self.kept.iter().filter(|c| **c != weight).map(|c| batch.column(*c).clone()).collect();
        let pairs = batch.num_rows().saturating_sub(1);
        let part = |first: usize| -> Vec<ArrayRef> { rows.iter().map(|column| column.slice(first, pairs)).collect() };
        let equals_next = same(&part(0), &part(1), pairs)?;
        let mut total = 0_i64;
        let weighed = (0..batch.num_rows()).map(|row| {
            let copies = if copies.is_valid(row) { copies.value(row).max(0) } else { 0 };
            total += weights.value(row) * copies;
            if row < pairs && equals_next.value(row) { 0 } else { std::mem::take(&mut total) }
        });
        let weighed: Int64Array = weighed.collect();
        let is_there: BooleanArray = weighed.values().iter().map(|weight| Some(*weight != 0)).collect();
        let column =
            |column: &usize| if *column == weight { Arc::new(weighed.clone()) } else { batch.column(*column).clone() };
        let columns = self.kept.iter().map(column).collect();
        Ok(filter_record_batch(&RecordBatch::try_new(Arc::clone(&self.schema), columns)?, &is_there)?)
    }

    /// Emits a piece of the open batch. Returns false if there is none.
    fn emit_more(&mut self, out: &mut Output) -> Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let mut rows: Vec<u32> = Vec::new();
        while open.row < open.batch.num_rows() && rows.len() < RESULT_ROWS {
            let copies = if open.copies.is_valid(open.row) { open.copies.value(open.row) } else { 0 };
            if open.emitted < copies {
                rows.push(narrow(open.row)?);
                open.emitted += 1;
            } else {
                (open.row, open.emitted) = (open.row + 1, 0);
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let rows = UInt32Array::from(rows);
        let columns = open.batch.columns().iter().map(|column| Ok(take(column, &rows, None)?));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        out.batch(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
        if open.row == open.batch.num_rows() {
            self.open = None;
        }
        Ok(true)
    }
}

impl Operator for Repeat {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let copies = batch.column(self.copies).as_primitive_opt::<Int64Type>().cloned();
        let copies = copies.ok_or_else(|| Error::internal("the number of copies is not BIGINT"))?;
        if let Some(weight) = self.weight {
            out.batch(self.weighed(&batch, &copies, weight)?);
            return Ok(());
        }
        let batch = batch.project(&self.kept)?;
        if copies.null_count() == 0 && copies.values().iter().all(|copies| *copies == 1) {
            out.batch(batch);
            return Ok(());
        }
        self.open = Some(Open { batch, copies, row: 0, emitted: 0 });
        self.emit_more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        self.emit_more(out)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;
    use crate::operator::Element;

    #[test]
    fn a_row_whose_number_differs_changes_by_the_difference() {
        let columns: [(&str, ArrayRef, bool); 3] = [
            ("name", Arc::new(StringArray::from(vec![Some("a"), Some("a"), Some("b"), None, None, Some("c")])), true),
            ("$weight", Arc::new(Int64Array::from(vec![-1, 1, 1, -1, 1, 2])), false),
            ("copies", Arc::new(Int64Array::from(vec![Some(3), Some(4), Some(2), Some(5), None, Some(-1)])), true),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let spec = RepeatSpec { copies: 2, weight: Some(1) };
        let mut repeat = Repeat::new(spec, &batch.schema()).unwrap();
        let mut out = Output::default();
        repeat.batch(batch, &mut out).unwrap();
        let Some(Element::Batch(rows)) = out.drain().next() else { panic!("no rows") };
        assert_eq!(rows.column(0).as_string::<i32>(), &StringArray::from(vec![Some("a"), Some("b"), None]));
        assert_eq!(rows.column(1).as_primitive::<Int64Type>().values(), &[1, 2, -5]);
    }
}
