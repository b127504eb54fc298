//! Options of a table, read with their types. A connector reads every option that it knows; any other option
//! is an error that lists the known ones, so that a misspelt option is always noticed.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::Duration;

use anabranch_dataflow::ConnectorSpec;
use anabranch_model::{Error, Result, nearest, parse_bytes, parse_duration};

/// Options that the planner reads itself, for tables of every connector.
pub(crate) const PLAN_OPTIONS: [&str; 10] = [
    "on-malformed",
    "dead-letter.table",
    "scan.idle-timeout",
    "scan.watermark.lateness",
    "scan.watermark.late-table",
    "scan.watermark.alignment.group",
    "scan.watermark.alignment.max-drift",
    "scan.watermark.alignment.update-interval",
    "scan.parallelism",
    "sink.parallelism",
];

/// Reads a table's options with their types; options that were not read are errors that list the known ones.
pub struct Options<'a> {
    spec: &'a ConnectorSpec,
    known: BTreeSet<String>,
    prefixes: BTreeSet<&'static str>,
}

impl<'a> Options<'a> {
    /// The options of this table.
    #[must_use]
    pub fn new(spec: &'a ConnectorSpec) -> Self {
        Options { spec, known: PLAN_OPTIONS.map(str::to_owned).into(), prefixes: BTreeSet::new() }
    }

    /// An option as written.
    pub fn string(&mut self, name: &str) -> Option<&'a str> {
        self.known.insert(name.to_owned());
        self.spec.options.get(name).map(String::as_str)
    }

    /// An option without which the table cannot be used.
    pub fn required(&mut self, name: &str) -> Result<&'a str> {
        let connector = &self.spec.connector;
        self.string(name).ok_or_else(|| {
            Error::user(format!("connector '{connector}' needs the option '{name}'"))
                .remedy(format!("add '{name}' = '...' to the table's WITH clause"))
        })
    }

    /// A number of any type that can be parsed.
    pub fn number<T: FromStr>(&mut self, name: &str) -> Result<Option<T>> {
        self.parsed(name, "a number in its range, such as '10'", |text| text.parse().ok())
    }

    /// A length of time: `10 s`, `500 ms`, `1 min`; without a unit in milliseconds.
    pub fn duration(&mut self, name: &str) -> Result<Option<Duration>> {
        let parse = |text: &str| parse_duration(text, Some(Duration::from_millis(1)));
        self.parsed(name, "a duration such as '10 s', '500 ms' or '1 min'", parse)
    }

    /// A number of bytes: `64 kb`, `128 mb`, `4096`. Units are powers of 1024.
    pub fn bytes(&mut self, name: &str) -> Result<Option<u64>> {
        self.parsed(name, "a size such as '64 kb', '128 mb' or '4096'", parse_bytes)
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, name: &str) -> Result<Option<bool>> {
        self.choice(name, &[("true", true), ("false", false)])
    }

    /// One of several words.
    pub fn choice<T: Clone>(&mut self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.string(name) else { return Ok(None) };
        match choices.iter().find(|(word, _)| *word == text.trim()) {
            Some((_, value)) => Ok(Some(value.clone())),
            None => Err(no_choice(name, text, choices)),
        }
    }

    /// All options whose names begin with `prefix`, as pairs of the rest of the name and the value.
    pub fn prefixed(&mut self, prefix: &'static str) -> Vec<(&'a str, &'a str)> {
        self.prefixes.insert(prefix);
        let options = self.spec.options.iter();
        options.filter_map(|(name, value)| Some((name.strip_prefix(prefix)?, value.as_str()))).collect()
    }

    /// Declares options as known that have no effect here, such as those of the writer when the table is
    /// read.
    pub fn ignore(&mut self, names: &[&str]) {
        self.known.extend(names.iter().map(|name| (*name).to_owned()));
    }

    /// Fails on the first option that was not read.
    pub fn finish(self) -> Result<()> {
        let is_known = |name: &str| self.known.contains(name) || self.prefixes.iter().any(|p| name.starts_with(p));
        let Some(unknown) = self.spec.options.keys().find(|name| !is_known(name)) else { return Ok(()) };
        if unknown == "partition-keys" {
            let what = format!("connector '{}' does not divide a table into partitions", self.spec.connector);
            return Err(
                Error::user(what).remedy("leave out PARTITIONED BY, or write to a table of connector 'filesystem'")
            );
        }
        let mut known: Vec<String> = self.known.iter().cloned().collect();
        known.extend(self.prefixes.iter().map(|prefix| format!("{prefix}*")));
        known.sort();
        let guess = match nearest(unknown, self.known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean '{near}'? "),
            None => String::new(),
        };
        Err(Error::user(format!("unknown option '{unknown}' of connector '{}'", self.spec.connector))
            .remedy(format!("{guess}known options: {}", known.join(", "))))
    }

    fn parsed<T>(&mut self, name: &str, expected: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
        let Some(text) = self.string(name) else { return Ok(None) };
        let value = parse(text.trim());
        value.map(Some).ok_or_else(|| {
            Error::user(format!("option '{name}' is '{text}', which cannot be read")).remedy(format!("give {expected}"))
        })
    }
}

/// The error if the value of an option is none of these words.
pub(crate) fn no_choice<T>(name: &str, text: &str, choices: &[(&str, T)]) -> Error {
    let words: Vec<_> = choices.iter().map(|(word, _)| format!("'{word}'")).collect();
    Error::user(format!("option '{name}' is '{text}'")).remedy(format!("use {}", words.join(" or ")))
}

#[cfg(test)]
mod tests;
