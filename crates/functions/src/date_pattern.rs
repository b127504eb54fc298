//! Java's patterns of dates, such as `yyyy-MM-dd HH:mm:ss.SSS`: writing and reading.

use std::fmt::Write;

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use datafusion_common::Result;

use crate::definition::failure;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A parsed pattern.
pub(crate) struct Pattern {
    parts: Vec<Part>,
    /// Times in the same span of so many seconds have the same text; `None`: those that are equal.
    seconds: Option<i64>,
}

enum Part {
    Text(String),
    /// A letter of the pattern and its number of repetitions.
    Field(char, usize),
}

impl Pattern {
    pub(crate) fn parse(pattern: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut rest = pattern;
        while let Some(first) = rest.chars().next() {
            if first == '\'' {
                let end = rest[1..].find('\'').map(|at| at + 1).ok_or_else(|| unusable(rest, pattern))?;
                parts.push(Part::Text(if end == 1 { "'".into() } else { rest[1..end].to_owned() }));
                rest = &rest[end + 1..];
                continue;
            }
            let run = rest.len() - rest.trim_start_matches(first).len();
            if first.is_ascii_alphabetic() {
                if !is_known(first, run) {
                    return Err(unusable(&rest[..run], pattern));
                }
                parts.push(Part::Field(first, run));
            } else {
                parts.push(Part::Text(rest[..run].to_owned()));
            }
            rest = &rest[run..];
        }
        let seconds = |part: &Part| match part {
            Part::Field('S', _) => None,
            Part::Field('s', _) => Some(1),
            Part::Field('m', _) => Some(60),
            Part::Field('H' | 'h' | 'K' | 'k' | 'a', _) => Some(3600),
            _ => Some(86_400),
        };
        // `None` is less than any number.
        let seconds = parts.iter().map(seconds).min().unwrap_or(Some(86_400));
        Ok(Pattern { parts, seconds })
    }

    /// A number that two times have in common only if they have the same text.
    pub(crate) fn span(&self, seconds: i64, nanos: u32) -> (i64, u32) {
        match self.seconds {
            Some(span) => (seconds.div_euclid(span), 0),
            None => (seconds, nanos),
        }
    }

    pub(crate) fn write(&self, time: NaiveDateTime, out: &mut String) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Field(letter, count) => write_field(*letter, *count, time, out),
            }
        }
    }

    /// The time in a text; fields that the pattern lacks are those of 1970-01-01 00:00:00. A day that the month does
    /// not have becomes its last.
    pub(crate) fn read(&self, text: &str) -> Option<NaiveDateTime> {
        let mut fields = Fields { year: 1970, month: 1, day: 1, ..Fields::default() };
        let mut rest = text;
        for (index, part) in self.parts.iter().enumerate() {
            rest = match part {
                Part::Text(text) => rest.strip_prefix(text.as_str())?,
                Part::Field(letter, count) => {
                    let adjacent = matches!(self.parts.get(index + 1), Some(Part::Field(..)));
                    fields.read(*letter, *count, adjacent, rest)?
                }
            };
        }
        if rest.is_empty() { fields.time() } else { None }
    }
}

fn unusable(part: &str, pattern: &str) -> datafusion_common::DataFusionError {
    failure(format!(
        "'{part}' in the date pattern '{pattern}' is not supported; use y, u, M, d, D, Q, E, H, h, K, k, m, s, S, a and \
         text in single quotes"
    ))
}

fn is_known(letter: char, count: usize) -> bool {
    match letter {
        'y' | 'u' => matches!(count, 1 | 2 | 4),
        'M' | 'E' => count <= 4,
        'd' | 'H' | 'h' | 'K' | 'k' | 'm' | 's' | 'Q' => count <= 2,
        'D' => count == 1 || count == 3,
        'S' => count <= 9,
        'a' => count == 1,
        _ => false,
    }
}

fn write_field(letter: char, count: usize, time: NaiveDateTime, out: &mut String) {
    let hour = time.hour();
    let mut number = |value: u32| match value {
        0..100 if count == 2 => {
            out.push(char::from(b'0' + (value / 10) as u8));
            out.push(char::from(b'0' + (value % 10) as u8));
        }
        _ => _ = write!(out, "{value:0count$}"),
    };
    match letter {
        'y' | 'u' if count == 2 => number(time.year().rem_euclid(100).unsigned_abs()),
        'y' | 'u' => {
            let _ = write!(out, "{:0count$}", time.year());
        }
        'M' if count <= 2 => number(time.month()),
        'M' => out.push_str(name(MONTHS[time.month0() as usize], count)),
        'E' => out.push_str(name(WEEKDAYS[time.weekday().num_days_from_monday() as usize], count)),
        'd' => number(time.day()),
        'D' => number(time.ordinal()),
        'Q' => number(time.month0() / 3 + 1),
        'H' => number(hour),
        'k' => number(if hour == 0 { 24 } else { hour }),
        'K' => number(hour % 12),
        'h' => number(if hour.is_multiple_of(12) { 12 } else { hour % 12 }),
        'm' => number(time.minute()),
        's' => number(time.second()),
        'a' => out.push_str(if hour < 12 { "AM" } else { "PM" }),
        _ => {
            let start = out.len();
            let _ = write!(out, "{:09}", time.nanosecond());
            out.truncate(start + count);
        }
    }
}

/// A name in full, or its first three letters.
fn name(full: &str, count: usize) -> &str {
    if count == 4 { full } else { &full[..3] }
}

#[derive(Default)]
struct Fields {
    year: i32,
    month: u32,
    day: u32,
    ordinal: Option<u32>,
    hour: Option<u32>,
    /// 0 to 11.
    hour_of_half: Option<u32>,
    afternoon: bool,
    minute: u32,
    second: u32,
    nanosecond: u32,
}

impl Fields {
    /// Reads a field from the start of a text and returns the rest.
    fn read<'a>(&mut self, letter: char, count: usize, adjacent: bool, text: &'a str) -> Option<&'a str> {
        if letter == 'S' {
            let (digits, rest) = digits(text, count, count)?;
            self.nanosecond = digits.parse::<u32>().ok()? * 10_u32.pow(9 - u32::try_from(count).ok()?);
            return Some(rest);
        }
        if (letter == 'M' && count > 2) || letter == 'E' {
            let names: &[&str] = if letter == 'M' { &MONTHS } else { &WEEKDAYS };
            let index = names.iter().position(|full| text.starts_with(name(full, count)))?;
            if letter == 'M' {
                self.month = u32::try_from(index).ok()? + 1;
            }
            return text.get(name(names[index], count).len()..);
        }
        if letter == 'a' {
            self.afternoon = text.starts_with("PM");
            return text.strip_prefix("AM").or_else(|| text.strip_prefix("PM"));
        }
        let (least, most) = match (letter, count) {
            ('y' | 'u', 4) if adjacent => (4, 4),
            ('y' | 'u', 4) => (4, 9),
            ('y' | 'u', 1) => (1, 9),
            ('D', 1) => (1, 3),
            (_, 1) => (1, 2),
            (_, count) => (count, count),
        };
        let (digits, rest) = digits(text, least, most)?;
        let value: u32 = digits.parse().ok()?;
        match letter {
            'y' | 'u' => self.year = i32::try_from(value).ok()? + if count == 2 { 2000 } else { 0 },
            'M' => self.month = value,
            'd' => self.day = value,
            'D' => self.ordinal = Some(value),
            'H' => self.hour = Some(value),
            'k' => self.hour = Some(value % 24),
            'h' | 'K' => self.hour_of_half = Some(value % 12),
            'm' => self.minute = value,
            's' => self.second = value,
            _ => {}
        }
        Some(rest)
    }

    fn time(self) -> Option<NaiveDateTime> {
        let date = match self.ordinal {
            Some(ordinal) => NaiveDate::from_yo_opt(self.year, ordinal)?,
            None => date_in_month(self.year, self.month, self.day)?,
        };
        let half = if self.afternoon { 12 } else { 0 };
        let hour = self.hour.or(self.hour_of_half.map(|hour| hour + half)).unwrap_or(0);
        let time = NaiveTime::from_hms_nano_opt(hour, self.minute, self.second, self.nanosecond)?;
        Some(date.and_time(time))
    }
}

fn digits(text: &str, least: usize, most: usize) -> Option<(&str, &str)> {
    let count = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    (count >= least).then(|| text.split_at(count))
}

/// A day up to the 31st, or the month's last.
fn date_in_month(year: i32, month: u32, day: u32) -> Option<NaiveDate> {
    if !(1..=31).contains(&day) {
        return None;
    }
    (day.saturating_sub(3)..=day).rev().find_map(|day| NaiveDate::from_ymd_opt(year, month, day))
}

/// A time in SQL's form: a date, and optionally a time of day with a fraction of a second.
pub(crate) fn read_sql(text: &str) -> Option<NaiveDateTime> {
    let (date, time) = match text.trim().split_once(' ') {
        Some((date, time)) => (date, Some(time)),
        None => (text.trim(), None),
    };
    let date = read_date(date, false)?;
    let Some(time) = time else { return Some(date.and_time(NaiveTime::MIN)) };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = clock.split(':').map(|part| number(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut nanosecond = 0;
    for index in 0..9 {
        nanosecond = nanosecond * 10 + fraction.as_bytes().get(index).map_or(0, |digit| u32::from(digit - b'0'));
    }
    Some(date.and_time(NaiveTime::from_hms_nano_opt(hour, minute, second, nanosecond)?))
}

/// A date in SQL's form. One that does not exist is `None` if `strict`, else the last day of its month.
pub(crate) fn read_date(text: &str, strict: bool) -> Option<NaiveDate> {
    let mut parts = text.split('-');
    let (year, month, day) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let year = i32::try_from(year).ok()?;
    match (parts.next(), strict) {
        (Some(_), _) => None,
        (None, true) => NaiveDate::from_ymd_opt(year, month, day),
        (None, false) => date_in_month(year, month, day),
    }
}

fn number(text: &str, digits: usize) -> Option<u32> {
    let valid = (1..=digits).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    valid.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    #[test]
    fn times_of_one_span_have_one_text() {
        for text in ["yyyy-MM-dd", "HH:mm", "h a", "ss.SSS", "yyyy-MM-dd HH:mm:ss", "D", "'text'", "mm", "SS"] {
            let pattern = Pattern::parse(text).expect("a pattern");
            let write = |seconds: i64, nanos: u32| {
                let mut out = String::new();
                pattern.write(DateTime::from_timestamp(seconds, nanos).expect("a time").naive_utc(), &mut out);
                out
            };
            for seconds in [-1, 0, 59, 60, 3_599, 3_600, 86_399, 86_400, 1_700_000_000] {
                for (step, nanos) in [(1, 0), (0, 7_000_000), (59, 0), (60, 0), (3_599, 0), (43_200, 0), (86_400, 0)] {
                    if pattern.span(seconds, 0) == pattern.span(seconds + step, nanos) {
                        assert_eq!(write(seconds, 0), write(seconds + step, nanos), "{text}, {seconds} and {step} s");
                    }
                }
            }
        }
        let daily = Pattern::parse("yyyy-MM-dd").expect("a pattern");
        assert_eq!(daily.span(0, 0), daily.span(86_399, 999_999_999));
    }
}
