//! Lowers the first row of each key: `ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ts)` with a condition that
//! passes one row, in the order of a time. The row is never retracted, because no earlier row follows.

use anabranch_dataflow::{DeduplicateSpec, Expr, OperatorSpec};
use anabranch_model::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::{Expr as Logical, WindowFrameUnits};

use super::join_times::plain_time;
use super::over::{RowColumns, call, check_stream, is_by_clock, keep_columns, times_behind};
use super::over_checks::check_precision;
use super::rank::{row_number, unique_keys};
use super::stream::{LogicalColumn, Stream};
use super::{Lowering, Needed};
use crate::apply::NUMBER;
use crate::rel::{Columns, Over, Rel};

const DEDUPLICATE: &str = "deduplicate";

/// The order that defines the first row of each key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FirstBy<'a> {
    /// This event time.
    EventTime(&'a Logical),
    /// Arrival.
    Arrival,
}

/// The order that defines the first row of each partition, if rows are numbered by a time in ascending order.
pub(crate) fn first_by(window: &Over) -> Option<FirstBy<'_>> {
    let call = row_number(window)?;
    let [sort] = call.params.order_by.as_slice() else { return None };
    if is_limit(window) || !sort.asc {
        return None;
    }
    let index = window.input.columns();
    match is_by_clock(&sort.expr, &window.input, index)? {
        true => Some(FirstBy::Arrival),
        false if waits_for_clock(&window.input) => None,
        false => check_precision(&sort.expr, window, index).ok().map(|()| FirstBy::EventTime(&sort.expr)),
    }
}

/// Whether the numbers come from `ORDER BY ... LIMIT`. As in Flink, its result is updated.
pub(super) fn is_limit(window: &Over) -> bool {
    window.columns.fields().iter().skip(window.input.width()).any(|field| field.name() == NUMBER)
}

/// Whether a node below emits rows as processing time advances. Then no row waits for event time.
fn waits_for_clock(plan: &Rel) -> bool {
    let emits_by_clock = |node: &Rel| match node {
        Rel::Assign(assign) => assign.by_clock,
        Rel::Over(window) => window.window_expr.iter().filter_map(|expr| call(expr).ok()).any(|call| {
            let frame = &call.params.window_frame;
            let is_bounded = frame.units == WindowFrameUnits::Range && !frame.start_bound.is_unbounded();
            let time = call.params.order_by.first().filter(|_| is_bounded);
            time.is_some_and(|time| {
                let index = window.input.columns();
                is_by_clock(&time.expr, &window.input, index) == Some(true)
            })
        }),
        _ => false,
    };
    let mut waits = false;
    let visited = plan.see(&mut |node| {
        waits |= emits_by_clock(node);
        Ok(if waits { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    waits || visited.is_err()
}

impl Lowering<'_> {
    /// Lowers the first row of each partition, for an append-only stream in the order of time.
    pub(super) fn deduplicate(
        &mut self,
        mut stream: Stream,
        (window, call): (&Over, &WindowFunction),
        first: FirstBy<'_>,
        needed: &Needed,
    ) -> Result<Stream> {
        let index = window.input.columns();
        let (mut rows, partition) = (RowColumns::default(), &call.params.partition_by);
        for key in partition {
            rows.key(&mut stream, key, index, "ROW_NUMBER()")?;
        }
        let (time, times) = match first {
            FirstBy::EventTime(time) => {
                let times = times_behind(&stream, plain_time(time, index));
                (Some(rows.time(&mut stream, time, index)?), times)
            }
            FirstBy::Arrival => (None, stream.times.clone()),
        };
        let mut columns = rows.columns(&stream, needed);
        let output = keep_columns(&mut columns, std::iter::empty());
        let number = window.input.width();
        let one = Expr::number(1);
        let value = needed.contains(&number).then_some(one);
        columns.push(LogicalColumn { value, ..LogicalColumn::absent(window.columns.field(number)) });
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
        (next.columns, next.times, next.unique) = (columns, times, unique_keys(partition, index));
        next.operators.push(OperatorSpec::Deduplicate(spec));
        Ok(next)
    }
}

/// Whether the stream is append-only and in order, so that first rows are never retracted.
pub(super) fn stays(stream: &Stream, first: FirstBy<'_>, index: &Columns) -> bool {
    let time = if let FirstBy::EventTime(time) = first { Some(time) } else { None };
    check_stream(stream, "ROW_NUMBER()", time, index).is_ok()
}
