//! Fields of dates and times, and arithmetic in units of the calendar. Weeks begin on Sunday, but week
//! numbers are those of ISO 8601, as in Flink.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimeUnit};
use chrono::{Datelike, Days, Duration, Months, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use datafusion_common::Result;
use datafusion_expr::ReturnFieldArgs;

use crate::arguments::{Arguments, primitives, try_primitives};
use crate::call::ZoneUse;
use crate::definition::{Definition, Kind, Returns, failure, function};
use crate::moment::{Moments, instant, moments, out_of_range};
use crate::zone::Zone;

pub(crate) const DEFINITIONS: &[Definition] = &[
    field("year", |a| get(a, |t| i64::from(t.year()))),
    field("quarter", |a| get(a, |t| i64::from(t.month0() / 3 + 1))),
    field("month", |a| get(a, |t| i64::from(t.month()))),
    field("week", |a| get(a, |t| i64::from(t.iso_week().week()))),
    field("dayofyear", |a| get(a, |t| i64::from(t.ordinal()))),
    field("dayofmonth", |a| get(a, |t| i64::from(t.day()))),
    field("dayofweek", |a| get(a, |t| i64::from(t.weekday().number_from_sunday()))),
    function("hour", CLOCK, Returns::BigInt, |a| get(a, |t| i64::from(t.hour()))).never_fails().reads_local_time(),
    function("minute", CLOCK, Returns::BigInt, |a| get(a, |t| i64::from(t.minute()))).never_fails().reads_local_time(),
    function("second", CLOCK, Returns::BigInt, |a| get(a, |t| i64::from(t.second()))).never_fails().reads_local_time(),
    field("extract_isodow", |a| get(a, |t| i64::from(t.weekday().number_from_monday()))),
    field("extract_isoyear", |a| get(a, |t| i64::from(t.iso_week().year()))),
    field("extract_millisecond", |a| get(a, |t| i64::from(t.nanosecond() / 1_000_000))),
    field("extract_microsecond", |a| get(a, |t| i64::from(t.nanosecond() / 1_000))),
    field("extract_nanosecond", |a| get(a, |t| i64::from(t.nanosecond()))),
    field("extract_epoch", |a| get(a, |t| t.and_utc().timestamp())),
    field("extract_decade", |a| get(a, |t| i64::from(t.year().div_euclid(10)))),
    field("extract_century", |a| get(a, |t| i64::from((t.year() + 99).div_euclid(100)))),
    field("extract_millennium", |a| get(a, |t| i64::from((t.year() + 999).div_euclid(1000)))),
    // The unit is a constant that the planner writes.
    function("floor_to", &[&[Kind::Moment, Kind::Text]], Returns::First, |a| to_unit(a, Unit::floor, None))
        .in_zone(ZoneUse::Last("floor_to_in")),
    function("ceil_to", &[&[Kind::Moment, Kind::Text]], Returns::First, |a| to_unit(a, Unit::ceil, None))
        .in_zone(ZoneUse::Last("ceil_to_in")),
    // Of an instant, in the time zone that is the last argument.
    function("floor_to_in", TO_UNIT_IN, Returns::First, |a| to_unit(a, Unit::floor, Some(zone_of_call(a)?))),
    function("ceil_to_in", TO_UNIT_IN, Returns::First, |a| to_unit(a, Unit::ceil, Some(zone_of_call(a)?))),
    function("timestamp_add", ADD, Returns::Of(|args| Ok(args.arg_fields[2].data_type().clone())), add),
    // By a unit shorter than a day, which makes a timestamp of a date.
    function("timestamp_add_time", ADD, Returns::Of(time_of), add),
    // TO_TIMESTAMP_LTZ(seconds, 0).
    function("timestamp_of_seconds", &[&[Kind::Integer], &[Kind::Double]], Returns::Of(|_| Ok(instant())), of_seconds)
        .never_fails(),
    function("timestamp_diff", &[&[Kind::Text, Kind::Moment, Kind::Moment]], Returns::Int, difference),
];

const TO_UNIT_IN: &[&[Kind]] = &[&[Kind::Moment, Kind::Text, Kind::Text]];
const ADD: &[&[Kind]] = &[&[Kind::Text, Kind::Integer, Kind::Moment]];
const CLOCK: &[&[Kind]] = &[&[Kind::Clock]];

const fn field(name: &'static str, evaluate: fn(&Arguments) -> Result<ArrayRef>) -> Definition {
    function(name, &[&[Kind::Moment]], Returns::BigInt, evaluate).never_fails().reads_local_time()
}

fn get(arguments: &Arguments, value: fn(NaiveDateTime) -> i64) -> Result<ArrayRef> {
    let times = Moments::new(arguments, 0)?;
    primitives::<Int64Type>(arguments.rows, |row| times.get(row).map(value))
}

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl Unit {
    fn parse(text: &str) -> Result<Self> {
        Ok(match text {
            "SECOND" => Unit::Second,
            "MINUTE" => Unit::Minute,
            "HOUR" => Unit::Hour,
            "DAY" => Unit::Day,
            "WEEK" => Unit::Week,
            "MONTH" => Unit::Month,
            "QUARTER" => Unit::Quarter,
            "YEAR" => Unit::Year,
            other => {
                return Err(failure(format!(
                    "unknown unit of time {other}; use one of: SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER, YEAR"
                )));
            }
        })
    }

    /// From an argument that the planner has written.
    fn argument(arguments: &Arguments, index: usize) -> Result<Self> {
        Unit::parse(arguments.text(index).get(0).unwrap_or_default())
    }

    /// Seconds of a unit of fixed length.
    fn seconds(self) -> i64 {
        match self {
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3_600,
            Unit::Day => 86_400,
            _ => 604_800,
        }
    }

    fn months(self) -> i64 {
        match self {
            Unit::Month => 1,
            Unit::Quarter => 3,
            _ => 12,
        }
    }

    fn floor(self, time: NaiveDateTime) -> Option<NaiveDateTime> {
        let date = time.date();
        let midnight = |date: NaiveDate| date.and_time(NaiveTime::MIN);
        match self {
            Unit::Second => time.with_nanosecond(0),
            Unit::Minute => date.and_hms_opt(time.hour(), time.minute(), 0),
            Unit::Hour => date.and_hms_opt(time.hour(), 0, 0),
            Unit::Day => Some(midnight(date)),
            Unit::Week => date.checked_sub_days(Days::new(date.weekday().num_days_from_sunday().into())).map(midnight),
            Unit::Month => date.with_day(1).map(midnight),
            Unit::Quarter => NaiveDate::from_ymd_opt(date.year(), date.month0() / 3 * 3 + 1, 1).map(midnight),
            Unit::Year => NaiveDate::from_ymd_opt(date.year(), 1, 1).map(midnight),
        }
    }

    fn ceil(self, time: NaiveDateTime) -> Option<NaiveDateTime> {
        let floor = self.floor(time)?;
        if floor == time { Some(time) } else { self.add(floor, 1) }
    }

    /// `count` units later; a day that the month does not have becomes the month's last.
    fn add(self, time: NaiveDateTime, count: i64) -> Option<NaiveDateTime> {
        if self < Unit::Month {
            return time.checked_add_signed(Duration::try_seconds(self.seconds().checked_mul(count)?)?);
        }
        let months = self.months().checked_mul(count)?;
        let size = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
        if months < 0 { time.checked_sub_months(size) } else { time.checked_add_months(size) }
    }

    /// Number of whole units from `start` to `end`.
    fn between(self, start: NaiveDateTime, end: NaiveDateTime) -> Option<i64> {
        if self < Unit::Month {
            // Rounds towards zero.
            return Some((end - start).num_seconds() / self.seconds());
        }
        if end < start {
            return self.between(end, start).map(|units| -units);
        }
        let mut months = i64::from(end.year() - start.year()) * 12 + i64::from(end.month()) - i64::from(start.month());
        if Unit::Month.add(start, months)? > end {
            months -= 1;
        }
        Some(months / self.months())
    }
}

fn zone_of_call(arguments: &Arguments) -> Result<Zone> {
    Zone::known(arguments.text(2).get(0).unwrap_or_default())
}

/// Rounds to a unit. In a zone, the result has the offset of the instant itself, as in Flink: where clocks
/// are changed in between, it is not the beginning of the unit.
fn to_unit(
    arguments: &Arguments,
    round: fn(Unit, NaiveDateTime) -> Option<NaiveDateTime>,
    zone: Option<Zone>,
) -> Result<ArrayRef> {
    let (times, unit) = (Moments::new(arguments, 0)?, Unit::argument(arguments, 1)?);
    moments(arguments, |row| {
        let Some(time) = times.get(row) else { return Ok(None) };
        let ahead = zone.map(|zone| Duration::seconds(zone.offset(time.and_utc().timestamp())));
        let rounded = match ahead {
            Some(ahead) => {
                let rounded = time.checked_add_signed(ahead).and_then(|local| round(unit, local));
                rounded.and_then(|local| local.checked_sub_signed(ahead))
            }
            None => round(unit, time),
        };
        rounded.map(Some).ok_or_else(|| out_of_range(&time.to_string()))
    })
}

fn time_of(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(match args.arg_fields[2].data_type() {
        DataType::Date32 => DataType::Timestamp(TimeUnit::Microsecond, None),
        other => other.clone(),
    })
}

/// Milliseconds since 1970 in the years 0 to 9999.
pub(crate) fn within_years(ms: i64) -> Option<i64> {
    (-62_167_219_200_000..=253_402_300_799_999).contains(&ms).then_some(ms)
}

/// Seconds since 1970, with milliseconds if they have fractions; NULL outside of the years 0 to 9999.
fn of_seconds(arguments: &Arguments) -> Result<ArrayRef> {
    let times = if arguments.array(0).data_type().is_integer() {
        let seconds = arguments.integer(0);
        primitives::<Int64Type>(arguments.rows, |row| within_years(seconds.get(row)?.checked_mul(1000)?))?
    } else {
        let seconds = arguments.double(0);
        #[expect(clippy::cast_possible_truncation, reason = "numbers beyond the range are out of bounds")]
        primitives::<Int64Type>(arguments.rows, |row| within_years((seconds.get(row)? * 1000.0).floor() as i64))?
    };
    Ok(arrow::compute::cast(&times, arguments.returns)?)
}

fn add(arguments: &Arguments) -> Result<ArrayRef> {
    let (unit, count, times) = (Unit::argument(arguments, 0)?, arguments.integer(1), Moments::new(arguments, 2)?);
    moments(arguments, |row| {
        let (Some(count), Some(time)) = (count.get(row), times.get(row)) else { return Ok(None) };
        unit.add(time, count).map(Some).ok_or_else(|| out_of_range(&format!("{time} plus {count} units")))
    })
}

fn difference(arguments: &Arguments) -> Result<ArrayRef> {
    let (unit, start, end) = (Unit::argument(arguments, 0)?, Moments::new(arguments, 1)?, Moments::new(arguments, 2)?);
    try_primitives::<Int32Type>(arguments.rows, |row| {
        let (Some(start), Some(end)) = (start.get(row), end.get(row)) else { return Ok(None) };
        let units = unit.between(start, end).and_then(|units| i32::try_from(units).ok());
        let wrong = || failure(format!("TIMESTAMPDIFF from {start} to {end} does not fit into INT; use a larger unit"));
        units.map(Some).ok_or_else(wrong)
    })
}
