//! Time zones: local times of instants and instants of local times, by the rules of `java.time`. A local time
//! that a change of the clock skips is moved later by the length of the gap. For a local time that occurs
//! twice, the first instant counts.
//!
//! Offsets are looked up once per span of a few hours: most rows of a batch lie in one span.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Offset, TimeZone};
use datafusion_common::Result;
use datafusion_expr::ReturnFieldArgs;

use crate::arguments::Arguments;
use crate::definition::{Definition, Kind, Returns, failure, function};
use crate::moment::per_second;

const TAKES: &[&[Kind]] = &[&[Kind::Moment, Kind::Text]];

pub(crate) const DEFINITIONS: &[Definition] = &[
    // The local time of an instant, and the instant of a local time. The zone is a constant that the planner
    // writes.
    function(LOCAL_TIME, TAKES, Returns::Of(|args| timestamp(args, None)), |a| shifted(a, Direction::ToLocal))
        .fails_if(|call| !call.is_constant(1)),
    function(INSTANT, TAKES, Returns::Of(|args| timestamp(args, Some("UTC"))), |a| shifted(a, Direction::ToInstant))
        .fails_if(|call| !call.is_constant(1)),
];

/// Name of the function that gives the local time of an instant in a zone.
pub const LOCAL_TIME: &str = "time_in_zone";
/// Name of the function that gives the instant of a local time in a zone.
pub const INSTANT: &str = "instant_in_zone";

const DAY: i64 = 86_400;
/// Offsets are at most 18 hours, so clocks are changed by 36 at most.
const CHANGE_MAX: i64 = 36 * 3_600;
/// Spans have 2^14 seconds. No zone changes its clock and changes it back within that.
const SPAN_BITS: u32 = 14;
/// From this year on, rules are those of an earlier year with the same days of the week.
const REPEATED_FROM: i32 = 2100;

/// Which instant a local time means that occurs twice.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Twice {
    /// As in `java.time`.
    First,
    /// As in `java.util`, which some functions of Flink use.
    Last,
}

/// A time zone.
#[derive(Clone, Copy, Debug)]
pub struct Zone(Tz);

impl Zone {
    /// A zone by its name in the time zone database, such as `Europe/Berlin`, or as an offset, such as
    /// `GMT+05:45` or `+05:45`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Zone> {
        let zone = Tz::from_str(name).or_else(|unknown| name.strip_prefix("GMT").map_or(Err(unknown), Tz::from_str));
        zone.ok().map(Zone)
    }

    /// The zone that the planner has written.
    ///
    /// # Errors
    /// There is none with this name.
    pub fn known(name: &str) -> Result<Zone> {
        Zone::parse(name).ok_or_else(|| failure(format!("the time zone '{name}' is unknown to this version")))
    }

    /// Seconds by which local times are ahead of UTC at an instant, in seconds since 1970.
    pub(crate) fn offset(self, seconds: i64) -> i64 {
        let known = DateTime::from_timestamp(seconds, 0).map(|time| time.naive_utc());
        let last = || if seconds < 0 { NaiveDateTime::MIN } else { NaiveDateTime::MAX };
        let time = repeated(known.unwrap_or_else(last));
        self.0.offset_from_utc_datetime(&time).fix().local_minus_utc().into()
    }

    /// The offset of a local time, in seconds since 1970, from its instant. A skipped local time has the
    /// offset before the change.
    fn offset_of_local(self, seconds: i64, twice: Twice) -> i64 {
        let (before, after) = (self.offset(seconds.saturating_sub(DAY)), self.offset(seconds.saturating_add(DAY)));
        if before == after {
            return before;
        }
        let is_offset = |offset: i64| self.offset(seconds.saturating_sub(offset)) == offset;
        match (is_offset(before), is_offset(after)) {
            (true, true) if twice == Twice::Last => after,
            (false, true) => after,
            _ => before,
        }
    }

    /// The local time of an instant, in seconds since 1970.
    pub(crate) fn local_seconds(self, instant: i64) -> i64 {
        instant.saturating_add(self.offset(instant))
    }

    /// The instant of a local time, in seconds since 1970.
    pub(crate) fn instant_seconds(self, local: i64, twice: Twice) -> i64 {
        local.saturating_sub(self.offset_of_local(local, twice))
    }

    /// The local time of an instant, in milliseconds since 1970.
    #[must_use]
    pub fn local_ms(self, instant_ms: i64) -> i64 {
        instant_ms.saturating_add(self.offset(instant_ms.div_euclid(1000)) * 1000)
    }

    /// The instant of a local time, in milliseconds since 1970.
    #[must_use]
    pub fn instant_ms(self, local_ms: i64) -> i64 {
        local_ms.saturating_sub(self.offset_of_local(local_ms.div_euclid(1000), Twice::First) * 1000)
    }

    /// What a watermark promises of local times: no instant after `instant_ms` has a local time at or before
    /// the result. Where clocks are set back, local times come again.
    #[must_use]
    pub fn passed_local_ms(self, instant_ms: i64) -> i64 {
        if matches!(instant_ms, i64::MIN | i64::MAX) {
            return instant_ms;
        }
        let next = instant_ms.saturating_add(1);
        let (seconds, local) = (next.div_euclid(1000), self.local_ms(next).saturating_sub(1));
        let offset = self.offset(seconds);
        if self.offset(seconds.saturating_add(CHANGE_MAX)) >= offset {
            return local;
        }
        // The first second with another offset.
        let (mut before, mut behind) = (seconds, seconds.saturating_add(CHANGE_MAX));
        while behind - before > 1 {
            let middle = before + (behind - before) / 2;
            if self.offset(middle) == offset { before = middle } else { behind = middle }
        }
        local.min(self.local_ms(behind.saturating_mul(1000)).saturating_sub(1))
    }

    /// A watermark for instants, if one for local times is `local_ms`: the promise of the result is not more.
    #[must_use]
    pub fn passed_instant_ms(self, local_ms: i64) -> i64 {
        if matches!(local_ms, i64::MIN | i64::MAX) {
            return local_ms;
        }
        let instant = self.instant_ms(local_ms);
        let more = self.passed_local_ms(instant).saturating_sub(local_ms).max(0);
        instant.saturating_sub(more)
    }

    /// The longest time, in milliseconds, by which clocks are set back since 1970.
    #[must_use]
    pub fn repeated_ms(self) -> i64 {
        // The days until 2050.
        let offsets = (0..29_220).map(|day| self.offset(day * DAY));
        let set_back = offsets.clone().zip(offsets.skip(1)).map(|(offset, next)| offset - next);
        set_back.max().unwrap_or(0).max(0) * 1000
    }
}

/// The time itself, or one at the same place in an earlier year with the same days of the week: the library
/// knows rules of finitely many years.
fn repeated(time: NaiveDateTime) -> NaiveDateTime {
    if time.year() < REPEATED_FROM {
        return time;
    }
    let days = |year: i32| NaiveDate::from_ymd_opt(year, 1, 1).map(|first| (first.weekday(), first.leap_year()));
    let year = (REPEATED_FROM - 28..REPEATED_FROM).rev().find(|year| days(*year) == days(time.year()));
    year.and_then(|year| time.with_year(year)).unwrap_or(time)
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    ToLocal,
    ToInstant,
}

/// Shifts times of one unit, in rows that are near each other.
struct Shift {
    zone: Zone,
    direction: Direction,
    per_second: i64,
    /// The last span, and what is added to all times in it; `None`: it differs.
    span: Option<(i64, Option<i64>)>,
}

impl Shift {
    fn seconds(&self, seconds: i64) -> i64 {
        match self.direction {
            Direction::ToLocal => self.zone.offset(seconds),
            Direction::ToInstant => -self.zone.offset_of_local(seconds, Twice::First),
        }
    }

    fn span(&self, span: i64) -> Option<i64> {
        let (first, last) = (span << SPAN_BITS, (span << SPAN_BITS) | ((1 << SPAN_BITS) - 1));
        let same = match self.direction {
            Direction::ToLocal => self.zone.offset(first) == self.zone.offset(last),
            Direction::ToInstant => {
                self.zone.offset(first.saturating_sub(DAY)) == self.zone.offset(last.saturating_add(DAY))
            }
        };
        same.then(|| self.seconds(first))
    }

    fn apply(&mut self, value: i64) -> i64 {
        let seconds = value.div_euclid(self.per_second);
        let span = seconds >> SPAN_BITS;
        let by = match self.span {
            Some((last, by)) if last == span => by,
            _ => self.span.insert((span, self.span(span))).1,
        };
        let by = by.unwrap_or_else(|| self.seconds(seconds));
        value.saturating_add(by.saturating_mul(self.per_second))
    }
}

fn timestamp(args: &ReturnFieldArgs, zone: Option<&str>) -> Result<DataType> {
    match args.arg_fields[0].data_type() {
        DataType::Timestamp(unit, _) => Ok(DataType::Timestamp(*unit, zone.map(Into::into))),
        other => Err(failure(format!("{other} is no timestamp"))),
    }
}

fn shifted(arguments: &Arguments, direction: Direction) -> Result<ArrayRef> {
    let array = arguments.array(0);
    let zone = Zone::known(arguments.text(1).get(0).unwrap_or_default())?;
    let DataType::Timestamp(unit, _) = array.data_type() else {
        return Err(failure(format!("{} is no timestamp", array.data_type())));
    };
    let values = cast(array, &DataType::Int64)?;
    let values = values.as_primitive::<Int64Type>();
    let mut shift = Shift { zone, direction, per_second: per_second(*unit), span: None };
    let moved = values.values().iter().map(|value| shift.apply(*value)).collect();
    let moved: ArrayRef = Arc::new(Int64Array::new(moved, values.nulls().cloned()));
    Ok(cast(&moved, arguments.returns)?)
}

#[cfg(test)]
mod tests;
