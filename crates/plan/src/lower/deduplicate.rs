//! The first row of each key: `ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ts)` with a condition that lets one row pass, in the order of a
//! time. Such a row stays, because no row before it follows.

use anabranch_dataflow::{DeduplicateSpec, Expr, Literal, OperatorSpec};
use anabranch_model::Result;
use arrow::datatypes::DataType;
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::{Expr as Logical, Window};

use super::column_index::ColumnIndex;
use super::join_times::plain_time;
use super::over::{RowColumns, check_stream, column_of, is_by_clock, times_behind};
use super::over_checks::check_precision;
use super::rank::{row_number, unique_keys};
use super::stream::{LogicalColumn, Stream};
use super::{Lowering, Needed};
use crate::top::NUMBER;

/// Short name of the stages of such rows.
const DEDUPLICATE: &str = "deduplicate";

/// In which order the first row of each key is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstBy {
    /// That of event time.
    EventTime,
    /// As rows come.
    Arrival,
}

/// The order in which the first row of each partition stays, if rows are numbered in the order of a time.
pub(crate) fn first_by(window: &Window) -> Option<FirstBy> {
    let call = row_number(window)?;
    // As in Flink, LIMIT 1 has a result that is updated.
    let is_limit = window.window_expr.iter().any(|expr| matches!(expr, Logical::Alias(alias) if alias.name == NUMBER));
    let [sort] = call.params.order_by.as_slice() else { return None };
    if is_limit || !sort.asc {
        return None;
    }
    let index = ColumnIndex::of(window.input.schema());
    match is_by_clock(&sort.expr, &window.input, &index)? {
        true => Some(FirstBy::Arrival),
        false => check_precision(&sort.expr, window, &index).ok().map(|()| FirstBy::EventTime),
    }
}

impl Lowering<'_> {
    /// Lowers the choice of the first row of each partition, of rows that stay and have the order.
    pub(super) fn deduplicate(
        &mut self,
        mut stream: Stream,
        (window, call): (&Window, &WindowFunction),
        first: FirstBy,
        needed: &Needed,
    ) -> Result<Stream> {
        let index = ColumnIndex::of(window.input.schema());
        let (mut rows, partition) = (RowColumns::default(), &call.params.partition_by);
        for key in partition {
            rows.key(&mut stream, key, &index, "ROW_NUMBER()")?;
        }
        let by_time = call.params.order_by.first().filter(|_| first == FirstBy::EventTime).map(|sort| &sort.expr);
        let time = by_time.map(|time| rows.time(&mut stream, time, &index)).transpose()?;
        let times = match by_time {
            Some(time) => times_behind(&stream, plain_time(time, &index)),
            None => stream.times.clone(),
        };
        let mut columns = rows.columns(&stream, needed);
        let mut output: Vec<usize> = columns.iter().filter_map(|column| column_of(column.value.as_ref()?)).collect();
        output.sort_unstable();
        output.dedup();
        let place_of = |column: usize| Expr::Column(output.partition_point(|of| *of < column));
        for column in &mut columns {
            column.value = column.value.as_ref().and_then(column_of).map(place_of);
        }
        let number = window.input.schema().fields().len();
        let one = Expr::Literal(Literal { data_type: DataType::Int64, text: Some("1".to_owned()) });
        let value = needed.contains(&number).then_some(one);
        columns.push(LogicalColumn { value, ..LogicalColumn::absent(window.schema.field(number)) });
        let spec = DeduplicateSpec {
            keys: partition.len(),
            time,
            schema: rows.schema().into(),
            output,
            time_to_live_ms: self.table.time_to_live_ms,
        };
        let mut next = self.partitioned(stream, rows.exprs, spec.keys, DEDUPLICATE);
        next.waits |= spec.time.is_some();
        next.physical = spec.output_schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        (next.columns, next.times, next.unique) = (columns, times, unique_keys(partition, &index));
        next.operators.push(OperatorSpec::Deduplicate(spec));
        Ok(next)
    }
}

/// Whether rows stay and have the order, so that the first ones stay too.
pub(super) fn stays(stream: &Stream, call: &WindowFunction, first: FirstBy, index: &ColumnIndex) -> bool {
    let time = call.params.order_by.first().filter(|_| first == FirstBy::EventTime).map(|sort| &sort.expr);
    check_stream(stream, "ROW_NUMBER()", time, index).is_ok()
}
