//! Times compared with texts: `ts < '9999-12-31 00:00:00'`. The library would compare nanoseconds, which end
//! in 2262. And times of day of several precisions, which the library does not compare.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, ExprSchema, Result};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, cast};

use crate::rewrite::{Scope, is_comparison};
use crate::walk::Walk;

/// Reads constant texts that are compared with times in the times' type, as Flink does: further digits are
/// left out.
pub(crate) fn read_texts(expr: Expr, scope: &Scope) -> Result<Transformed<Expr>> {
    let schema: &dyn ExprSchema = scope.columns().as_ref();
    expr.walk_up(&mut |expr| {
        let found = match expr {
            Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if is_comparison(op) => {
                let was_read = read_beside(&right, &mut left, schema) | read_beside(&left, &mut right, schema);
                (Expr::BinaryExpr(BinaryExpr { left, op, right }), was_read)
            }
            Expr::Between(mut of) => {
                let bounds = [&mut of.low, &mut of.high];
                let was_read = bounds.map(|bound| read_beside(&of.expr, bound, schema)).contains(&true);
                (Expr::Between(of), was_read)
            }
            Expr::InList(mut of) => {
                let read = of.list.iter_mut().filter_map(|item| read_beside(&of.expr, item, schema).then_some(()));
                let was_read = read.count() > 0;
                (Expr::InList(of), was_read)
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

/// Gives two times of day that stand beside an operator the digits of the finer one. The library refuses them
/// before types are coerced.
#[derive(Debug)]
pub(crate) struct TimesOfDayPlanner;

impl ExprPlanner for TimesOfDayPlanner {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        make_finer(&expr.left, &mut expr.right, schema);
        make_finer(&expr.right, &mut expr.left, schema);
        Ok(PlannerResult::Original(expr))
    }
}

/// Makes a time of day as fine as another one. Returns whether it was coarser.
fn make_finer(time: &Expr, other: &mut Expr, schema: &dyn ExprSchema) -> bool {
    let (Ok(to), Ok(from)) = (time.get_type(schema), other.get_type(schema)) else { return false };
    let is_coarser = digits_of_day(&from).is_some_and(|coarse| digits_of_day(&to).is_some_and(|fine| coarse < fine));
    if is_coarser {
        *other = cast(std::mem::take(other), to);
    }
    is_coarser
}

/// Makes a constant text a time if it is compared with one, and a time of day as fine as the one it is
/// compared with. Returns whether it did.
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

/// The digits of a second of a time of day.
fn digits_of_day(data_type: &DataType) -> Option<u8> {
    Some(match data_type {
        DataType::Time32(TimeUnit::Second) => 0,
        DataType::Time32(_) => 3,
        DataType::Time64(TimeUnit::Microsecond) => 6,
        DataType::Time64(_) => 9,
        _ => return None,
    })
}
