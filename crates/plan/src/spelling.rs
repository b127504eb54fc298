//! Rewrites Flink's special forms of calls and casts into calls of plain functions.

mod aggregates;
mod forms;
mod interval;
mod like;
mod numbers;
mod overlaps;
mod similar;
mod varying;

use std::convert::Infallible;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion_sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, ObjectNamePart, Spanned, Value, VisitMut,
};

pub(crate) use self::forms::plain_function;
pub(crate) use self::similar::similar_regex;
use crate::place::at;
use crate::walk::change_expressions;
use crate::window_table::{WindowFunction, group_functions};

/// Functions that are not supported.
const UNKNOWN: [&str; 2] = ["TODAY", "CURRENT_DATABASE"];

/// Rewrites every call and every number with an exponent in `tree`.
pub(crate) fn rewrite(tree: &mut impl VisitMut) -> Result<()> {
    change_expressions(tree, &mut rewrite_call)?;
    approximate_exponents(tree);
    Ok(())
}

/// Numbers with an exponent are DOUBLE; those with only a point are DECIMAL.
fn approximate_exponents(tree: &mut impl VisitMut) {
    let _: std::result::Result<(), Infallible> = change_expressions(tree, &mut |expr| {
        if let Expr::Value(value) = expr
            && let Value::Number(number, _) = &value.value
            && number.contains(['e', 'E'])
        {
            let text = Expr::value(Value::SingleQuotedString(number.clone()));
            let data_type = DataType::Double(ExactNumberInfo::None);
            *expr = Expr::Cast { kind: CastKind::Cast, expr: Box::new(text), data_type, array: false, format: None };
        }
        Ok(())
    });
}

/// Whether calls of this function are refused. The name is in capitals.
pub(crate) fn is_refused(name: &str) -> bool {
    UNKNOWN.contains(&name)
}

/// Gives a time of day the precision of its text: `TIME '12:34:56.789'` is a `TIME(3)`.
fn keep_fraction(expr: &mut Expr) {
    let Expr::TypedString(literal) = expr else { return };
    let Value::SingleQuotedString(text) = &literal.value.value else { return };
    let digits = text.trim_end().rsplit_once('.').map_or(0, |(_, digits)| digits.len() as u64);
    if let DataType::Time(precision @ None, _) = &mut literal.data_type {
        *precision = Some(digits.min(9));
    }
}

fn rewrite_call(expr: &mut Expr) -> Result<()> {
    if let Some(call) = forms::plain_call(expr)?.or_else(|| overlaps::comparisons(expr)) {
        *expr = call;
        return Ok(());
    }
    if let Expr::Value(value) = expr
        && let Value::UnicodeStringLiteral(text) = &value.value
    {
        value.value = Value::SingleQuotedString(text.clone());
    }
    like::escape(expr)?;
    similar::check(expr)?;
    interval::normalize(expr)?;
    if let Some(later) = interval::multiplied(expr) {
        *expr = later;
        return Ok(());
    }
    forms::name_parts(expr);
    numbers::narrow_elements(expr);
    keep_fraction(expr);
    let Expr::Function(function) = expr else { return Ok(()) };
    let name = function.name.to_string().to_uppercase();
    let place = at(function.span().start);
    if UNKNOWN.contains(&name.as_str()) {
        return Err(Error::user(format!("{name} is not supported")).at(place).remedy(match name.as_str() {
            "TODAY" => "use CURRENT_DATE",
            _ => "write the name as a text: 'name'",
        }));
    }
    check_over(&name, function).map_err(|e| e.at(place.clone()))?;
    count_rows(function);
    if is_group_window(&name, plain_args(function).as_deref()) {
        return Err(Error::user(format!("{name} needs the same window in GROUP BY")).at(place).remedy(format!(
            "group by {} of a column, with the same arguments here; or use the table function: FROM \
             TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end",
            group_functions()
        )));
    }
    check_pattern(&name, function).map_err(|e| e.at(place.clone()))?;
    let replaced = match (name.as_str(), plain_args(function).as_deref()) {
        ("TO_TIMESTAMP_LTZ", Some([value, Expr::Value(precision)])) if matches!(precision.value, Value::Number(..)) => {
            Some(epoch_timestamp(function, value, &precision.value.to_string(), &place)?)
        }
        ("IF", Some([condition, then, otherwise])) => Some(case(condition, then, otherwise)),
        ("IFNULL", Some([value, otherwise])) => {
            Some(call(function, "coalesce", vec![value.clone(), otherwise.clone()]))
        }
        ("DATE_TRUNC", Some([unit, time])) => forms::truncated(unit, time),
        ("LAG" | "GROUPING" | "GROUPING_ID", Some(args)) => forms::around(&name, function, args),
        ("MOD", Some([left, right])) => Some(modulo(left, right)),
        ("TIMESTAMPADD", Some([unit, count, time])) => {
            let (name, args) = timestamp_add(&unit.to_string(), count, time);
            Some(call(function, name, args))
        }
        ("TIMESTAMPDIFF", Some([unit, start, end])) => Some(call(
            function,
            "timestamp_diff",
            vec![text(&unit.to_string().to_uppercase()), start.clone(), end.clone()],
        )),
        ("LISTAGG" | "PERCENTILE" | "APPROX_COUNT_DISTINCT" | "COUNT", Some(args)) => {
            aggregates::replacement(&name, args, function).map_err(|e| e.at(place))?
        }
        (name, args) => varying::replacement(name, args.unwrap_or_default()).map_err(|e| e.at(place))?,
    };
    if let Some(replaced) = replaced {
        *expr = replaced;
    }
    Ok(())
}

/// Checks the constant path of a JSON function, or the constant pattern of a regular expression function.
fn check_pattern(name: &str, function: &Function) -> Result<()> {
    let check = match name {
        "JSON_VALUE" | "JSON_EXISTS" | "JSON_QUERY" => anabranch_functions::check_json_path,
        "STR_TO_MAP" => {
            let args = plain_args(function).unwrap_or_default();
            let mut patterns = args.iter().skip(1).filter_map(like::constant);
            return patterns.try_for_each(|pattern| anabranch_functions::check_regex(pattern).map_err(Error::user));
        }
        "REGEXP" | "REGEXP_EXTRACT" | "REGEXP_EXTRACT_ALL" | "REGEXP_INSTR" | "REGEXP_SUBSTR" | "REGEXP_REPLACE"
        | "REGEXP_COUNT" => anabranch_functions::check_regex,
        _ => return Ok(()),
    };
    let args = plain_args(function).unwrap_or_default();
    args.get(1).and_then(like::constant).map_or(Ok(()), |pattern| check(pattern).map_err(Error::user))
}

/// Window functions that are not supported.
const OVER_OTHER_ROWS: [&str; 7] = ["RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "LEAD", "NTH_VALUE"];

fn check_over(name: &str, function: &Function) -> Result<()> {
    if !OVER_OTHER_ROWS.contains(&name) || function.over.is_none() {
        return Ok(());
    }
    let error = Error::user(format!("{name}(...) OVER is not supported"));
    Err(error.remedy(match name {
        "LEAD" => "the following row has not arrived yet; use LAG, which gives the following row the values of this row",
        _ => {
            "number the rows: ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) with a bound of the number, or aggregate the rows before: \
             SUM(x) OVER (PARTITION BY a ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
        }
    }))
}

/// `COUNT(*) OVER (...)` becomes `COUNT(1) OVER (...)`: DataFusion supports `*` only without OVER.
fn count_rows(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    if function.over.is_some()
        && let [FunctionArg::Unnamed(all @ FunctionArgExpr::Wildcard)] = list.args.as_mut_slice()
    {
        *all = FunctionArgExpr::Expr(Expr::value(Value::Number("1".into(), false)));
    }
}

/// Whether a call is a group window, `TUMBLE(ts, INTERVAL ..)`, or one of its auxiliary functions.
fn is_group_window(name: &str, args: Option<&[Expr]>) -> bool {
    if WindowFunction::of_auxiliary(name).is_some() {
        return true;
    }
    let Some(function) = WindowFunction::named(name).filter(|function| function.in_group_by) else { return false };
    let args = args.filter(|args| args.len() == 1 + function.lengths().count());
    args.is_some_and(|args| !matches!(args[1], Expr::Function(_)))
}

fn plain_args(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    list.args
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect()
}

/// The call with another name and other arguments. It keeps FILTER, DISTINCT and its place.
fn call(function: &Function, name: &str, args: Vec<Expr>) -> Expr {
    let mut function = function.clone();
    let span = function.span();
    function.name = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_span(span, name))]);
    if let FunctionArguments::List(list) = &mut function.args {
        list.args = args.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
    }
    Expr::Function(function)
}

/// The time `count` units later. Units shorter than a day turn a date into a timestamp.
fn timestamp_add(unit: &str, count: &Expr, time: &Expr) -> (&'static str, Vec<Expr>) {
    let unit = unit.to_uppercase();
    let short = ["SECOND", "MINUTE", "HOUR"].contains(&unit.as_str());
    let name = if short { "timestamp_add_time" } else { "timestamp_add" };
    (name, vec![text(&unit), count.clone(), time.clone()])
}

/// An epoch in seconds (precision 0) or milliseconds (precision 3).
fn epoch_timestamp(function: &Function, value: &Expr, precision: &str, place: &str) -> Result<Expr> {
    match precision {
        "3" => Ok(cast(value.clone(), timestamp_ltz("3"))),
        "0" => Ok(call(function, "timestamp_of_seconds", vec![value.clone()])),
        other => Err(Error::user(format!("the precision of TO_TIMESTAMP_LTZ is 0 (seconds) or 3, not {other}"))
            .at(place)
            .remedy("use TO_TIMESTAMP_LTZ(epoch_ms, 3)")),
    }
}

fn timestamp_ltz(precision: &str) -> DataType {
    let name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new("TIMESTAMP_LTZ"))]);
    DataType::Custom(name, vec![precision.to_string()])
}

/// TRY_CAST: NULL if the value does not fit, as in Flink's functions.
fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::TryCast, expr: Box::new(expr), data_type, array: false, format: None }
}

fn text(value: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(value.to_owned()))
}

fn case(condition: &Expr, then: &Expr, otherwise: &Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition: condition.clone(), result: then.clone() }],
        else_result: Some(Box::new(otherwise.clone())),
    }
}

fn modulo(left: &Expr, right: &Expr) -> Expr {
    let nested = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
    Expr::Nested(Box::new(Expr::BinaryOp { left: nested(left), op: BinaryOperator::Modulo, right: nested(right) }))
}
