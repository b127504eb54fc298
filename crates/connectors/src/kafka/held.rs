//! The records of a checkpoint interval as bytes: what the committable of the exactly-once writer holds.
//!
//! Frozen layout of version 1, integers little-endian, `n` a variable-length number (7 bits per byte, lowest first):
//!
//! ```text
//! "ABKR"  version: u8 = 1
//! n length of topic, topic
//! per record: n partition + 1 (0: the client chooses), n length of key + 1 (0: none), key, n length of value + 1, value
//! number of records: u64
//! checksum of all before: u64 (the hash of `anabranch_model`)
//! ```

use anabranch_model::{Error, HASH_SEED, Result, hash_bytes};

const MAGIC: &[u8; 4] = b"ABKR";
const VERSION: u8 = 1;

/// Records being gathered.
pub(super) struct Held {
    bytes: Vec<u8>,
    header_bytes: usize,
    records: u64,
}

impl Held {
    /// For records of a topic.
    pub(super) fn new(topic: &str) -> Held {
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        put(&mut bytes, topic.len() as u64);
        bytes.extend_from_slice(topic.as_bytes());
        Held { header_bytes: bytes.len(), bytes, records: 0 }
    }

    /// Adds a record; a negative partition leaves the choice to the client.
    pub(super) fn push(&mut self, partition: i32, key: Option<&[u8]>, value: Option<&[u8]>) {
        put(&mut self.bytes, u64::try_from(i64::from(partition) + 1).unwrap_or(0));
        for field in [key, value] {
            put(&mut self.bytes, field.map_or(0, |field| field.len() as u64 + 1));
            self.bytes.extend_from_slice(field.unwrap_or_default());
        }
        self.records += 1;
    }

    /// Memory that the records take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The content of a committable, if there are records. What is added from now on is of the next.
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
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
}

/// The content of a committable, checked.
#[derive(Debug)]
pub(super) struct Content<'a> {
    /// The topic that the records are for.
    pub(super) topic: &'a str,
    pub(super) checksum: u64,
    records: &'a [u8],
}

impl<'a> Content<'a> {
    /// Reads a committable. Every record of what this returns can be read.
    pub(super) fn parse(content: &'a [u8]) -> Result<Content<'a>> {
        let Some((header, rest)) = content.split_at_checked(MAGIC.len() + 1) else {
            return Err(damaged("it is cut off"));
        };
        if header[..MAGIC.len()] != *MAGIC {
            return Err(damaged("it does not begin like one"));
        }
        if header[MAGIC.len()] != VERSION {
            return Err(Error::user(format!("it is of version {}, known is {VERSION}", header[MAGIC.len()]))
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
        let content = Content { topic, checksum: u64::from_le_bytes(*checksum), records: rest };
        let mut records = content.records();
        let whole = records.by_ref().count() as u64;
        if !records.rest.is_empty() || whole != u64::from_le_bytes(*count) {
            return Err(damaged("its records cannot be read"));
        }
        Ok(content)
    }

    /// The records in the order of writing.
    pub(super) fn records(&self) -> Records<'a> {
        Records { rest: self.records }
    }
}

/// Records of a committable. Ends early, with a rest, where there is none.
pub(super) struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let mut rest = self.rest;
        let partition = i32::try_from(i64::try_from(take_number(&mut rest)?).ok()? - 1).ok()?;
        let key = take_field(&mut rest)?;
        let value = take_field(&mut rest)?;
        self.rest = rest;
        Some(Record { partition, key, value })
    }
}

fn damaged(reason: &str) -> Error {
    Error::outside(format!("the records of the checkpoint are damaged: {reason}"))
        .remedy("start the job from another checkpoint")
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
