//! Converts DataFusion's logical expressions to ours.

use anabranch_dataflow::{BinaryOp, Expr, Literal, Scalar};
use anabranch_model::{Error, Result};
use arrow::datatypes::DataType;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{BinaryExpr, Expr as Logical, ExprSchemable, Operator, Volatility};

use super::literal::constant;
use crate::current_watermark;
use crate::exact::{Meaning, meaning};
use crate::maps::{has_map, not_comparable, shown};
use crate::place::planning_error;
use crate::processing_time::is_stamp;
use crate::rel::Columns;
use crate::spelling::similar_regex;
use crate::stamps::Stamp;

/// The error for a call over rows that do not come directly from a source.
pub(super) fn unknown(stamp: Stamp) -> Error {
    if stamp == Stamp::Watermark {
        return current_watermark::not_just_read();
    }
    Error::user("PROCTIME() is only known for rows that come directly from a source").remedy(
        "compute the time first: a computed column p AS PROCTIME() of the table, or SELECT *, PROCTIME() AS p FROM t in a view",
    )
}

/// Converts an expression over `schema`. `column` returns the value of each column by its index.
pub(super) fn convert(expr: &Logical, schema: &Columns, column: &dyn Fn(usize) -> Result<Expr>) -> Result<Expr> {
    let sub = |expr: &Logical| convert(expr, schema, column);
    let boxed = |expr: &Logical| sub(expr).map(Box::new);
    Ok(match expr {
        Logical::Alias(alias) => sub(&alias.expr)?,
        Logical::Column(name) => column(schema.place(name)?)?,
        Logical::Placeholder(name) => {
            column(Stamp::of_placeholder(name).ok_or_else(|| Error::internal("an unknown placeholder"))?.index())?
        }
        call if is_stamp(call) => return Err(unknown(Stamp::ProcessingTime)),
        call if current_watermark::is_call(call) => return Err(unknown(Stamp::Watermark)),
        Logical::Literal(value, _) => constant(value)?,
        Logical::BinaryExpr(binary) if matches!(binary.op, Operator::And | Operator::Or | Operator::StringConcat) => {
            let op = binary_op(binary.op, expr)?;
            let operands = chain(expr, binary.op).into_iter().map(sub).collect::<Result<Vec<_>>>()?;
            let operands = operands.iter().flat_map(|operand| operand.chain(op)).cloned().collect();
            Expr::balanced(op, operands).ok_or_else(|| Error::internal("an operator without operands"))?
        }
        Logical::BinaryExpr(binary) => {
            check_comparison(binary, schema)?;
            Expr::Binary { op: binary_op(binary.op, expr)?, left: boxed(&binary.left)?, right: boxed(&binary.right)? }
        }
        Logical::Not(inner) => Expr::Not(boxed(inner)?),
        Logical::Negative(inner) => Expr::Negative(boxed(inner)?),
        Logical::IsNull(inner) | Logical::IsUnknown(inner) => Expr::IsNull(boxed(inner)?),
        Logical::IsNotNull(inner) | Logical::IsNotUnknown(inner) => Expr::Not(Box::new(Expr::IsNull(boxed(inner)?))),
        Logical::IsTrue(inner) => is(BinaryOp::IsNotDistinctFrom, sub(inner)?, true),
        Logical::IsFalse(inner) => is(BinaryOp::IsNotDistinctFrom, sub(inner)?, false),
        Logical::IsNotTrue(inner) => is(BinaryOp::IsDistinctFrom, sub(inner)?, true),
        Logical::IsNotFalse(inner) => is(BinaryOp::IsDistinctFrom, sub(inner)?, false),
        Logical::Between(between) => {
            let low = binary(BinaryOp::GtEq, sub(&between.expr)?, sub(&between.low)?);
            let high = binary(BinaryOp::LtEq, sub(&between.expr)?, sub(&between.high)?);
            let both = binary(BinaryOp::And, low, high);
            if between.negated { Expr::Not(Box::new(both)) } else { both }
        }
        Logical::Like(like) => Expr::Like {
            expr: boxed(&like.expr)?,
            pattern: boxed(&like.pattern)?,
            negated: like.negated,
            case_insensitive: like.case_insensitive,
        },
        Logical::SimilarTo(like) => similar_to(like, sub(&like.expr)?)?,
        Logical::Case(case) => Expr::Case {
            operand: case.expr.as_deref().map(boxed).transpose()?,
            branches: case.when_then_expr.iter().map(|(w, t)| Ok((sub(w)?, sub(t)?))).collect::<Result<_>>()?,
            otherwise: case.else_expr.as_deref().map(boxed).transpose()?,
        },
        Logical::Cast(cast) => cast_to(sub(&cast.expr)?, cast.field.data_type(), false),
        Logical::TryCast(cast) => cast_to(sub(&cast.expr)?, cast.field.data_type(), true),
        Logical::InList(list) => Expr::InList {
            expr: boxed(&list.expr)?,
            list: list.list.iter().map(sub).collect::<Result<_>>()?,
            negated: list.negated,
        },
        Logical::ScalarFunction(call) if meaning(&call.func).is_some() => match (meaning(&call.func), &*call.args) {
            (Some(Meaning::Arithmetic(op)), [left, right]) => binary(*op, sub(left)?, sub(right)?),
            (Some(Meaning::Cast { to, safe }), [value]) => cast_to(sub(value)?, to, *safe),
            _ => return Err(unsupported(expr)),
        },
        Logical::ScalarFunction(call) => {
            let args = call.args.iter().map(sub).collect::<Result<Vec<_>>>()?;
            function_call(call, args, expr.get_type(schema).map_err(planning_error)?, schema)?
        }
        other => return Err(unsupported(other)),
    })
}

fn function_call(call: &ScalarFunction, args: Vec<Expr>, returns: DataType, schema: &Columns) -> Result<Expr> {
    let function = call.func.name().to_string();
    if let Some(map) = call.args.first().filter(|_| function == "get_field")
        && matches!(map.get_type(schema), Ok(DataType::Map(..)))
    {
        let error = Error::user(format!("{} is a MAP, which has no fields", shown(map)));
        return Err(error.remedy("write m['key']"));
    }
    let constants: Vec<Option<&str>> = args.iter().map(constant_text).collect();
    let fails = anabranch_functions::may_fail(&function, &constants, &returns);
    let varies = call.func.signature().volatility == Volatility::Volatile;
    Ok(Expr::Call { function, args, returns, fails, varies })
}

/// Refuses comparisons of maps. Only the binder's comparisons for subqueries can still have them here.
fn check_comparison(binary: &BinaryExpr, schema: &Columns) -> Result<()> {
    use Operator::{Eq, IsDistinctFrom, IsNotDistinctFrom, NotEq};
    if !matches!(binary.op, Eq | NotEq | IsDistinctFrom | IsNotDistinctFrom) {
        return Ok(());
    }
    match binary.left.get_type(schema) {
        Ok(data_type) if has_map(&data_type) => Err(not_comparable(&shown(&binary.left), &data_type)),
        _ => Ok(()),
    }
}

/// The operands of a chain of one operator, from left to right.
fn chain(expr: &Logical, op: Operator) -> Vec<&Logical> {
    let (mut operands, mut rest) = (Vec::new(), vec![expr]);
    while let Some(expr) = rest.pop() {
        match expr {
            Logical::BinaryExpr(binary) if binary.op == op => rest.extend([binary.right.as_ref(), &binary.left]),
            other => operands.push(other),
        }
    }
    operands
}

fn unsupported(expr: &Logical) -> Error {
    Error::user(format!("the expression {expr} is not supported"))
}

/// A cast. A cast of a string constant to another string type changes the constant, also in the branches of
/// CASE: no row is cast.
fn cast_to(expr: Expr, to: &DataType, safe: bool) -> Expr {
    match expr {
        Expr::Literal(literal) if to.is_string() && literal.data_type.is_string() => {
            Expr::Literal(Literal { data_type: to.clone(), ..literal })
        }
        Expr::Case { operand, branches, otherwise } if to.is_string() && branches.iter().all(|(_, t)| is_text(t)) => {
            Expr::Case {
                operand,
                branches: branches.into_iter().map(|(when, then)| (when, cast_to(then, to, safe))).collect(),
                otherwise: otherwise.map(|expr| Box::new(cast_to(*expr, to, safe))),
            }
        }
        expr => Expr::Cast { expr: Box::new(expr), to: to.clone(), safe },
    }
}

fn constant_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(literal) if literal.data_type.is_string() => literal.as_text(),
        _ => None,
    }
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(literal) if literal.data_type.is_string())
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(right) }
}

fn is(op: BinaryOp, expr: Expr, value: bool) -> Expr {
    binary(op, expr, Expr::truth(value))
}

fn binary_op(op: Operator, expr: &Logical) -> Result<BinaryOp> {
    Ok(match op {
        Operator::Eq => BinaryOp::Eq,
        Operator::NotEq => BinaryOp::NotEq,
        Operator::Lt => BinaryOp::Lt,
        Operator::LtEq => BinaryOp::LtEq,
        Operator::Gt => BinaryOp::Gt,
        Operator::GtEq => BinaryOp::GtEq,
        Operator::Plus => BinaryOp::Plus,
        Operator::Minus => BinaryOp::Minus,
        Operator::Multiply => BinaryOp::Multiply,
        Operator::Divide => BinaryOp::Divide,
        Operator::Modulo => BinaryOp::Modulo,
        Operator::And => BinaryOp::And,
        Operator::Or => BinaryOp::Or,
        Operator::IsDistinctFrom => BinaryOp::IsDistinctFrom,
        Operator::IsNotDistinctFrom => BinaryOp::IsNotDistinctFrom,
        Operator::RegexMatch => BinaryOp::RegexMatch,
        Operator::RegexIMatch => BinaryOp::RegexIMatch,
        Operator::RegexNotMatch => BinaryOp::RegexNotMatch,
        Operator::RegexNotIMatch => BinaryOp::RegexNotIMatch,
        Operator::BitwiseAnd => BinaryOp::BitwiseAnd,
        Operator::BitwiseOr => BinaryOp::BitwiseOr,
        Operator::BitwiseXor => BinaryOp::BitwiseXor,
        Operator::BitwiseShiftLeft => BinaryOp::BitwiseShiftLeft,
        Operator::BitwiseShiftRight => BinaryOp::BitwiseShiftRight,
        Operator::StringConcat => BinaryOp::StringConcat,
        _ => return Err(unsupported(expr)),
    })
}

/// `SIMILAR TO` with a constant pattern becomes a regular expression.
fn similar_to(like: &datafusion_expr::Like, expr: Expr) -> Result<Expr> {
    let Logical::Literal(value, _) = like.pattern.as_ref() else {
        return Err(Error::user("SIMILAR TO needs a constant pattern").remedy("use REGEXP(text, pattern)"));
    };
    let Some(pattern) = value.try_as_str().flatten() else {
        return Err(Error::user("the pattern of SIMILAR TO is a text").remedy("write it in quotes"));
    };
    let regex = similar_regex(pattern, like.escape_char)?;
    let op = if like.negated { BinaryOp::RegexNotMatch } else { BinaryOp::RegexMatch };
    Ok(binary(op, expr, Expr::Literal(Literal { data_type: value.data_type(), value: Some(Scalar::Text(regex)) })))
}
