//! Three ways to read the fields of an event that the main job needs.
//!
//! Of sonic-rs's interfaces (struct, lazy values, `get`, `get_many`, each with and without checks) the
//! borrowed struct is the fastest; its vector instructions need `-C target-cpu=native`. Without that,
//! serde_json is faster.

use anabranch_model::{Error, Result};
use memchr::memmem::Finder;
use serde::Deserialize;

/// The fields of an event that the main job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Event<'a> {
    /// Which ad.
    pub(crate) ad_id: &'a str,
    /// What happened to it.
    pub(crate) event_type: &'a str,
    /// When, in milliseconds.
    pub(crate) event_time: i64,
}

/// Parses with serde_json; checks all of the record.
pub(crate) fn serde_json(record: &[u8]) -> Result<Event<'_>> {
    serde_json::from_slice(record).map_err(|error| malformed(record, &error))
}

/// Parses with sonic-rs; checks all of the record.
pub(crate) fn sonic(record: &[u8]) -> Result<Event<'_>> {
    sonic_rs::from_slice(record).map_err(|error| malformed(record, &error))
}

/// Finds the fields by their names, in the order of the records, and checks nothing else. It is not a parser
/// for real data: it shows how much time a parser needs in addition.
#[derive(Debug)]
pub(crate) struct FieldScan {
    event_type: Finder<'static>,
}

const AD_ID: &[u8] = b"\"ad_id\":\"";
const EVENT_TYPE: &[u8] = b"\"event_type\":\"";
const EVENT_TIME: &[u8] = b",\"event_time\":";

impl FieldScan {
    /// A scan.
    pub(crate) fn new() -> Self {
        FieldScan { event_type: Finder::new(EVENT_TYPE) }
    }

    /// The fields; `ad_at` is the position of the ad's field in the record before, which is probably the same
    /// in this one.
    pub(crate) fn parse<'a>(&self, record: &'a [u8], ad_at: &mut usize) -> Result<Event<'a>> {
        self.find(record, ad_at).ok_or_else(|| malformed(record, &"a field is not where it should be"))
    }

    #[inline]
    fn find<'a>(&self, record: &'a [u8], ad_at: &mut usize) -> Option<Event<'a>> {
        if !record.get(*ad_at..).is_some_and(|rest| rest.starts_with(AD_ID)) {
            *ad_at = memchr::memmem::find(record, AD_ID)?;
        }
        let (ad_id, rest) = text_before_quote(&record[*ad_at + AD_ID.len()..])?;
        let rest = &rest[self.event_type.find(rest)? + EVENT_TYPE.len()..];
        let (event_type, rest) = text_before_quote(rest)?;
        let digits = rest.strip_prefix(EVENT_TIME)?.iter().take_while(|byte| byte.is_ascii_digit());
        let event_time = digits.fold(0, |time, digit| time * 10 + i64::from(digit - b'0'));
        Some(Event { ad_id, event_type, event_time })
    }
}

fn text_before_quote(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (text, rest) = bytes.split_at(memchr::memchr(b'"', bytes)?);
    Some((std::str::from_utf8(text).ok()?, &rest[1..]))
}

#[cold]
fn malformed(record: &[u8], error: &dyn std::fmt::Display) -> Error {
    Error::internal(format!("the workload has a malformed event: {error}: {}", String::from_utf8_lossy(record)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsers_agree_and_refuse_what_is_no_event() {
        let record =
            br#"{"user_id":"u","ad_id":"ad-7","ad_type":"mail","event_type":"view","event_time":1234,"ip":"1"}"#;
        let expected = Event { ad_id: "ad-7", event_type: "view", event_time: 1234 };
        let scan = FieldScan::new();
        assert_eq!(serde_json(record).unwrap(), expected);
        assert_eq!(sonic(record).unwrap(), expected);
        for mut ad_at in [0, 15, 1000] {
            assert_eq!(scan.parse(record, &mut ad_at).unwrap(), expected);
            assert_eq!(ad_at, 15);
        }
        for bad in [&b"{}"[..], b"", br#"{"ad_id":"x","event_type":"view"}"#, br#"{"ad_id":"x"#] {
            assert!(serde_json(bad).is_err() && sonic(bad).is_err() && scan.parse(bad, &mut 0).is_err(), "{bad:?}");
        }
    }
}
