//! Functions that have another value each time: the clock, and random numbers.

use std::cell::RefCell;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow::array::{ArrayRef, Int64Array, TimestampMillisecondArray};
use arrow::datatypes::Int32Type;
use datafusion_common::Result;

use crate::arguments::{Arguments, try_primitives};
use crate::definition::{Definition, Kind, Returns, failure, function};
use crate::moment::instant;

pub(crate) const DEFINITIONS: &[Definition] = &[
    // Flink's CURRENT_TIMESTAMP and NOW(), which the planner replaces by it, are the same.
    function("current_row_timestamp", &[&[]], Returns::Of(|_| Ok(instant())), current_row_timestamp)
        .never_fails()
        .varies(),
    // UNIX_TIMESTAMP() without an argument.
    function("current_unix_timestamp", &[&[]], Returns::BigInt, current_unix_timestamp).never_fails().varies(),
    function("rand_integer", &[&[Kind::Integer]], Returns::Int, rand_integer).varies(),
];

#[expect(
    clippy::disallowed_methods,
    reason = "a function knows its arguments only, and no result that can be repeated depends on it"
)]
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// One time for the rows of a batch.
fn current_row_timestamp(arguments: &Arguments) -> Result<ArrayRef> {
    let now = i64::try_from(since_epoch().as_millis()).unwrap_or(i64::MAX);
    Ok(Arc::new(TimestampMillisecondArray::from(vec![now; arguments.rows]).with_data_type(instant())))
}

/// In seconds.
fn current_unix_timestamp(arguments: &Arguments) -> Result<ArrayRef> {
    let now = i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX);
    Ok(Arc::new(Int64Array::from(vec![now; arguments.rows])))
}

#[expect(clippy::disallowed_types, reason = "the numbers of each process are others")]
type Secret = std::hash::RandomState;

/// A number from 0 on, and below the bound.
fn rand_integer(arguments: &Arguments) -> Result<ArrayRef> {
    thread_local! {
        /// A secret, and how many numbers were drawn with it.
        static DRAWN: RefCell<(Secret, u64)> = RefCell::new((Secret::default(), 0));
    }
    let bounds = arguments.integer(0);
    DRAWN.with_borrow_mut(|(secret, count)| {
        try_primitives::<Int32Type>(arguments.rows, |row| {
            let Some(bound) = bounds.get(row) else { return Ok(None) };
            if !(1..=i64::from(i32::MAX)).contains(&bound) {
                return Err(failure(format!("RAND_INTEGER({bound}) has no number: the bound is an INT above 0")));
            }
            *count += 1;
            let scaled = u128::from(secret.hash_one(*count)) * u128::from(bound.unsigned_abs());
            Ok(i32::try_from(scaled >> 64).ok())
        })
    })
}
