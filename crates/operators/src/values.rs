//! Values: the rows of a `VALUES` list in place of each row of the input.

use std::sync::Arc;

use anabranch_dataflow::{Expr, ValuesSpec};
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{cast, interleave};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion_common::ScalarValue;

use crate::expression::compile::scalar;
use crate::operator::RESULT_ROWS;
use crate::{CompiledExpr, Functions, Operator, Output};

pub(crate) struct Values {
    columns: Vec<LiteralColumn>,
    rows: usize,
    schema: SchemaRef,
}

/// One column of all rows.
struct LiteralColumn {
    /// The literals, with NULL in place of the other expressions.
    literals: ArrayRef,
    /// Rows whose value is computed, in order.
    computed: Vec<(usize, CompiledExpr)>,
}

impl Values {
    pub(crate) fn new(spec: &ValuesSpec, input: &Schema, functions: &Functions) -> Result<Self> {
        let fields = spec.schema.fields().iter().enumerate();
        let columns = fields.map(|(index, field)| {
            let cells = spec.rows.iter().map(|row| row.get(index));
            let cells = cells.collect::<Option<Vec<_>>>().ok_or_else(|| Error::internal("rows of different lengths"));
            LiteralColumn::new(&cells?, field.data_type(), input, functions)
        });
        Ok(Values { columns: columns.collect::<Result<_>>()?, rows: spec.rows.len(), schema: Arc::clone(&spec.schema) })
    }
}

impl LiteralColumn {
    fn new(cells: &[&Expr], data_type: &DataType, input: &Schema, functions: &Functions) -> Result<Self> {
        let wrong = |e: datafusion_common::DataFusionError| Error::internal(e.strip_backtrace());
        let (mut literals, mut computed) = (Vec::with_capacity(cells.len()), Vec::new());
        for (row, cell) in cells.iter().enumerate() {
            match cell {
                Expr::Literal(literal) if literal.data_type == *data_type => literals.push(scalar(literal)?),
                other => {
                    literals.push(ScalarValue::try_from(data_type).map_err(wrong)?);
                    computed.push((row, CompiledExpr::new(other, input, functions)?));
                }
            }
        }
        Ok(LiteralColumn { literals: ScalarValue::iter_to_array(literals).map_err(wrong)?, computed })
    }

    /// The values, computed over one row of the input.
    fn values(&mut self, row: &RecordBatch) -> Result<ArrayRef> {
        if self.computed.is_empty() {
            return Ok(Arc::clone(&self.literals));
        }
        let mut arrays = vec![Arc::clone(&self.literals)];
        let mut from: Vec<(usize, usize)> = (0..self.literals.len()).map(|index| (0, index)).collect();
        for (index, expr) in &mut self.computed {
            from[*index] = (arrays.len(), 0);
            arrays.push(cast(&expr.evaluate(row)?, self.literals.data_type())?);
        }
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        Ok(interleave(&arrays, &from)?)
    }
}

impl Operator for Values {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        for index in 0..batch.num_rows() {
            let row = batch.slice(index, 1);
            let columns = self.columns.iter_mut().map(|column| column.values(&row)).collect::<Result<_>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
            let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
            for first in (0..self.rows).step_by(RESULT_ROWS) {
                out.batch(rows.slice(first, RESULT_ROWS.min(self.rows - first)));
            }
        }
        Ok(())
    }
}
