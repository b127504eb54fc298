//! The log of a job: numbered entries, each written once, by the first process to do so. It decides who owns
//! the job and which checkpoints exist. A coordinator appends under the number after the last entry it has
//! read. If another process has taken that number, the coordinator learns which, and gives way to a later
//! incarnation.
//!
//! Old entries may be removed, but only those before a checkpoint that is kept. A late process may then find
//! its number free again. It finds later entries, and its own entry counts as older than that checkpoint's.
//!
//! An entry is a JSON object. Its first member is its `format`: a reader refuses formats that it does not
//! know. Its last member is its `checksum`: the CRC-32 (IEEE) of all text before the comma in front of it. An
//! entry without a checksum, or that is not JSON, is damaged. Readers decide what a damaged entry means for
//! them.

use anabranch_model::{Epoch, Error, ErrorKind, Incarnation, PlanVersion, Result};
use serde::{Deserialize, Serialize};

use crate::{Blob, Store};

const FOLDER: &str = "log";
/// Format of the entries that are written.
const FORMAT: u32 = 1;
/// The text between an entry's content and its checksum.
const CHECKSUM: &str = ",\"checksum\":";

/// One entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub enum Entry {
    /// A coordinator has taken the job over.
    Begins {
        /// Its incarnation.
        incarnation: Incarnation,
        /// A number that no other coordinator has.
        owner: u64,
        /// [`Savepoint::id`](crate::Savepoint::id) of the savepoint that the job starts from, if it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
        /// The version of the plan by which its tasks run.
        #[serde(default = "first", skip_serializing_if = "is_first")]
        version: PlanVersion,
    },
    /// A coordinator has taken over the running tasks of an incarnation.
    Adopts {
        /// The incarnation.
        incarnation: Incarnation,
        /// A number that no other coordinator has.
        owner: u64,
    },
    /// A checkpoint is complete.
    Checkpoint {
        /// The incarnation that completed it.
        incarnation: Incarnation,
        /// Its epoch.
        epoch: Epoch,
        /// Its manifest.
        manifest: Blob,
        /// The version of the plan of the tasks that wrote it.
        #[serde(default = "first", skip_serializing_if = "is_first")]
        version: PlanVersion,
    },
    /// The job has ended by itself: the last checkpoint before this is its end.
    Ended {
        /// The incarnation in which it ended.
        incarnation: Incarnation,
    },
}

/// A job that was never changed while it ran has this version of its plan.
const FIRST: PlanVersion = PlanVersion(1);

fn first() -> PlanVersion {
    FIRST
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_first(version: &PlanVersion) -> bool {
    *version == FIRST
}

impl Entry {
    /// The version of the plan that it is of. Entries that do not say are of no later one.
    #[must_use]
    pub fn version(&self) -> PlanVersion {
        match self {
            Entry::Begins { version, .. } | Entry::Checkpoint { version, .. } => *version,
            Entry::Adopts { .. } | Entry::Ended { .. } => FIRST,
        }
    }

    /// The incarnation that wrote it.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        match self {
            Entry::Begins { incarnation, .. }
            | Entry::Adopts { incarnation, .. }
            | Entry::Checkpoint { incarnation, .. }
            | Entry::Ended { incarnation } => *incarnation,
        }
    }
}

/// An entry as stored.
#[derive(Serialize, Deserialize)]
struct Stored<E> {
    format: u32,
    #[serde(flatten)]
    entry: E,
}

/// The member that tells the format.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

/// Outcome of [`Log::append`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The entry is the last one.
    Last,
    /// Another entry already has this number.
    Taken,
    /// There are later entries: the log has gone past this number.
    Passed,
}

/// Outcome of [`Log::read`].
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// The entry.
    Entry(Entry),
    /// Nothing yet: the number is free.
    Nothing,
    /// There are later entries. An entry under this number may have arrived late.
    Passed,
}

/// Reads and appends entries.
#[derive(Clone, Debug)]
pub struct Log {
    store: Store,
}

impl Log {
    /// The log of the job whose checkpoints are in `store`.
    #[must_use]
    pub fn new(store: Store) -> Log {
        Log { store }
    }

    /// Reads the entry with this number, unless there are later ones.
    pub fn read(&self, sequence: u64) -> Result<Found> {
        let entry = self.entry(sequence).map_err(|error| {
            error.remedy("start the job again: it resumes from the newest checkpoint before this entry")
        })?;
        Ok(match (self.has_later(sequence)?, entry) {
            (true, _) => Found::Passed,
            (false, Some(entry)) => Found::Entry(entry),
            (false, None) => Found::Nothing,
        })
    }

    /// The entry of this number; an error of kind `Damaged` if it cannot be decoded.
    fn entry(&self, sequence: u64) -> Result<Option<Entry>> {
        let name = name(sequence);
        let Some(content) = self.store.get(&name)? else { return Ok(None) };
        decode(&content).map(Some).map_err(|error| error.at(format!("{}/{name}", self.store.place())))
    }

    /// A later entry may have been removed, but never the last one.
    fn has_later(&self, sequence: u64) -> Result<bool> {
        Ok(self.numbers()?.last().is_some_and(|last| *last > sequence))
    }

    /// All entries with their numbers, ascending; for a damaged one, the error. Old entries may have been
    /// removed.
    pub fn entries(&self) -> Result<Vec<(u64, Result<Entry>)>> {
        let mut entries = Vec::new();
        for sequence in self.numbers()? {
            match self.entry(sequence) {
                Ok(Some(entry)) => entries.push((sequence, Ok(entry))),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::Damaged => entries.push((sequence, Err(error))),
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    /// Whether no incarnation after this one has begun, according to the log. A damaged last entry may have
    /// begun one; the incarnation after an earlier damaged entry has taken it into account.
    pub fn is_owned_by(&self, incarnation: Incarnation) -> Result<bool> {
        let entries = self.entries()?;
        let is_later = |entry: &Result<Entry>| entry.as_ref().is_ok_and(|entry| entry.incarnation() > incarnation);
        let ends_whole = entries.last().is_none_or(|(_, last)| last.is_ok());
        Ok(ends_whole && !entries.iter().any(|(_, entry)| is_later(entry)))
    }

    /// Whether no entry follows this one: no coordinator has taken the job over since it was written.
    pub fn ends_with(&self, sequence: u64) -> Result<bool> {
        self.has_later(sequence).map(|later| !later)
    }

    /// Whether exactly this entry has this number.
    pub fn has(&self, sequence: u64, entry: &Entry) -> Result<bool> {
        Ok(self.store.get(&name(sequence))?.is_some_and(|content| decode(&content).is_ok_and(|found| found == *entry)))
    }

    /// Appends under this number, which must follow the last one.
    pub fn append(&self, sequence: u64, entry: &Entry) -> Result<Appended> {
        if !self.put_new(sequence, entry)? {
            return Ok(Appended::Taken);
        }
        // A process that was suspended for long may find a number free whose entry was removed; there are
        // later entries then. Its entry is not removed: another process may just have written the next number
        // and use it.
        Ok(if self.has_later(sequence)? { Appended::Passed } else { Appended::Last })
    }

    /// Makes an existing entry durable: the process that wrote it may have ended because the disk refused
    /// that.
    pub fn confirm(&self, sequence: u64) -> Result<()> {
        let name = name(sequence);
        match self.store.get(&name)? {
            Some(content) if !self.store.is_remote() => self.store.put(&name, content).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Verifies that the store refuses a second entry of this number: with a store that does not, two
    /// processes could own the job.
    pub fn check_refusal(&self, sequence: u64, entry: &Entry) -> Result<()> {
        match self.put_new(sequence, entry)? {
            false => Ok(()),
            true => Err(Error::user("the store does not support conditional writes (If-None-Match on PUT)")
                .at(self.store.place().to_owned())
                .remedy("keep checkpoints in a directory, or in an object store that does")),
        }
    }

    fn put_new(&self, sequence: u64, entry: &Entry) -> Result<bool> {
        self.store.put_new(&name(sequence), encode(entry)?.into())
    }

    /// Numbers of the entries, ascending.
    fn numbers(&self) -> Result<Vec<u64>> {
        let names = self.store.list(FOLDER)?;
        let number = |name: &String| name.rsplit('/').next()?.strip_suffix(".json")?.parse().ok();
        Ok(names.iter().filter_map(number).collect())
    }

    /// Removes an entry that is no longer needed. The last one must stay.
    pub fn remove(&self, sequence: u64) -> Result<()> {
        self.store.delete(&name(sequence))
    }
}

/// The entry's text with its checksum as the last member.
fn encode(entry: &Entry) -> Result<Vec<u8>> {
    let text = serde_json::to_string(&Stored { format: FORMAT, entry })
        .map_err(|error| Error::internal(format!("an entry of the log cannot be encoded: {error}")))?;
    let text = text.strip_suffix('}').unwrap_or(&text);
    Ok(format!("{text}{CHECKSUM}{}}}", crc32fast::hash(text.as_bytes())).into_bytes())
}

fn decode(content: &[u8]) -> Result<Entry> {
    let damaged = |what: String| Error::damaged(format!("an entry of the job's log is damaged: {what}"));
    let unreadable = |error: serde_json::Error| damaged(error.to_string());
    check(content).map_err(|what| damaged(what.into()))?;
    let Head { format } = serde_json::from_slice(content).map_err(unreadable)?;
    match format {
        FORMAT => serde_json::from_slice(content).map_err(unreadable),
        format => {
            Err(Error::user(format!("an entry of the job's log has format {format}; this version reads {FORMAT}"))
                .remedy("start the job with the version of Anabranch that wrote it"))
        }
    }
}

/// An error if an entry has no checksum, or one that does not match.
fn check(content: &[u8]) -> std::result::Result<(), &'static str> {
    let text = std::str::from_utf8(content).map_err(|_| "it is not text")?;
    let Some((text, checksum)) = text.rsplit_once(CHECKSUM) else { return Err("it has no checksum") };
    let checksum = checksum.strip_suffix('}').and_then(|checksum| checksum.parse().ok());
    match checksum == Some(crc32fast::hash(text.as_bytes())) {
        true => Ok(()),
        false => Err("its checksum does not match"),
    }
}

fn name(sequence: u64) -> String {
    format!("{FOLDER}/{sequence:012}.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;

    #[test]
    fn entries_are_appended_once_and_read_in_order() {
        let folder = tempfile::tempdir().expect("folder");
        let store = Store::open(folder.path().to_str().expect("text"), &Access::default()).expect("store");
        let log = Log::new(store.clone());
        let entries = || log.entries().expect("listed").into_iter().map(|(n, entry)| (n, entry.expect("readable")));
        let entries = || entries().collect::<Vec<_>>();
        assert_eq!(entries(), []);
        let begins = |n| Entry::Begins { incarnation: Incarnation(n), owner: n + 40, origin: None, version: FIRST };
        let manifest = store.put("manifests/5", b"x".to_vec().into()).expect("put");
        let checkpoint = Entry::Checkpoint { incarnation: Incarnation(1), epoch: Epoch(5), manifest, version: FIRST };
        assert_eq!(log.append(1, &begins(1)).expect("append"), Appended::Last);
        assert_eq!(log.append(2, &checkpoint).expect("append"), Appended::Last);
        assert_eq!(log.append(2, &begins(2)).expect("taken"), Appended::Taken);
        assert_eq!(log.append(10, &begins(2)).expect("append"), Appended::Last);
        assert_eq!(entries(), [(1, begins(1)), (2, checkpoint), (10, begins(2))]);
        log.remove(1).expect("remove");
        assert_eq!(entries().len(), 2);
        assert_eq!(log.append(1, &begins(1)).expect("free, but late"), Appended::Passed);
        assert_eq!(log.read(1).expect("read"), Found::Passed);
        assert_eq!(log.read(11).expect("read"), Found::Nothing);
        assert_eq!(log.read(10).expect("read"), Found::Entry(begins(2)));
        assert_eq!(log.read(2).expect("read"), Found::Passed, "another entry follows");
        std::fs::write(folder.path().join("log/000000000010.json"), "{").expect("write");
        let error = log.entries().expect("listed").pop().expect("the last").1.expect_err("damaged");
        assert!(error.kind() == ErrorKind::Damaged && error.to_string().contains("000000000010.json"), "{error}");
    }

    /// The texts of a format are written once, by its first version, and never again.
    #[test]
    fn entries_of_every_format_are_read_forever() {
        let manifest = Blob { name: "manifests/1-5.txt".into(), bytes: 3, crc32: 7 };
        let (incarnation, epoch) = (Incarnation(1), Epoch(5));
        let begins = Entry::Begins { incarnation, owner: u64::MAX, origin: None, version: FIRST };
        let origin = Some("ads@1-40:deadbeef".to_owned());
        let from = Entry::Begins { incarnation, owner: 5, origin, version: PlanVersion(2) };
        let known = [
            (r#""entry":"begins","incarnation":1,"owner":18446744073709551615"#, begins),
            (r#""entry":"begins","incarnation":1,"owner":5,"origin":"ads@1-40:deadbeef","version":2"#, from),
            (r#""entry":"adopts","incarnation":1,"owner":6"#, Entry::Adopts { incarnation, owner: 6 }),
            (
                r#""entry":"checkpoint","incarnation":1,"epoch":5,"manifest":{"name":"manifests/1-5.txt","bytes":3,"crc32":7}"#,
                Entry::Checkpoint { incarnation, epoch, manifest, version: FIRST },
            ),
            (r#""entry":"ended","incarnation":1"#, Entry::Ended { incarnation }),
        ];
        let text = |format: u32, members: &str| {
            let text = format!("{{\"format\":{format},{members}");
            format!("{text},\"checksum\":{}}}", crc32fast::hash(text.as_bytes()))
        };
        for (members, entry) in &known {
            let text = text(1, members);
            assert_eq!(decode(text.as_bytes()).expect(members), *entry);
            assert_eq!(String::from_utf8(encode(entry).expect("encoded")).expect("text"), text);
        }
        for other in [0, 2, 4] {
            let error = decode(text(other, known[0].0).as_bytes()).expect_err("another format").to_string();
            let expected = format!("has format {other}; this version reads 1");
            assert!(error.contains(&expected) && error.contains("the version of Anabranch that wrote it"), "{error}");
        }
        let without = decode(br#"{"format":1,"entry":"ended","incarnation":1}"#).expect_err("without a checksum");
        assert!(without.kind() == ErrorKind::Damaged && without.to_string().contains("no checksum"), "{without}");
    }

    #[test]
    fn any_damage_of_an_entry_is_detected() {
        let entry = Entry::Begins {
            incarnation: Incarnation(1),
            owner: 5,
            origin: Some("ads@1-40:deadbeef".into()),
            version: FIRST,
        };
        let content = encode(&entry).expect("encoded");
        let is_damaged = |content: &[u8]| decode(content).is_err_and(|error| error.kind() == ErrorKind::Damaged);
        for at in 0..content.len() {
            for bit in 0..8 {
                let mut flipped = content.clone();
                flipped[at] ^= 1 << bit;
                assert!(is_damaged(&flipped), "bit {bit} of byte {at} passes");
            }
            assert!(is_damaged(&content[..at]), "cut at {at} passes");
            assert!(is_damaged(&[&content[..at], &vec![0; content.len() - at]].concat()), "zeros from {at} pass");
        }
    }
}
