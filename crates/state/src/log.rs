//! The log of a job: numbered entries, each written once by whoever comes first. It decides who owns the job and which
//! checkpoints exist. A coordinator appends under the number that follows on the last entry it has read: if somebody else
//! has taken it, it learns who, and gives way to a later incarnation.

use anabranch_model::{Epoch, Error, Incarnation, Result};
use serde::{Deserialize, Serialize};

use crate::{Blob, Store};

const FOLDER: &str = "log";

/// One entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Entry {
    /// A coordinator has taken the job over.
    Begins {
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// A checkpoint is complete.
    Checkpoint {
        /// Who completed it.
        incarnation: Incarnation,
        /// Its epoch.
        epoch: Epoch,
        /// Its manifest.
        manifest: Blob,
    },
}

/// Outcome of [`Log::append`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The entry is the last one.
    Last,
    /// There is another entry of this number, or there are later ones: somebody else has the job.
    Taken,
}

/// Reads and appends entries.
#[derive(Clone, Debug)]
pub struct Log {
    store: Store,
}

impl Log {
    /// The log of the job whose checkpoints lie in `store`.
    #[must_use]
    pub fn new(store: Store) -> Log {
        Log { store }
    }

    /// Entry `sequence`, if there is one.
    pub fn read(&self, sequence: u64) -> Result<Option<Entry>> {
        let name = name(sequence);
        let Some(content) = self.store.get(&name)? else { return Ok(None) };
        serde_json::from_slice(&content).map(Some).map_err(|error| {
            Error::outside(format!("an entry of the job's log is damaged: {error}"))
                .at(format!("{}/{name}", self.store.place()))
                .remedy("remove it if it is the last one: the checkpoint before it is used then")
        })
    }

    /// All entries that are there, with their numbers, ascending. Old ones may have been removed.
    pub fn entries(&self) -> Result<Vec<(u64, Entry)>> {
        let mut entries = Vec::new();
        for sequence in self.numbers()? {
            if let Some(entry) = self.read(sequence)? {
                entries.push((sequence, entry));
            }
        }
        Ok(entries)
    }

    /// Appends under this number, which is to follow on the last one.
    pub fn append(&self, sequence: u64, entry: &Entry) -> Result<Appended> {
        if !self.put_new(sequence, entry)? {
            return Ok(Appended::Taken);
        }
        // Whoever slept for long may find a number free again, whose entry was removed; later ones are there then.
        match self.numbers()?.last() {
            Some(last) if *last > sequence => self.remove(sequence).map(|()| Appended::Taken),
            _ => Ok(Appended::Last),
        }
    }

    /// Makes sure that the store refuses an entry of this number, which is there: with one that does not, two processes could
    /// have the job.
    pub fn check_refusal(&self, sequence: u64, entry: &Entry) -> Result<()> {
        match self.put_new(sequence, entry)? {
            false => Ok(()),
            true => Err(Error::user("the store does not honour conditional writes (If-None-Match on PUT)")
                .at(self.store.place().to_owned())
                .remedy("keep checkpoints in a directory, or in an object store that does")),
        }
    }

    fn put_new(&self, sequence: u64, entry: &Entry) -> Result<bool> {
        let text = serde_json::to_vec(entry)
            .map_err(|error| Error::internal(format!("an entry of the log cannot be encoded: {error}")))?;
        self.store.put_new(&name(sequence), text.into())
    }

    /// Numbers of the entries that are there, ascending.
    fn numbers(&self) -> Result<Vec<u64>> {
        let names = self.store.list(FOLDER)?;
        let number = |name: &String| name.rsplit('/').next()?.strip_suffix(".json")?.parse().ok();
        Ok(names.iter().filter_map(number).collect())
    }

    /// Removes an entry whose checkpoint is no longer kept.
    pub fn remove(&self, sequence: u64) -> Result<()> {
        self.store.delete(&name(sequence))
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
        assert_eq!(log.entries().expect("none"), []);
        let begins = |n| Entry::Begins { incarnation: Incarnation(n) };
        let manifest = store.put("manifests/5", b"x".to_vec().into()).expect("put");
        let checkpoint = Entry::Checkpoint { incarnation: Incarnation(1), epoch: Epoch(5), manifest };
        assert_eq!(log.append(1, &begins(1)).expect("append"), Appended::Last);
        assert_eq!(log.append(2, &checkpoint).expect("append"), Appended::Last);
        assert_eq!(log.append(2, &begins(2)).expect("taken"), Appended::Taken);
        assert_eq!(log.append(10, &begins(2)).expect("append"), Appended::Last);
        assert_eq!(log.entries().expect("all"), [(1, begins(1)), (2, checkpoint), (10, begins(2))]);
        log.remove(1).expect("remove");
        assert_eq!(log.entries().expect("rest").len(), 2);
        assert_eq!(log.append(1, &begins(1)).expect("free, but late"), Appended::Taken);
        assert_eq!(log.entries().expect("rest").len(), 2, "the late entry leaves no trace");
        std::fs::write(folder.path().join("log/000000000010.json"), "{").expect("write");
        let error = log.entries().expect_err("damaged").to_string();
        assert!(error.contains("000000000010.json"), "{error}");
    }
}
