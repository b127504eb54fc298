//! Window table functions in FROM: `TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))`, also with
//! named arguments and without `TABLE( )`. Also refuses unsupported qualifiers of tables.

mod functions;

use anabranch_dataflow::sql_name;
use anabranch_model::Error;
use arrow::datatypes::DataType;
use datafusion_common::{ExprSchema as _, Result, ScalarValue};
use datafusion_expr::Expr;
use datafusion_sql::sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Spanned, TableAlias,
    TableFactor,
};

pub use self::functions::window_functions;
use self::functions::{Lengths, table_functions};
pub(crate) use self::functions::{WindowFunction, group_functions};
use crate::bind::{Binder, Env, Names, Rows, Scope};
use crate::dialect::parts_of_partitioned;
use crate::event_time::{TimeAttribute, time_attribute_of};
use crate::place::{at, through};
use crate::rel::Rel;
use crate::window_assign::{EVENT_TIME, WINDOW_COLUMNS, WindowAssign};

/// The largest number of windows per row. More would take too long.
const WINDOWS_PER_ROW_MAX: i64 = 100_000;

/// A call that assigns rows to windows.
pub(crate) struct Call {
    pub(crate) function: &'static WindowFunction,
    /// The names of the window columns.
    pub(crate) names: [&'static str; 3],
    /// The time column.
    pub(crate) time: ast::Expr,
    /// The lengths, by parameter.
    pub(crate) lengths: Vec<(&'static str, ast::Expr)>,
    /// The keys of sessions.
    pub(crate) partition: Vec<Expr>,
}

/// Refuses qualifiers without support: samples, partitions, hints of other databases, and versions at a time
/// that no earlier table provides.
pub(crate) fn check_qualifiers(relation: &TableFactor) -> anabranch_model::Result<()> {
    let (TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. }) = relation else { return Ok(()) };
    if sample.is_some() {
        return Err(Error::user("TABLESAMPLE is not supported").remedy("use WHERE RANDOM() < 0.1"));
    }
    let TableFactor::Table { name, version, with_hints, partitions, .. } = relation else { return Ok(()) };
    if !with_hints.is_empty() {
        return Err(Error::user(format!("{name} WITH (...) is not supported"))
            .remedy("write options of a table as a hint: t /*+ OPTIONS('name' = 'value') */"));
    }
    if !partitions.is_empty() {
        return Err(
            Error::user(format!("{name} PARTITION (...) is not supported")).remedy("select its rows with WHERE")
        );
    }
    let Some(version) = version else { return Ok(()) };
    if !matches!(version, ast::TableVersion::ForSystemTimeAsOf(_)) {
        return Err(Error::user(format!("{version} is not supported")).remedy("use FOR SYSTEM_TIME AS OF"));
    }
    Err(Error::user(format!("'{name}' FOR SYSTEM_TIME AS OF must be joined with a table that has the time"))
        .remedy("join it: FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency"))
}

/// Binds a table function.
pub(crate) fn plan_table_function(
    name: &ObjectName,
    args: &[FunctionArg],
    binder: &Binder<'_>,
    env: &Env<'_>,
) -> Result<Rows> {
    let Some(function) = WindowFunction::named(&name.to_string().to_uppercase()) else {
        let error = Error::user(format!("unknown table function {name}"));
        return Err(through(error.remedy(format!("the table functions are {}", table_functions()))));
    };
    let mut lengths = bind(function, args).map_err(through)?;
    let mut take = |parameter: &str| {
        let place = lengths.iter().position(|(p, _)| *p == parameter);
        place.map(|place| lengths.swap_remove(place).1).ok_or_else(|| through(missing(function, parameter)))
    };
    let (data, time) = (take("DATA")?, take("TIMECOL")?);
    let (data, keys) = parts_of_partitioned(data);
    if !function.has_keys && !keys.is_empty() {
        return Err(through(
            Error::user(format!("{function} does not take PARTITION BY"))
                .remedy("omit it: rows are divided by the columns of GROUP BY"),
        ));
    }
    let rows = binder.relation(table_factor(data, function).map_err(through)?, env)?;
    let scope = Scope::new(rows.items.clone(), None);
    let key = |key: ast::Expr| binder.plain(key, &Names::new(&scope), env, "PARTITION BY");
    let partition = keys.into_iter().map(key).collect::<Result<Vec<_>>>()?;
    let time = descriptor(&time, function).map_err(through)?;
    plan_window(Call { function, names: WINDOW_COLUMNS, time, lengths, partition }, rows, binder, env)
}

fn missing(function: &WindowFunction, parameter: &str) -> Error {
    Error::user(format!("{function} needs the argument {parameter}")).remedy(function.usage())
}

/// Adds the columns of windows to rows.
pub(crate) fn plan_window(call: Call, rows: Rows, binder: &Binder<'_>, env: &Env<'_>) -> Result<Rows> {
    let Call { function, names, time, mut lengths, partition } = call;
    let mut take = |parameter: &str| {
        let place = lengths.iter().position(|(p, _)| *p == parameter);
        place.map(|place| lengths.swap_remove(place).1)
    };
    let mut needed = |parameter| take(parameter).ok_or_else(|| through(missing(function, parameter)));
    let size = needed(function.size)?;
    let step = match function.step {
        Some(parameter) => Some((parameter.to_lowercase(), needed(parameter)?)),
        None => None,
    };
    let offset = take("OFFSET");
    let ms = |interval: ast::Expr| interval_ms(interval, binder, env);
    let size_ms = positive(function, &function.size.to_lowercase(), ms(size)?).map_err(through)?;
    let offset_ms = offset.map_or(Ok(0), ms)?;
    let mut step_ms = 0;
    if let Some((word, step)) = step {
        step_ms = positive(function, &word, ms(step)?).map_err(through)?;
        // Windows of GROUP BY may have any size.
        if names == WINDOW_COLUMNS {
            check_divides(function, &word, step_ms, size_ms).map_err(through)?;
        }
        check_windows(function, &word, step_ms, size_ms).map_err(through)?;
    }
    let window = (function.window)(Lengths { size_ms, step_ms, offset_ms });
    let Rows { plan, items } = rows;
    let (time, by_clock) = event_time(&time, function, &plan, &items, binder, env)?;
    let node = WindowAssign::new((window, names), time, partition, by_clock, plan)?;
    let plan = Rel::Assign(node);
    let added = Scope::items_of(&plan, None);
    let inputs = added.len() - names.len();
    let items = items.into_iter().chain(added.into_iter().skip(inputs)).collect();
    Ok(Rows { plan, items })
}

fn check_divides(function: &WindowFunction, word: &str, step_ms: i64, size_ms: i64) -> anabranch_model::Result<()> {
    if size_ms % step_ms != 0 {
        return Err(Error::user(format!(
            "the size of {function} ({size_ms} ms) is not a multiple of its {word} ({step_ms} ms)"
        ))
        .remedy(format!("the {word} comes before the size: {function}(TABLE t, DESCRIPTOR(ts), {word}, size)")));
    }
    Ok(())
}

fn check_windows(function: &WindowFunction, word: &str, step_ms: i64, size_ms: i64) -> anabranch_model::Result<()> {
    let windows = size_ms / step_ms;
    if windows > WINDOWS_PER_ROW_MAX {
        return Err(Error::user(format!("with this {word} and size of {function} a row is in {windows} windows"))
            .remedy(format!("at most {WINDOWS_PER_ROW_MAX} are possible: lengthen the {word}")));
    }
    Ok(())
}

/// Matches arguments with parameters, by position or by name.
fn bind(function: &WindowFunction, args: &[FunctionArg]) -> anabranch_model::Result<Vec<(&'static str, ast::Expr)>> {
    let parameters = function.parameters();
    let mut bound: Vec<(&'static str, ast::Expr)> = Vec::new();
    for (position, arg) in args.iter().enumerate() {
        let (parameter, value) = match arg {
            FunctionArg::Unnamed(value) => (parameters.get(position).copied(), value),
            FunctionArg::Named { name, arg, .. } => {
                let found = parameters.iter().find(|p| name.value.eq_ignore_ascii_case(p)).copied();
                (found, arg)
            }
            FunctionArg::ExprNamed { .. } => (None, &FunctionArgExpr::Wildcard),
        };
        let (Some(parameter), FunctionArgExpr::Expr(value)) = (parameter, value) else {
            return Err(Error::user(format!("{function} does not take the argument {arg}")).remedy(function.usage()));
        };
        if bound.iter().any(|(p, _)| *p == parameter) {
            return Err(Error::user(format!("{function} has the argument {parameter} twice")).remedy(function.usage()));
        }
        bound.push((parameter, value.clone()));
    }
    Ok(bound)
}

fn table_factor(data: ast::Expr, function: &WindowFunction) -> anabranch_model::Result<TableFactor> {
    let named = |idents: Vec<Ident>| TableFactor::Table {
        name: ObjectName(idents.into_iter().map(ObjectNamePart::Identifier).collect()),
        alias: None::<TableAlias>,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    };
    match data {
        ast::Expr::Identifier(ident) => Ok(named(vec![ident])),
        ast::Expr::CompoundIdentifier(idents) => Ok(named(idents)),
        ast::Expr::Subquery(subquery) => {
            Ok(TableFactor::Derived { lateral: false, subquery, alias: None, sample: None })
        }
        other => Err(Error::user(format!("{other} is not a table")).remedy(function.usage())),
    }
}

/// The column that `DESCRIPTOR(ts)` names.
fn descriptor(descriptor: &ast::Expr, function: &WindowFunction) -> anabranch_model::Result<ast::Expr> {
    if let ast::Expr::Function(call) = descriptor
        && let FunctionArguments::List(list) = &call.args
        && call.name.to_string().eq_ignore_ascii_case("DESCRIPTOR")
        && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(column))] = list.args.as_slice()
        && matches!(column, ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_))
    {
        return Ok(column.clone());
    }
    Err(no_column(function, descriptor))
}

fn no_column(function: &WindowFunction, what: &ast::Expr) -> Error {
    Error::user(format!("{function} needs DESCRIPTOR(column), not {what}")).remedy(function.usage())
}

/// The time column, which must be an event time or a processing time. Returns whether it is a processing
/// time.
fn event_time(
    column: &ast::Expr,
    function: &WindowFunction,
    input: &Rel,
    items: &[crate::bind::Item],
    binder: &Binder<'_>,
    env: &Env<'_>,
) -> Result<(Expr, bool)> {
    let place = at(column.span().start);
    let shown = column.to_string();
    let scope = Scope::new(items.to_vec(), None);
    let time = binder.plain(column.clone(), &Names::new(&scope), env, "DESCRIPTOR")?;
    let Expr::Column(of) = &time else { return Err(through(no_column(function, column))) };
    let field = input.columns().field_from_column(of)?;
    let index = input.columns().place(of).map_err(through)?;
    let kind = time_attribute_of(input, index);
    if kind.is_some_and(TimeAttribute::is_processing_time) {
        return Ok((time, true));
    }
    if !field.metadata().contains_key(EVENT_TIME) || !matches!(field.data_type(), DataType::Timestamp(..)) {
        let error = Error::user(format!(
            "{function} needs an event-time column, but '{shown}' ({}) has no watermark",
            sql_name(field.data_type())
        ));
        return Err(through(error.at(place).remedy(format!(
            "declare it in CREATE TABLE: WATERMARK FOR {shown} AS {shown} - INTERVAL '5' SECOND (the column must be a \
             TIMESTAMP or TIMESTAMP_LTZ); after a first window, use window_time"
        ))));
    }
    if kind.is_none() {
        let error = Error::user(format!("'{shown}' is no longer an event-time column")).at(place);
        return Err(through(error.remedy(
            "a join with a bounded table keeps only the event time of the stream, and an aggregation only \
             window_time, which must be in GROUP BY",
        )));
    }
    Ok((time, false))
}

fn positive(function: &WindowFunction, what: &str, ms: i64) -> anabranch_model::Result<i64> {
    if ms > 0 { Ok(ms) } else { Err(Error::user(format!("the {what} of {function} must be positive"))) }
}

/// Length of `INTERVAL '10' SECOND` in milliseconds.
fn interval_ms(interval: ast::Expr, binder: &Binder<'_>, env: &Env<'_>) -> Result<i64> {
    let place = at(interval.span().start);
    let shown = interval.to_string();
    let expr = binder.constant(interval, env)?;
    literal_interval_ms(&expr).ok_or_else(|| {
        through(
            Error::user(format!("{shown} is not an interval of a fixed number of milliseconds"))
                .at(place)
                .remedy("write it like INTERVAL '10' SECOND, in days or smaller units"),
        )
    })
}

/// Milliseconds of a literal interval without months and without a fraction of a millisecond.
pub(crate) fn literal_interval_ms(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(i)), _) if i.months == 0 => {
            (i.nanoseconds % 1_000_000 == 0).then_some(i64::from(i.days) * 86_400_000 + i.nanoseconds / 1_000_000)
        }
        Expr::Literal(ScalarValue::IntervalDayTime(Some(i)), _) => {
            Some(i64::from(i.days) * 86_400_000 + i64::from(i.milliseconds))
        }
        Expr::Negative(inner) => literal_interval_ms(inner).map(|ms| -ms),
        _ => None,
    }
}
