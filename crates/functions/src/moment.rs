//! Dates and times as arguments and results.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use chrono::{DateTime, NaiveDateTime};
use datafusion_common::{DataFusionError, Result};

use crate::arguments::Arguments;
use crate::definition::failure;

const DAY_SECONDS: i64 = 86_400;

/// A column of dates, times or timestamps.
pub(crate) struct Moments {
    values: PrimitiveArray<Int64Type>,
    step: usize,
    unit: Unit,
}

#[derive(Clone, Copy)]
enum Unit {
    Days,
    /// Number of units per second.
    PerSecond(i64),
}

fn unit_of(data_type: &DataType) -> Result<Unit> {
    let unit = match data_type {
        DataType::Date32 => return Ok(Unit::Days),
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => unit,
        other => return Err(failure(format!("{other} is not a date or time; cast it to TIMESTAMP"))),
    };
    Ok(Unit::PerSecond(per_second(*unit)))
}

/// The type of instants: TIMESTAMP_LTZ(3).
pub(crate) fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
}

/// How many units of time a second has.
#[must_use]
pub fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

impl Moments {
    pub(crate) fn new(arguments: &Arguments, index: usize) -> Result<Self> {
        let array = arguments.array(index);
        let unit = unit_of(array.data_type())?;
        // Arrow has no direct cast from 32-bit dates and times to 64 bits.
        let array = match array.data_type() {
            DataType::Date32 | DataType::Time32(_) => cast(array, &DataType::Int32)?,
            _ => ArrayRef::clone(array),
        };
        let values = cast(&array, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
        Ok(Moments { values, step: usize::from(!arguments.is_constant(index)), unit })
    }

    pub(crate) fn get(&self, row: usize) -> Option<NaiveDateTime> {
        let (seconds, nanos) = self.since_epoch(row)?;
        DateTime::from_timestamp(seconds, nanos).map(|time| time.naive_utc())
    }

    /// Seconds since 1970, and nanoseconds since the second.
    pub(crate) fn since_epoch(&self, row: usize) -> Option<(i64, u32)> {
        let row = row * self.step;
        if self.values.is_null(row) {
            return None;
        }
        let value = self.values.value(row);
        let (seconds, nanos) = match self.unit {
            Unit::Days => (value.checked_mul(DAY_SECONDS)?, 0),
            Unit::PerSecond(units) => (value.div_euclid(units), value.rem_euclid(units) * (1_000_000_000 / units)),
        };
        Some((seconds, u32::try_from(nanos).ok()?))
    }
}

/// A column of the type that the call returns; digits finer than the type are truncated.
pub(crate) fn moments(
    arguments: &Arguments,
    mut value: impl FnMut(usize) -> Result<Option<NaiveDateTime>>,
) -> Result<ArrayRef> {
    let unit = unit_of(arguments.returns)?;
    let number = |time: NaiveDateTime| {
        let (seconds, nanos) = (time.and_utc().timestamp(), i64::from(time.and_utc().timestamp_subsec_nanos()));
        match unit {
            Unit::Days => Some(seconds.div_euclid(DAY_SECONDS)),
            Unit::PerSecond(units) => seconds.checked_mul(units)?.checked_add(nanos / (1_000_000_000 / units)),
        }
    };
    let rows = (0..arguments.rows).map(|row| {
        let Some(time) = value(row)? else { return Ok(None) };
        number(time).map(Some).ok_or_else(|| out_of_range(&time.to_string()))
    });
    let values = rows.collect::<Result<Int64Array>>()?;
    if matches!(unit, Unit::Days) {
        return Ok(cast(&cast(&values, &DataType::Int32)?, &DataType::Date32)?);
    }
    Ok(cast(&values, arguments.returns)?)
}

pub(crate) fn out_of_range(what: &str) -> DataFusionError {
    failure(format!("the time {what} is out of range"))
}
