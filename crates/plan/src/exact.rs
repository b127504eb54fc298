//! Exact numbers and text where SQL differs from DataFusion: arithmetic of DECIMAL, SUM and AVG of it, and values as text.
//!
//! The planner only needs the types. The functions have no implementation, so the optimizer cannot compute constants by
//! the library's rules; lowering converts them to the plan's own expressions.

use std::sync::Arc;

use anabranch_dataflow::{BinaryOp, as_decimal, decimal_result, exact_aggregate};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue, internal_err, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_sql::sqlparser::ast;

use crate::rewrite::rewrite_expressions;

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

/// A whole-number literal is an INT, with the digits of one, if it is small enough.
fn narrowed(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(number)), metadata) if i32::try_from(number).is_ok() => {
            Expr::Literal(ScalarValue::Decimal128(Some(number.into()), 10, 0), metadata)
        }
        other => other,
    }
}

/// The meaning of a function without an implementation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Meaning {
    /// `left op right`.
    Arithmetic(BinaryOp),
    /// `CAST(value AS STRING)`, to this type of string; `TRY_CAST` if `safe`.
    Text { to: DataType, safe: bool },
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

/// The meaning of a function, if it is one of these.
pub(crate) fn meaning(function: &ScalarUDF) -> Option<&Meaning> {
    function.inner().downcast_ref::<Typed>().map(|typed| &typed.meaning)
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
            Meaning::Text { safe: false, .. } => "$text",
            Meaning::Text { safe: true, .. } => "$try_text",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match (&self.meaning, args) {
            (Meaning::Arithmetic(op), [left, right]) => format!("({left} {} {right})", symbol(*op)),
            (Meaning::Text { safe, .. }, [value]) => {
                format!("{}CAST({value} AS STRING)", if *safe { "TRY_" } else { "" })
            }
            _ => return internal_err!("{} of {} operands", self.name(), args.len()),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Whole numbers keep their types: their digits count.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (&self.meaning, types) {
            (Meaning::Text { to, .. }, [_]) => Ok(to.clone()),
            (Meaning::Arithmetic(op), [left, right]) => match decimal_result(*op, left, right) {
                Some(result) => Ok(result),
                // The optimizer may have removed a cast.
                None if as_decimal(left).is_some() => plan_err!("{left} {} {right} is not exact", symbol(*op)),
                None => plan_err!("{left} is not an exact number"),
            },
            _ => internal_err!("{} of {} operands", self.name(), types.len()),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} is not computed by the planner", self.name())
    }
}

/// Applies our meaning to conversions to text and to arithmetic of constants, before the optimizer computes constants.
pub(crate) fn settle_constants(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite_expressions(plan, settle)
}

fn settle(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (inner, field, safe) = match expr {
        Expr::Cast(cast) if is_own_text(&cast.expr, cast.field.data_type(), schema) => (cast.expr, cast.field, false),
        Expr::TryCast(cast) if is_own_text(&cast.expr, cast.field.data_type(), schema) => (cast.expr, cast.field, true),
        Expr::BinaryExpr(ref binary) => {
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
    let meaning = Meaning::Text { to: field.data_type().clone(), safe };
    let function = Arc::new(ScalarUDF::new_from_impl(Typed::new(meaning)));
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*inner]))))
}

fn whole(value: &ScalarValue) -> Option<i64> {
    if let ScalarValue::Int64(number) = value { *number } else { None }
}

fn is_own_text(expr: &Expr, to: &DataType, schema: &DFSchema) -> bool {
    use DataType::{Boolean, Float32, Float64, Timestamp};
    let own = |from: DataType| matches!(from, Boolean | Float32 | Float64 | Timestamp(..));
    to.is_string() && expr.get_type(schema).is_ok_and(own)
}

/// SUM or AVG with the types of exact results.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExactAggregate {
    inner: Arc<AggregateUDF>,
}

impl ExactAggregate {
    /// Wraps the library's aggregate `inner`.
    pub(crate) fn over(inner: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::new_from_impl(ExactAggregate { inner }))
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
        self.inner.signature()
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
