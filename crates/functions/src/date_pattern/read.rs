//! Texts as times.

use chrono::{NaiveDate, NaiveDateTime, NaiveTime};

use super::week::{date_of, date_of_month};
use super::{Item, Library, MONTHS, Pattern, WEEKDAYS, date_in_month, name};
use crate::zone::{Twice, Zone};

/// Short names of zones that mean one offset, in minutes.
const ZONES: [(&str, i64); 34] = [
    ("UTC", 0),
    ("GMT", 0),
    ("UT", 0),
    ("WET", 0),
    ("WEST", 60),
    ("CET", 60),
    ("CEST", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("EST", -300),
    ("EDT", -240),
    ("CST", -360),
    ("CDT", -300),
    ("MST", -420),
    ("MDT", -360),
    ("PST", -480),
    ("PDT", -420),
    ("AKST", -540),
    ("AKDT", -480),
    ("HST", -600),
    ("JST", 540),
    ("KST", 540),
    ("SGT", 480),
    ("HKT", 480),
    ("AWST", 480),
    ("ACST", 570),
    ("ACDT", 630),
    ("AEST", 600),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
    ("SAST", 120),
    ("PKT", 300),
];

impl Pattern {
    /// The time in a text, and the offset of the zone in it, in seconds. Fields that the pattern lacks are
    /// those of 1970-01-01 00:00:00. A day that the month does not have becomes its last.
    pub(crate) fn read_zoned(&self, text: &str) -> Option<(NaiveDateTime, Option<i64>)> {
        let mut fields = Fields { year: 1970, month: 1, day: 1, ..Fields::default() };
        let mut rest = text;
        for (index, part) in self.parts.iter().enumerate() {
            rest = match part {
                Item::Text(text) => rest.strip_prefix(text.as_str())?,
                Item::Field(letter, count) => {
                    let adjacent = matches!(self.parts.get(index + 1), Some(Item::Field(..)));
                    fields.read(*letter, *count, adjacent, self.library, rest)?
                }
            };
        }
        if !rest.is_empty() {
            return None;
        }
        let (zone, library) = (fields.zone, self.library);
        let time = fields.time(library)?;
        let offset = zone.map(|zone| match zone {
            InText::Offset(seconds) => seconds,
            InText::Named(zone) => {
                let local = time.and_utc().timestamp();
                local - zone.instant_seconds(local, Twice::First)
            }
        });
        Some((time, offset))
    }
}

/// A zone in a text.
#[derive(Clone, Copy)]
enum InText {
    Offset(i64),
    Named(Zone),
}

#[derive(Default)]
struct Fields {
    year: i32,
    month: u32,
    day: u32,
    ordinal: Option<u32>,
    week_year: Option<i32>,
    week: Option<u32>,
    week_of_month: Option<u32>,
    /// From Sunday, which is 0.
    weekday: Option<u32>,
    hour: Option<u32>,
    /// 0 to 11.
    hour_of_half: Option<u32>,
    afternoon: bool,
    minute: u32,
    second: u32,
    nanosecond: u32,
    before_christ: bool,
    zone: Option<InText>,
}

impl Fields {
    /// Reads a field from the start of a text and returns the rest.
    fn read<'a>(
        &mut self,
        letter: char,
        count: usize,
        adjacent: bool,
        library: Library,
        text: &'a str,
    ) -> Option<&'a str> {
        match letter {
            'S' => {
                let (digits, rest) = digits(text, count, count)?;
                self.nanosecond =
                    digits.parse::<u32>().ok()?.checked_mul(10_u32.checked_pow(9 - u32::try_from(count).ok()?)?)?;
                return Some(rest);
            }
            'M' | 'L' | 'E' if letter == 'E' || count > 2 => return self.read_name(letter, count, text),
            'a' => {
                self.afternoon = text.starts_with("PM");
                return text.strip_prefix("AM").or_else(|| text.strip_prefix("PM"));
            }
            'G' => {
                self.before_christ = text.starts_with("BC");
                return text.strip_prefix("AD").or_else(|| text.strip_prefix("BC"));
            }
            'Z' | 'X' | 'x' | 'z' | 'O' | 'V' => return self.read_zone(letter, count, library, text),
            _ => {}
        }
        let (least, most) = match (letter, count) {
            ('y' | 'u' | 'Y', 4) if adjacent => (4, 4),
            ('u', _) if library == Library::Text => (1, 2),
            ('y' | 'u' | 'Y', 4) => (4, 9),
            ('y' | 'u' | 'Y', 1) => (1, 9),
            ('D', 1) => (1, 3),
            (_, 1) => (1, 2),
            (_, count) => (count, count),
        };
        let (digits, rest) = digits(text, least, most)?;
        self.set(letter, digits.parse().ok()?, count, library)?;
        Some(rest)
    }

    fn read_name<'a>(&mut self, letter: char, count: usize, text: &'a str) -> Option<&'a str> {
        let names: &[&str] = if letter == 'E' { &WEEKDAYS } else { &MONTHS };
        let count = if count >= 4 { 4 } else { 3 };
        let index = names.iter().position(|full| text.starts_with(name(full, count)))?;
        let number = u32::try_from(index).ok()?;
        match letter {
            'E' => self.weekday = Some((number + 1) % 7),
            _ => self.month = number + 1,
        }
        text.get(name(names[index], count).len()..)
    }

    fn set(&mut self, letter: char, value: u32, count: usize, library: Library) -> Option<()> {
        let year = || Some(i32::try_from(value).ok()? + if count == 2 { 2000 } else { 0 });
        match letter {
            'u' if library == Library::Text => self.weekday = Some(value % 7),
            'y' | 'u' => self.year = year()?,
            'Y' => self.week_year = Some(year()?),
            'M' | 'L' => self.month = value,
            'd' => self.day = value,
            'D' => self.ordinal = Some(value),
            'w' => self.week = Some(value),
            'W' => self.week_of_month = Some(value),
            'e' => self.weekday = Some(value.checked_sub(1)?),
            'H' => self.hour = Some(value),
            'k' => self.hour = Some(value % 24),
            'h' | 'K' => self.hour_of_half = Some(value % 12),
            'm' => self.minute = value,
            's' => self.second = value,
            _ => {}
        }
        Some(())
    }

    fn read_zone<'a>(&mut self, letter: char, count: usize, library: Library, text: &'a str) -> Option<&'a str> {
        let begins = text.starts_with(['+', '-']);
        if matches!(letter, 'X' | 'x') || letter == 'Z' && (begins || count < 4) {
            if letter == 'X' && text.starts_with('Z') {
                self.zone = Some(InText::Offset(0));
                return Some(&text[1..]);
            }
            let (with_minutes, with_colon) = match (letter, count) {
                ('Z', 5) => (true, true),
                ('Z', _) => (true, false),
                (_, 1) => (false, false),
                (_, count) => (true, count == 3),
            };
            return self.read_offset(with_minutes, with_colon, text);
        }
        if begins && library == Library::Text {
            return self.read_offset(true, false, text);
        }
        let end = text.find(|c: char| !(c.is_ascii_alphabetic() || matches!(c, '/' | '_'))).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if matches!(name, "GMT" | "UTC") && rest.starts_with(['+', '-']) {
            let with_minutes = rest.contains(':');
            return self.read_offset(with_minutes, with_minutes, rest);
        }
        let short = ZONES.iter().find(|(known, _)| *known == name).map(|(_, minutes)| InText::Offset(minutes * 60));
        self.zone = Some(short.or_else(|| Zone::parse(name).map(InText::Named))?);
        Some(rest)
    }

    fn read_offset<'a>(&mut self, with_minutes: bool, with_colon: bool, text: &'a str) -> Option<&'a str> {
        let negative = text.starts_with('-');
        let least = if with_minutes { 2 } else { 1 };
        let (hours, mut rest) = digits(text.get(1..)?, least, 2)?;
        let mut minutes = "0";
        if with_minutes {
            rest = if with_colon { rest.strip_prefix(':')? } else { rest };
            (minutes, rest) = digits(rest, 2, 2)?;
        }
        let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
        let seconds = (hours * 60 + minutes) * 60;
        self.zone = Some(InText::Offset(if negative { -seconds } else { seconds }));
        (hours < 24 && minutes < 60).then_some(rest)
    }

    fn date(&self, library: Library) -> Option<NaiveDate> {
        let week = self.week.filter(|week| (1..=53).contains(week));
        match (library, self.week_year, self.ordinal) {
            // A week-based year. The library takes its first day if the text has neither week nor weekday.
            (Library::Text, Some(year), _) => date_of(year, week.unwrap_or(1), self.weekday.unwrap_or(0)),
            // A week-based date needs year, week and weekday.
            (Library::Time, Some(year), _) if week.is_some() && self.weekday.is_some() => {
                date_of(year, week?, self.weekday?)
            }
            (_, _, Some(ordinal)) => NaiveDate::from_yo_opt(self.year, ordinal),
            (Library::Text, None, _) if week.is_some() => date_of(self.year, week?, self.weekday.unwrap_or(0)),
            (Library::Text, None, _) if self.week_of_month.is_some() => {
                date_of_month(self.year, self.month, self.week_of_month?, self.weekday.unwrap_or(0))
            }
            _ => date_in_month(self.year, self.month, self.day),
        }
    }

    fn time(mut self, library: Library) -> Option<NaiveDateTime> {
        if self.before_christ {
            if library == Library::Time {
                return None;
            }
            self.year = 1 - self.year;
        }
        let date = self.date(library)?;
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
