//! The definition of an option of `SET`, and functions that parse and show values.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use anabranch_model::{Error, Result, nearest};

use super::Settings;

/// One option. `SET`, `RESET`, `SET` without a name and docs/sql/options.md derive from it.
pub(super) struct Opt {
    pub(super) name: &'static str,
    /// Its names in Flink, if they differ.
    pub(super) flink: &'static [&'static str],
    /// Its description in docs/sql/options.md.
    pub(super) help: &'static str,
    /// The description of the default. Empty: the value that `get` shows.
    pub(super) default: &'static str,
    /// Shows the value in a form that `set` parses.
    pub(super) get: fn(&Settings) -> String,
    /// Sets the value for a job with this number of key groups.
    pub(super) set: fn(&mut Settings, &str, u16) -> Result<()>,
}

impl Opt {
    /// Defaults for the fields.
    pub(super) const PLAIN: Opt =
        Opt { name: "", flink: &[], help: "", default: "", get: |_| String::new(), set: |_, _, _| Ok(()) };

    /// Whether this is the option's name, here or in Flink.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.flink.contains(&name)
    }
}

/// Options of one subject, with the heading of their table in docs/sql/options.md.
pub(super) struct Subject {
    pub(super) title: &'static str,
    pub(super) options: &'static [Opt],
}

/// Stores a parsed value.
pub(super) fn put<T>(place: &mut T, value: Result<T>) -> Result<()> {
    *place = value?;
    Ok(())
}

/// Parses `5 s`, `100ms`, `1 min`; without a unit, milliseconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration> {
    anabranch_model::parse_duration(text, Some(Duration::from_millis(1))).ok_or_else(|| {
        Error::user(format!("'{text}' is not a duration")).remedy("write a number and ms, s, min, h or d, like '5 s'")
    })
}

/// Parses a duration of at least `min`.
pub(super) fn parse_duration_from(text: &str, min: Duration) -> Result<Duration> {
    let duration = parse_duration(text)?;
    if duration < min {
        let error = Error::user(format!("'{text}' is too short"));
        return Err(error.remedy(format!("use at least '{}'", anabranch_model::duration_text(min))));
    }
    Ok(duration)
}

/// Parses a duration. Zero means none.
pub(super) fn parse_optional_duration(text: &str) -> Result<Option<Duration>> {
    Ok(Some(parse_duration(text)?).filter(|duration| !duration.is_zero()))
}

/// Parses `4 mb`, `65536`.
pub(super) fn parse_bytes(text: &str) -> Result<usize> {
    let bytes = anabranch_model::parse_bytes(text).filter(|bytes| *bytes > 0);
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| {
        Error::user(format!("'{text}' is not a size")).remedy("write a number and b, kb, mb or gb, like '4 mb'")
    })
}

/// Shows a number of bytes.
pub(super) fn bytes_text(bytes: usize) -> String {
    anabranch_model::bytes_text(bytes as u64)
}

/// Parses a whole number.
pub(super) fn parse_whole<T: FromStr + PartialOrd + Display>(text: &str, allowed: RangeInclusive<T>) -> Result<T> {
    number_in(text, &allowed, "use")
}

/// Parses a whole number, or the word that leaves the choice to the engine.
pub(super) fn parse_whole_or<T: FromStr + PartialOrd + Display>(
    word: &str,
    text: &str,
    allowed: RangeInclusive<T>,
) -> Result<Option<T>> {
    match text.trim().eq_ignore_ascii_case(word) {
        true => Ok(None),
        false => number_in(text, &allowed, &format!("use '{word}', or")).map(Some),
    }
}

fn number_in<T: FromStr + PartialOrd + Display>(text: &str, allowed: &RangeInclusive<T>, give: &str) -> Result<T> {
    text.trim().parse().ok().filter(|number| allowed.contains(number)).ok_or_else(|| {
        let (low, high) = (allowed.start(), allowed.end());
        Error::user(format!("'{text}' is not a number in range"))
            .remedy(format!("{give} a whole number from {low} to {high}"))
    })
}

/// Shows a value that may be left to the engine.
pub(super) fn text_or(word: &str, value: Option<impl Display>) -> String {
    value.map_or_else(|| word.to_owned(), |value| value.to_string())
}

/// Parses `5`, `7.5 %`.
pub(super) fn parse_percent(text: &str, allowed: RangeInclusive<f64>) -> Result<f64> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if allowed.contains(&percent) => Ok(percent),
        Ok(_) => {
            let (low, high) = (allowed.start(), allowed.end());
            Err(Error::user(format!("'{text}' is not between {low} and {high} percent")))
        }
        Err(_) => Err(Error::user(format!("'{text}' is not a percentage")).remedy("use a number like 5 or '7.5 %'")),
    }
}

/// `true` and `false`.
pub(super) const SWITCH: &[(&str, bool)] = &[("true", true), ("false", false)];

/// Parses one of several words, ignoring case. Several words may have the same value.
pub(super) fn parse_word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T> {
    let wanted = text.trim();
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(wanted));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names = || words.iter().map(|(word, _)| *word);
        let near = nearest(wanted, names()).map_or_else(String::new, |near| format!("did you mean '{near}'? "));
        let all = names().collect::<Vec<_>>().join(", ");
        Error::user(format!("unknown value '{text}'")).remedy(format!("{near}use one of: {all}"))
    })
}

/// Shows the first word of a value.
pub(super) fn word<T: PartialEq>(value: &T, words: &[(&str, T)]) -> String {
    words.iter().find(|(_, of)| of == value).map_or_else(String::new, |(word, _)| (*word).to_owned())
}
