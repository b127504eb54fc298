//! Lowers `ORDER BY` without `LIMIT`: rows leave in the order of event time as it advances, or at the end of
//! a bounded table.

use anabranch_dataflow::{OperatorSpec, Ordering, SortSpec};
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion_expr::Expr as Logical;
use datafusion_expr::expr::Sort as Key;

use super::join_times::{Times, plain_time};
use super::over::{RowColumns, check_stream, is_by_clock, times_behind};
use super::rank::key_name;
use super::stream::Stream;
use super::{Lowering, Needed, columns_of};
use crate::maps::shown;
use crate::rel::{Columns, Sort};
use crate::settings::RuntimeMode;

const SORT: &str = "sort";

/// The event that releases rows.
#[derive(Clone, Copy)]
enum Order<'a> {
    /// Event time, or processing time with the precision of windows.
    Time { time: &'a Logical, by_clock: bool },
    /// Arrival, which is the order of processing time.
    Arrival,
    /// The end of the input.
    End,
}

impl Order<'_> {
    fn of_sort<'a>(sort: &'a Sort, index: &Columns, mode: RuntimeMode) -> Order<'a> {
        let Some(first) = sort.keys.first().filter(|first| first.asc && mode != RuntimeMode::Batch) else {
            return Order::End;
        };
        match is_by_clock(&first.expr, &sort.input, index) {
            // Rows arrive in the order of processing time, so nothing is left to sort.
            Some(true) if sort.keys.len() == 1 => Order::Arrival,
            Some(by_clock) => Order::Time { time: &first.expr, by_clock },
            None => Order::End,
        }
    }
}

impl Lowering<'_> {
    /// Lowers ORDER BY, in a single task.
    pub(super) fn sort(&mut self, sort: &Sort, needed: &Needed) -> Result<Stream> {
        let index = sort.input.columns();
        let order = Order::of_sort(sort, index, self.mode);
        let mut below = match order {
            Order::Arrival => Needed::new(),
            _ => columns_of(sort.keys.iter().map(|key| &key.expr), index)?,
        };
        below.extend(needed);
        let mut stream = match order {
            Order::Time { by_clock, .. } => self.plan_by(by_clock, &sort.input, &below)?,
            _ => self.plan(&sort.input, &below)?,
        };
        match order {
            Order::Time { .. } if stream.weight.is_some() => return Err(updated_rows(sort)),
            Order::Time { time, .. } => check_stream(&stream, "ORDER BY", Some(time), index)?,
            Order::Arrival => check_stream(&stream, "ORDER BY", None, index)?,
            Order::End => self.check_end(&stream, sort)?,
        }
        stream.assign_windows()?;
        if let Order::Arrival = order {
            stream.materialize();
            return Ok(self.exchange_by(Vec::new(), stream, SORT));
        }
        let mut rows = RowColumns::default();
        let (mut time, mut keys, mut times) = (None, sort.keys.as_slice(), Times::new());
        let mut columns = Vec::new();
        if let Order::Time { time: of, .. } = order {
            let place = rows.time(&mut stream, of, index)?;
            // The operator compares times in milliseconds, so a finer time is also a column of the order.
            if is_finer(&rows.exprs[place].data_type) {
                columns.push((place, Ordering { descending: false, nulls_first: true }));
            }
            (time, keys, times) = (Some(place), &keys[1..], times_behind(&stream, plain_time(of, index)));
        }
        for key in keys {
            columns.push(rows.order(&mut stream, key, index)?);
        }
        let outputs = rows.columns(&stream, needed);
        let spec = SortSpec { time, order: columns, schema: rows.schema().into() };
        stream.window = None;
        stream.stamps.clear();
        let mut exprs = rows.exprs;
        exprs.extend(stream.carried_weight(exprs.len()));
        stream.columns = outputs;
        stream.project(exprs, false);
        let mut next = self.final_rows(stream)?;
        next.times = times;
        next.has_event_time &= spec.time.is_some();
        next = self.exchange_by(Vec::new(), next, SORT);
        next.waits = true;
        next.physical = spec.schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        next.operators.push(OperatorSpec::Sort(spec));
        Ok(next)
    }

    /// Checks that rows can wait for the end of the input.
    fn check_end(&self, stream: &Stream, sort: &Sort) -> Result<()> {
        if !stream.bounded || self.mode == RuntimeMode::Streaming {
            let error =
                Error::user(format!("ORDER BY {} without LIMIT would wait for the end of the stream", keys_of(sort)));
            return Err(error.remedy(
                "order by the event time first, in ascending order: ORDER BY ts, price; or add LIMIT for the first rows; or sort where \
                 the results are read",
            ));
        }
        let is_updated = stream.weight.is_some() && self.mode != RuntimeMode::Batch;
        if is_updated { Err(updated_rows(sort)) } else { Ok(()) }
    }
}

fn updated_rows(sort: &Sort) -> Error {
    let error = Error::user(format!("ORDER BY {} needs append-only rows, but these rows are updated", keys_of(sort)));
    error.remedy(
        "SET 'execution.runtime-mode' = 'batch' for the final rows of bounded tables, or add LIMIT for the first rows",
    )
}

fn keys_of(sort: &Sort) -> String {
    sort.keys.iter().map(|key| shown(&key.expr)).collect::<Vec<_>>().join(", ")
}

/// Whether times are finer than milliseconds.
fn is_finer(time: &DataType) -> bool {
    matches!(time, DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _))
}

impl RowColumns {
    /// Adds the column of a key of ORDER BY, if it is new. Returns its index and its direction.
    fn order(&mut self, stream: &mut Stream, key: &Key, index: &Columns) -> Result<(usize, Ordering)> {
        let name = format!("order {}", key_name(&key.expr, self.exprs.len() + 1, index)?);
        let place = self.column(stream.compared(name, &key.expr, index, "ORDER BY")?);
        Ok((place, Ordering { descending: !key.asc, nulls_first: key.nulls_first }))
    }
}
