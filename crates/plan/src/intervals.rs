//! Intervals of days and times are normalized to nanoseconds. `INTERVAL '1' DAY` equals `INTERVAL '24' HOUR`,
//! as in Flink, which represents both in milliseconds. DataFusion keeps days separate and compares field by
//! field, also for keys, MAX and ORDER BY.

use arrow::datatypes::IntervalMonthDayNano;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::Expr;

use crate::rewrite::InputColumns;
use crate::walk::Walk;

const DAY_NS: i64 = 86_400_000_000_000;

/// Normalizes constant intervals.
pub(crate) fn without_days(expr: Expr, _: &InputColumns) -> Result<Transformed<Expr>> {
    expr.walk_up(&mut |expr| match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), metadata) => {
            let whole = in_nanoseconds(interval);
            let literal = Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(whole)), metadata);
            Ok(Transformed::new_transformed(literal, whole != interval))
        }
        expr => Ok(Transformed::no(expr)),
    })
}

/// An interval of more than 292 years keeps its days.
fn in_nanoseconds(interval: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let days = i64::from(interval.days).checked_mul(DAY_NS);
    match days.and_then(|days| days.checked_add(interval.nanoseconds)) {
        Some(nanoseconds) => IntervalMonthDayNano { days: 0, nanoseconds, ..interval },
        None => interval,
    }
}
