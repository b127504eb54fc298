//! Lowers the first rows of each partition: `ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...)` with a
//! condition that bounds the number.

use anabranch_dataflow::{Expr, NamedExpr, OperatorSpec, Ordering, RankSpec, sql_names};
use anabranch_model::Result;
use datafusion_common::ScalarValue;
use datafusion_expr::expr::{Sort, WindowFunction};
use datafusion_expr::utils::{conjunction, split_conjunction};
use datafusion_expr::{BinaryExpr, Expr as Logical, Operator, WindowFunctionDefinition};

use super::deduplicate::{FirstBy, first_by, is_limit, stays};
use super::over::{RowColumns, is_by_clock};
use super::stream::{LogicalColumn, Stream};
use super::windowed::Windowed;
use super::{Lowering, Needed, columns_of, same_values};
use crate::functions::ROW_NUMBER;
use crate::place::planning_error;
use crate::rel::{Columns, Filter, Over, Rel, name_of};
use crate::settings::RuntimeMode;

const RANK: &str = "rank";

/// The call of `ROW_NUMBER`, if it is the node's only call.
pub(crate) fn row_number(window: &Over) -> Option<&WindowFunction> {
    let [expr] = window.window_expr.as_slice() else { return None };
    let Logical::WindowFunction(call) = expr else { return None };
    match &call.fun {
        WindowFunctionDefinition::WindowUDF(function) if function.name() == ROW_NUMBER => Some(call),
        _ => None,
    }
}

/// Whether a column of a plan is a row number.
fn is_number(plan: &Rel, column: usize) -> bool {
    match plan {
        Rel::Over(window) => row_number(window).is_some() && column == window.input.width(),
        Rel::Project(projection) => {
            let below = projection.input.columns();
            projection
                .exprs
                .get(column)
                .and_then(|expr| below_column(expr, below))
                .is_some_and(|column| is_number(&projection.input, column))
        }
        _ => false,
    }
}

fn below_column(expr: &Logical, below: &Columns) -> Option<usize> {
    if let Logical::Column(column) = expr { below.find(column) } else { None }
}

/// The name of a key's column: the name of the column that the key is, or its text. Checkpoints identify
/// state by it.
pub(super) fn key_name(key: &Logical, number: usize, columns: &Columns) -> Result<String> {
    let name = match key {
        Logical::Column(column) => name_of(column).to_owned(),
        other => {
            let written = columns.as_written(other).map_err(planning_error)?;
            with_sql_casts(&written.human_display().to_string())
        }
    };
    Ok(format!("${name} {number}"))
}

/// Replaces DataFusion's types in casts: `CAST(a AS Int64)` becomes `CAST(a AS BIGINT)`, as our own casts are
/// written.
fn with_sql_casts(text: &str) -> String {
    let mut parts = text.split(" AS ");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
        shown.push_str(" AS ");
        shown.push_str(&sql_names(&part[..end]));
        shown.push_str(&part[end..]);
    }
    shown
}

/// The upper bound that a condition sets on a row number, and whether the condition says more: `n <= 5`, `n <
/// 6`, `n = 1` and `5 >= n` do not; `n = 2` does.
fn limit_of(condition: &Logical, plan: &Rel) -> Option<(u64, bool)> {
    let Logical::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let index = plan.columns();
    let number = |expr: &Logical| below_column(expr, index).is_some_and(|column| is_number(plan, column));
    let (op, constant) = if number(left) {
        (*op, right)
    } else if number(right) {
        (op.swap()?, left)
    } else {
        return None;
    };
    let Logical::Literal(ScalarValue::Int64(Some(constant)), _) = constant.as_ref() else { return None };
    let limit = match op {
        Operator::LtEq | Operator::Eq => *constant,
        Operator::Lt => constant.saturating_sub(1),
        _ => return None,
    };
    u64::try_from(limit.max(0)).ok().map(|limit| (limit, op == Operator::Eq && limit != 1))
}

/// The upper bound that a filter sets on a row number, and the rest of its condition.
pub(crate) fn bounded_number(filter: &Filter) -> Option<(u64, Option<Logical>)> {
    let (mut limit, mut rest): (Option<u64>, Vec<Logical>) = (None, Vec::new());
    for condition in split_conjunction(&filter.predicate) {
        match limit_of(condition, &filter.input) {
            Some((most, says_more)) => {
                limit = Some(limit.map_or(most, |limit| limit.min(most)));
                rest.extend(says_more.then(|| condition.clone()));
            }
            None => rest.push(condition.clone()),
        }
    }
    Some((limit?, conjunction(rest)))
}

impl Lowering<'_> {
    /// Lowers a numbering of which only the first rows are needed.
    pub(super) fn rank(&mut self, window: &Over, call: &WindowFunction, limit: u64, needed: &Needed) -> Result<Stream> {
        let inputs = window.input.width();
        let index = window.input.columns();
        let (partition, order) = (&call.params.partition_by, &call.params.order_by);
        let mut below = columns_of(partition.iter().chain(order.iter().map(|sort| &sort.expr)), index)?;
        below.extend(needed.iter().filter(|column| **column < inputs));
        // In batch mode all rows are present, so none is late. Windows above wait for event time
        // nevertheless.
        let waits = self.mode != RuntimeMode::Batch || self.by_clock == Some(false);
        let first = first_by(window).filter(|first| limit == 1 && (waits || matches!(first, FirstBy::Arrival)));
        let mut stream = match first {
            Some(FirstBy::EventTime(_)) => self.plan_by(false, &window.input, &below)?,
            _ => self.plan(&window.input, &below)?,
        };
        stream.assign_windows()?;
        let windowed = window_of(&mut stream, partition, index);
        match first.filter(|first| windowed.is_none() && stays(&stream, *first, index)) {
            Some(first) => {
                stream.stamps = Vec::new();
                self.deduplicate(stream, (window, call), first, needed)
            }
            None => self.first_rows(stream, windowed, (window, call), limit, needed),
        }
    }

    /// Lowers a top-N: the first rows of each partition, or of each window of a partition.
    fn first_rows(
        &mut self,
        mut stream: Stream,
        mut windowed: Option<Windowed>,
        (window, call): (&Over, &WindowFunction),
        limit: u64,
        needed: &Needed,
    ) -> Result<Stream> {
        let inputs = window.input.width();
        let index = window.input.columns();
        let (partition, order) = (&call.params.partition_by, &call.params.order_by);
        let window_time = windowed.as_ref().map(|windowed| NamedExpr {
            name: "window_time".into(),
            expr: windowed.time.clone(),
            data_type: windowed.time_type.clone(),
            nullable: true,
        });
        let keys = partition.len() + usize::from(window_time.is_some());
        if stream.weight.is_some() {
            // The source would stamp a row and its retraction with different times.
            stream.stamps = Vec::new();
        }
        let mut rows = sorted_columns(&mut stream, call, window_time, index)?;
        let mut outputs = rows.columns(&stream, needed);
        let mut output = Vec::new();
        for (column, before) in outputs.iter_mut().zip(&stream.columns) {
            if let Some(Expr::Column(position)) = &mut column.value {
                output.push(std::mem::replace(position, output.len()));
            }
            column.window = before.window.filter(|_| windowed.is_some());
        }
        let schema = rows.schema().into();
        let mut exprs = rows.exprs;
        exprs.extend(stream.carried_weight(exprs.len()));
        stream.stamps = Vec::new();
        stream.project(exprs, false);
        stream.columns.clear();
        let number = needed.contains(&inputs).then(|| "number".to_owned());
        let ordering = |sort: &Sort| Ordering { descending: !sort.asc, nulls_first: sort.nulls_first };
        let mut spec = RankSpec {
            keys,
            order: order.iter().map(ordering).collect(),
            limit,
            latest: limit == 1 && stream.weight.is_none() && is_latest(window, call),
            schema,
            updating: stream.weight.is_some(),
            output,
            number,
            window: windowed.is_some().then_some(partition.len()),
            time_to_live_ms: self.table.time_to_live_ms.filter(|_| windowed.is_none()),
            zone: windowed.as_ref().and_then(|windowed| windowed.zone.clone()),
        };
        let unique = match limit {
            1 => unique_keys(partition, index),
            _ => unique_keys(partition, index)
                .filter(|_| spec.number.is_some())
                .map(|keys| keys.into_iter().chain([inputs]).collect()),
        };
        if let Some(windowed) = &mut windowed {
            windowed.time = Expr::Column(spec.output.len());
            spec.output.push(partition.len());
        }
        let value = spec.number.as_ref().map(|_| Expr::Column(spec.output.len()));
        outputs.push(LogicalColumn { value, ..LogicalColumn::absent(window.columns.field(inputs)) });
        let mut ranked = self.ranked(stream, spec, outputs, unique);
        ranked.window = windowed;
        Ok(ranked)
    }

    /// Exchanges rows by the keys of a top-N, and adds its operator.
    pub(super) fn ranked(
        &mut self,
        stream: Stream,
        spec: RankSpec,
        outputs: Vec<LogicalColumn>,
        unique: Option<Vec<usize>>,
    ) -> Stream {
        let mut next = self.exchange_by((0..spec.keys).collect(), stream, RANK);
        match spec.window {
            Some(_) => next.times.retain(|column, _| outputs[*column].window.is_some()),
            // An event time of updating rows stays an event time.
            None => next.times.retain(|_, ms| *ms <= 0),
        }
        next.physical = spec.output_schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        next.weight = spec.window.is_none().then_some(next.physical.len() - 1);
        (next.columns, next.unique) = (outputs, unique);
        next.operators.push(OperatorSpec::Rank(spec));
        next
    }
}

/// Whether the last row by a time is requested. Of several rows with this time, Flink keeps the one that
/// arrived last.
fn is_latest(window: &Over, call: &WindowFunction) -> bool {
    let [sort] = call.params.order_by.as_slice() else { return false };
    let index = window.input.columns();
    !sort.asc && !is_limit(window) && is_by_clock(&sort.expr, &window.input, index).is_some()
}

/// The columns that have the values of the partition keys.
pub(super) fn unique_keys(partition: &[Logical], index: &Columns) -> Option<Vec<usize>> {
    partition.iter().map(|key| same_values(key, index)).collect()
}

/// The windows of the rows, if a window column is a partition key and rows are append-only.
fn window_of(stream: &mut Stream, partition: &[Logical], index: &Columns) -> Option<Windowed> {
    let is_of_window =
        |key: &Logical| stream.plain_column(key, index).is_some_and(|column| stream.window_column(column).is_some());
    let are_of_windows = stream.weight.is_none() && partition.iter().any(is_of_window);
    stream.window.take().filter(|_| are_of_windows)
}

/// The columns by which a top-N divides and sorts its rows. The time of windows is the last key.
fn sorted_columns(
    stream: &mut Stream,
    call: &WindowFunction,
    window_time: Option<NamedExpr>,
    index: &Columns,
) -> Result<RowColumns> {
    let mut rows = RowColumns::default();
    for key in &call.params.partition_by {
        rows.key(stream, key, index, "ROW_NUMBER()")?;
    }
    rows.exprs.extend(window_time);
    for Sort { expr, .. } in &call.params.order_by {
        let name = format!("order {}", key_name(expr, rows.exprs.len() + 1, index)?);
        rows.exprs.push(stream.compared(name, expr, index, "ROW_NUMBER()")?);
    }
    Ok(rows)
}
