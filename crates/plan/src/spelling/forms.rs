//! Converts calls with special syntax, such as `TRIM(LEADING 'x' FROM s)`, to calls of plain functions.

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{
    AccessExpr, CastKind, CeilFloorKind, CharacterLength, DataType, DateTimeField, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName, ObjectNamePart, Spanned,
    TrimWhereField, Value,
};

use super::text;
use crate::dialect::plain_map;
use crate::place::at;

/// The plain call for `expr`, if `expr` is such a form.
pub(super) fn plain_call(expr: &Expr) -> Result<Option<Expr>> {
    let (name, args) = match expr {
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let Some(from) = substring_from else { return Ok(None) };
            (
                "substr",
                [Some(expr.as_ref()), Some(from.as_ref()), substring_for.as_deref()].into_iter().flatten().collect(),
            )
        }
        Expr::Position { expr, r#in } => ("locate", vec![expr.as_ref(), r#in.as_ref()]),
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let mut args = vec![expr.as_ref(), overlay_what.as_ref(), overlay_from.as_ref()];
            args.extend(overlay_for.as_deref());
            ("overlay", args)
        }
        Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
            let name = match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                Some(TrimWhereField::Both) | None => "btrim",
            };
            let listed = trim_characters.iter().flatten();
            (name, std::iter::once(expr.as_ref()).chain(trim_what.as_deref()).chain(listed).collect())
        }
        Expr::Extract { field, expr: time, .. } => (extract(field, expr)?, vec![time.as_ref()]),
        Expr::Prefixed { .. } => return Ok(plain_map(expr)),
        Expr::Cast { kind, expr, data_type, .. } => return Ok(fixed_length(kind, expr, data_type)),
        Expr::Floor { expr, field } => return Ok(Some(rounded("floor", expr, field))),
        Expr::Ceil { expr, field } => return Ok(Some(rounded("ceil", expr, field))),
        _ => return Ok(None),
    };
    Ok(Some(call(name, args.into_iter().cloned().collect())))
}

fn extract(field: &DateTimeField, expr: &Expr) -> Result<&'static str> {
    Ok(match field.to_string().as_str() {
        "YEAR" => "year",
        "QUARTER" => "quarter",
        "MONTH" => "month",
        "WEEK" => "week",
        "DAY" => "dayofmonth",
        "DOY" => "dayofyear",
        "DOW" => "dayofweek",
        "HOUR" => "hour",
        "MINUTE" => "minute",
        "SECOND" => "second",
        "ISODOW" => "extract_isodow",
        "ISOYEAR" => "extract_isoyear",
        "MILLISECOND" => "extract_millisecond",
        "MICROSECOND" => "extract_microsecond",
        "NANOSECOND" => "extract_nanosecond",
        "EPOCH" => "extract_epoch",
        "DECADE" => "extract_decade",
        "CENTURY" => "extract_century",
        "MILLENNIUM" => "extract_millennium",
        other => {
            return Err(Error::user(format!("EXTRACT({other} FROM ...) is not supported"))
                .at(at(expr.span().start))
                .remedy("use one of: YEAR, QUARTER, MONTH, WEEK, DAY, DOY, DOW, HOUR, MINUTE, SECOND, EPOCH"));
        }
    })
}

/// A cast to `VARCHAR(n)` truncates the text. A cast to `CHAR(n)` also pads it with blanks.
fn fixed_length(kind: &CastKind, expr: &Expr, data_type: &DataType) -> Option<Expr> {
    use DataType::{Char, CharVarying, Character, CharacterVarying, Varchar};
    let (name, length) = match data_type {
        Varchar(length) | CharacterVarying(length) | CharVarying(length) => ("left", (*length)?),
        Char(length) | Character(length) => {
            ("as_char", length.unwrap_or(CharacterLength::IntegerLength { length: 1, unit: None }))
        }
        _ => return None,
    };
    let CharacterLength::IntegerLength { length, .. } = length else { return None };
    let value = Expr::Cast {
        kind: kind.clone(),
        expr: Box::new(expr.clone()),
        data_type: DataType::String(None),
        array: false,
        format: None,
    };
    Some(call(name, vec![value, Expr::value(Value::Number(length.to_string(), false))]))
}

/// `FLOOR` or `CEIL` of a number, or of a time to a unit.
fn rounded(name: &str, expr: &Expr, field: &CeilFloorKind) -> Expr {
    match field {
        CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) => call(name, vec![expr.clone()]),
        CeilFloorKind::DateTimeField(unit) => {
            call(&format!("{name}_to"), vec![expr.clone(), text(&unit.to_string().to_uppercase())])
        }
        CeilFloorKind::Scale(scale) => call(name, vec![expr.clone(), Expr::Value(scale.clone())]),
    }
}

/// `DATE_TRUNC('month', time)` becomes `FLOOR(time TO MONTH)`, for the units that both support.
pub(super) fn truncated(unit: &Expr, time: &Expr) -> Option<Expr> {
    let Expr::Value(unit) = unit else { return None };
    let Value::SingleQuotedString(unit) = &unit.value else { return None };
    let unit = unit.to_uppercase();
    let alike = ["SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "QUARTER", "YEAR"].contains(&unit.as_str());
    alike.then(|| call("floor_to", vec![time.clone(), text(&unit)]))
}

/// Wraps a call to give it Flink's result.
pub(super) fn around(name: &str, function: &Function, args: &[Expr]) -> Option<Expr> {
    let call = Expr::Function(function.clone());
    match (name, args) {
        // In Flink, the default also replaces a NULL of the earlier row.
        ("LAG", [_, _, otherwise]) if function.over.is_some() => {
            Some(self::call("coalesce", vec![call, otherwise.clone()]))
        }
        ("LAG", _) => None,
        _ => {
            let (kind, data_type) = (CastKind::Cast, DataType::BigInt(None));
            Some(Expr::Cast { kind, expr: Box::new(call), data_type, array: false, format: None })
        }
    }
}

/// The fields in `rows[1].field` and `(row).field` are names and not columns. The part before the first
/// bracket is a column.
pub(super) fn name_parts(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    let is_name = matches!(root.as_ref(), Expr::Identifier(_));
    for access in access_chain.iter_mut().skip_while(|access| is_name && matches!(access, AccessExpr::Dot(_))) {
        if let AccessExpr::Dot(Expr::Identifier(field)) = access {
            *access = AccessExpr::Dot(text(&field.value));
        }
    }
}

pub(super) fn call(name: &str, args: Vec<Expr>) -> Expr {
    plain_function(Ident::new(name), args)
}

/// A call without clauses.
pub(crate) fn plain_function(name: Ident, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))).collect();
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
