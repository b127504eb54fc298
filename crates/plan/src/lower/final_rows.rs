//! Final rows: over bounded tables, an updating result is reduced to its final rows.

use anabranch_dataflow::{
    AggregatePhase, AggregateSpec, Expr, NamedExpr, OperatorSpec, RepeatSpec, Window, WindowAggregateSpec,
};
use anabranch_model::Result;
use arrow::datatypes::{DataType, TimeUnit};

use super::Lowering;
use super::group_aggregate::unchanged;
use super::stream::Stream;
use crate::maps::{has_map, not_comparable};
use crate::settings::RuntimeMode;

const FINAL: &str = "final";

impl Lowering<'_> {
    /// In batch mode, reduces updating rows to the final rows, which are materialized and belong to no
    /// window. Rows with maps stay as they are, because maps cannot be counted.
    pub(super) fn rows_in_batch(&mut self, mut stream: Stream) -> Result<Stream> {
        let has_maps = stream.columns.iter().any(|column| column.value.is_some() && has_map(&column.data_type));
        if stream.weight.is_none() || has_maps || self.mode != RuntimeMode::Batch {
            return Ok(stream);
        }
        stream.leave_window()?;
        stream.stamps.clear();
        stream.materialize();
        self.final_rows(stream)
    }

    /// Sums the weights of equal rows, and at the end emits the row as often as the sum says. The rows are
    /// materialized.
    pub(super) fn final_rows(&mut self, stream: Stream) -> Result<Stream> {
        let Some(weight) = stream.weight else { return Ok(stream) };
        if let Some(field) = stream.physical.iter().find(|field| has_map(field.data_type())) {
            return Err(not_comparable(&format!("column '{}' of an updated result", field.name()), field.data_type()));
        }
        let columns: Vec<usize> = (0..stream.physical.len()).filter(|column| *column != weight).collect();
        let outputs = stream.columns.clone();
        let mut keys: Vec<NamedExpr> = unchanged(&stream.physical).collect();
        keys.remove(weight);
        let mut next = self.exchange_by(columns, stream, FINAL);
        let copies = AggregateSpec {
            name: "$copies".to_owned(),
            function: "sum".to_owned(),
            args: vec![Expr::Column(weight)],
            distinct: false,
            filter: None,
            data_type: DataType::Int64,
            nullable: true,
        };
        let last = keys.len();
        next.operators.push(OperatorSpec::WindowAggregate(WindowAggregateSpec {
            phase: AggregatePhase::Complete,
            window: Window::Global,
            time: None,
            time_type: DataType::Timestamp(TimeUnit::Millisecond, None),
            keys,
            aggregates: vec![copies],
            input_schema: next.physical_schema(),
            zone: None,
        }));
        next.operators.push(OperatorSpec::Repeat(RepeatSpec { copies: last, weight: None }));
        // The operators have no place in the text.
        next.operators.close(&[]);
        next.physical.remove(weight);
        (next.weight, next.columns) = (None, outputs);
        Ok(next)
    }
}
