//! Values and expressions in three-valued logic, independent of DataFusion's kernels.

use std::cmp::Ordering;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{BinaryExpr, Expr, Operator};

use super::relations::{Env, Tables};
use crate::exact::{Meaning, meaning};
use crate::rel::Columns;
use anabranch_dataflow::{BinaryOp, decimal_result};

/// Why there is no value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Without {
    /// The job would stop: an overflow or a division by zero.
    Failure(String),
    /// The reference does not know the expression.
    Unknown(String),
}

pub(super) type Result<T> = std::result::Result<T, Without>;

pub(super) fn unknown<T>(what: impl std::fmt::Debug) -> Result<T> {
    Err(Without::Unknown(format!("{what:?}")))
}

fn failure<T>(what: &str) -> Result<T> {
    Err(Without::Failure(what.to_owned()))
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Truth(bool),
    /// A whole or decimal number, with the number of digits after the point.
    Exact(i128, i8),
    Double(f64),
    Text(String),
    /// Months and nanoseconds.
    Interval(i64, i128),
    Row(Vec<Value>),
}

use Value::{Double, Exact, Interval, Null, Row, Text, Truth};

impl Value {
    /// A text that is the same for equal values, for the comparison of whole rows.
    pub(super) fn key(&self) -> String {
        match self {
            Exact(number, scale) => {
                let (mut number, mut scale) = (*number, *scale);
                while scale > 0 && number % 10 == 0 {
                    (number, scale) = (number / 10, scale - 1);
                }
                format!("{number}e-{scale}")
            }
            Double(number) => format!("{:?}", number + 0.0),
            Row(fields) => fields.iter().map(Value::key).collect::<Vec<_>>().join(","),
            other => format!("{other:?}"),
        }
    }
}

pub(super) fn literal(value: &ScalarValue) -> Result<Value> {
    const DAY: i128 = 86_400_000_000_000;
    Ok(match value {
        value if value.is_null() => Null,
        ScalarValue::Boolean(Some(truth)) => Truth(*truth),
        ScalarValue::Int8(Some(number)) => Exact((*number).into(), 0),
        ScalarValue::Int16(Some(number)) => Exact((*number).into(), 0),
        ScalarValue::Int32(Some(number)) => Exact((*number).into(), 0),
        ScalarValue::Int64(Some(number)) => Exact((*number).into(), 0),
        ScalarValue::Decimal128(Some(number), _, scale) => Exact(*number, *scale),
        ScalarValue::Float64(Some(number)) => Double(*number),
        ScalarValue::IntervalMonthDayNano(Some(interval)) => {
            Interval(interval.months.into(), i128::from(interval.days) * DAY + i128::from(interval.nanoseconds))
        }
        value => match value.try_as_str() {
            Some(Some(text)) => Text(text.to_owned()),
            _ => return unknown(value),
        },
    })
}

fn power(digits: i8) -> i128 {
    10_i128.pow(u32::from(digits.unsigned_abs()))
}

/// The order of two values; `None` if one is NULL or NaN.
pub(super) fn order(left: &Value, right: &Value) -> Result<Option<Ordering>> {
    Ok(match (left, right) {
        (Null, _) | (_, Null) => None,
        (Exact(a, of), Exact(b, other)) => {
            let common = (*of).max(*other);
            Some((a * power(common - of)).cmp(&(b * power(common - other))))
        }
        (Double(a), Double(b)) => a.partial_cmp(b),
        (Text(a), Text(b)) => Some(a.cmp(b)),
        (Truth(a), Truth(b)) => Some(a.cmp(b)),
        (Interval(a, b), Interval(c, d)) => Some((a, b).cmp(&(c, d))),
        (left, right) => return unknown((left, right)),
    })
}

/// `left = right`. For rows: AND over their fields.
fn equal(left: &Value, right: &Value) -> Result<Option<bool>> {
    match (left, right) {
        (Row(left), Row(right)) => {
            let mut all = Some(true);
            for (left, right) in left.iter().zip(right) {
                all = and(all, equal(left, right)?);
            }
            Ok(all)
        }
        (Null, _) | (_, Null) => Ok(None),
        // NaN equals nothing.
        (left, right) => Ok(Some(order(left, right)? == Some(Ordering::Equal))),
    }
}

fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn truth_of(value: &Value) -> Result<Option<bool>> {
    match value {
        Null => Ok(None),
        Truth(truth) => Ok(Some(*truth)),
        other => unknown(other),
    }
}

fn as_value(truth: Option<bool>) -> Value {
    truth.map_or(Null, Truth)
}

fn compare(op: Operator, left: &Value, right: &Value) -> Result<Value> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let same = |left: &Value, right: &Value| Ok(left == right && *left == Null || equal(left, right)? == Some(true));
    let truth = match op {
        Eq => equal(left, right)?,
        NotEq => equal(left, right)?.map(|is| !is),
        IsNotDistinctFrom => Some(same(left, right)?),
        IsDistinctFrom => Some(!same(left, right)?),
        _ if matches!(left, Null) || matches!(right, Null) => None,
        op => {
            let order = order(left, right)?;
            Some(match op {
                Lt => order == Some(Ordering::Less),
                LtEq => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                Gt => order == Some(Ordering::Greater),
                GtEq => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                other => return unknown(other),
            })
        }
    };
    Ok(as_value(truth))
}

/// Conversion to another type. A value that does not fit is a failure, or NULL if `safe`.
pub(super) fn cast(value: Value, to: &DataType, safe: bool) -> Result<Value> {
    let (number, scale) = match (&value, to) {
        (Null, _) => return Ok(Null),
        (Truth(_), DataType::Boolean) | (Interval(..), DataType::Interval(_)) => return Ok(value),
        (Text(_), to) if to.is_string() => return Ok(value),
        (Text(text), DataType::Float64) => return text.parse().map(Double).or_else(|_| failure("no number")),
        (Double(_), DataType::Float64) => return Ok(value),
        (Exact(number, scale), DataType::Float64) => {
            let text = format!("{number}e-{scale}");
            return text.parse().map(Double).or_else(|_| unknown(text));
        }
        (Exact(number, scale), _) => (*number, *scale),
        (value, to) => return unknown((value, to)),
    };
    let does_not_fit = || if safe { Ok(Null) } else { failure("a number does not fit") };
    let bits = match to {
        DataType::Int8 => 8,
        DataType::Int16 => 16,
        DataType::Int32 => 32,
        DataType::Int64 => 64,
        DataType::Decimal128(digits, to) => {
            let shifted = if *to >= scale {
                number.checked_mul(power(to - scale))
            } else {
                let unit = power(scale - to);
                // Half up, away from zero.
                Some((number + number.signum() * (unit / 2)) / unit)
            };
            return match shifted.filter(|number| number.abs() < 10_i128.pow((*digits).into())) {
                Some(number) => Ok(Exact(number, *to)),
                None => does_not_fit(),
            };
        }
        to => return unknown((value, to)),
    };
    let whole = number / power(scale);
    let limit = 1_i128 << (bits - 1);
    if (-limit..limit).contains(&whole) { Ok(Exact(whole, 0)) } else { does_not_fit() }
}

fn arithmetic(op: Operator, left: &Value, right: &Value, to: &DataType) -> Result<Value> {
    let ((a, of), (b, other)) = match (left, right) {
        (Null, _) | (_, Null) => return Ok(Null),
        (Exact(a, of), Exact(b, other)) => ((*a, *of), (*b, *other)),
        (Double(a), Double(b)) => {
            return Ok(Double(match op {
                Operator::Plus => a + b,
                Operator::Minus => a - b,
                Operator::Multiply => a * b,
                _ => return unknown(op),
            }));
        }
        other => return unknown(other),
    };
    let common = of.max(other);
    let (x, y) = (a * power(common - of), b * power(common - other));
    let exact = match op {
        Operator::Plus => Exact(x + y, common),
        Operator::Minus => Exact(x - y, common),
        Operator::Multiply => Exact(a * b, of + other),
        Operator::Divide | Operator::Modulo if b == 0 => return failure("a division by zero"),
        Operator::Divide if of == 0 && other == 0 && to.is_integer() => Exact(a / b, 0),
        Operator::Modulo => Exact(x % y, common),
        _ => return unknown(op),
    };
    // DECIMALs that do not fit are NULL.
    cast(exact, to, to.is_decimal())
}

/// The value of an expression over a row.
pub(super) fn value(expr: &Expr, env: &Env, tables: &Tables) -> Result<Value> {
    let of = |expr: &Expr| value(expr, env, tables);
    let truth = |expr: &Expr| truth_of(&value(expr, env, tables)?);
    Ok(match expr {
        Expr::Alias(alias) => of(&alias.expr)?,
        Expr::Column(column) => env.column(column)?,
        Expr::OuterReferenceColumn(_, column) => match env.outer {
            Some(outer) => outer.nearest(column)?,
            None => return unknown(column),
        },
        Expr::Literal(scalar, _) => literal(scalar)?,
        Expr::Not(operand) => as_value(truth(operand)?.map(|is| !is)),
        Expr::IsNull(operand) => Truth(of(operand)? == Null),
        Expr::IsNotNull(operand) => Truth(of(operand)? != Null),
        Expr::IsTrue(operand) => Truth(truth(operand)? == Some(true)),
        Expr::IsFalse(operand) => Truth(truth(operand)? == Some(false)),
        Expr::IsUnknown(operand) => Truth(truth(operand)?.is_none()),
        Expr::IsNotTrue(operand) => Truth(truth(operand)? != Some(true)),
        Expr::IsNotFalse(operand) => Truth(truth(operand)? != Some(false)),
        Expr::IsNotUnknown(operand) => Truth(truth(operand)?.is_some()),
        Expr::Negative(operand) => arithmetic(Operator::Minus, &Exact(0, 0), &of(operand)?, &env.type_of(expr)?)?,
        Expr::BinaryExpr(binary) => binary_value(binary, env, tables)?,
        Expr::Between(between) => {
            let operand = of(&between.expr)?;
            let low = compare(Operator::GtEq, &operand, &of(&between.low)?)?;
            let high = compare(Operator::LtEq, &operand, &of(&between.high)?)?;
            as_value(and(truth_of(&low)?, truth_of(&high)?).map(|is| is != between.negated))
        }
        Expr::InList(list) => {
            let operand = of(&list.expr)?;
            let items = list.list.iter().map(of).collect::<Result<Vec<_>>>()?;
            as_value(is_in(&operand, items)?.map(|is| is != list.negated))
        }
        Expr::Case(case) => {
            let operand = case.expr.as_deref().map(of).transpose()?;
            for (when, then) in &case.when_then_expr {
                let found = match &operand {
                    Some(operand) => equal(operand, &of(when)?)?,
                    None => truth(when)?,
                };
                if found == Some(true) {
                    return of(then);
                }
            }
            case.else_expr.as_deref().map_or(Ok(Null), of)?
        }
        Expr::Cast(to) => cast(of(&to.expr)?, to.field.data_type(), false)?,
        Expr::TryCast(to) => cast(of(&to.expr)?, to.field.data_type(), true)?,
        Expr::ScalarFunction(call) => function(call, env, tables)?,
        other => return unknown(other.variant_name()),
    })
}

fn is_in(operand: &Value, items: Vec<Value>) -> Result<Option<bool>> {
    let mut found = Some(false);
    for item in items {
        let not_equal = |is: Option<bool>| is.map(|is| !is);
        found = not_equal(and(not_equal(found), not_equal(equal(operand, &item)?)));
    }
    Ok(found)
}

fn binary_value(binary: &BinaryExpr, env: &Env, tables: &Tables) -> Result<Value> {
    let left = value(&binary.left, env, tables)?;
    // The right operand has no effect if the left one decides.
    match (binary.op, &left) {
        (Operator::And, Truth(false)) | (Operator::Or, Truth(true)) => return Ok(left),
        _ => {}
    }
    let right = value(&binary.right, env, tables)?;
    match binary.op {
        Operator::And => Ok(as_value(and(truth_of(&left)?, truth_of(&right)?))),
        Operator::Or => {
            let not = |truth: Option<bool>| truth.map(|is| !is);
            Ok(as_value(not(and(not(truth_of(&left)?), not(truth_of(&right)?)))))
        }
        op if crate::rewrite::is_comparison(op) => compare(op, &left, &right),
        op => arithmetic(op, &left, &right, &env.type_of(&Expr::BinaryExpr(binary.clone()))?),
    }
}

fn function(call: &datafusion_expr::expr::ScalarFunction, env: &Env, tables: &Tables) -> Result<Value> {
    let args = || call.args.iter().map(|arg| value(arg, env, tables)).collect::<Result<Vec<_>>>();
    match (meaning(&call.func), call.name()) {
        (Some(Meaning::Cast { to, safe }), _) => cast(args()?.swap_remove(0), to, *safe),
        (Some(Meaning::Arithmetic(op)), _) => {
            let types = [env.type_of(&call.args[0])?, env.type_of(&call.args[1])?];
            let Some(to) = decimal_result(*op, &types[0], &types[1]) else { return unknown(call.name()) };
            let op = match op {
                BinaryOp::Plus => Operator::Plus,
                BinaryOp::Minus => Operator::Minus,
                BinaryOp::Multiply => Operator::Multiply,
                other => return unknown(other),
            };
            let args = args()?;
            arithmetic(op, &args[0], &args[1], &to)
        }
        (None, "coalesce") => {
            for arg in &call.args {
                let value = value(arg, env, tables)?;
                if value != Null {
                    return Ok(value);
                }
            }
            Ok(Null)
        }
        (None, "struct" | "row") => Ok(Row(args()?)),
        (None, "named_struct") => Ok(Row(args()?.into_iter().skip(1).step_by(2).collect())),
        (None, name) => unknown(name),
    }
}

/// The type of a column.
pub(super) fn field(schema: &Columns, place: usize) -> &DataType {
    schema.field(place).data_type()
}
