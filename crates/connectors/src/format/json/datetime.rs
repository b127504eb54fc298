//! Dates, times of day and timestamps as text.
//!
//! Years have four digits; others have a sign and up to nine digits, so that every timestamp can be written
//! and read back. A fraction finer than the column's unit is truncated. A timestamp with a time zone is
//! written in UTC.

use std::str::FromStr;

use anabranch_model::{Error, Result};
use arrow::array::timezone::Tz;
use arrow::datatypes::TimeUnit;
use chrono::{DateTime, TimeZone};

/// The text form of timestamps. In both forms a number means epoch milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampFormat {
    /// `2020-01-31 10:20:30.123`; reading also accepts the `T` of ISO 8601 instead of the space.
    #[default]
    Sql,
    /// `2020-01-31T10:20:30.123`.
    Iso8601,
}

impl TimestampFormat {
    /// The words of options for it.
    pub(crate) const WORDS: [(&'static str, TimestampFormat); 2] =
        [("sql", TimestampFormat::Sql), ("iso-8601", TimestampFormat::Iso8601)];
}

/// A timestamp type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timestamp {
    /// Units in a second.
    per_second: i64,
    zone: Zone,
}

#[derive(Clone, Copy, Debug)]
enum Zone {
    /// The type has no time zone: text is read and written without one.
    None,
    Utc,
    Named(Tz),
}

const SECONDS_PER_DAY: i64 = 86_400;
/// The epoch milliseconds of the years 0 to 9999. Numbers beyond are of another unit.
pub(super) const EPOCH_MS_MIN: i64 = -62_167_219_200_000;
pub(super) const EPOCH_MS_MAX: i64 = 253_402_300_799_999;

/// A time of day.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    /// Units in a second.
    per_second: i64,
}

impl Time {
    pub(super) fn new(unit: TimeUnit) -> Self {
        Time { per_second: per_second(unit) }
    }

    /// The value for a text like `10:20:30` or `10:20:30.123`.
    pub(super) fn parse(self, text: &[u8]) -> Option<i64> {
        let has_seconds = text.len() >= 8 && text[5] == b':';
        let mut text = Text(text);
        let (seconds, nanos) = text.time_of_day().filter(|_| has_seconds)?;
        let value = seconds * self.per_second + nanos / (1_000_000_000 / self.per_second);
        text.0.is_empty().then_some(value)
    }

    /// Appends a value as text.
    pub(super) fn write(self, value: i64, out: &mut Vec<u8>) {
        write_time_of_day(value.div_euclid(self.per_second), value.rem_euclid(self.per_second), self.per_second, out);
    }
}

/// The number of values in a second.
pub(in crate::format) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

impl Timestamp {
    pub(super) fn new(unit: TimeUnit, zone: Option<&str>) -> Result<Self> {
        let zone = match zone {
            None => Zone::None,
            Some("UTC" | "Z" | "+00:00") => Zone::Utc,
            Some(name) => Zone::Named(Tz::from_str(name).map_err(|_| {
                Error::user(format!("unknown time zone '{name}'"))
                    .remedy("use a name like 'Europe/Berlin' or an offset like '+01:00'")
            })?),
        };
        Ok(Timestamp { per_second: per_second(unit), zone })
    }

    /// Whether its numbers are epoch milliseconds.
    pub(super) fn is_millisecond(&self) -> bool {
        self.per_second == 1_000
    }

    /// The value for a number of epoch milliseconds.
    pub(super) fn of_epoch_ms(&self, epoch_ms: i64) -> Option<i64> {
        if !(EPOCH_MS_MIN..=EPOCH_MS_MAX).contains(&epoch_ms) {
            return None;
        }
        if self.per_second >= 1_000 {
            epoch_ms.checked_mul(self.per_second / 1_000)
        } else {
            Some(epoch_ms.div_euclid(1_000 / self.per_second))
        }
    }

    /// The value for a text.
    pub(super) fn parse(&self, text: &[u8], format: TimestampFormat) -> Option<i64> {
        let mut text = Text(text);
        let days = text.date()?;
        let separated = text.skip(b'T') || (format == TimestampFormat::Sql && text.skip(b' '));
        if !separated {
            return None;
        }
        let (seconds, nanos) = text.time_of_day()?;
        let offset = text.offset()?;
        if !text.0.is_empty() {
            return None;
        }
        let seconds = days.checked_mul(SECONDS_PER_DAY)? + seconds;
        let seconds = match (offset, self.zone) {
            (Some(offset), _) => seconds - offset,
            (None, Zone::None | Zone::Utc) => seconds,
            (None, Zone::Named(zone)) => {
                let local = DateTime::from_timestamp(seconds, 0)?.naive_utc();
                zone.from_local_datetime(&local).earliest()?.timestamp()
            }
        };
        let value =
            i128::from(seconds) * i128::from(self.per_second) + i128::from(nanos / (1_000_000_000 / self.per_second));
        i64::try_from(value).ok()
    }

    /// Appends a value as text.
    pub(super) fn write(&self, value: i64, format: TimestampFormat, out: &mut Vec<u8>) {
        let seconds = value.div_euclid(self.per_second);
        let fraction = value.rem_euclid(self.per_second);
        write_date(seconds.div_euclid(SECONDS_PER_DAY), out);
        out.push(if format == TimestampFormat::Sql { b' ' } else { b'T' });
        write_time_of_day(seconds.rem_euclid(SECONDS_PER_DAY), fraction, self.per_second, out);
        if !matches!(self.zone, Zone::None) {
            out.push(b'Z');
        }
    }
}

/// Days since the epoch of a date like `2020-01-31`.
pub(super) fn parse_date(text: &[u8]) -> Option<i32> {
    let mut text = Text(text);
    let days = text.date()?;
    if text.0.is_empty() { i32::try_from(days).ok() } else { None }
}

/// Appends the date that is `days` after the epoch.
pub(super) fn write_date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil_from_days(days);
    if (0..=9_999).contains(&year) {
        write_padded(year, 4, out);
    } else {
        out.push(if year < 0 { b'-' } else { b'+' });
        write_padded(year.abs(), 4.max(year.unsigned_abs().ilog10() as usize + 1), out);
    }
    out.push(b'-');
    write_padded(month, 2, out);
    out.push(b'-');
    write_padded(day, 2, out);
}

fn write_time_of_day(second: i64, fraction: i64, per_second: i64, out: &mut Vec<u8>) {
    write_padded(second / 3_600, 2, out);
    out.push(b':');
    write_padded(second / 60 % 60, 2, out);
    out.push(b':');
    write_padded(second % 60, 2, out);
    let digits = per_second.ilog10() as usize;
    if digits > 0 {
        out.push(b'.');
        write_padded(fraction, digits, out);
    }
}

fn write_padded(value: i64, digits: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + digits, b'0');
    let mut rest = value;
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// The rest of a text that is read from the left.
struct Text<'a>(&'a [u8]);

impl Text<'_> {
    fn skip(&mut self, byte: u8) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if *first == byte => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    /// At least `min` and at most `max` digits, as many as there are.
    fn digits(&mut self, min: usize, max: usize) -> Option<(i64, usize)> {
        let count = self.0.iter().take(max).take_while(|byte| byte.is_ascii_digit()).count();
        if count < min {
            return None;
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        Some((digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')), count))
    }

    fn number(&mut self, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
        let (value, _) = self.digits(2, 2)?;
        range.contains(&value).then_some(value)
    }

    fn date(&mut self) -> Option<i64> {
        let negative = self.skip(b'-');
        let signed = negative || self.skip(b'+');
        let (year, _) = self.digits(4, if signed { 9 } else { 4 })?;
        let year = if negative { -year } else { year };
        self.skip(b'-').then_some(())?;
        let month = self.number(1..=12)?;
        self.skip(b'-').then_some(())?;
        let day = self.number(1..=days_in_month(year, month))?;
        Some(days_from_civil(year, month, day))
    }

    /// Seconds since midnight, and the nanoseconds of the fraction.
    fn time_of_day(&mut self) -> Option<(i64, i64)> {
        let hour = self.number(0..=23)?;
        self.skip(b':').then_some(())?;
        let minute = self.number(0..=59)?;
        let (mut second, mut nanos) = (0, 0);
        if self.skip(b':') {
            second = self.number(0..=59)?;
            if self.skip(b'.') {
                let (fraction, count) = self.digits(1, 9)?;
                nanos = fraction * 10_i64.pow(9 - count as u32);
                while self.0.first().is_some_and(u8::is_ascii_digit) {
                    self.0 = &self.0[1..];
                }
            }
        }
        Some((hour * 3_600 + minute * 60 + second, nanos))
    }

    /// Seconds east of UTC; `Some(None)` if the text has no offset.
    fn offset(&mut self) -> Option<Option<i64>> {
        if self.skip(b'Z') {
            return Some(Some(0));
        }
        let sign = match self.0.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Some(None),
        };
        self.0 = &self.0[1..];
        let hours = self.number(0..=23)?;
        let colon = self.skip(b':');
        let minutes = if colon || !self.0.is_empty() { self.number(0..=59)? } else { 0 };
        Some(Some(sign * (hours * 3_600 + minutes * 60)))
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 0000-03-01 to the epoch. A year that starts in March has its leap day at the end. So the days
/// before a month are a linear function of the month, and the days before a year are a linear function of the
/// year with the Gregorian corrections. The algorithm is Howard Hinnant's `days_from_civil`.
const EPOCH_FROM_MARCH_0: i64 = 719_468;
const DAYS_PER_400_YEARS: i64 = 146_097;

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - EPOCH_FROM_MARCH_0
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_FROM_MARCH_0;
    let era = days.div_euclid(DAYS_PER_400_YEARS);
    let day = days.rem_euclid(DAYS_PER_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year + i64::from(month <= 2);
    (year, month, day_of_year - (153 * month_from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests;
