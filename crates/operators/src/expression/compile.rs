//! Compiles expressions of the plan to physical expressions.

use std::sync::Arc;

use anabranch_dataflow::{BinaryOp, Expr, Literal, decimal_result, sql_names};
use anabranch_functions::Matcher;
use anabranch_model::{Error, Result};
use arrow::array::make_view;
use arrow::datatypes::{DataType, Schema};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::Operator;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr, expressions};

use super::constant::constant;
use super::own::{Kernel, OwnExpr};
use super::{Functions, cast, float};
use crate::key_table::INLINE;

/// The physical expression of `expr` over columns of `schema`.
pub(super) fn physical(expr: &Expr, schema: &Schema, functions: &Functions) -> Result<Arc<dyn PhysicalExpr>> {
    let inner = |e: &Expr| physical(e, schema, functions);
    let all = |es: &[Expr]| es.iter().map(inner).collect::<Result<Vec<_>>>();
    let built = match expr {
        Expr::Column(index) => {
            let field = schema.fields().get(*index).ok_or_else(|| Error::internal(format!("no column #{index}")))?;
            Ok(Arc::new(expressions::Column::new(field.name(), *index)) as Arc<dyn PhysicalExpr>)
        }
        Expr::Literal(literal) => Ok(Arc::new(expressions::Literal::new(scalar(literal)?)) as _),
        Expr::Binary { op, left, right } => binary(*op, left, right, schema, functions),
        Expr::Not(e) => expressions::not(inner(e)?),
        Expr::Negative(e) => negative(inner(e)?, schema),
        Expr::IsNull(e) => expressions::is_null(inner(e)?),
        Expr::Cast { expr, to, safe } => cast_to(inner(expr)?, to, *safe, schema),
        Expr::Like { expr, pattern, negated, case_insensitive } => {
            let text = inner(expr)?;
            let data_type = text.data_type(schema).ok().filter(|_| !case_insensitive);
            match data_type.and_then(|data_type| contains(&data_type, pattern)) {
                Some(matcher) => {
                    let kernel = Kernel::Match { matcher: Arc::new(matcher), negated: *negated };
                    Ok(OwnExpr::over(kernel, vec![text], DataType::Boolean))
                }
                None => expressions::like(*negated, *case_insensitive, text, inner(pattern)?, schema),
            }
        }
        Expr::InList { expr, list, negated } => in_list(inner(expr)?, all(list)?, *negated, schema),
        Expr::Case { operand, branches, otherwise } => {
            let operand = operand.as_deref().map(inner).transpose()?;
            let branches = branches.iter().map(|(w, t)| Ok((inner(w)?, inner(t)?))).collect::<Result<_>>()?;
            case(operand, branches, otherwise.as_deref().map(inner).transpose()?, schema)
        }
        Expr::Call { function, args, .. } if function == "nullif" && args.len() == 2 => {
            null_if(all(args)?, schema, functions)
        }
        Expr::Call { function, args, .. } => match constant(expr) {
            Ok(Some(value)) => Ok(Arc::new(expressions::Literal::new(value)) as _),
            Ok(None) => call(function, all(args)?, schema, functions),
            Err(error) => Err(error),
        },
    };
    built.map_err(|e| match e {
        DataFusionError::External(own) if own.is::<Error>() => {
            own.downcast::<Error>().map_or_else(|e| Error::internal(e.to_string()), |own| *own)
        }
        // The library refuses these types, which are known only once the whole query is planned.
        DataFusionError::NotImplemented(what) => {
            Error::user(sql_names(&what)).remedy("cast to STRING first, or use columns of other types")
        }
        other => Error::internal(format!("{expr}: {}", other.strip_backtrace())),
    })
}

type Physical = Arc<dyn PhysicalExpr>;
type Built = datafusion_common::Result<Physical>;

fn call(name: &str, args: Vec<Physical>, schema: &Schema, functions: &Functions) -> Built {
    let function = functions.scalar(name).map_err(|e| DataFusionError::External(Box::new(e)))?;
    Ok(Arc::new(ScalarFunctionExpr::try_new(function, args, schema, Arc::clone(&functions.config))?))
}

fn binary(op: BinaryOp, left: &Expr, right: &Expr, schema: &Schema, functions: &Functions) -> Built {
    let through = |e: Error| DataFusionError::External(Box::new(e));
    let (left_value, right_value) =
        (physical(left, schema, functions).map_err(through)?, physical(right, schema, functions).map_err(through)?);
    let (from, other) = (left_value.data_type(schema)?, right_value.data_type(schema)?);
    if let Some(kernel) = short_text(op, &from, right).or_else(|| regex(op, &from, right)) {
        return Ok(OwnExpr::over(kernel, vec![left_value], DataType::Boolean));
    }
    let fails = || right.may_fail(&super::types_of(schema));
    let kernel = match op {
        BinaryOp::And if fails() => Some((Kernel::And, DataType::Boolean)),
        BinaryOp::Or if fails() => Some((Kernel::Or, DataType::Boolean)),
        _ if from.is_floating() && from == other && float::is_comparison(op) => {
            Some((Kernel::Float(op), DataType::Boolean))
        }
        _ => decimal_result(op, &from, &other).map(|to| (Kernel::Decimal(op), to)),
    };
    Ok(match kernel {
        Some((kernel, to)) => OwnExpr::over(kernel, vec![left_value, right_value], to),
        None => plain(op, left_value, right_value),
    })
}

/// A kernel for a comparison with a constant text that is short enough to be inlined in its view.
fn short_text(op: BinaryOp, from: &DataType, right: &Expr) -> Option<Kernel> {
    let negated = match op {
        BinaryOp::Eq => false,
        BinaryOp::NotEq => true,
        _ => return None,
    };
    let Expr::Literal(literal) = right else { return None };
    let text = literal.as_text().filter(|_| literal.data_type == DataType::Utf8View)?;
    let is_short = from == &DataType::Utf8View && text.len() <= INLINE;
    is_short.then(|| Kernel::Short { view: make_view(text.as_bytes(), 0, 0), negated })
}

/// A kernel for a constant regular expression. An invalid one fails when it is evaluated.
fn regex(op: BinaryOp, from: &DataType, right: &Expr) -> Option<Kernel> {
    let (negated, case_insensitive) = match op {
        BinaryOp::RegexMatch => (false, false),
        BinaryOp::RegexIMatch => (false, true),
        BinaryOp::RegexNotMatch => (true, false),
        BinaryOp::RegexNotIMatch => (true, true),
        _ => return None,
    };
    let Expr::Literal(pattern) = right else { return None };
    let pattern = pattern.as_text()?;
    let matcher = (from == &DataType::Utf8View).then(|| Matcher::regex(pattern, case_insensitive).ok()).flatten();
    Some(Kernel::Match { matcher: Arc::new(matcher?), negated })
}

/// A matcher for `LIKE '%text%'`.
fn contains(from: &DataType, pattern: &Expr) -> Option<Matcher> {
    let Expr::Literal(pattern) = pattern else { return None };
    let text = pattern.as_text()?.strip_prefix('%')?.strip_suffix('%')?;
    let is_plain = !text.is_empty() && !text.contains(['%', '_', '\\']);
    (is_plain && from == &DataType::Utf8View).then(|| Matcher::containing(text))
}

/// The library's operator. A whole number or a time that does not fit is an error.
fn plain(op: BinaryOp, left: Physical, right: Physical) -> Physical {
    Arc::new(expressions::BinaryExpr::new(left, operator(op), right).with_fail_on_overflow(true))
}

/// The negated value. The smallest number cannot be negated: that is an error, like any overflow.
fn negative(value: Physical, schema: &Schema) -> Built {
    let data_type = value.data_type(schema)?;
    if !data_type.is_signed_integer() {
        return expressions::negative(value, schema);
    }
    let zero = Arc::new(expressions::Literal::new(ScalarValue::new_zero(&data_type)?));
    Ok(plain(BinaryOp::Minus, zero, value))
}

fn cast_to(value: Physical, to: &DataType, safe: bool, schema: &Schema) -> Built {
    match safe {
        _ if cast::is_own(&value.data_type(schema)?, to) => {
            Ok(OwnExpr::over(Kernel::Cast { safe }, vec![value], to.clone()))
        }
        true => expressions::try_cast(value, schema, to.clone()),
        false => expressions::cast(value, schema, to.clone()),
    }
}

/// `left = right`. Floating-point numbers compare as [`float`] defines.
fn equal(left: &Physical, right: &Physical, schema: &Schema) -> Built {
    let operands = vec![Arc::clone(left), Arc::clone(right)];
    Ok(match left.data_type(schema)?.is_floating() {
        true => OwnExpr::over(Kernel::Float(BinaryOp::Eq), operands, DataType::Boolean),
        false => plain(BinaryOp::Eq, Arc::clone(left), Arc::clone(right)),
    })
}

fn in_list(value: Physical, list: Vec<Physical>, negated: bool, schema: &Schema) -> Built {
    if !value.data_type(schema)?.is_floating() {
        return expressions::in_list(value, list, &negated, schema);
    }
    let mut found =
        list.iter().map(|item| equal(&value, item, schema)).collect::<datafusion_common::Result<Vec<_>>>()?;
    // A balanced tree: a chain of as many operators as items could overflow the stack.
    while found.len() > 1 {
        let pairs = found.chunks(2).map(|pair| match pair {
            [left, right] => plain(BinaryOp::Or, Arc::clone(left), Arc::clone(right)),
            pair => Arc::clone(&pair[0]),
        });
        found = pairs.collect();
    }
    let found = found.pop().unwrap_or_else(|| Arc::new(expressions::Literal::new(ScalarValue::Boolean(Some(false)))));
    if negated { expressions::not(found) } else { Ok(found) }
}

fn case(
    operand: Option<Physical>,
    branches: Vec<(Physical, Physical)>,
    otherwise: Option<Physical>,
    schema: &Schema,
) -> Built {
    match operand {
        Some(operand) if operand.data_type(schema)?.is_floating() => {
            let branches = branches.into_iter().map(|(when, then)| Ok((equal(&operand, &when, schema)?, then)));
            expressions::case(None, branches.collect::<datafusion_common::Result<_>>()?, otherwise)
        }
        operand => expressions::case(operand, branches, otherwise),
    }
}

fn null_if(args: Vec<Physical>, schema: &Schema, functions: &Functions) -> Built {
    let data_type = args[0].data_type(schema)?;
    if !data_type.is_floating() {
        return call("nullif", args, schema, functions);
    }
    let null = Arc::new(expressions::Literal::new(ScalarValue::try_new_null(&data_type)?));
    let same = equal(&args[0], &args[1], schema)?;
    expressions::case(None, vec![(same, null)], Some(Arc::clone(&args[0])))
}

pub(crate) fn scalar(literal: &Literal) -> Result<ScalarValue> {
    let wrong = |e: DataFusionError| Error::internal(format!("literal {literal:?}: {}", e.strip_backtrace()));
    ScalarValue::try_from_array(&literal.to_array()?, 0).map_err(wrong)
}

fn operator(op: BinaryOp) -> Operator {
    match op {
        BinaryOp::Eq => Operator::Eq,
        BinaryOp::NotEq => Operator::NotEq,
        BinaryOp::Lt => Operator::Lt,
        BinaryOp::LtEq => Operator::LtEq,
        BinaryOp::Gt => Operator::Gt,
        BinaryOp::GtEq => Operator::GtEq,
        BinaryOp::Plus => Operator::Plus,
        BinaryOp::Minus => Operator::Minus,
        BinaryOp::Multiply => Operator::Multiply,
        BinaryOp::Divide => Operator::Divide,
        BinaryOp::Modulo => Operator::Modulo,
        BinaryOp::And => Operator::And,
        BinaryOp::Or => Operator::Or,
        BinaryOp::IsDistinctFrom => Operator::IsDistinctFrom,
        BinaryOp::IsNotDistinctFrom => Operator::IsNotDistinctFrom,
        BinaryOp::RegexMatch => Operator::RegexMatch,
        BinaryOp::RegexIMatch => Operator::RegexIMatch,
        BinaryOp::RegexNotMatch => Operator::RegexNotMatch,
        BinaryOp::RegexNotIMatch => Operator::RegexNotIMatch,
        BinaryOp::BitwiseAnd => Operator::BitwiseAnd,
        BinaryOp::BitwiseOr => Operator::BitwiseOr,
        BinaryOp::BitwiseXor => Operator::BitwiseXor,
        BinaryOp::BitwiseShiftLeft => Operator::BitwiseShiftLeft,
        BinaryOp::BitwiseShiftRight => Operator::BitwiseShiftRight,
        BinaryOp::StringConcat => Operator::StringConcat,
    }
}
