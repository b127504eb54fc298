//! Lowers window functions over preceding rows: `SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2
//! PRECEDING AND CURRENT ROW)`, `LAG`, and `ROW_NUMBER` without a bound.
//!
//! Calls with the same partition and order are one node. Calls of one frame become one operator. All
//! operators of a node form one chain after one exchange.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{AggregateSpec, Expr, Frame, LAG, NamedExpr, OperatorSpec, OverSpec};
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::ScalarValue;
use datafusion_expr::expr::{AggregateFunction, Sort, WindowFunction};
use datafusion_expr::{
    Expr as Logical, ExprSchemable, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, cast,
};

use super::aggregate::aggregate_spec;
use super::group_aggregate::check_function;
use super::join_times::{Times, plain_time};
use super::over_checks::check_precision;
use super::rank::key_name;
use super::stream::{LogicalColumn, Stream};
use super::{Lowering, Needed, columns_of};
use crate::event_time::time_attribute_of;
use crate::functions::ROW_NUMBER;
use crate::maps::shown;
use crate::place::planning_error;
use crate::processing_time::is_call;
use crate::rel::{Columns, Over, Rel};
use crate::window_table::literal_interval_ms;

const OVER: &str = "over";

const EXAMPLE: &str = "write OVER (PARTITION BY a ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)";

/// The order of the rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Event time.
    EventTime,
    /// Processing time, with the precision of windows.
    Clock,
    /// Arrival.
    Arrival,
}

/// A needed call, with its index in the node.
struct Call {
    place: usize,
    frame: Frame,
    function: Function,
}

/// [`Call`], over the exchanged rows.
struct CallSpec {
    place: usize,
    frame: Frame,
    aggregate: AggregateSpec,
}

enum Function {
    Aggregate(AggregateFunction),
    Number,
    /// `FIRST_VALUE` or `LAST_VALUE`.
    Value {
        name: String,
        value: Logical,
        filter: Option<Logical>,
    },
    Lag {
        value: Logical,
        rows: u64,
        otherwise: Option<Logical>,
    },
}

/// The call of a node's expression.
pub(super) fn call(expr: &Logical) -> Result<&WindowFunction> {
    match expr {
        Logical::WindowFunction(call) => Ok(call),
        other => Err(Error::internal(format!("{other} is no function over rows"))),
    }
}

fn function(call: &WindowFunction) -> Result<Function> {
    let params = &call.params;
    let name = call.fun.name();
    match &call.fun {
        WindowFunctionDefinition::AggregateUDF(function) => {
            let (args, filter, nulls) = (params.args.clone(), params.filter.clone(), params.null_treatment);
            let function = Arc::clone(function);
            let call = AggregateFunction::new_udf(function, args, params.distinct, filter, Vec::new(), nulls);
            Ok(Function::Aggregate(call))
        }
        WindowFunctionDefinition::WindowUDF(_) if name == ROW_NUMBER => Ok(Function::Number),
        WindowFunctionDefinition::WindowUDF(_) if name == LAG => lag(&params.args),
        WindowFunctionDefinition::WindowUDF(_) => match params.args.as_slice() {
            [value] => {
                let filter = params.filter.as_deref().cloned();
                Ok(Function::Value { name: name.to_owned(), value: value.clone(), filter })
            }
            _ => Err(Error::internal(format!("{name} has more than one argument"))),
        },
    }
}

fn lag(args: &[Logical]) -> Result<Function> {
    let rows = match args.get(1) {
        None => Some(1),
        Some(Logical::Literal(ScalarValue::Int64(Some(rows)), _)) => u64::try_from(*rows).ok(),
        Some(_) => None,
    };
    match (args.first(), rows) {
        (Some(value), Some(rows)) => Ok(Function::Lag { value: value.clone(), rows, otherwise: args.get(2).cloned() }),
        _ => Err(Error::user("the second argument of LAG is not a number of rows")
            .remedy("write a whole number: LAG(price, 2) OVER (PARTITION BY a ORDER BY ts)")),
    }
}

fn frame(of: &WindowFrame) -> Result<Frame> {
    let wrong = |what: &str| {
        Err(Error::user(format!("OVER with {what} is not supported")).remedy(
            "end with the current row: ROWS BETWEEN 2 PRECEDING AND CURRENT ROW, or RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT \
             ROW, or UNBOUNDED PRECEDING in place of the bound",
        ))
    };
    if of.end_bound != WindowFrameBound::CurrentRow {
        return wrong("rows other than the current row and preceding rows");
    }
    // `None`: there is no bound. `Some(None)`: the current row.
    let preceding = match &of.start_bound {
        WindowFrameBound::Preceding(preceding) if preceding.is_null() => None,
        WindowFrameBound::Preceding(preceding) => Some(Some(preceding)),
        WindowFrameBound::CurrentRow => Some(None),
        WindowFrameBound::Following(_) => return wrong("rows that follow"),
    };
    let rows = |value: &ScalarValue| match value {
        ScalarValue::UInt64(Some(rows)) => Some(*rows),
        ScalarValue::Int64(Some(rows)) => u64::try_from(*rows).ok(),
        _ => None,
    };
    let found = match (of.units, preceding) {
        (WindowFrameUnits::Rows, None) => Some(Frame::Rows { preceding: None }),
        (WindowFrameUnits::Rows, Some(bound)) => {
            bound.map_or(Some(0), rows).map(|rows| Frame::Rows { preceding: Some(rows) })
        }
        (WindowFrameUnits::Range, None) => Some(Frame::Range { preceding_ms: None }),
        (WindowFrameUnits::Range, Some(bound)) => {
            let ms = |value: &ScalarValue| literal_interval_ms(&Logical::Literal(value.clone(), None));
            let ms = bound.map_or(Some(0), ms).filter(|ms| *ms >= 0);
            ms.map(|ms| Frame::Range { preceding_ms: Some(ms) })
        }
        (WindowFrameUnits::Groups, _) => None,
    };
    found.map_or_else(|| wrong(&format!("the frame {of}")), Ok)
}

/// The needed calls, with their frames.
fn calls(window: &Over, needed: &Needed) -> Result<Vec<Call>> {
    let inputs = window.input.width();
    let mut found = Vec::new();
    for (place, expr) in window.window_expr.iter().enumerate().filter(|(place, _)| needed.contains(&(inputs + place))) {
        let call = call(expr)?;
        let function = function(call)?;
        let frame = match &function {
            Function::Aggregate(_) | Function::Value { .. } => frame(&call.params.window_frame)?,
            Function::Number => Frame::Rows { preceding: None },
            Function::Lag { rows, .. } => Frame::Rows { preceding: Some(*rows) },
        };
        found.push(Call { place, frame, function });
    }
    // One operator keeps enough rows for all calls of LAG.
    let rows = |call: &Call| if let Function::Lag { rows, .. } = &call.function { Some(*rows) } else { None };
    let most = found.iter().filter_map(rows).max();
    let lags = found.iter_mut().filter(|call| rows(call).is_some());
    lags.for_each(|call| call.frame = Frame::Rows { preceding: most });
    Ok(found)
}

/// Whether a time in ORDER BY is processing time. `None`: it is no event time either.
pub(super) fn is_by_clock(time: &Logical, input: &Rel, index: &Columns) -> Option<bool> {
    match time {
        Logical::Column(column) => time_attribute_of(input, index.find(column)?).map(|time| time.is_processing_time()),
        call => is_call(call).then_some(true),
    }
}

/// The time in ORDER BY, and whether it is processing time.
fn time<'a>(sorts: &'a [Sort], window: &Over, index: &Columns) -> Result<(&'a Logical, bool)> {
    let wrong = |what: &str| Error::user(format!("OVER {what}")).remedy(EXAMPLE);
    let [sort] = sorts else {
        return Err(wrong("needs ORDER BY of the event time or of PROCTIME(), and of nothing else"));
    };
    let Some(by_clock) = is_by_clock(&sort.expr, &window.input, index) else {
        let text = format!("needs ORDER BY of the event time or of PROCTIME(), not of {}", shown(&sort.expr));
        return Err(wrong(&text));
    };
    if !sort.asc {
        return Err(wrong("needs ORDER BY in ascending order, because it reads preceding rows"));
    }
    check_precision(&sort.expr, window, index)?;
    Ok((&sort.expr, by_clock))
}

fn order(by_clock: bool, calls: &mut [Call]) -> Order {
    if !by_clock {
        return Order::EventTime;
    }
    if calls.iter().any(|call| matches!(call.frame, Frame::Range { preceding_ms: Some(_) })) {
        return Order::Clock;
    }
    // As in Flink, no two rows have the same processing time here.
    let ranges = calls.iter_mut().filter(|call| matches!(call.frame, Frame::Range { .. }));
    ranges.for_each(|call| call.frame = Frame::Rows { preceding: None });
    Order::Arrival
}

impl Lowering<'_> {
    /// Lowers window functions over preceding rows.
    pub(super) fn over(&mut self, window: &Over, needed: &Needed) -> Result<Stream> {
        let index = window.input.columns();
        let first = window.window_expr.first().ok_or_else(|| Error::internal("OVER without a function"))?;
        let params = &call(first)?.params;
        let (partition, sorts) = (&params.partition_by, &params.order_by);
        for expr in &window.window_expr {
            let other = &call(expr)?.params;
            if (&other.partition_by, &other.order_by) != (partition, sorts) {
                return Err(Error::internal("functions over other rows in one node"));
            }
        }
        let (time, by_clock) = time(sorts, window, index)?;
        let mut calls = calls(window, needed)?;
        let order = order(by_clock, &mut calls);
        let by_time = Some(time).filter(|_| order != Order::Arrival);
        let mut below = columns_of(partition.iter().chain(by_time), index)?;
        below.extend(columns_of(calls.iter().flat_map(|call| call.function.read()), index)?);
        let inputs = window.input.width();
        below.extend(needed.iter().filter(|column| **column < inputs));
        let stream = match order {
            Order::Arrival => self.plan(&window.input, &below)?,
            _ => self.plan_by(order == Order::Clock, &window.input, &below)?,
        };
        let mut stream = self.rows_in_batch(stream)?;
        check_stream(&stream, "OVER", by_time, index)?;
        stream.assign_windows()?;
        let mut rows = RowColumns::default();
        for key in partition {
            rows.key(&mut stream, key, index, "OVER")?;
        }
        let time = by_time.map(|time| rows.time(&mut stream, time, index)).transpose()?;
        let mut specs = Vec::new();
        for call in &calls {
            let aggregate = rows.function(call, window, index, &mut stream)?;
            specs.push(CallSpec { place: call.place, frame: call.frame, aggregate });
        }
        let columns = rows.columns(&stream, needed);
        let spec = OverSpec {
            keys: partition.len(),
            time,
            frame: Frame::Rows { preceding: None },
            time_to_live_ms: self.table.time_to_live_ms,
            functions: Vec::new(),
            schema: rows.schema().into(),
            output: Vec::new(),
        };
        let mut times = stream.times.clone();
        if let Some(time) = by_time {
            times = times_behind(&stream, plain_time(time, index));
        }
        let mut next = self.partitioned(stream, rows.exprs, spec.keys, OVER);
        next.waits |= spec.time.is_some();
        (next.columns, next.times) = (columns, times);
        add_operators(&mut next, &spec, specs, window);
        Ok(next)
    }

    /// Exchanges rows by partition.
    pub(super) fn partitioned(
        &mut self,
        mut stream: Stream,
        exprs: Vec<NamedExpr>,
        keys: usize,
        name: &'static str,
    ) -> Stream {
        (stream.window, stream.stamps) = (None, Vec::new());
        stream.project(exprs, false);
        stream.columns.clear();
        let mut next = self.exchange_by((0..keys).collect(), stream, name);
        next.unique = None;
        next
    }
}

impl Function {
    /// The expressions that it reads.
    fn read(&self) -> Vec<&Logical> {
        match self {
            Function::Aggregate(call) => call.params.args.iter().chain(call.params.filter.as_deref()).collect(),
            Function::Number => Vec::new(),
            Function::Value { value, filter, .. } => std::iter::once(value).chain(filter).collect(),
            Function::Lag { value, otherwise, .. } => std::iter::once(value).chain(otherwise).collect(),
        }
    }
}

/// Checks that rows are append-only and in the order that `what` needs.
pub(super) fn check_stream(stream: &Stream, what: &str, time: Option<&Logical>, index: &Columns) -> Result<()> {
    if stream.weight.is_some() {
        return Err(Error::user(format!("{what} needs append-only rows, but these rows are updated"))
            .remedy("aggregate in a window first, or read an append-only table"));
    }
    let Some(time) = time else { return Ok(()) };
    if !stream.has_event_time {
        return Err(Error::user(format!("{what} in the order of event time needs a table with a watermark"))
            .remedy("declare WATERMARK FOR, or use ORDER BY PROCTIME()"));
    }
    let known = plain_time(time, index).and_then(|column| stream.times.get(&column));
    if !is_call(time) && known.is_none_or(|ms| *ms > 0) {
        return Err(Error::user(format!("'{}' is no longer an event-time column", shown(time))).remedy(
            "a join of two streams keeps it if the condition bounds its distance from an event time of the other side: \
             a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts",
        ));
    }
    Ok(())
}

/// The times of rows that have waited for an event time: this event time and the other columns of the same
/// window.
pub(super) fn times_behind(stream: &Stream, waited_for: Option<usize>) -> Times {
    let of_window = |column: usize| stream.columns.get(column).is_some_and(|column| column.window.is_some());
    let Some(time) = waited_for else { return Times::new() };
    let kept = |column: usize| column == time || of_window(time) && of_window(column);
    stream.times.iter().filter(|(column, _)| kept(**column)).map(|(column, ms)| (*column, *ms)).collect()
}

/// Adds an operator for each frame. All but the last pass all columns on.
fn add_operators(stream: &mut Stream, spec: &OverSpec, calls: Vec<CallSpec>, window: &Over) {
    let mut frames: Vec<(Frame, Vec<CallSpec>)> = Vec::new();
    for call in calls {
        match frames.iter_mut().find(|(known, _)| *known == call.frame) {
            Some((_, calls)) => calls.push(call),
            None => frames.push((call.frame, vec![call])),
        }
    }
    let mut fields: Vec<Field> = spec.schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    // The output column of each call.
    let mut results: BTreeMap<usize, usize> = BTreeMap::new();
    let last = frames.len().saturating_sub(1);
    for (number, (frame, calls)) in frames.into_iter().enumerate() {
        let time_to_live_ms = spec.time_to_live_ms.filter(|_| !frame.ends_by_time());
        let own = OverSpec { frame, time_to_live_ms, schema: Schema::new(fields.clone()).into(), ..spec.clone() };
        let functions = calls.iter().map(|call| call.aggregate.clone()).collect();
        let mut kept: Vec<usize> = (0..fields.len()).collect();
        if number == last {
            kept = keep_columns(&mut stream.columns, results.values().copied());
            results.values_mut().for_each(|column| *column = kept.partition_point(|other| other < column));
        }
        let width = kept.len();
        let own = OverSpec { functions, output: kept, ..own };
        results.extend(calls.iter().enumerate().map(|(at, call)| (call.place, width + at)));
        fields = own.output_schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        stream.operators.push(OperatorSpec::Over(own));
    }
    stream.physical = fields;
    let inputs = window.input.width();
    let of_call = |place: usize| LogicalColumn {
        value: results.get(&place).map(|column| Expr::Column(*column)),
        ..LogicalColumn::absent(window.columns.field(inputs + place))
    };
    stream.columns.extend((0..window.window_expr.len()).map(of_call));
}

/// The physical columns of these logical columns and `others`, sorted. The logical columns are changed to the
/// positions in this list.
pub(super) fn keep_columns(columns: &mut [LogicalColumn], others: impl Iterator<Item = usize>) -> Vec<usize> {
    let column_of = |expr: &Expr| if let Expr::Column(column) = expr { Some(*column) } else { None };
    let logical = columns.iter().filter_map(|column| column_of(column.value.as_ref()?));
    let mut kept: Vec<usize> = logical.chain(others).collect();
    kept.sort_unstable();
    kept.dedup();
    for column in columns {
        let physical = column.value.as_ref().and_then(column_of);
        column.value = physical.map(|own| Expr::Column(kept.partition_point(|other| *other < own)));
    }
    kept
}

/// The columns of rows that are exchanged by partition.
#[derive(Default)]
pub(super) struct RowColumns {
    pub(super) exprs: Vec<NamedExpr>,
}

impl RowColumns {
    /// Adds a key of the partition of `what`.
    pub(super) fn key(&mut self, stream: &mut Stream, key: &Logical, index: &Columns, what: &str) -> Result<()> {
        let name = format!("key {}", key_name(key, self.exprs.len() + 1, index)?);
        self.exprs.push(stream.compared(name, key, index, what)?);
        Ok(())
    }

    pub(super) fn time(&mut self, stream: &mut Stream, time: &Logical, index: &Columns) -> Result<usize> {
        let name = format!("time {}", key_name(time, self.exprs.len() + 1, index)?);
        self.exprs.push(stream.column(name, time, index)?);
        Ok(self.exprs.len() - 1)
    }

    /// The index of a column, which is added if no column has the same value and type.
    pub(super) fn column(&mut self, column: NamedExpr) -> usize {
        let same = |own: &NamedExpr| own.expr == column.expr && own.data_type == column.data_type;
        self.exprs.iter().position(same).unwrap_or_else(|| {
            self.exprs.push(column);
            self.exprs.len() - 1
        })
    }

    fn argument(&mut self, expr: Expr, data_type: DataType) -> Expr {
        let name = format!("argument {}", self.exprs.len() + 1);
        Expr::Column(self.column(NamedExpr { name, expr, data_type, nullable: true }))
    }

    /// A call over these columns. Literal arguments of aggregates stay literals.
    fn function(&mut self, call: &Call, window: &Over, index: &Columns, stream: &mut Stream) -> Result<AggregateSpec> {
        let field = window.columns.field(window.input.width() + call.place);
        let spec = |function: &str, args: Vec<Expr>| AggregateSpec {
            name: format!("{function}_{}", call.place + 1),
            function: function.to_owned(),
            args,
            distinct: false,
            filter: None,
            data_type: field.data_type().clone(),
            nullable: field.is_nullable(),
        };
        // It is at most the number of rows that fit into memory, and so fits into an `i64`.
        let number = |number: u64| Expr::number(number.cast_signed());
        match &call.function {
            Function::Number => Ok(spec("count", vec![number(1)])),
            Function::Value { name, value, filter } => {
                let column = stream.expr(value, index)?;
                let filter = filter.as_ref().map(|filter| stream.expr(filter, index)).transpose()?;
                let mut spec = spec(name, vec![self.argument(column, field.data_type().clone())]);
                spec.filter = filter.map(|filter| self.argument(filter, DataType::Boolean));
                Ok(spec)
            }
            Function::Lag { value, rows, otherwise } => {
                let data_type = field.data_type().clone();
                let column = stream.expr(value, index)?;
                let mut args = vec![self.argument(column, data_type.clone()), number(*rows)];
                if let Some(otherwise) = otherwise {
                    let otherwise = stream.expr(&cast(otherwise.clone(), data_type.clone()), index)?;
                    args.push(self.argument(otherwise, data_type));
                }
                Ok(spec(LAG, args))
            }
            Function::Aggregate(aggregate) => {
                let name = format!("{}_{}", aggregate.func.name(), call.place + 1);
                let mut spec = aggregate_spec(name, aggregate, field, index, stream)?;
                check_function(&spec, stream, "OVER")?;
                for (own, arg) in spec.args.iter_mut().zip(&aggregate.params.args) {
                    if !matches!(own, Expr::Literal(_)) {
                        *own = self.argument(own.clone(), arg.get_type(index).map_err(planning_error)?);
                    }
                }
                spec.filter = spec.filter.map(|filter| self.argument(filter, DataType::Boolean));
                Ok(spec)
            }
        }
    }

    /// The logical columns needed above, over these columns.
    pub(super) fn columns(&mut self, stream: &Stream, needed: &Needed) -> Vec<LogicalColumn> {
        let columns = stream.columns.iter().enumerate().map(|(column, logical)| {
            let value = logical.value.as_ref().filter(|_| needed.contains(&column));
            let value = value.map(|value| Expr::Column(self.column(logical.named(value))));
            LogicalColumn { value, window: None, ..logical.clone() }
        });
        columns.collect()
    }

    pub(super) fn schema(&self) -> Schema {
        Schema::new(self.exprs.iter().map(NamedExpr::field).collect::<Vec<_>>())
    }
}
