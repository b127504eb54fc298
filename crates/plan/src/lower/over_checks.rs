//! Checks of calls with `OVER`: refuses clauses without an effect or with a wrong one.

use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion_expr::{Expr as Logical, ExprSchemable, WindowFunctionDefinition};

use super::over::call;
use crate::event_time::{TimeAttribute, time_attribute_of};
use crate::maps::shown;
use crate::place::planning_error;
use crate::rel::{Columns, Over};

/// Functions that are no aggregates have neither `IGNORE NULLS` nor `DISTINCT`. The binder refuses their
/// `FILTER`.
pub(super) fn check_calls(window: &Over) -> Result<()> {
    for expr in &window.window_expr {
        let call = call(expr)?;
        let WindowFunctionDefinition::WindowUDF(function) = &call.fun else { continue };
        let (name, params) = (function.name(), &call.params);
        let refused = [("IGNORE NULLS", params.null_treatment.is_some()), ("DISTINCT", params.distinct)];
        if let Some((what, _)) = refused.into_iter().find(|(_, is_there)| *is_there) {
            let name = name.to_uppercase();
            return Err(Error::user(format!("{what} in {name}(...) is not supported yet")).remedy("omit it"));
        }
    }
    Ok(())
}

/// Refuses an event time with more digits than milliseconds, because rows are ordered by milliseconds.
pub(super) fn check_precision(time: &Logical, window: &Over, index: &Columns) -> Result<()> {
    let digits = match time.get_type(index).map_err(planning_error)? {
        DataType::Timestamp(TimeUnit::Microsecond, _) => 6,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 9,
        _ => return Ok(()),
    };
    let Logical::Column(column) = time else { return Ok(()) };
    // Windows end at whole milliseconds.
    if index.find(column).and_then(|column| time_attribute_of(&window.input, column)) != Some(TimeAttribute::Record) {
        return Ok(());
    }
    let name = shown(time);
    Err(Error::user(format!("OVER orders rows by milliseconds, but '{name}' has {digits} digits of a second"))
        .remedy(format!("declare '{name}' as TIMESTAMP(3), or a column of it: CAST({name} AS TIMESTAMP(3))")))
}
