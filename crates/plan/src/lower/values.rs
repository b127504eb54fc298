//! `VALUES` and `SELECT` without `FROM`: constant rows over a source of one row.

use std::sync::Arc;

use anabranch_dataflow::{ConnectorSpec, Expr, Literal, ONE_ROW, OperatorSpec, SourceSpec, ValuesSpec};
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Field, Schema};

use super::expr::convert;
use super::stream::{LogicalColumn, Stream};
use super::{Lowering, Needed};
use crate::rel::{Columns, Values};

impl Lowering<'_> {
    pub(super) fn values(&mut self, values: &Values, needed: &Needed) -> Result<Stream> {
        if values.rows.is_empty() {
            return Ok(no_row(values));
        }
        if values.columns.is_empty() {
            return Ok(one_row());
        }
        let fields = values.columns.fields();
        // Counting rows needs a column.
        let kept: Vec<usize> = if needed.is_empty() { vec![0] } else { needed.iter().copied().collect() };
        let columns = Columns::default();
        let no_column = |_| Err(Error::internal("a constant row reads a column"));
        let cell = |row: &Vec<datafusion_expr::Expr>, index: usize| convert(&row[index], &columns, &no_column);
        let row = |row| kept.iter().map(|index| cell(row, *index)).collect::<Result<Vec<_>>>();
        let rows = values.rows.iter().map(row).collect::<Result<Vec<_>>>()?;
        let mut stream = one_row();
        stream.columns = fields.iter().map(|field| LogicalColumn::absent(field)).collect();
        for (position, index) in kept.iter().enumerate() {
            stream.columns[*index].value = Some(Expr::Column(position));
        }
        stream.physical = kept.iter().map(|index| fields[*index].as_ref().clone()).collect();
        let schema = Arc::new(Schema::new(stream.physical.clone()));
        stream.operators.push(OperatorSpec::Values(ValuesSpec { schema, rows }));
        Ok(stream)
    }
}

fn no_row(values: &Values) -> Stream {
    let mut stream = one_row();
    stream.columns = values.columns.fields().iter().map(|field| LogicalColumn::absent(field)).collect();
    stream.filter(&Expr::truth(false));
    // No row is late.
    stream.has_event_time = true;
    stream.times.extend((0..stream.columns.len()).map(|column| (column, 0)));
    for column in &mut stream.columns {
        column.value = Some(Expr::Literal(Literal { data_type: column.data_type.clone(), value: None }));
    }
    stream
}

fn one_row() -> Stream {
    let row = Field::new("row", DataType::Boolean, false);
    let source = SourceSpec::new("values", ConnectorSpec::new(ONE_ROW, &[]), Arc::new(Schema::new(vec![row.clone()])));
    let mut stream = Stream::of_source(source, vec![row], Vec::new());
    stream.bounded = true;
    stream
}
