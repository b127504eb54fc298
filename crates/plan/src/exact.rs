//! Exact numbers and texts where SQL differs from DataFusion: arithmetic of DECIMAL, SUM and AVG of DECIMAL,
//! and conversions to and from text.
//!
//! The planner needs only the types. The functions have no implementation, so that the optimizer does not
//! compute constants by DataFusion's rules. Lowering converts the calls to the plan's own expressions.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use anabranch_dataflow::{BinaryOp, as_decimal, decimal_result, exact_aggregate, sql_name};
use anabranch_functions::{parse_date, parse_decimal, parse_time, parse_timestamp, parse_whole, reads_texts_as};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, DecimalType, Field, FieldRef, TimeUnit};
use datafusion_common::tree_node::Transformed;
use datafusion_common::types::{NativeType, logical_int64};
use datafusion_common::{DFSchema, Result, ScalarValue, internal_err, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, BinaryExpr, Coercion, ColumnarValue, Expr, ExprSchemable, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, TypeSignatureClass, Volatility,
    binary_expr, lit,
};
use datafusion_sql::sqlparser::ast;

use crate::place::through;
use crate::rewrite::InputColumns;
use crate::spelling::similar_regex;
use crate::walk::Walk;

/// Plans arithmetic with DECIMAL.
#[derive(Debug)]
pub(crate) struct ExactPlanner;

impl ExprPlanner for ExactPlanner {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let op = match expr.op {
            ast::BinaryOperator::Plus => BinaryOp::Plus,
            ast::BinaryOperator::Minus => BinaryOp::Minus,
            ast::BinaryOperator::Multiply => BinaryOp::Multiply,
            ast::BinaryOperator::Divide => BinaryOp::Divide,
            ast::BinaryOperator::Modulo => BinaryOp::Modulo,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let types = (expr.left.get_type(schema), expr.right.get_type(schema));
        let (Ok(left), Ok(right)) = types else { return Ok(PlannerResult::Original(expr)) };
        if decimal_result(op, &left, &right).is_none() {
            return Ok(PlannerResult::Original(expr));
        }
        let args = vec![narrowed(expr.left), narrowed(expr.right)];
        let function = Arc::new(ScalarUDF::new_from_impl(Typed::new(Meaning::Arithmetic(op))));
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
    }
}

/// A small whole-number literal has the digits of an INT.
fn narrowed(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(number)), metadata) if i32::try_from(number).is_ok() => {
            Expr::Literal(ScalarValue::Decimal128(Some(number.into()), 10, 0), metadata)
        }
        other => other,
    }
}

/// The operation that a function without an implementation represents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Meaning {
    /// `left op right`.
    Arithmetic(BinaryOp),
    /// `CAST(value AS type)`; `TRY_CAST` if `safe`.
    Cast { to: DataType, safe: bool },
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Typed {
    meaning: Meaning,
    signature: Signature,
}

impl Typed {
    fn new(meaning: Meaning) -> Self {
        Typed { meaning, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The operation that a function represents, if it is one of these.
pub(crate) fn meaning(function: &ScalarUDF) -> Option<&Meaning> {
    function.inner().downcast_ref::<Typed>().map(|typed| &typed.meaning)
}

/// The DECIMAL operator that a function represents.
pub(crate) fn operator_of(function: &ScalarUDF) -> Option<Operator> {
    match meaning(function)? {
        Meaning::Arithmetic(op) => Some(symbol(*op)),
        Meaning::Cast { .. } => None,
    }
}

fn symbol(op: BinaryOp) -> Operator {
    match op {
        BinaryOp::Plus => Operator::Plus,
        BinaryOp::Minus => Operator::Minus,
        BinaryOp::Multiply => Operator::Multiply,
        BinaryOp::Divide => Operator::Divide,
        _ => Operator::Modulo,
    }
}

impl ScalarUDFImpl for Typed {
    fn name(&self) -> &str {
        match &self.meaning {
            Meaning::Arithmetic(BinaryOp::Plus) => "$plus",
            Meaning::Arithmetic(BinaryOp::Minus) => "$minus",
            Meaning::Arithmetic(BinaryOp::Multiply) => "$multiply",
            Meaning::Arithmetic(BinaryOp::Divide) => "$divide",
            Meaning::Arithmetic(_) => "$modulo",
            Meaning::Cast { safe: false, .. } => "$cast",
            Meaning::Cast { safe: true, .. } => "$try_cast",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match (&self.meaning, args) {
            (Meaning::Arithmetic(op), [left, right]) => format!("({left} {} {right})", symbol(*op)),
            (Meaning::Cast { safe, to }, [value]) => {
                format!("{}CAST({value} AS {})", if *safe { "TRY_" } else { "" }, sql_name(to))
            }
            _ => return internal_err!("{} of {} operands", self.name(), args.len()),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Whole numbers keep their types, because their digits count.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (&self.meaning, types) {
            (Meaning::Cast { to, .. }, [_]) => Ok(to.clone()),
            (Meaning::Arithmetic(op), [left, right]) => match decimal_result(*op, left, right) {
                Some(result) => Ok(result),
                // The optimizer may have removed a cast.
                None if as_decimal(left).is_some() => plan_err!("{left} {} {right} is not exact", symbol(*op)),
                None => plan_err!("{left} is not an exact number"),
            },
            _ => internal_err!("{} of {} operands", self.name(), types.len()),
        }
    }

    /// Computes NULL for a NULL operand, and nothing else. The planner calls it for the value that a
    /// correlated subquery has over no rows.
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_null = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(value) if value.is_null());
        match args.args.iter().any(is_null) {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(args.return_type())?)),
            false => plan_err!("this expression of DECIMAL or text cannot be computed over an aggregate without rows"),
        }
    }
}

/// Converts constants by our rules, and checks arithmetic of constants, before the optimizer computes them. A
/// cast of other values becomes a call of our function if DataFusion would compute another result.
pub(crate) fn convert_constants(expr: Expr, scope: &InputColumns) -> Result<Transformed<Expr>> {
    expr.walk_up(&mut |expr| convert(expr, scope))
}

fn convert(expr: Expr, scope: &InputColumns) -> Result<Transformed<Expr>> {
    let (inner, field, safe) = match expr {
        Expr::Cast(cast) if is_own_cast(&cast.expr, cast.field.data_type(), scope) => (cast.expr, cast.field, false),
        Expr::TryCast(cast) if is_own_cast(&cast.expr, cast.field.data_type(), scope) => (cast.expr, cast.field, true),
        Expr::Cast(ref cast) if cast.field.data_type().is_floating() => {
            let Expr::Literal(value, _) = &*cast.expr else { return Ok(Transformed::no(expr)) };
            let number = nearest(value).map_or_else(|| value.clone(), |number| ScalarValue::Float64(Some(number)));
            return Ok(match number.cast_to(cast.field.data_type()) {
                Ok(number) => Transformed::yes(Expr::Literal(number, None)),
                Err(_) => Transformed::no(expr),
            });
        }
        // DataFusion would treat the pattern as a regular expression.
        Expr::SimilarTo(ref like) => {
            let Expr::Literal(pattern, _) = &*like.pattern else { return Ok(Transformed::no(expr)) };
            let Some(Some(text)) = pattern.try_as_str() else { return Ok(Transformed::no(expr)) };
            let regex = similar_regex(text, like.escape_char).map_err(through)?;
            let op = if like.negated { Operator::RegexNotMatch } else { Operator::RegexMatch };
            return Ok(Transformed::yes(binary_expr(*like.expr.clone(), op, lit(regex))));
        }
        Expr::BinaryExpr(ref binary) => {
            if let Some(truth) = compared_with_nan(binary) {
                return Ok(Transformed::yes(lit(truth)));
            }
            if let (Expr::Literal(left, _), Expr::Literal(right, _)) = (&*binary.left, &*binary.right)
                && let (Some(a), Some(b)) = (whole(left), whole(right))
            {
                let fits = match binary.op {
                    Operator::Plus => a.checked_add(b),
                    Operator::Minus => a.checked_sub(b),
                    Operator::Multiply => a.checked_mul(b),
                    _ => Some(0),
                };
                if fits.is_none() {
                    return plan_err!("{a} {} {b} is out of the range of BIGINT", binary.op);
                }
            }
            return Ok(Transformed::no(expr));
        }
        other => return Ok(Transformed::no(other)),
    };
    if let Expr::Literal(value, _) = &*inner
        && let Some(result) = constant(value, field.data_type(), safe)?
    {
        return Ok(Transformed::yes(Expr::Literal(result, None)));
    }
    let from = scope.type_of(&inner)?;
    if !have_same_fields(&from, field.data_type()) {
        return plan_err!(
            "{} cannot be converted to {}: rows are converted field by field, by position",
            sql_name(&from),
            sql_name(field.data_type())
        );
    }
    let meaning = Meaning::Cast { to: field.data_type().clone(), safe };
    let function = Arc::new(ScalarUDF::new_from_impl(Typed::new(meaning)));
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*inner]))))
}

/// The DOUBLE nearest to the digits of a DECIMAL.
pub(crate) fn nearest(value: &ScalarValue) -> Option<f64> {
    let ScalarValue::Decimal128(Some(number), digits, scale) = value else { return None };
    Decimal128Type::format_decimal(*number, *digits, *scale).parse().ok()
}

/// The result of comparing NaN with another number, both constants. DataFusion would order them.
fn compared_with_nan(binary: &BinaryExpr) -> Option<bool> {
    let is_nan = |expr: &Expr| match expr {
        Expr::Literal(ScalarValue::Float64(Some(number)), _) => Some(number.is_nan()),
        Expr::Literal(ScalarValue::Float32(Some(number)), _) => Some(number.is_nan()),
        _ => None,
    };
    if is_nan(&binary.left)? == is_nan(&binary.right)? {
        return None;
    }
    match binary.op {
        Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => Some(false),
        Operator::NotEq => Some(true),
        _ => None,
    }
}

/// Converts a text or a floating-point constant to another type. `None`: an operator converts it.
fn constant(value: &ScalarValue, to: &DataType, safe: bool) -> Result<Option<ScalarValue>> {
    let text = match value {
        ScalarValue::Float64(Some(number)) => format!("{number:e}"),
        ScalarValue::Float32(Some(number)) => format!("{:e}", f64::from(*number)),
        value => match value.try_as_str() {
            Some(Some(text)) => text.to_owned(),
            _ => return Ok(None),
        },
    };
    let found = match to {
        to if to.is_signed_integer() => parse_whole(&text).map(|number| ScalarValue::Int64(Some(number))),
        DataType::Decimal128(digits, scale) => {
            parse_decimal(&text, *digits, *scale).map(|number| ScalarValue::Decimal128(Some(number), *digits, *scale))
        }
        DataType::Date32 => parse_date(&text).map(|date| ScalarValue::Date32(Some(Date32Type::from_naive_date(date)))),
        DataType::Time32(TimeUnit::Second) => parse_time(&text).map(|seconds| ScalarValue::Time32Second(Some(seconds))),
        DataType::Timestamp(unit, _) => parse_timestamp(&text, *unit).map(|time| ScalarValue::Int64(Some(time))),
        _ => return Ok(None),
    };
    match found.and_then(|value| value.cast_to(to).ok()) {
        Some(value) => Ok(Some(value)),
        None if safe => Ok(Some(ScalarValue::try_new_null(to)?)),
        None if matches!(to, DataType::Timestamp(..)) => {
            plan_err!("'{text}' is not a time: write it as '2024-05-06 07:08:09.123', or TRY_CAST, which gives NULL")
        }
        None => plan_err!("'{text}' is not of type {}; TRY_CAST gives NULL", sql_name(to)),
    }
}

fn whole(value: &ScalarValue) -> Option<i64> {
    if let ScalarValue::Int64(number) = value { *number } else { None }
}

/// Whether DataFusion's conversion gives other results.
fn is_own_cast(expr: &Expr, to: &DataType, scope: &InputColumns) -> bool {
    scope.type_of(expr).is_ok_and(|from| converts_otherwise(&from, to))
}

fn converts_otherwise(from: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, Decimal128, Duration, Float32, Float64, Interval, List, Map, Struct, Timestamp};
    match (from, to) {
        (List(from), List(to)) => from.data_type() != to.data_type(),
        (Map(..), Map(..)) | (Struct(_), Struct(_)) => from != to,
        (Float32 | Float64, Decimal128(..)) => true,
        (Boolean | Float32 | Float64 | Timestamp(..) | List(_) | Map(..) | Struct(_), to) => to.is_string(),
        (Interval(_) | Duration(_), to) => to.is_string(),
        (from, to) => from.is_string() && reads_texts_as(to),
    }
}

/// Whether nested rows have the same number of fields.
fn have_same_fields(from: &DataType, to: &DataType) -> bool {
    use DataType::{List, Map, Struct};
    match (from, to) {
        (List(from), List(to)) | (Map(from, _), Map(to, _)) => have_same_fields(from.data_type(), to.data_type()),
        (Struct(from), Struct(to)) => {
            let fields = || from.iter().zip(to);
            from.len() == to.len() && fields().all(|(from, to)| have_same_fields(from.data_type(), to.data_type()))
        }
        (List(_) | Map(..) | Struct(_), to) => to.is_string(),
        _ => true,
    }
}

/// SUM or AVG with exact result types.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExactAggregate {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

/// DataFusion hashes the aggregates of a query often. Hashing a signature is costly, and the name
/// distinguishes the aggregates.
impl Hash for ExactAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.name().hash(state);
    }
}

impl ExactAggregate {
    /// Wraps DataFusion's aggregate `inner`.
    pub(crate) fn over(inner: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
        let mut signature = inner.signature().clone();
        if let (TypeSignature::OneOf(types), "avg") = (&mut signature.type_signature, inner.name()) {
            // DataFusion would convert whole numbers to floating point.
            let integer = TypeSignatureClass::Native(logical_int64());
            let whole = Coercion::new_implicit(integer, vec![TypeSignatureClass::Integer], NativeType::Int64);
            types.insert(0, TypeSignature::Coercible(vec![whole]));
        }
        Arc::new(AggregateUDF::new_from_impl(ExactAggregate { inner, signature }))
    }
}

impl AggregateUDFImpl for ExactAggregate {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first().and_then(|argument| exact_aggregate(self.name(), argument)) {
            Some((result, _)) => Ok(result),
            None => self.inner.return_type(types),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let argument = args.input_fields.first().map(|field| field.data_type());
        match argument.and_then(|argument| exact_aggregate(self.name(), argument)) {
            Some((_, types)) if !args.is_distinct => {
                let names = ["sum", "count"].into_iter().zip(types);
                Ok(names.map(|(part, t)| Arc::new(Field::new(format!("{}[{part}]", args.name), t, true))).collect())
            }
            _ => self.inner.state_fields(args),
        }
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        internal_err!("{} is not computed by the planner", self.name())
    }
}
