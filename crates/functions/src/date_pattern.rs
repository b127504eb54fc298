//! Java's patterns of dates, such as `yyyy-MM-dd HH:mm:ss.SSS`: writing and reading.
//!
//! Flink's functions use two libraries of Java, whose letters differ: `u` is a year for one and the day of
//! the week for the other. Weeks are those of the locale en-US: they begin on Sunday, and the first one has
//! the 1st of January.

mod read;
mod week;
mod write;

use chrono::{NaiveDate, NaiveDateTime, NaiveTime};
use datafusion_common::{DataFusionError, Result};

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

/// The library whose patterns a function has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// `java.time`'s `DateTimeFormatter`.
    Time,
    /// `java.text`'s `SimpleDateFormat`.
    Text,
}

/// What a pattern is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Writing local times: a zone has no value.
    WriteLocal,
    /// Writing instants as local times of a zone.
    Write,
    Read,
}

/// A parsed pattern.
pub(crate) struct Pattern {
    library: Library,
    parts: Vec<Item>,
    /// Times in the same span of this number of seconds have the same text. `None`: only equal times have.
    seconds: Option<i64>,
}

enum Item {
    Text(String),
    /// A letter of the pattern and its number of repetitions.
    Field(char, usize),
}

impl Pattern {
    pub(crate) fn parse(pattern: &str, library: Library, purpose: Use) -> Result<Self> {
        let unusable =
            |part: &str, why: &str| DataFusionError::Plan(format!("'{part}' in the date pattern '{pattern}' {why}"));
        let mut parts = Vec::new();
        let mut rest = pattern;
        while let Some(first) = rest.chars().next() {
            if first == '\'' {
                let (text, after) = quoted(rest).ok_or_else(|| unusable(rest, "has no closing quote"))?;
                parts.push(Item::Text(text));
                rest = after;
                continue;
            }
            let run = rest.len() - rest.trim_start_matches(first).len();
            if first.is_ascii_alphabetic() {
                if let Some(why) = why_not(first, run, library, purpose) {
                    return Err(unusable(&rest[..run], &why));
                }
                parts.push(Item::Field(first, run));
            } else if library == Library::Time && "[]{}#".contains(first) {
                return Err(unusable(&rest[..1], "is not supported; write it in single quotes"));
            } else {
                parts.push(Item::Text(rest[..run].to_owned()));
            }
            rest = &rest[run..];
        }
        let seconds = |part: &Item| match part {
            Item::Field('S' | 'A' | 'n' | 'N', _) => None,
            Item::Field('s', _) => Some(1),
            Item::Field('m', _) => Some(60),
            Item::Field('H' | 'h' | 'K' | 'k' | 'a', _) => Some(3600),
            _ => Some(86_400),
        };
        // `None` is less than any number.
        let seconds = parts.iter().map(seconds).min().unwrap_or(Some(86_400));
        Ok(Pattern { library, parts, seconds })
    }

    /// A number that two times have in common only if they have the same text.
    pub(crate) fn span(&self, seconds: i64, nanos: u32) -> (i64, u32) {
        match self.seconds {
            Some(span) => (seconds.div_euclid(span), 0),
            None => (seconds, nanos),
        }
    }
}

/// A text in quotes at the beginning, in which two quotes are one, and what follows.
fn quoted(pattern: &str) -> Option<(String, &str)> {
    let mut rest = pattern.strip_prefix('\'')?;
    if let Some(after) = rest.strip_prefix('\'') {
        return Some(("'".into(), after));
    }
    let mut text = String::new();
    loop {
        let (before, after) = rest.split_once('\'')?;
        text.push_str(before);
        match after.strip_prefix('\'') {
            Some(after) => {
                text.push('\'');
                rest = after;
            }
            None => return Some((text, after)),
        }
    }
}

/// Why a letter cannot be repeated this often in a pattern.
fn why_not(letter: char, count: usize, library: Library, purpose: Use) -> Option<String> {
    let is_zone = matches!(letter, 'z' | 'Z' | 'X') || library == Library::Time && matches!(letter, 'x' | 'V' | 'O');
    let letters = match (library, purpose) {
        (Library::Time, Use::Read) => {
            "y, u, Y, M, L, d, D, Q, q, E, e, w, W, H, h, K, k, m, s, S, a, z, Z, X, x, V, O, G"
        }
        (Library::Time, _) => "y, u, Y, M, L, d, D, Q, q, E, e, c, w, W, F, H, h, K, k, m, s, S, A, n, N, a, G",
        (Library::Text, Use::Read) => "y, Y, M, L, d, D, E, u, w, W, H, h, K, k, m, s, S, a, z, Z, X, G",
        (Library::Text, Use::Write) => "y, Y, M, L, d, D, E, u, w, W, F, H, h, K, k, m, s, S, a, Z, X, G",
        (Library::Text, Use::WriteLocal) => "y, Y, M, L, d, D, E, u, w, W, F, H, h, K, k, m, s, S, a, G",
    };
    if !letters.split(", ").any(|known| known.starts_with(letter)) {
        if is_zone && purpose == Use::WriteLocal {
            return Some("is that of a time zone, and a local time has none; leave it out".to_owned());
        }
        return Some(format!("is not supported; use {letters}, and text in single quotes"));
    }
    let most = match library {
        Library::Time => match letter {
            'M' | 'L' | 'E' | 'e' | 'c' | 'Q' | 'q' | 'G' if purpose != Use::Read => 5,
            'M' | 'L' | 'E' => 4,
            'G' | 'z' => 4,
            'd' | 'H' | 'h' | 'K' | 'k' | 'm' | 's' | 'w' | 'Q' | 'q' => 2,
            'D' | 'X' | 'x' => 3,
            'W' | 'F' | 'a' | 'e' => 1,
            'Z' => 5,
            'V' => 2,
            _ => 9,
        },
        Library::Text if letter == 'X' => 3,
        Library::Text => 9,
    };
    (count > most).then(|| format!("has too many letters; write at most {most}"))
}

/// A name in full, or its first three letters, or its first one.
fn name(full: &str, count: usize) -> &str {
    match count {
        4 => full,
        5 => &full[..1],
        _ => &full[..3],
    }
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
        for text in [
            "yyyy-MM-dd",
            "HH:mm",
            "h a",
            "ss.SSS",
            "yyyy-MM-dd HH:mm:ss",
            "D",
            "YYYY-ww e W F",
            "A n N",
            "'text'",
            "mm",
            "SS",
        ] {
            let pattern = Pattern::parse(text, Library::Time, Use::WriteLocal).expect("a pattern");
            let write = |seconds: i64, nanos: u32| {
                let mut out = String::new();
                pattern.write(DateTime::from_timestamp(seconds, nanos).expect("a time").naive_utc(), 0, &mut out);
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
        let daily = Pattern::parse("yyyy-MM-dd", Library::Time, Use::WriteLocal).expect("a pattern");
        assert_eq!(daily.span(0, 0), daily.span(86_399, 999_999_999));
    }

    #[test]
    fn letters_without_a_meaning_are_refused() {
        let why = |pattern: &str, library, purpose| {
            Pattern::parse(pattern, library, purpose).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(why("yyyy Z", Library::Time, Use::WriteLocal).contains("a local time has none"));
        assert!(why("bogus", Library::Time, Use::WriteLocal).contains("'b' in the date pattern 'bogus'"));
        assert!(why("Q", Library::Text, Use::Write).contains("use y, Y"));
        assert!(why("HHH", Library::Time, Use::Read).contains("at most 2"));
        assert!(why("yyyy[MM]", Library::Time, Use::Read).contains("single quotes"));
        assert!(why("'open", Library::Text, Use::Read).contains("no closing quote"));
        assert_eq!(why("HHH 'o''clock' Z", Library::Text, Use::Write), "");
    }
}
