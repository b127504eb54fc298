//! Rewrites of parsed queries: Flink's function spellings to the functions and casts of the library.

mod split_index;

use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Query, SelectItem, SetExpr, Spanned, Value, VisitMut, visit_expressions_mut,
};

use self::split_index::split_index;
use crate::place::at;

/// Functions whose value would be frozen at the moment of planning.
const CLOCKS: [&str; 11] = [
    "CURRENT_TIMESTAMP",
    "NOW",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "PROCTIME",
    "TODAY",
    "CURRENT_ROW_TIMESTAMP",
    "CURRENT_WATERMARK",
    "CURRENT_DATABASE",
];

/// Rewrites every call in `tree`.
pub(crate) fn rewrite(tree: &mut impl VisitMut) -> Result<()> {
    let flow = visit_expressions_mut(tree, |expr| match rewrite_call(expr) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    });
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Gives each unnamed column of a SELECT the text that the user wrote as its name, and tells repeated ones apart:
/// `SELECT a, a` and `SELECT CAST(t AS DATE), CAST(t AS TIME)` are fine for users, but not for the planner.
pub(crate) fn name_columns(query: &mut Query) {
    let mut body = query.body.as_mut();
    while let SetExpr::SetOperation { left, .. } = body {
        body = left;
    }
    let SetExpr::Select(select) = body else { return };
    let mut seen: Vec<String> = Vec::new();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item {
            let text = expr.to_string();
            let is_name = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
            let repeated = seen.iter().filter(|s| **s == text).count();
            let alias = match repeated {
                0 => text.clone(),
                _ => format!("{text}_{}", repeated + 1),
            };
            if repeated > 0 || !is_name {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(alias) };
            }
            seen.push(text);
        }
    }
}

fn rewrite_call(expr: &mut Expr) -> Result<()> {
    let Expr::Function(function) = expr else { return Ok(()) };
    let name = function.name.to_string().to_uppercase();
    let place = at(function.span().start);
    if CLOCKS.contains(&name.as_str()) {
        return Err(Error::user(format!("{name} is not supported: it would be read once, when the job is planned"))
            .at(place)
            .remedy("use a time column of the records"));
    }
    if function.over.is_some() {
        return Err(Error::user(format!("{name}(...) OVER is not supported yet"))
            .at(place)
            .remedy("aggregate in a window: FROM TABLE(TUMBLE(...)) with GROUP BY window_start, window_end"));
    }
    if is_group_window(&name, plain_args(function).as_deref()) {
        return Err(Error::user(format!("{name} in GROUP BY and SELECT is not supported")).at(place).remedy(
            "use the table function: FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY \
             window_start, window_end",
        ));
    }
    let replaced = match (name.as_str(), plain_args(function).as_deref()) {
        ("TO_TIMESTAMP_LTZ", Some([value])) => Some(cast(value.clone(), timestamp_ltz("3"))),
        ("TO_TIMESTAMP_LTZ", Some([value, precision])) => Some(epoch_timestamp(value, precision, &place)?),
        ("TO_TIMESTAMP", Some([text])) => Some(call(function, "to_timestamp_millis", vec![text.clone()])),
        ("TO_TIMESTAMP", Some([text, pattern])) => {
            let pattern = strftime(pattern, &place)?;
            Some(call(function, "to_timestamp_millis", vec![text.clone(), pattern]))
        }
        ("DATE_FORMAT", Some([time, pattern])) => {
            let pattern = strftime(pattern, &place)?;
            Some(call(function, "to_char", vec![time.clone(), pattern]))
        }
        ("UNIX_TIMESTAMP", Some([text])) => Some(call(function, "to_unixtime", vec![text.clone()])),
        ("SPLIT_INDEX", Some([text, separator, index])) => Some(split_index(function, text, separator, index, &place)?),
        ("LISTAGG", Some([value])) => {
            let comma = Expr::value(Value::SingleQuotedString(",".into()));
            Some(call(function, "string_agg", vec![value.clone(), comma]))
        }
        ("LISTAGG", Some([value, separator])) => {
            Some(call(function, "string_agg", vec![value.clone(), separator.clone()]))
        }
        ("UNIX_TIMESTAMP", Some([])) => {
            return Err(Error::user("UNIX_TIMESTAMP() without an argument is not supported")
                .at(place)
                .remedy("use a time column of the records"));
        }
        ("REGEXP_EXTRACT", _) => {
            return Err(Error::user("REGEXP_EXTRACT is not supported yet")
                .at(place)
                .remedy("use REGEXP_REPLACE(text, '^.*(pattern).*$', '\\1')"));
        }
        _ => None,
    };
    if let Some(replaced) = replaced {
        *expr = replaced;
    }
    Ok(())
}

/// Flink's old group windows: `TUMBLE(ts, INTERVAL ..)` as an expression, and their auxiliary functions.
fn is_group_window(name: &str, args: Option<&[Expr]>) -> bool {
    let Some((window, auxiliary)) = ["TUMBLE", "HOP", "SESSION"]
        .into_iter()
        .find_map(|window| name.strip_prefix(window).map(|auxiliary| (window, auxiliary)))
    else {
        return false;
    };
    match auxiliary {
        "_START" | "_END" | "_ROWTIME" | "_PROCTIME" => true,
        "" => match args {
            Some(args) => args.len() == if window == "HOP" { 3 } else { 2 } && !matches!(args[1], Expr::Function(_)),
            None => false,
        },
        _ => false,
    }
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

/// The same call (its FILTER, DISTINCT and place) with another name and other arguments.
fn call(function: &Function, name: &str, args: Vec<Expr>) -> Expr {
    let mut function = function.clone();
    let span = function.span();
    function.name = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_span(span, name))]);
    if let FunctionArguments::List(list) = &mut function.args {
        list.args = args.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
    }
    Expr::Function(function)
}

/// An epoch in seconds (0) or milliseconds (3).
fn epoch_timestamp(value: &Expr, precision: &Expr, place: &str) -> Result<Expr> {
    match precision.to_string().as_str() {
        "3" => Ok(cast(value.clone(), timestamp_ltz("3"))),
        "0" => Ok(cast(cast(value.clone(), timestamp_ltz("0")), timestamp_ltz("3"))),
        other => Err(Error::user(format!("the precision of TO_TIMESTAMP_LTZ is 0 (seconds) or 3, not {other}"))
            .at(place)
            .remedy("use TO_TIMESTAMP_LTZ(epoch_ms, 3)")),
    }
}

fn timestamp_ltz(precision: &str) -> DataType {
    let name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new("TIMESTAMP_LTZ"))]);
    DataType::Custom(name, vec![precision.to_string()])
}

/// The conversion; NULL for what does not fit, as Flink's functions have it.
fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::TryCast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// Java's date pattern as the library's: `yyyy-MM-dd` to `%Y-%m-%d`.
fn strftime(pattern: &Expr, place: &str) -> Result<Expr> {
    let unusable = |what: String| {
        Error::user(what).at(place.to_string()).remedy("use yyyy, MM, dd, HH, mm, ss, SSS and text in single quotes")
    };
    let java = match pattern {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text,
            _ => return Err(unusable(format!("{pattern} is not a date pattern"))),
        },
        _ => return Err(unusable("a date pattern must be a constant".into())),
    };
    let mut result = String::new();
    let mut rest = java.as_str();
    while let Some(first) = rest.chars().next() {
        if first == '\'' {
            let end = rest[1..].find('\'').map_or(rest.len(), |i| i + 1);
            result.push_str(if end == 1 { "'" } else { &rest[1..end] });
            rest = rest.get(end + 1..).unwrap_or_default();
            continue;
        }
        let run = rest.len() - rest.trim_start_matches(first).len();
        result.push_str(&match (first, run) {
            ('y', 4) => "%Y".into(),
            ('y', 2) => "%y".into(),
            ('M', 2) => "%m".into(),
            ('d', 2) => "%d".into(),
            ('H', 2) => "%H".into(),
            ('h', 2) => "%I".into(),
            ('m', 2) => "%M".into(),
            ('s', 2) => "%S".into(),
            ('S', 3) => "%3f".into(),
            ('S', 6) => "%6f".into(),
            ('S', 9) => "%9f".into(),
            ('a', 1) => "%p".into(),
            (letter, _) if letter.is_ascii_alphabetic() => {
                return Err(unusable(format!("'{}' in a date pattern is not supported", &rest[..run])));
            }
            _ => rest[..run].replace('%', "%%"),
        });
        rest = &rest[run..];
    }
    Ok(Expr::value(Value::SingleQuotedString(result)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_patterns() {
        let convert = |java: &str| {
            let pattern = Expr::value(Value::SingleQuotedString(java.into()));
            strftime(&pattern, "line 1, column 1").map(|e| e.to_string())
        };
        for (java, c) in [
            ("yyyy-MM-dd HH:mm:ss.SSS", "'%Y-%m-%d %H:%M:%S.%3f'"),
            ("yyyy-MM-dd'T'HH:mm", "'%Y-%m-%dT%H:%M'"),
            ("dd.MM.yy 100%", "'%d.%m.%y 100%%'"),
        ] {
            assert_eq!(convert(java).expect(java), c, "{java}");
        }
        let error = convert("yyyy-MMM").expect_err("a month's name").to_string();
        assert!(error.starts_with("line 1, column 1: 'MMM'"), "{error}");
    }
}
