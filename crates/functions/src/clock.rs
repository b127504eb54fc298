//! The time at which a row is processed.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{ArrayRef, TimestampMillisecondArray};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::Result;

use crate::arguments::Arguments;
use crate::definition::{Definition, Returns, function};

/// Flink's `CURRENT_TIMESTAMP` and `NOW()`, which the planner replaces by it, are the same.
pub(crate) const DEFINITIONS: &[Definition] = &[Definition {
    varies: true,
    ..function("current_row_timestamp", &[&[]], Returns::Of(|_| Ok(instant())), current_row_timestamp)
}];

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
}

/// One time for the rows of a batch.
#[expect(
    clippy::disallowed_methods,
    reason = "a function knows its arguments only, and no result that can be repeated depends on it"
)]
fn current_row_timestamp(arguments: &Arguments) -> Result<ArrayRef> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    Ok(Arc::new(TimestampMillisecondArray::from(vec![now; arguments.rows]).with_data_type(instant())))
}
