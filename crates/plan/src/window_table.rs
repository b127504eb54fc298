//! Window table functions in FROM: `TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))`, also with named
//! arguments and without the outer `TABLE( )`. Also refuses what may follow a table's name without effect.

use std::sync::Arc;

use anabranch_dataflow::{Window, sql_name};
use anabranch_model::{Error, Result};
use arrow::datatypes::DataType;
use datafusion_common::{ExprSchema, ScalarValue};
use datafusion_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion_expr::{Expr, Extension, LogicalPlan};
use datafusion_sql::sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Spanned, TableAlias,
    TableFactor,
};

use crate::dialect::parts_of_partitioned;
use crate::event_time::{EventTime, event_time_of};
use crate::group_window::GROUP_WINDOW;
use crate::place::{at, planning_error, through};
use crate::qualified::of_session;
use crate::set_operations;
use crate::temporal_join::plan_temporal_join;
use crate::unnest::plan_unnest;
use crate::window_assign::{EVENT_TIME, GROUP_WINDOW_COLUMNS, WINDOW_COLUMNS, WindowAssign};

/// Writing more windows than this for one row would take too long.
const WINDOWS_PER_ROW_MAX: i64 = 100_000;

/// Plans window table functions; see the module.
#[derive(Debug)]
pub(crate) struct WindowTablePlanner;

impl RelationPlanner for WindowTablePlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> datafusion_common::Result<RelationPlanning> {
        check_qualifiers(&relation).map_err(|error| through(error.at(at(relation.span().start))))?;
        let other = match (plan_unnest(&relation, context)?, set_operations::plan(&relation, context)?) {
            (None, None) => plan_temporal_join(&relation, context).map_err(through)?,
            (unnested, counted) => unnested.or(counted),
        };
        if let Some(plan) = other {
            return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))));
        }
        let (name, args, alias) = match &relation {
            TableFactor::TableFunction { expr: ast::Expr::Function(function), alias } => match &function.args {
                FunctionArguments::List(list) => (&function.name, list.args.as_slice(), alias),
                _ => return Ok(RelationPlanning::Original(Box::new(relation))),
            },
            TableFactor::Table { name, alias, args: Some(args), .. } => (name, args.args.as_slice(), alias),
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        let place = at(relation.span().start);
        let plan = plan_call(name, args, context).map_err(|error| {
            let placed = error.to_string().starts_with("line ");
            through(if placed { error } else { error.at(place) })
        })?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias.clone()))))
    }
}

/// Refuses what the planner would silently ignore: samples, and versions of tables at no row's time.
fn check_qualifiers(relation: &TableFactor) -> Result<()> {
    let (TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. }) = relation else { return Ok(()) };
    if sample.is_some() {
        return Err(Error::user("TABLESAMPLE is not supported").remedy("use WHERE RANDOM() < 0.1"));
    }
    let TableFactor::Table { name, version: Some(version), .. } = relation else { return Ok(()) };
    if !matches!(version, ast::TableVersion::ForSystemTimeAsOf(_)) {
        return Err(Error::user(format!("{version} is not supported")).remedy("use FOR SYSTEM_TIME AS OF"));
    }
    Err(Error::user(format!("'{name}' FOR SYSTEM_TIME AS OF follows no table that has the time"))
        .remedy("join it: FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency"))
}

fn plan_call(name: &ObjectName, args: &[FunctionArg], context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let function = name.to_string().to_uppercase();
    let (function, names) = match function.strip_prefix(GROUP_WINDOW) {
        Some(function) => (function.to_owned(), GROUP_WINDOW_COLUMNS),
        None => (function, WINDOW_COLUMNS),
    };
    let parameters: &[&str] = match function.as_str() {
        "TUMBLE" => &["DATA", "TIMECOL", "SIZE", "OFFSET"],
        "HOP" => &["DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"],
        "CUMULATE" => &["DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"],
        "SESSION" => &["DATA", "TIMECOL", "GAP"],
        _ => {
            return Err(Error::user(format!("unknown table function {name}"))
                .remedy("the table functions are TUMBLE, HOP, CUMULATE and SESSION"));
        }
    };
    let mut bound = bind(&function, parameters, args)?;
    let mut take = |parameter: &str| bound.iter().position(|(p, _)| *p == parameter).map(|i| bound.swap_remove(i).1);
    let missing =
        |parameter: &str| Error::user(format!("{function} needs the argument {parameter}")).remedy(usage(&function));
    let data = take("DATA").ok_or_else(|| missing("DATA"))?;
    let column = take("TIMECOL").ok_or_else(|| missing("TIMECOL"))?;
    let gap = take("GAP");
    if gap.is_none() && function == "SESSION" {
        return Err(missing("GAP"));
    }
    let size = take("SIZE").or_else(|| gap.clone()).ok_or_else(|| missing("SIZE"))?;
    let slide = take("SLIDE").map(|slide| ("slide", slide)).or_else(|| Some(("step", take("STEP")?)));
    let offset = take("OFFSET");

    let (data, keys) = parts_of_partitioned(data);
    if gap.is_none() && !keys.is_empty() {
        return Err(Error::user(format!("{function} does not take PARTITION BY"))
            .remedy("omit it: rows are divided by the columns of GROUP BY"));
    }
    let input = context.plan(table_factor(data, &function)?).map_err(planning_error)?;
    let size_ms = positive(&function, if gap.is_some() { "gap" } else { "size" }, interval_ms(size, context)?)?;
    let offset_ms = offset.map_or(Ok(0), |offset| interval_ms(offset, context))?;
    let window = match slide {
        None if gap.is_some() => Window::Session { gap_ms: size_ms },
        None => Window::Tumble { size_ms, offset_ms },
        Some((word, slide)) => {
            let slide_ms = positive(&function, word, interval_ms(slide, context)?)?;
            // Windows of GROUP BY may have any size.
            if names == WINDOW_COLUMNS {
                check_divides(&function, word, slide_ms, size_ms)?;
            }
            check_windows(&function, word, slide_ms, size_ms)?;
            match word {
                "slide" => Window::Hop { size_ms, slide_ms, offset_ms },
                _ => Window::Cumulate { step_ms: slide_ms, max_ms: size_ms, offset_ms },
            }
        }
    };
    let (time, by_clock) = event_time(&column, &function, &input, context)?;
    let partition = keys.into_iter().map(|key| context.sql_to_expr(key, input.schema()).map_err(planning_error));
    let partition = partition.collect::<Result<Vec<_>>>()?;
    let node = WindowAssign::new((window, names), time, partition, by_clock, input).map_err(planning_error)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

fn check_divides(function: &str, word: &str, slide_ms: i64, size_ms: i64) -> Result<()> {
    if size_ms % slide_ms != 0 {
        return Err(Error::user(format!(
            "the size of {function} ({size_ms} ms) is not a multiple of its {word} ({slide_ms} ms)"
        ))
        .remedy(format!("the {word} comes before the size: {function}(TABLE t, DESCRIPTOR(ts), {word}, size)")));
    }
    Ok(())
}

fn check_windows(function: &str, word: &str, slide_ms: i64, size_ms: i64) -> Result<()> {
    let windows = size_ms / slide_ms;
    if windows > WINDOWS_PER_ROW_MAX {
        return Err(Error::user(format!("with this {word} and size of {function} a row is in {windows} windows"))
            .remedy(format!("at most {WINDOWS_PER_ROW_MAX} are possible: lengthen the {word}")));
    }
    Ok(())
}

fn usage(function: &str) -> String {
    match function {
        "SESSION" => "write SESSION(TABLE t PARTITION BY (a, b), DESCRIPTOR(ts), INTERVAL '10' SECOND)".into(),
        "CUMULATE" => "write CUMULATE(TABLE t, DESCRIPTOR(ts), step, size), the lengths as INTERVAL '10' SECOND".into(),
        "HOP" => "write HOP(TABLE t, DESCRIPTOR(ts), slide, size), the lengths as INTERVAL '10' SECOND".into(),
        _ => "write TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)".into(),
    }
}

/// Matches arguments with parameters, by position or by name.
fn bind<'a>(function: &str, parameters: &[&'a str], args: &[FunctionArg]) -> Result<Vec<(&'a str, ast::Expr)>> {
    let mut bound: Vec<(&str, ast::Expr)> = Vec::new();
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
            return Err(Error::user(format!("{function} does not take the argument {arg}")).remedy(usage(function)));
        };
        if bound.iter().any(|(p, _)| *p == parameter) {
            return Err(Error::user(format!("{function} has the argument {parameter} twice")).remedy(usage(function)));
        }
        bound.push((parameter, value.clone()));
    }
    Ok(bound)
}

fn table_factor(data: ast::Expr, function: &str) -> Result<TableFactor> {
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
        ast::Expr::CompoundIdentifier(idents) => Ok(named(of_session(idents))),
        ast::Expr::Subquery(subquery) => {
            Ok(TableFactor::Derived { lateral: false, subquery, alias: None, sample: None })
        }
        other => Err(Error::user(format!("{other} is not a table")).remedy(usage(function))),
    }
}

/// The column that `DESCRIPTOR(ts)` names, which must be an event-time attribute or a processing time. Returns whether it is the latter.
fn event_time(
    descriptor: &ast::Expr,
    function: &str,
    input: &LogicalPlan,
    context: &mut dyn RelationPlannerContext,
) -> Result<(Expr, bool)> {
    let not_a_column =
        |what: &str| Error::user(format!("{function} needs DESCRIPTOR(column), not {what}")).remedy(usage(function));
    let ast::Expr::Function(call) = descriptor else { return Err(not_a_column(&descriptor.to_string())) };
    let column = match &call.args {
        FunctionArguments::List(list) if call.name.to_string().eq_ignore_ascii_case("DESCRIPTOR") => {
            match list.args.as_slice() {
                [
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(
                        column @ (ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_)),
                    )),
                ] => column.clone(),
                _ => return Err(not_a_column(&descriptor.to_string())),
            }
        }
        _ => return Err(not_a_column(&descriptor.to_string())),
    };
    let place = at(column.span().start);
    let shown = column.to_string();
    let time = context.sql_to_expr(column, input.schema()).map_err(planning_error)?;
    let Expr::Column(column) = &time else { return Err(not_a_column(&shown)) };
    let field = input.schema().field_from_column(column).map_err(|e| planning_error(e).at(place.clone()))?;
    #[expect(clippy::disallowed_methods, reason = "one column")]
    let index = input.schema().index_of_column(column).map_err(planning_error)?;
    let kind = event_time_of(input, index);
    if kind.is_some_and(EventTime::by_clock) {
        return Ok((time, true));
    }
    if !field.metadata().contains_key(EVENT_TIME) || !matches!(field.data_type(), DataType::Timestamp(..)) {
        return Err(Error::user(format!(
            "{function} needs an event-time column, but '{shown}' ({}) has no watermark",
            sql_name(field.data_type())
        ))
        .at(place)
        .remedy(format!(
            "declare it in CREATE TABLE: WATERMARK FOR {shown} AS {shown} - INTERVAL '5' SECOND (the column must be a \
             TIMESTAMP or TIMESTAMP_LTZ); after a first window, use window_time"
        )));
    }
    if kind.is_none() {
        return Err(Error::user(format!("'{shown}' is no event-time column any more")).at(place).remedy(
            "after a join only the event time of the stream's side is one, and after an aggregation only \
                 window_time, which must be in GROUP BY",
        ));
    }
    Ok((time, false))
}

fn positive(function: &str, what: &str, ms: i64) -> Result<i64> {
    if ms > 0 { Ok(ms) } else { Err(Error::user(format!("the {what} of {function} must be positive"))) }
}

/// Length of `INTERVAL '10' SECOND` in milliseconds.
fn interval_ms(interval: ast::Expr, context: &mut dyn RelationPlannerContext) -> Result<i64> {
    let place = at(interval.span().start);
    let shown = interval.to_string();
    let schema = datafusion_common::DFSchema::empty();
    let expr = context.sql_to_expr(interval, &schema).map_err(planning_error)?;
    literal_interval_ms(&expr).ok_or_else(|| {
        Error::user(format!("{shown} is not an interval of a fixed number of milliseconds"))
            .at(place)
            .remedy("write it like INTERVAL '10' SECOND, in days or smaller units")
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
