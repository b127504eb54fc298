//! Values of keys that are written as text.

use std::time::Duration;

use anabranch_model::{Error, Result};
use anabranch_schedule::{Aggregate, Condition, Grouping, Level, Scale};
use serde::{Deserialize, Deserializer};

/// The longest time that a key may have: eleven days.
const DURATION_MAX: Duration = Duration::from_secs(1_000_000);

fn parsed<'de, D: Deserializer<'de>, T>(deserializer: D, parse: impl Fn(&str) -> Result<T>) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(|error| {
        let help = error.help().map_or_else(String::new, |help| format!("; {help}"));
        serde::de::Error::custom(format!("{}{help}", error.message()))
    })
}

pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parsed(deserializer, parse_duration)
}

pub(super) fn level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Level>, D::Error> {
    parsed(deserializer, |text| one_of(text, &[("task", Level::Task), ("operator", Level::Operator)])).map(Some)
}

pub(super) fn scale<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Scale>, D::Error> {
    let known = [("linear", Scale::Linear), ("logarithmic", Scale::Logarithmic), ("ladder", Scale::Ladder)];
    parsed(deserializer, |text| one_of(text, &known)).map(Some)
}

pub(super) fn grouping<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Grouping, D::Error> {
    let known = [("query", Grouping::Query), ("branch", Grouping::Branch), ("task", Grouping::Task)];
    parsed(deserializer, |text| one_of(text, &known))
}

pub(super) fn group_priority<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Aggregate, D::Error> {
    let known = [("sum", Aggregate::Sum), ("max", Aggregate::Max), ("mean", Aggregate::Mean)];
    parsed(deserializer, |text| one_of(text, &known))
}

pub(super) fn condition<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Condition>, D::Error> {
    parsed(deserializer, Condition::parse).map(Some)
}

/// One of a few words.
fn one_of<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T> {
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        Error::user(format!("'{text}' is unknown")).remedy(format!("use one of: {}", names.join(", ")))
    })
}

/// `250ms`, `1 s`, `2 min`: at most [`DURATION_MAX`].
fn parse_duration(text: &str) -> Result<Duration> {
    let duration = anabranch_model::parse_duration(text, None).filter(|duration| *duration <= DURATION_MAX);
    duration.ok_or_else(|| Error::user(format!("'{text}' is not a duration")).remedy("use for example '250 ms'"))
}
