//! The records of a checkpoint interval as bytes: the content of a committable of the exactly-once writer.
//!
//! Frozen layout of versions 1 and 2, integers little-endian, `n` a variable-length number (7 bits per byte,
//! lowest first):
//!
//! ```text
//! "ABKR"  version: u8; 2 if records have times or headers
//! n length of topic, topic
//! per record: n partition + 1 (0: the client chooses), n length of key + 1 (0: none), key, n length of value + 1, value
//!             version 2: n time in milliseconds + 1 (0: none), n number of headers
//!             per header: n length of name, name, n length of value + 1 (0: none), value
//! number of records: u64
//! checksum of all before: u64 (the hash of `anabranch_model`)
//! ```

use anabranch_model::{Error, HASH_SEED, Result, hash_bytes};

use super::attached::{Attached, Outgoing};
use crate::guarantee::START_OVER;

const MAGIC: &[u8; 4] = b"ABKR";
const VERSION: u8 = 1;
/// The version for records with times and headers.
const VERSION_ATTACHED: u8 = 2;

/// Records being gathered.
pub(super) struct Held {
    bytes: Vec<u8>,
    header_bytes: usize,
    records: u64,
    attaches: bool,
}

impl Held {
    /// An empty buffer for the records of a topic. `attaches`: whether they may have times and headers.
    pub(super) fn new(topic: &str, attaches: bool) -> Held {
        let mut bytes = MAGIC.to_vec();
        bytes.push(if attaches { VERSION_ATTACHED } else { VERSION });
        put(&mut bytes, topic.len() as u64);
        bytes.extend_from_slice(topic.as_bytes());
        Held { header_bytes: bytes.len(), bytes, records: 0, attaches }
    }

    /// Adds a record; a negative partition leaves the choice to the client.
    pub(super) fn push(&mut self, partition: i32, record: &Outgoing<'_>) {
        put(&mut self.bytes, u64::try_from(i64::from(partition) + 1).unwrap_or(0));
        put_field(&mut self.bytes, record.key);
        put_field(&mut self.bytes, record.value);
        if self.attaches {
            let Attached { time_ms, headers } = &record.attached;
            put(&mut self.bytes, time_ms.map_or(0, |ms| ms.unsigned_abs() + 1));
            put(&mut self.bytes, headers.len() as u64);
            for (name, value) in headers {
                put(&mut self.bytes, name.len() as u64);
                self.bytes.extend_from_slice(name.as_bytes());
                put_field(&mut self.bytes, *value);
            }
        }
        self.records += 1;
    }

    /// Memory of the records.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Takes the content of a committable, if there are records. Records that are added from now on belong to
    /// the next epoch.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        if self.records == 0 {
            return None;
        }
        let header = self.bytes[..self.header_bytes].to_vec();
        let mut content = std::mem::replace(&mut self.bytes, header);
        content.extend_from_slice(&self.records.to_le_bytes());
        content.extend_from_slice(&hash_bytes(HASH_SEED, &content).to_le_bytes());
        self.records = 0;
        Some(content)
    }
}

/// A record of a committable.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// Negative: the client chooses.
    pub(super) partition: i32,
    pub(super) content: Outgoing<'a>,
}

/// The content of a committable, checked.
#[derive(Debug)]
pub(super) struct HeldRecords<'a> {
    /// The topic that the records are for.
    pub(super) topic: &'a str,
    pub(super) checksum: u64,
    records: &'a [u8],
    attaches: bool,
}

impl<'a> HeldRecords<'a> {
    /// Reads a committable. Every record of the result is intact.
    pub(super) fn parse(content: &'a [u8]) -> Result<HeldRecords<'a>> {
        let Some((header, rest)) = content.split_at_checked(MAGIC.len() + 1) else {
            return Err(damaged("it is cut off"));
        };
        if header[..MAGIC.len()] != *MAGIC {
            return Err(damaged("it does not begin like one"));
        }
        let attaches = header[MAGIC.len()] == VERSION_ATTACHED;
        if header[MAGIC.len()] != VERSION && !attaches {
            let known = format!("known are {VERSION} and {VERSION_ATTACHED}");
            return Err(Error::user(format!("it is of version {}, {known}", header[MAGIC.len()]))
                .remedy("start the job with the version of the program that made the checkpoint"));
        }
        let cut_off = || damaged("it is cut off");
        let (rest, checksum) = rest.split_last_chunk::<8>().ok_or_else(cut_off)?;
        if hash_bytes(HASH_SEED, &content[..content.len() - 8]) != u64::from_le_bytes(*checksum) {
            return Err(damaged("its checksum is wrong"));
        }
        let (mut rest, count) = rest.split_last_chunk::<8>().ok_or_else(cut_off)?;
        let length = take_number(&mut rest).ok_or_else(cut_off)?;
        let topic = take(&mut rest, length).ok_or_else(cut_off)?;
        let topic = std::str::from_utf8(topic).map_err(|_| damaged("its topic is no text"))?;
        let content = HeldRecords { topic, checksum: u64::from_le_bytes(*checksum), records: rest, attaches };
        let mut records = content.records();
        let whole = records.by_ref().count() as u64;
        if !records.rest.is_empty() || whole != u64::from_le_bytes(*count) {
            return Err(damaged("its records cannot be read"));
        }
        Ok(content)
    }

    /// The records in the order of writing.
    pub(super) fn records(&self) -> Records<'a> {
        Records { rest: self.records, attaches: self.attaches }
    }
}

/// Records of a committable. On malformed content it ends early, with unread bytes.
pub(super) struct Records<'a> {
    rest: &'a [u8],
    attaches: bool,
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let mut rest = self.rest;
        let partition = i32::try_from(i64::try_from(take_number(&mut rest)?).ok()? - 1).ok()?;
        let key = take_field(&mut rest)?;
        let value = take_field(&mut rest)?;
        let attached = if self.attaches { take_attached(&mut rest)? } else { Attached::default() };
        self.rest = rest;
        Some(Record { partition, content: Outgoing { key, value, attached } })
    }
}

fn damaged(reason: &str) -> Error {
    Error::damaged(format!("the records of the checkpoint are damaged: {reason}"))
        .remedy(format!("restore the checkpoint directory from its newest copy, or {START_OVER}"))
}

fn put_field(bytes: &mut Vec<u8>, field: Option<&[u8]>) {
    put(bytes, field.map_or(0, |field| field.len() as u64 + 1));
    bytes.extend_from_slice(field.unwrap_or_default());
}

fn take_attached<'a>(rest: &mut &'a [u8]) -> Option<Attached<'a>> {
    let time_ms = match take_number(rest)? {
        0 => None,
        ms => Some(i64::try_from(ms - 1).ok()?),
    };
    let mut headers = Vec::new();
    for _ in 0..take_number(rest)? {
        let length = take_number(rest)?;
        let name = std::str::from_utf8(take(rest, length)?).ok()?;
        headers.push((name, take_field(rest)?));
    }
    Some(Attached { time_ms, headers })
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take<'a>(rest: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let (bytes, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = after;
    Some(bytes)
}

fn take_field<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    match take_number(rest)? {
        0 => Some(None),
        length => take(rest, length - 1).map(Some),
    }
}

#[cfg(test)]
mod tests;
