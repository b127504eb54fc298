//! Providers with arguments, and other providers that are not lists of words.

use std::fmt::Write as _;

use anabranch_model::{Error, Result, Rng};
use chrono::{DateTime, NaiveDateTime};

use super::expression::{Expression, Segment};
use super::pattern::Pattern;
use super::words::plain;
use crate::generator::{between, fraction};

/// The providers that are not in `words.txt`, as users write them.
pub(super) const NAMES: [&str; 29] = [
    "bothify",
    "letterify",
    "numerify",
    "regexify",
    "templatify",
    "Options.option",
    "Options.nextElement",
    "Number.numberBetween",
    "Number.randomNumber",
    "Number.randomDigit",
    "Number.randomDigitNotZero",
    "Number.digit",
    "Number.digits",
    "Number.positive",
    "Number.negative",
    "Number.randomDouble",
    "Date.past",
    "Date.future",
    "Date.between",
    "Date.birthday",
    "Lorem.words",
    "Lorem.sentence",
    "Lorem.sentences",
    "Lorem.paragraph",
    "Lorem.characters",
    "Lorem.character",
    "Lorem.fixedString",
    "Random.nextInt",
    "Random.nextDouble",
];

const DAY_MS: i64 = 86_400_000;
/// Limit of the distance of a time from now: about 35,700 years.
const DISTANCE_MAX_MS: i64 = 1 << 50;
/// Limit of the characters or words of a call.
const COUNT_MAX: u64 = 100_000;

/// A call that computes its value.
#[derive(Clone, Debug)]
pub(super) enum Call {
    /// Both bounds are values.
    Integer {
        min: i64,
        max: i64,
    },
    Double {
        decimals: usize,
        min: f64,
        max: f64,
    },
    Pattern(Pattern),
    /// `#` becomes a digit if `digits` is set. `?` becomes one of the 26 letters from `letters` on, if that
    /// is set.
    Mask {
        mask: String,
        digits: bool,
        letters: Option<u8>,
    },
    Time(Moment),
    /// From `least` to `most` values of an expression, with spaces between them and `ends` after the last.
    Several {
        what: Box<Expression>,
        least: u64,
        most: u64,
        ends: &'static str,
    },
}

/// A time: relative to the row, with a random number of milliseconds added, or in a fixed range.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    Around { least_ms: i64, most_ms: i64 },
    Between { from_ms: i64, to_ms: i64 },
}

impl Moment {
    pub(super) fn at(self, random: &mut Rng, time_ms: i64) -> i64 {
        let bits = random.next_u64();
        match self {
            Moment::Around { least_ms, most_ms } => time_ms.saturating_add(between(bits, least_ms, most_ms)),
            Moment::Between { from_ms, to_ms } => between(bits, from_ms, to_ms),
        }
    }
}

impl Call {
    /// The values that a call itself lists.
    pub(super) fn choices(name: &str, arguments: &[&str]) -> Option<Vec<Expression>> {
        let is_choice = matches!(plain(name).as_str(), "options.option" | "options.nextelement");
        let text = |argument: &&str| Expression { parts: vec![Segment::Text((*argument).to_owned())] };
        (is_choice && !arguments.is_empty()).then(|| arguments.iter().map(text).collect())
    }

    /// Parses a call; `None` if the name is unknown.
    pub(super) fn read(name: &str, arguments: &[&str], depth: u32) -> Result<Option<Call>> {
        let given = Arguments { name, given: arguments };
        let words = |least: u64, most: u64, ends| -> Result<Call> {
            let what = Box::new(Expression::parse_at("#{Lorem.word}", depth + 1)?);
            Ok(Call::Several { what, least, most, ends })
        };
        let sentence = |count: u64| words(count, count + 6, ".");
        Ok(Some(match plain(name).as_str() {
            "regexify" | "regexp" => Call::Pattern(Pattern::parse(given.one("a pattern")?)?),
            "numerify" => Call::Mask { mask: given.one("a text with #")?.to_owned(), digits: true, letters: None },
            "letterify" => given.mask(false)?,
            "bothify" => given.mask(true)?,
            "templatify" => given.mask(true)?,
            "options.option" | "options.nextelement" => return Err(given.wrong("give the values to choose from")),
            "date.past" => given.time(-1)?,
            "date.future" => given.time(1)?,
            "date.birthday" => {
                let years = |index, default| Ok::<_, Error>(given.integer(index)?.unwrap_or(default).clamp(0, 200));
                let (least, most) = (years(0, 18)?, years(1, 65)?);
                let day = |years: i64| -years * 36_525 / 100 * DAY_MS;
                Call::Time(Moment::Around { least_ms: day(most.max(least)), most_ms: day(least) })
            }
            "date.between" => {
                let (from_ms, to_ms) = (given.moment(0)?, given.moment(1)?);
                if from_ms > to_ms {
                    return Err(given.wrong("the later time comes second"));
                }
                Call::Time(Moment::Between { from_ms, to_ms })
            }
            "lorem.words" => {
                let count = given.count(0, 3)?;
                words(count, count, "")?
            }
            "lorem.sentence" => sentence(given.count(0, 4)?)?,
            "lorem.sentences" | "lorem.paragraph" => {
                let count = given.count(0, 3)?;
                let what = Box::new(Expression { parts: vec![Segment::Call(sentence(4)?)] });
                Call::Several { what, least: count, most: count, ends: "" }
            }
            "lorem.character" => Call::Pattern(Pattern::parse("[a-z0-9]")?),
            "lorem.characters" | "lorem.fixedstring" => {
                let count = u32::try_from(given.count(0, 255)?).unwrap_or(u32::MAX);
                let what = Box::new(Pattern::parse("[a-z0-9]")?);
                Call::Pattern(Pattern::Repeated { what, least: count, most: count })
            }
            other => return Call::number(other, &given),
        }))
    }

    /// Parses a call for a number.
    fn number(name: &str, given: &Arguments) -> Result<Option<Call>> {
        let between = |from: usize, default: (i64, i64)| -> Result<Call> {
            let min = given.integer(from)?.unwrap_or(default.0);
            // The upper bound is exclusive, unless it equals the lower one.
            let max = given.integer(from + 1)?.map_or(default.1, |max| if max > min { max - 1 } else { max });
            if max < min { Err(given.wrong("the larger number comes second")) } else { Ok(Call::Integer { min, max }) }
        };
        Ok(Some(match name {
            "number.numberbetween" => between(0, (0, i64::from(i32::MAX)))?,
            "random.nextint" if given.given.len() == 1 => {
                Call::Integer { min: 0, max: given.integer(0)?.unwrap_or(1).max(1) - 1 }
            }
            "random.nextint" => between(0, (i64::from(i32::MIN), i64::from(i32::MAX)))?,
            "number.positive" => between(0, (1, i64::from(i32::MAX)))?,
            "number.negative" => between(0, (i64::from(i32::MIN), -1))?,
            "number.randomdigit" | "number.digit" => Call::Integer { min: 0, max: 9 },
            "number.randomdigitnotzero" => Call::Integer { min: 1, max: 9 },
            "number.randomnumber" => {
                let digits = given.count(0, 9)?.clamp(1, 18) as u32;
                Call::Integer {
                    min: if given.given.is_empty() { 0 } else { 10_i64.pow(digits - 1) },
                    max: 10_i64.pow(digits) - 1,
                }
            }
            "number.digits" => {
                Call::Mask { mask: "#".repeat(given.count(0, 1)? as usize), digits: true, letters: None }
            }
            "number.randomdouble" => Call::Double {
                decimals: given.count(0, 2)?.min(15) as usize,
                min: given.integer(1)?.unwrap_or(0) as f64,
                max: given.integer(2)?.unwrap_or(i64::from(i32::MAX)) as f64,
            },
            "random.nextdouble" => Call::Double { decimals: 15, min: 0.0, max: 1.0 },
            _ => return Ok(None),
        }))
    }

    /// Appends a value as text.
    pub(super) fn write(&self, random: &mut Rng, time_ms: i64, out: &mut String) {
        match self {
            // Writing to a string cannot fail.
            Call::Integer { min, max } => _ = write!(out, "{}", between(random.next_u64(), *min, *max)),
            Call::Double { decimals, min, max } => {
                let value = min + (max - min) * fraction(random.next_u64());
                _ = write!(out, "{value:.decimals$}");
            }
            Call::Pattern(pattern) => pattern.write(random, out),
            Call::Mask { mask, digits, letters } => {
                for c in mask.chars() {
                    match (c, letters) {
                        ('#', _) if *digits => out.push(char::from(b'0' + random.below(10) as u8)),
                        ('?', Some(first)) => out.push(char::from(first + random.below(26) as u8)),
                        _ => out.push(c),
                    }
                }
            }
            Call::Time(moment) => {
                let at = DateTime::from_timestamp_millis(moment.at(random, time_ms));
                _ = write!(out, "{}", at.unwrap_or_default().format("%Y-%m-%d %H:%M:%S%.3f"));
            }
            Call::Several { what, least, most, ends } => {
                let count = least + random.below(most - least + 1);
                for index in 0..count {
                    if index > 0 {
                        out.push(' ');
                    }
                    what.write(random, time_ms, out);
                }
                out.push_str(ends);
            }
        }
    }
}

/// The arguments of a call.
struct Arguments<'a> {
    name: &'a str,
    given: &'a [&'a str],
}

impl Arguments<'_> {
    fn wrong(&self, remedy: &str) -> Error {
        let given: Vec<String> = self.given.iter().map(|text| format!("'{text}'")).collect();
        let call = format!("{} {}", self.name, given.join(","));
        Error::user(format!("the arguments of '{}' do not fit", call.trim())).remedy(remedy)
    }

    fn one(&self, what: &str) -> Result<&str> {
        self.given.first().copied().ok_or_else(|| self.wrong(&format!("give {what} in quotes")))
    }

    fn integer(&self, index: usize) -> Result<Option<i64>> {
        let Some(text) = self.given.get(index) else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| self.wrong(&format!("'{text}' is no whole number")))
    }

    fn count(&self, index: usize, default: u64) -> Result<u64> {
        match self.integer(index)? {
            None => Ok(default),
            Some(count) => u64::try_from(count)
                .ok()
                .filter(|count| *count <= COUNT_MAX)
                .ok_or_else(|| self.wrong(&format!("give a count from 0 to {COUNT_MAX}"))),
        }
    }

    fn mask(&self, digits: bool) -> Result<Call> {
        let mask = self.one("a text with # and ?")?.to_owned();
        let is_upper = self.given.get(1).is_some_and(|upper| upper.trim() == "true");
        Ok(Call::Mask { mask, digits, letters: Some(if is_upper { b'A' } else { b'a' }) })
    }

    /// `'15','SECONDS'` or `'15','5','SECONDS'`: at most, and at least.
    fn time(&self, sign: i64) -> Result<Call> {
        let form = "give how far at most, optionally how far at least, and the unit: ''15'',''5'',''SECONDS''; at most 35,000 years";
        let (unit, numbers) = self.given.split_last().ok_or_else(|| self.wrong(form))?;
        let unit_ms = match unit.trim().to_ascii_uppercase().as_str() {
            "MILLISECONDS" => 1,
            "SECONDS" => 1_000,
            "MINUTES" => 60_000,
            "HOURS" => 3_600_000,
            "DAYS" => DAY_MS,
            _ => {
                let units = "units are MILLISECONDS, SECONDS, MINUTES, HOURS and DAYS";
                return Err(self.wrong(&format!("{form}; {units}")));
            }
        };
        let fits = |number: &i64| (0..=DISTANCE_MAX_MS / unit_ms).contains(number);
        let number = |index: usize| Ok::<_, Error>(self.integer(index)?.filter(fits));
        let most = number(0)?.ok_or_else(|| self.wrong(form))?;
        let least = match numbers.len() {
            1 => 0,
            2 => number(1)?.filter(|least| *least <= most).ok_or_else(|| self.wrong(form))?,
            _ => return Err(self.wrong(form)),
        };
        let (near, far) = (sign * least * unit_ms, sign * most * unit_ms);
        Ok(Call::Time(Moment::Around { least_ms: near.min(far), most_ms: near.max(far) }))
    }

    fn moment(&self, index: usize) -> Result<i64> {
        let form = "give two times such as ''2024-01-01 00:00:00''";
        let text = self.given.get(index).ok_or_else(|| self.wrong(form))?.trim();
        let text = if text.len() == 10 { format!("{text} 00:00:00") } else { text.replace('T', " ") };
        let parsed = NaiveDateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S%.f");
        parsed.map(|time| time.and_utc().timestamp_millis()).map_err(|_| self.wrong(form))
    }
}
