//! Lowers `UNNEST`: each row once for each element of an array or a map.

use anabranch_dataflow::{Expr, OperatorSpec, UnnestSpec};
use anabranch_model::{Error, Result};
use arrow::datatypes::Schema;
use datafusion_expr::ExprSchemable;

use super::join::{keep_read_columns, keep_values};
use super::stream::{LogicalColumn, Stream};
use super::{Lowering, Needed, columns_of};
use crate::place::planning_error;
use crate::unnest::{Unnest, element_fields};

impl Lowering<'_> {
    pub(super) fn unnest(&mut self, unnest: &Unnest, needed: &Needed) -> Result<Stream> {
        let index = unnest.input.columns();
        let inputs = unnest.input.width();
        let mut below = columns_of([&unnest.value], index)?;
        let kept: Needed = needed.iter().copied().filter(|column| *column < inputs).collect();
        below.extend(&kept);
        let mut stream = self.plan(&unnest.input, &below)?;
        let data_type = unnest.value.get_type(index).map_err(planning_error)?;
        let value = stream.expr(&unnest.value, index)?;
        let element =
            element_fields(&data_type).ok_or_else(|| Error::internal(format!("{data_type} has no elements")))?;
        let mut columns = keep_values(&stream.columns, &kept);
        let keep = keep_read_columns(&mut columns, &mut [], &mut stream.window, &mut stream.weight);
        let first = keep.len();
        let spec = UnnestSpec {
            value,
            data_type,
            keep,
            element: Schema::new(element).into(),
            ordinality: unnest.ordinality,
            outer: unnest.outer,
        };
        let output = spec.output_schema(&Schema::new(stream.physical.clone()));
        stream.physical = output.fields().iter().map(|field| field.as_ref().clone()).collect();
        let added = unnest.columns.fields().iter().skip(inputs).enumerate();
        columns.extend(added.map(|(place, field)| LogicalColumn {
            value: Some(Expr::Column(first + place)),
            ..LogicalColumn::absent(field)
        }));
        stream.columns = columns;
        stream.operators.push(OperatorSpec::Unnest(spec));
        // A row may have several elements.
        (stream.unique, stream.stamps) = (None, Vec::new());
        Ok(stream)
    }
}
