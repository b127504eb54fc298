//! The text format in which metrics are served to Prometheus (version 0.0.4): a parser that borrows, and a
//! scrape of one address.

use std::borrow::Cow;

use anabranch_model::{Error, Result};
use memchr::memchr;

use crate::http::Http;

#[cfg(test)]
mod tests;

/// One value of a family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The name of its family.
    pub family: &'a str,
    /// What it is about.
    pub labels: Labels<'a>,
    /// In the family's unit.
    pub value: f64,
}

/// The labels of a sample as they were written: `a="1",b="2"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels<'a>(&'a str);

/// What a text held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Samples of the wanted families.
    pub samples: usize,
    /// Samples of other families.
    pub skipped: usize,
    /// Lines that are no sample.
    pub rubbish: usize,
}

/// Calls `take` for each sample of the families that are `wanted`. Lines that cannot be read are counted, and
/// the rest is read.
pub fn parse<'a>(text: &'a [u8], wanted: impl Fn(&str) -> bool, mut take: impl FnMut(Sample<'a>)) -> Parsed {
    let mut parsed = Parsed::default();
    let mut rest = text;
    while !rest.is_empty() {
        // A line break within a label's value is written as `\n`.
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest[..end].trim_ascii();
        rest = &rest[(end + 1).min(rest.len())..];
        if line.is_empty() || line[0] == b'#' {
            continue;
        }
        let name_end = line.iter().position(|byte| matches!(byte, b'{' | b' ' | b'\t')).unwrap_or(line.len());
        let Some(family) = std::str::from_utf8(&line[..name_end]).ok().filter(|name| is_name(name)) else {
            parsed.rubbish += 1;
            continue;
        };
        if !wanted(family) {
            parsed.skipped += 1;
            continue;
        }
        match std::str::from_utf8(&line[name_end..]).ok().and_then(labels_and_value) {
            Some((labels, value)) => {
                parsed.samples += 1;
                take(Sample { family, labels, value });
            }
            None => parsed.rubbish += 1,
        }
    }
    parsed
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, b'_' | b':'))
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'))
}

/// Splits `{a="1"} 2.0 1700000000`. The time at the end is not used: engines serve present values.
fn labels_and_value(rest: &str) -> Option<(Labels<'_>, f64)> {
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => {
            let end = end_of_labels(rest)?;
            (&rest[..end], &rest[end + 1..])
        }
        None => ("", rest),
    };
    let mut words = rest.split_ascii_whitespace();
    let value = words.next()?.parse().ok()?;
    let is_end = words.next().is_none_or(|time| time.parse::<i64>().is_ok()) && words.next().is_none();
    is_end.then_some((Labels(labels), value))
}

/// Where the closing brace is: braces within quotes do not count.
fn end_of_labels(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'}' if !is_quoted => return Some(index),
            _ => {}
        }
    }
    None
}

impl<'a> Labels<'a> {
    /// The value of a label, without escapes.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        let mut rest = self.0;
        loop {
            let (found, quoted) = rest.split_once('=')?;
            let value = quoted.trim_start().strip_prefix('"')?;
            let end = end_of_value(value)?;
            if found.trim_matches([',', ' ', '\t']) == name {
                return Some(unescaped(&value[..end]));
            }
            rest = &value[end + 1..];
        }
    }
}

/// Where the closing quote is.
fn end_of_value(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

fn unescaped(value: &str) -> Cow<'_, str> {
    if memchr(b'\\', value.as_bytes()).is_none() {
        return Cow::Borrowed(value);
    }
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => text.push('\\'),
            },
            (c, false) => text.push(c),
        }
    }
    Cow::Owned(text)
}

/// One address that serves metrics.
pub struct Scraper {
    /// The address, with its path.
    pub(crate) url: String,
    body: Vec<u8>,
}

impl Scraper {
    /// For `http://HOST:PORT`, with `/metrics` unless another path is given.
    #[must_use]
    pub fn new(url: &str) -> Scraper {
        let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.trim_end_matches('/').contains('/'));
        let url = if has_path { url.to_owned() } else { format!("{}/metrics", url.trim_end_matches('/')) };
        Scraper { url, body: Vec::new() }
    }

    /// Bytes of the last answer.
    #[must_use]
    pub fn size(&self) -> usize {
        self.body.len()
    }

    /// Gets all metrics and calls `take` for the samples of the `wanted` families. `Err`: no answer, or one
    /// that holds no metrics at all.
    pub fn scrape(
        &mut self,
        http: &Http,
        wanted: impl Fn(&str) -> bool,
        take: impl FnMut(Sample<'_>),
    ) -> Result<Parsed> {
        http.get_into(&self.url, &mut self.body)?;
        let parsed = parse(&self.body, wanted, take);
        if parsed.rubbish > 0 && parsed.samples + parsed.skipped == 0 {
            let error = Error::outside("the answer holds no metrics of Prometheus").at(self.url.clone());
            return Err(error.remedy("give the address of the engine's Prometheus reporter"));
        }
        Ok(parsed)
    }
}
