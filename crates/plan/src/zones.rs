//! The time zone of a session. In another zone than UTC, expressions that depend on the zone become calls
//! that name it: the local time of an instant, and the instant of a local time. So the plan is complete, and
//! tasks need no session. The zone is that of the statement that runs the query, also for its views and
//! computed columns.

use std::sync::Arc;

use anabranch_dataflow::{Expr as Physical, sql_name};
use anabranch_functions::{INSTANT, LOCAL_TIME, Zone, ZoneUse, scalar_functions, zone_use};
use anabranch_model::{Error, Result};
use arrow::datatypes::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result as Planned, ScalarValue, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{Expr, ExprSchemable, cast, try_cast};

use crate::rel::{Columns, Rel};
use crate::rewrite::InputColumns;
use crate::walk::Walk;

/// Parses a time zone. `None`: UTC.
pub(crate) fn parse_zone(text: &str) -> Result<Option<String>> {
    let name = text.trim();
    let is_utc = matches!(
        name.to_uppercase().as_str(),
        "UTC"
            | "GMT"
            | "Z"
            | "ETC/UTC"
            | "ETC/GMT"
            | "UCT"
            | "ETC/UCT"
            | "+00:00"
            | "UTC+00:00"
            | "GMT+00:00"
            | "UTC+0"
            | "GMT+0"
            | "GMT0"
            | "DEFAULT"
    );
    if is_utc {
        return Ok(None);
    }
    let wrong = || {
        Error::user(format!("there is no time zone '{text}'")).remedy(
            "use a name of the time zone database such as 'Europe/Berlin', an offset such as 'GMT+03:00', or 'UTC'",
        )
    };
    let name = match name.strip_prefix("GMT") {
        Some(offset) => offset_name(offset).ok_or_else(wrong)?,
        // Flink refuses these.
        None if name.starts_with(['+', '-']) || ["EST", "HST", "MST", "ROC"].contains(&name) => return Err(wrong()),
        None => name.to_owned(),
    };
    Zone::parse(&name).map(|_| Some(name)).ok_or_else(wrong)
}

/// Normalizes `+3`, `+03`, `+0300`, `+3:00` and `+03:00` to `GMT+03:00`.
fn offset_name(offset: &str) -> Option<String> {
    let sign = offset.chars().next().filter(|c| matches!(c, '+' | '-'))?;
    let digits = &offset[1..];
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None if digits.len() == 4 => digits.split_at_checked(2)?,
        None => (digits, "00"),
    };
    let number = |text: &str, most: u32| {
        let is_number = !text.is_empty() && text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u32>().ok().filter(|number| is_number && *number <= most)
    };
    let (hours, minutes) = (number(hours, 18)?, number(minutes, 59).filter(|_| minutes.len() == 2)?);
    (hours < 18 || minutes == 0).then(|| format!("GMT{sign}{hours:02}:{minutes:02}"))
}

/// Sets the time zone of windows over instants.
pub(crate) fn zone_windows(plan: Rel, zone: Option<&str>) -> Planned<Rel> {
    let Some(zone) = zone else { return Ok(plan) };
    let mut zoned = |node: Rel| {
        let node = match node {
            Rel::Assign(assign) => Rel::Assign(assign.in_zone(zone)?),
            node => node.with_types()?,
        };
        Ok(Transformed::yes(node))
    };
    Ok(plan.walk_up(&mut zoned)?.data)
}

/// Adds the zone to conversions between instants and other types, and to calls of functions that depend on
/// it. Runs when types are known and each conversion is a cast.
pub(crate) fn zone_times(expr: Expr, scope: &InputColumns, zone: Option<&str>) -> Planned<Transformed<Expr>> {
    let Some(zone) = zone else { return Ok(Transformed::no(expr)) };
    expr.walk_up(&mut |expr| zoned(expr, scope.columns(), zone))
}

fn zoned(expr: Expr, schema: &Columns, zone: &str) -> Planned<Transformed<Expr>> {
    Ok(match expr {
        Expr::Cast(ref conversion) => {
            let to = conversion.field.data_type();
            match converted(&conversion.expr, to, schema, zone, &|expr, to| cast(expr, to.clone()))? {
                Some(converted) => Transformed::yes(converted),
                None => Transformed::no(expr),
            }
        }
        Expr::TryCast(ref conversion) => {
            let to = conversion.field.data_type();
            match converted(&conversion.expr, to, schema, zone, &|expr, to| try_cast(expr, to.clone()))? {
                Some(converted) => Transformed::yes(converted),
                None => Transformed::no(expr),
            }
        }
        Expr::ScalarFunction(call) => zoned_call(call, schema, zone)?,
        other => Transformed::no(other),
    })
}

fn zoned_call(mut call: ScalarFunction, schema: &Columns, zone: &str) -> Planned<Transformed<Expr>> {
    let zone_use = zone_use(call.func.name());
    if let ZoneUse::First(zoned) = zone_use {
        return function(zoned, std::iter::once(text(zone)).chain(call.args).collect()).map(Transformed::yes);
    }
    let mut instants = Vec::new();
    for arg in &call.args {
        instants.push(is_instant(&arg.get_type(schema)?));
    }
    if zone_use == ZoneUse::None || !instants.contains(&true) {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    if let ZoneUse::Last(zoned) = zone_use {
        call.args.push(text(zone));
        return function(zoned, call.args).map(Transformed::yes);
    }
    for (arg, _) in call.args.iter_mut().zip(&instants).filter(|(_, is_instant)| **is_instant) {
        *arg = local_time(std::mem::take(arg), zone)?;
    }
    Ok(Transformed::yes(Expr::ScalarFunction(call)))
}

/// The conversion to another type, if it depends on the zone. `None`: it does not.
fn converted(
    value: &Expr,
    to: &DataType,
    schema: &Columns,
    zone: &str,
    cast: &dyn Fn(Expr, &DataType) -> Expr,
) -> Planned<Option<Expr>> {
    let from = value.get_type(schema)?;
    let is_epoch = |of: &DataType| of.is_numeric() || of.is_null();
    if from.is_nested() || to.is_nested() {
        if has_instant(&from) != has_instant(to) {
            return plan_err!(
                "a conversion of {} to {} in the time zone {zone} is not supported; convert the elements",
                sql_name(&from),
                sql_name(to)
            );
        }
        return Ok(None);
    }
    Ok(match (is_instant(&from), is_instant(to)) {
        (true, false) if !is_epoch(to) => Some(cast(local_time(value.clone(), zone)?, to)),
        (false, true) if !is_epoch(&from) => {
            let DataType::Timestamp(unit, _) = to else { return Ok(None) };
            Some(instant_of(cast(value.clone(), &DataType::Timestamp(*unit, None)), zone)?)
        }
        _ => None,
    })
}

pub(crate) fn is_instant(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, Some(_)))
}

fn has_instant(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::Map(item, _) => has_instant(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_instant(field.data_type())),
        other => is_instant(other),
    }
}

fn text(value: &str) -> Expr {
    Expr::Literal(ScalarValue::Utf8View(Some(value.to_owned())), None)
}

fn function(name: &str, args: Vec<Expr>) -> Planned<Expr> {
    match scalar_functions().get(name) {
        Some(function) => Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args))),
        None => plan_err!("there is no function {name}"),
    }
}

fn local_time(instant: Expr, zone: &str) -> Planned<Expr> {
    function(LOCAL_TIME, vec![instant, text(zone)])
}

fn instant_of(local: Expr, zone: &str) -> Planned<Expr> {
    function(INSTANT, vec![local, text(zone)])
}

/// The local time of an instant in the plan's own expressions.
pub(crate) fn physical_local_time(instant: Physical, data_type: &DataType, zone: &str) -> Physical {
    physical_call(LOCAL_TIME, instant, without_zone(data_type), zone)
}

/// The instant of a local time in the plan's own expressions.
pub(crate) fn physical_instant(local: Physical, data_type: &DataType, zone: &str) -> Physical {
    physical_call(INSTANT, local, data_type.clone(), zone)
}

/// The type of local times with the same precision.
pub(crate) fn without_zone(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, None),
        other => other.clone(),
    }
}

fn physical_call(function: &str, time: Physical, returns: DataType, zone: &str) -> Physical {
    let args = vec![time, Physical::text(zone)];
    Physical::Call { function: function.to_owned(), args, returns, fails: false, varies: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_names_and_offsets() {
        for (text, name) in [
            ("Europe/Berlin", "Europe/Berlin"),
            ("GMT+3", "GMT+03:00"),
            ("GMT-03:00", "GMT-03:00"),
            ("GMT+0545", "GMT+05:45"),
            ("Etc/GMT+3", "Etc/GMT+3"),
        ] {
            assert_eq!(parse_zone(text).expect("a zone").as_deref(), Some(name));
        }
        for text in ["UTC", "GMT", "default", "Z", "GMT+0", "Etc/UTC"] {
            assert_eq!(parse_zone(text).expect("a zone"), None, "{text}");
        }
        for text in [
            "",
            "+08:00",
            "europe/berlin",
            "GMT+19",
            "GMT+3:5",
            "GMT+",
            "Mars/Olympus",
            "GMT+18:30",
            "EST",
            "UTC+03:00",
        ] {
            let error = parse_zone(text).expect_err(text).to_string();
            assert!(error.contains("there is no time zone"), "{error}");
        }
    }
}
