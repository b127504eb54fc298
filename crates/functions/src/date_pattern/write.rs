//! Times as texts.

use std::fmt::Write;

use chrono::{Datelike, NaiveDateTime, Timelike};

use super::week::{week_of, week_of_month};
use super::{Item, Library, MONTHS, Pattern, WEEKDAYS, name};

const QUARTERS: [&str; 4] = ["1st quarter", "2nd quarter", "3rd quarter", "4th quarter"];

impl Pattern {
    /// Writes a local time that is `offset` seconds ahead of UTC.
    pub(crate) fn write(&self, time: NaiveDateTime, offset: i64, out: &mut String) {
        for part in &self.parts {
            match part {
                Item::Text(text) => out.push_str(text),
                Item::Field(letter @ ('z' | 'Z' | 'X'), count) => write_offset(*letter, *count, offset, out),
                Item::Field(letter, count) if self.library == Library::Text => text_field(*letter, *count, time, out),
                Item::Field(letter, count) => time_field(*letter, *count, time, out),
            }
        }
    }
}

/// `+0100`; for `X` `+01`, `+0100` or `+01:00`, and `Z` without an offset.
fn write_offset(letter: char, count: usize, offset: i64, out: &mut String) {
    if letter == 'X' && offset == 0 {
        out.push('Z');
        return;
    }
    let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
    let (hours, minutes) = (minutes / 60, minutes % 60);
    let _ = match (letter, count) {
        ('X', 1) => write!(out, "{sign}{hours:02}"),
        ('X', 3) => write!(out, "{sign}{hours:02}:{minutes:02}"),
        _ => write!(out, "{sign}{hours:02}{minutes:02}"),
    };
}

/// A number with at least this number of digits.
fn number(value: u32, count: usize, out: &mut String) {
    match value {
        0..100 if count == 2 => {
            out.push(char::from(b'0' + (value / 10) as u8));
            out.push(char::from(b'0' + (value % 10) as u8));
        }
        _ => _ = write!(out, "{value:0count$}"),
    }
}

fn year(value: i32, count: usize, signed: bool, out: &mut String) {
    if count == 2 {
        return number(value.rem_euclid(100).unsigned_abs(), 2, out);
    }
    if signed && count >= 4 && u32::try_from(count).is_ok_and(|count| value >= 10_i32.saturating_pow(count)) {
        out.push('+');
    }
    let _ = write!(out, "{value:0count$}");
}

/// A field that both libraries write alike.
fn common_field(letter: char, count: usize, time: NaiveDateTime, out: &mut String) {
    let hour = time.hour();
    match letter {
        'd' => number(time.day(), count, out),
        'D' => number(time.ordinal(), count, out),
        'H' => number(hour, count, out),
        'k' => number(if hour == 0 { 24 } else { hour }, count, out),
        'K' => number(hour % 12, count, out),
        'h' => number(if hour.is_multiple_of(12) { 12 } else { hour % 12 }, count, out),
        'm' => number(time.minute(), count, out),
        's' => number(time.second(), count, out),
        'w' => number(week_of(time.date()).1, count, out),
        'W' => number(week_of_month(time.date()), count, out),
        _ => out.push_str(if hour < 12 { "AM" } else { "PM" }),
    }
}

/// A field of `DateTimeFormatter`.
fn time_field(letter: char, count: usize, time: NaiveDateTime, out: &mut String) {
    let weekday = WEEKDAYS[time.weekday().num_days_from_monday() as usize];
    let quarter = time.month0() / 3;
    match letter {
        'y' | 'u' => year(time.year(), count, true, out),
        'Y' => year(week_of(time.date()).0, count, true, out),
        'M' | 'L' if count <= 2 => number(time.month(), count, out),
        'M' | 'L' => out.push_str(name(MONTHS[time.month0() as usize], count)),
        'E' => out.push_str(name(weekday, count)),
        'e' | 'c' if count <= 2 => number(time.weekday().number_from_sunday(), count, out),
        'e' | 'c' => out.push_str(name(weekday, count)),
        'Q' | 'q' if count <= 2 || count == 5 => number(quarter + 1, count.min(2) * usize::from(count != 5), out),
        'Q' | 'q' if count == 4 => out.push_str(QUARTERS[quarter as usize]),
        'Q' | 'q' => _ = write!(out, "Q{}", quarter + 1),
        'F' => number(time.day0() % 7 + 1, count, out),
        'G' => out.push_str(match (time.year() > 0, count) {
            (true, 4) => "Anno Domini",
            (true, 5) => "A",
            (true, _) => "AD",
            (false, 4) => "Before Christ",
            (false, 5) => "B",
            (false, _) => "BC",
        }),
        'A' => number(time.num_seconds_from_midnight() * 1000 + time.nanosecond() / 1_000_000, count, out),
        'n' => number(time.nanosecond(), count, out),
        'N' => {
            let nanos = u64::from(time.num_seconds_from_midnight()) * 1_000_000_000 + u64::from(time.nanosecond());
            let _ = write!(out, "{nanos:0count$}");
        }
        'S' => {
            let start = out.len();
            let _ = write!(out, "{:09}", time.nanosecond());
            out.truncate(start + count);
        }
        letter => common_field(letter, count, time, out),
    }
}

/// A field of `SimpleDateFormat`.
fn text_field(letter: char, count: usize, time: NaiveDateTime, out: &mut String) {
    let long = |count: usize| if count >= 4 { 4 } else { 3 };
    match letter {
        'y' => year(time.year(), count, false, out),
        'Y' => year(week_of(time.date()).0, count, false, out),
        'M' | 'L' if count <= 2 => number(time.month(), count, out),
        'M' | 'L' => out.push_str(name(MONTHS[time.month0() as usize], long(count))),
        'E' => out.push_str(name(WEEKDAYS[time.weekday().num_days_from_monday() as usize], long(count))),
        'u' => number(time.weekday().number_from_monday(), count, out),
        'F' => number(time.day0() / 7 + 1, count, out),
        'G' => out.push_str(if time.year() > 0 { "AD" } else { "BC" }),
        'S' => number(time.nanosecond() / 1_000_000, count, out),
        letter => common_field(letter, count, time, out),
    }
}
