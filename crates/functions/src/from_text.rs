//! Numbers, dates and times that texts show, as `CAST` reads them.

use arrow::datatypes::{DataType, TimeUnit};
use chrono::{Datelike, Days, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

use crate::date_pattern::{read_date, read_sql};
use crate::per_second;

/// Whether the functions here read texts as values of this type.
#[must_use]
pub fn reads_texts_as(to: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Time32, Timestamp};
    to.is_signed_integer() || matches!(to, Decimal128(..) | Date32 | Time32(TimeUnit::Second) | Timestamp(..))
}

/// A number without the blanks around it and its sign, and whether it is negative.
fn without_sign(text: &str) -> (bool, &str) {
    let text = text.trim();
    match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// The whole number that a text shows, with blanks around it and a sign. Digits after a point are left out,
/// as in Flink.
#[must_use]
pub fn parse_whole(text: &str) -> Option<i64> {
    let (negative, text) = without_sign(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if text.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Negative, since the least number has no counterpart.
    let number = whole.bytes().try_fold(0_i64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_sub(digit)
    })?;
    if negative { Some(number) } else { number.checked_neg() }
}

/// Reads a DECIMAL, in units of its last digit, rounded half up. The text may have blanks around it, a sign,
/// a point and an exponent. `None`: it is no number, or has too many digits.
#[must_use]
pub fn parse_decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let (negative, text) = without_sign(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || !digits().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // How many of the digits belong to the number; what follows is rounded.
    let kept = i64::try_from(whole.len()).ok()?.checked_add(exponent)?.checked_add(i64::from(scale))?;
    let limit = 10_i128.checked_pow(u32::from(precision))?;
    let zeros = digits().take_while(|digit| *digit == b'0').count();
    let (mut number, mut place) = (0_i128, i64::try_from(zeros).ok()?);
    let mut all = digits().skip(zeros);
    while place < kept {
        let Some(digit) = all.next() else { break };
        number = number.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        place += 1;
    }
    if number != 0 {
        number = number.checked_mul(10_i128.checked_pow(u32::try_from(kept - place).ok()?)?)?;
    }
    if place == kept && all.next().is_some_and(|digit| digit >= b'5') {
        number = number.checked_add(1)?;
    }
    let number = if negative { -number } else { number };
    (number.abs() < limit).then_some(number)
}

/// The time that a text shows, `2024-05-06 07:08:09.123456789`, in this unit since 1970, whose smaller parts
/// are left out. The time of day may be missing. The last second of a day may be its 24th hour.
#[must_use]
pub fn parse_timestamp(text: &str, unit: TimeUnit) -> Option<i64> {
    let (time, by) = (date_and_time(text)?.and_utc(), per_second(unit));
    let fraction = i64::from(time.timestamp_subsec_nanos()) / (1_000_000_000 / by);
    time.timestamp().checked_mul(by)?.checked_add(fraction)
}

fn date_and_time(text: &str) -> Option<NaiveDateTime> {
    let has_blanks = text.trim().len() != text.len();
    if has_blanks || text.split('-').next()?.len() != 4 {
        return None;
    }
    if let Some((date, "24:00:00")) = text.split_once(' ') {
        let next = read_date(date, false)?.checked_add_days(Days::new(1))?;
        return next.and_hms_opt(0, 0, 0).filter(|_| next.year() <= 9999);
    }
    read_sql(text)
}

/// The date that a text shows: a year, and perhaps a month and a day. What follows a blank is left out.
#[must_use]
pub fn parse_date(text: &str) -> Option<NaiveDate> {
    let text = match text.find(' ') {
        Some(end) if end > 0 => &text[..end],
        _ => text,
    };
    let mut parts = text.splitn(3, '-').map(|part| part.trim().parse::<u32>().ok());
    let year = i32::try_from(parts.next()??).ok().filter(|year| *year <= 9999)?;
    let (month, day) = (parts.next().unwrap_or(Some(1))?, parts.next().unwrap_or(Some(1))?);
    NaiveDate::from_ymd_opt(year, month, day)
}

/// The time of day that a text shows, in seconds: an hour, and perhaps a minute and a second with a fraction,
/// which is left out.
#[must_use]
pub fn parse_time(text: &str) -> Option<i32> {
    let number = |part: &str| part.trim().parse::<u32>().ok();
    let mut parts = text.splitn(3, ':');
    let (hour, minute) = (number(parts.next()?)?, number(parts.next().unwrap_or("0"))?);
    let second = parts.next().unwrap_or("0");
    let (second, fraction) = second.split_once('.').unwrap_or((second, "0"));
    let is_fraction = fraction.trim().bytes().all(|byte| byte.is_ascii_digit());
    let time = NaiveTime::from_hms_opt(hour, minute, number(second)?).filter(|_| is_fraction)?;
    i32::try_from(time.num_seconds_from_midnight()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_rounded_half_up() {
        for (text, precision, scale, expected) in [
            ("1.005", 10, 2, Some(101)),
            ("-0.285", 10, 2, Some(-29)),
            (" +0.0049 ", 10, 2, Some(0)),
            ("0.005", 10, 2, Some(1)),
            ("0.0005", 10, 2, Some(0)),
            ("00012.5", 10, 0, Some(13)),
            ("1e3", 10, 1, Some(10_000)),
            ("1.25E-1", 10, 2, Some(13)),
            ("5e-3", 10, 2, Some(1)),
            ("5e-4", 10, 2, Some(0)),
            ("5e-400", 10, 2, Some(0)),
            ("0e400", 10, 2, Some(0)),
            ("1e400", 10, 2, None),
            ("99.995", 4, 2, None),
            ("99.994", 4, 2, Some(9999)),
            (".5", 4, 2, Some(50)),
            ("5.", 4, 2, Some(500)),
            (".", 4, 2, None),
            ("", 4, 2, None),
            ("1 2", 4, 2, None),
            ("1e", 4, 2, None),
            ("99999999999999999999999999999999999999", 38, 0, Some(10_i128.pow(38) - 1)),
            ("100000000000000000000000000000000000000", 38, 0, None),
            ("170141183460469231731687303715884105727.5", 38, 0, None),
        ] {
            assert_eq!(parse_decimal(text, precision, scale), expected, "{text}");
        }
    }

    #[test]
    fn whole_numbers_lose_their_fractions() {
        for (text, expected) in [
            (" 12 ", Some(12)),
            ("+5", Some(5)),
            ("-1.9", Some(-1)),
            (".", Some(0)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775807.9", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("", None),
            ("-", None),
            ("- 5", None),
            ("1e3", None),
            ("1.5e1", None),
            ("1.2.3", None),
        ] {
            assert_eq!(parse_whole(text), expected, "{text}");
        }
    }
}
