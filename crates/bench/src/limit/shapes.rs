//! Records of many shapes by hand: a general parser into borrowed fields, and a hash table.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use anabranch_model::{Error, HASH_SEED, Result, hash_bytes, hash_u64};
use serde::Deserialize;

use crate::answer::{Aggregates, Answer};
use crate::contestant::RunResult;
use crate::workload::{Lines, WINDOW_MS};

#[derive(Deserialize)]
struct Event<'a> {
    id: i64,
    #[serde(borrow)]
    page: Cow<'a, str>,
    kind: &'a str,
    price: Option<f64>,
    time: i64,
}

/// Aggregates of a group: its page, kind and window.
struct Group {
    page: Box<str>,
    kind: Box<str>,
    window: i64,
    count: u64,
    id_max: i64,
    price_max: Option<f64>,
}

/// Hashes of groups need no further hashing.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_bytes(self.0, bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Groups by their hashes, several per hash if necessary.
#[derive(Default)]
struct Groups {
    by_hash: HashMap<u64, Vec<Group>, BuildHasherDefault<Hashed>>,
}

impl Groups {
    fn add(&mut self, event: &Event<'_>) {
        let window = event.time.div_euclid(WINDOW_MS);
        let hash = hash_bytes(hash_bytes(HASH_SEED, event.page.as_bytes()), event.kind.as_bytes());
        let groups = self.by_hash.entry(hash_u64(hash, window.cast_unsigned())).or_default();
        let same =
            |group: &&mut Group| group.window == window && *group.page == *event.page && *group.kind == *event.kind;
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.count += 1;
                group.id_max = group.id_max.max(event.id);
                group.price_max = match (group.price_max, event.price) {
                    (Some(most), Some(price)) => Some(most.max(price)),
                    (most, price) => most.or(price),
                };
            }
            None => groups.push(Group {
                page: event.page.as_ref().into(),
                kind: event.kind.into(),
                window,
                count: 1,
                id_max: event.id,
                price_max: event.price,
            }),
        }
    }

    fn result(&self, events: u64) -> RunResult {
        let mut answer = Answer::default();
        for group in self.by_hash.values().flatten() {
            let Group { count, id_max, price_max, .. } = *group;
            let aggregates = Aggregates { count, id_max, price_max };
            answer.add_group(&group.page, &group.kind, group.window * WINDOW_MS, aggregates);
        }
        RunResult { events, result_hash: Some(answer.hash()) }
    }
}

/// With serde_json.
pub(crate) fn json(lines: &Lines) -> Result<RunResult> {
    let text = lines.bytes();
    let mut groups = Groups::default();
    let (mut rows, mut start) = (0, 0);
    for end in memchr::memchr_iter(b'\n', text) {
        let event = serde_json::from_slice(&text[start..end])
            .map_err(|error| Error::internal(format!("the workload has a malformed record: {error}")))?;
        groups.add(&event);
        start = end + 1;
        rows += 1;
    }
    Ok(groups.result(rows))
}

/// With the crate csv, in its fastest mode: records of bytes, fields by position.
pub(crate) fn csv(lines: &Lines) -> Result<RunResult> {
    let malformed = || Error::internal("the workload has a malformed record");
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(lines.bytes());
    let mut record = csv::ByteRecord::new();
    let mut groups = Groups::default();
    let mut rows = 0;
    while reader.read_byte_record(&mut record).map_err(|_| malformed())? {
        let text = |index: usize| std::str::from_utf8(&record[index]).map_err(|_| malformed());
        groups.add(&Event {
            id: text(0)?.parse().map_err(|_| malformed())?,
            page: text(2)?.into(),
            kind: text(3)?,
            price: Some(text(4)?.parse().map_err(|_| malformed())?),
            time: text(5)?.parse().map_err(|_| malformed())?,
        });
        rows += 1;
    }
    Ok(groups.result(rows))
}
