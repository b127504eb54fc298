//! Compares times with texts: `ts < '9999-12-31 00:00:00'`. DataFusion would compare nanoseconds, which end
//! in 2262. Also compares times of day of different precisions, which DataFusion refuses.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, ExprSchema, Result};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, cast};

use crate::rewrite::{InputColumns, is_comparison};
use crate::walk::Walk;

/// Converts constant texts to the type of the time that they are compared with. As in Flink, further digits
/// are cut.
pub(crate) fn read_texts(expr: Expr, scope: &InputColumns) -> Result<Transformed<Expr>> {
    let schema: &dyn ExprSchema = scope.columns().as_ref();
    expr.walk_up(&mut |expr| {
        let found = match expr {
            Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if is_comparison(op) => {
                let was_read = read_beside(&right, &mut left, schema) | read_beside(&left, &mut right, schema);
                (Expr::BinaryExpr(BinaryExpr { left, op, right }), was_read)
            }
            Expr::Between(mut between) => {
                let bounds = [&mut between.low, &mut between.high];
                let was_read = bounds.map(|bound| read_beside(&between.expr, bound, schema)).contains(&true);
                (Expr::Between(between), was_read)
            }
            Expr::InList(mut list) => {
                let read = list.list.iter_mut().filter_map(|item| read_beside(&list.expr, item, schema).then_some(()));
                let was_read = read.count() > 0;
                (Expr::InList(list), was_read)
            }
            Expr::ScalarFunction(mut call) if call.name() == "nullif" => {
                let was_read = match call.args.as_mut_slice() {
                    [value, other] => read_beside(value, other, schema),
                    _ => false,
                };
                (Expr::ScalarFunction(call), was_read)
            }
            other => (other, false),
        };
        let (expr, was_read) = found;
        Ok(Transformed::new_transformed(expr, was_read))
    })
}

/// Converts the coarser one of two times of day beside an operator to the precision of the finer one.
/// DataFusion refuses such operands before type coercion.
#[derive(Debug)]
pub(crate) struct TimesOfDayPlanner;

impl ExprPlanner for TimesOfDayPlanner {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        make_finer(&expr.left, &mut expr.right, schema);
        make_finer(&expr.right, &mut expr.left, schema);
        Ok(PlannerResult::Original(expr))
    }
}

/// Converts `other` to the precision of `time` if `other` is coarser. Returns whether it did.
fn make_finer(time: &Expr, other: &mut Expr, schema: &dyn ExprSchema) -> bool {
    let (Ok(to), Ok(from)) = (time.get_type(schema), other.get_type(schema)) else { return false };
    let is_coarser = digits_of_day(&from).is_some_and(|coarse| digits_of_day(&to).is_some_and(|fine| coarse < fine));
    if is_coarser {
        *other = cast(std::mem::take(other), to);
    }
    is_coarser
}

/// Converts a constant text or a coarser time of day to the type of `time`. Returns whether it did.
fn read_beside(time: &Expr, text: &mut Expr, schema: &dyn ExprSchema) -> bool {
    if make_finer(time, text, schema) {
        return true;
    }
    let Expr::Literal(value, _) = &*text else { return false };
    let (Some(Some(_)), Ok(to @ DataType::Timestamp(..))) = (value.try_as_str(), time.get_type(schema)) else {
        return false;
    };
    *text = cast(std::mem::take(text), to);
    true
}

/// The number of digits of a second's fraction in a type of times of day.
fn digits_of_day(data_type: &DataType) -> Option<u8> {
    Some(match data_type {
        DataType::Time32(TimeUnit::Second) => 0,
        DataType::Time32(_) => 3,
        DataType::Time64(TimeUnit::Microsecond) => 6,
        DataType::Time64(_) => 9,
        _ => return None,
    })
}
