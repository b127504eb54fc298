//! Functions that the planner calls; no query can name them.

use arrow::array::ArrayRef;
use arrow::datatypes::Int64Type;
use datafusion_common::Result;

use crate::arguments::Arguments;
use crate::definition::{Definition, Kind, Returns, failure, function};

pub(crate) const DEFINITIONS: &[Definition] = &[
    function("$single", &[&[Kind::Any, Kind::Integer]], Returns::First, single),
    function("$key", &[&[Kind::Any, Kind::Text]], Returns::First, |arguments| arguments.full(0)).never_fails(),
];

/// The value of a scalar subquery. The first argument is the value, and the second one is the number of rows
/// that the subquery gave, which may be 1 at most.
fn single(arguments: &Arguments) -> Result<ArrayRef> {
    let counts = arguments.primitive::<Int64Type>(1);
    match (0..arguments.rows).filter_map(|row| counts.get(row)).find(|count| *count > 1) {
        Some(count) => Err(failure(format!("a subquery that stands for one value gives {count} rows"))),
        None => arguments.full(0),
    }
}
