//! Versioned objects in a store. Each version is written once, by the first process to do so, and the last
//! version counts.
//!
//! A version is an object of its own, whose name has its number. A process writes the version after the last
//! one that it has read, with put-if-absent. If another process was faster, the write is refused, and nothing
//! is lost. Older versions are removed. A process that was suspended for long may then find its number free
//! again: it finds later versions too, and takes its own back.
//!
//! The answer to a write may be lost, and the version may be there all the same. Then the next write finds
//! its number taken. The content says whose version it is: see [`Records`](super::record::Records) and
//! [`Leaders`](super::leader::Leaders).

use anabranch_model::{Error, Result};
use anabranch_state::Store;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The versions of one object.
#[derive(Clone)]
pub(super) struct Versions {
    store: Store,
    folder: &'static str,
    /// Empty if the folder has the versions of one object only.
    name: String,
    /// They contain secrets.
    private: bool,
}

/// A version as it was read.
pub(super) struct Version {
    pub(super) number: u64,
    pub(super) content: Vec<u8>,
    object: String,
    store: Store,
}

/// The member that tells the format of a content.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

impl Version {
    /// Its content, which says of itself that it has this format. `remedy`: if it cannot be read.
    pub(super) fn content_of<T: DeserializeOwned>(&self, format: u32, what: &str, remedy: &str) -> Result<T> {
        let damaged = |error: serde_json::Error| self.damaged(&format!("the {what} cannot be read: {error}"), remedy);
        let Head { format: other } = serde_json::from_slice(&self.content).map_err(damaged)?;
        if other != format {
            let error = format!("the {what} has format {other}, and this release reads {format}");
            return Err(self.damaged(&error, &format!("run the release that wrote it, or {remedy}")));
        }
        serde_json::from_slice(&self.content).map_err(damaged)
    }

    /// The error of a version that cannot be read, and what to do about it.
    pub(super) fn damaged(&self, what: &str, remedy: &str) -> Error {
        Error::damaged(what.to_owned()).at(format!("{}/{}", self.store.place(), self.object)).remedy(remedy.to_owned())
    }
}

impl Versions {
    pub(super) fn new(store: Store, folder: &'static str, name: impl Into<String>) -> Versions {
        Versions { store, folder, name: name.into(), private: false }
    }

    /// Of objects that contain secrets: in a directory, only the user of this process may read them.
    pub(super) fn private(self) -> Versions {
        Versions { private: true, ..self }
    }

    /// The last version, if there is any.
    pub(super) fn last(&self) -> Result<Option<Version>> {
        loop {
            let Some(number) = self.numbers()?.into_iter().max() else { return Ok(None) };
            // Another process may have written a later one, and removed this, since they were listed.
            if let Some(version) = self.version(number)? {
                return Ok(Some(version));
            }
        }
    }

    /// Whether this is the last version still.
    pub(super) fn is_last(&self, number: u64) -> Result<bool> {
        Ok(self.numbers()?.into_iter().max() == Some(number))
    }

    /// Writes the version after `last`. False if another process was faster.
    pub(super) fn write(&self, last: u64, content: &[u8]) -> Result<bool> {
        let number = last + 1;
        let object = self.object(number);
        let new = content.to_vec().into();
        let is_new = match self.private {
            true => self.store.put_new_private(&object, new)?,
            false => self.store.put_new(&object, new)?,
        };
        if !is_new {
            // An earlier attempt may have written it, and lost the answer.
            return Ok(self.store.get(&object)?.is_some_and(|found| found == content) && self.is_last(number)?);
        }
        let all = self.numbers()?;
        if all.iter().any(|other| *other > number) {
            self.store.delete(&object)?;
            return Ok(false);
        }
        for old in all.into_iter().filter(|old| *old < number) {
            // One that cannot be removed now is removed with the next version.
            let _ = self.store.delete(&self.object(old));
        }
        Ok(true)
    }

    fn version(&self, number: u64) -> Result<Option<Version>> {
        let object = self.object(number);
        let content = self.store.get(&object)?;
        Ok(content.map(|content| Version { number, content: content.into(), object, store: self.store.clone() }))
    }

    fn object(&self, number: u64) -> String {
        let Versions { folder, name, .. } = self;
        match (name.as_str(), number) {
            ("", _) => format!("{folder}/{number:010}.json"),
            // As releases wrote it that knew no versions.
            (_, 0) => format!("{folder}/{name}.json"),
            _ => format!("{folder}/{name}.{number:010}.json"),
        }
    }

    fn numbers(&self) -> Result<Vec<u64>> {
        let objects = self.store.list(self.folder)?;
        Ok(objects.iter().filter_map(|object| self.number(object)).collect())
    }

    /// The number of a version, if this is one of the object.
    fn number(&self, object: &str) -> Option<u64> {
        let stem = object.rsplit('/').next()?.strip_suffix(".json")?;
        match stem.strip_prefix(&self.name)? {
            "" => Some(0),
            number if self.name.is_empty() => number.parse().ok(),
            number => number.strip_prefix('.')?.parse().ok(),
        }
    }
}

/// The last version of each object in a folder. Names of objects have no dots.
pub(super) fn all(store: &Store, folder: &'static str) -> Result<Vec<Version>> {
    let mut last = std::collections::BTreeMap::<String, u64>::new();
    for object in store.list(folder)? {
        let stem = object.rsplit('/').next().and_then(|object| object.strip_suffix(".json"));
        let name = stem.map(|stem| stem.split_once('.').map_or(stem, |(name, _)| name));
        let Some(versions) = name.map(|name| Versions::new(store.clone(), folder, name)) else { continue };
        if let Some(number) = versions.number(&object) {
            let last = last.entry(versions.name).or_default();
            *last = number.max(*last);
        }
    }
    let mut found = Vec::new();
    for (name, number) in last {
        let versions = Versions::new(store.clone(), folder, name);
        // One that is gone has a successor.
        let version = versions.version(number)?.map_or_else(|| versions.last(), |version| Ok(Some(version)))?;
        found.extend(version);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use anabranch_state::Access;

    use super::*;

    fn store(folder: &std::path::Path) -> Store {
        Store::open(folder.to_str().expect("text"), &Access::default()).expect("a store")
    }

    #[test]
    fn the_first_of_two_writers_wins_and_a_late_one_never_does() {
        let folder = tempfile::tempdir().expect("folder");
        let store = store(folder.path());
        let versions = Versions::new(store.clone(), "folder", "ads");
        let read = || versions.last().expect("read").map(|version| (version.number, version.content));
        assert_eq!(read(), None);
        assert!(versions.write(0, b"one").expect("written"));
        assert!(versions.write(0, b"one").expect("the same"), "an answer that was lost");
        assert!(!versions.write(0, b"another").expect("refused"));
        assert!(versions.write(1, b"two").expect("written") && versions.write(2, b"three").expect("written"));
        assert_eq!(store.list("folder").expect("listed"), ["folder/ads.0000000003.json"]);
        assert!(!versions.write(0, b"late").expect("refused"), "its number is free again");
        assert_eq!(read(), Some((3, b"three".to_vec())));
        assert_eq!(store.list("folder").expect("listed").len(), 1);
        assert!(versions.is_last(3).expect("listed") && !versions.is_last(1).expect("listed"));
    }

    #[test]
    fn names_that_begin_alike_are_different_objects() {
        let folder = tempfile::tempdir().expect("folder");
        let store = store(folder.path());
        for name in ["a", "a2", "a-0000000009", "7"] {
            let versions = Versions::new(store.clone(), "folder", name);
            assert!(versions.write(0, name.as_bytes()).expect("written"));
            assert!(versions.write(1, name.as_bytes()).expect("written"));
        }
        // As releases wrote it that knew no versions.
        store.put("folder/old.json", b"old".to_vec().into()).expect("put");
        let all = all(&store, "folder").expect("read");
        let all: Vec<_> = all.iter().map(|found| (found.number, found.content.as_slice())).collect();
        let expected: [(u64, &[u8]); 5] = [(2, b"7"), (2, b"a"), (2, b"a-0000000009"), (2, b"a2"), (0, b"old")];
        assert_eq!(all, expected);
        let old = Versions::new(store.clone(), "folder", "old");
        assert!(old.write(0, b"new").expect("written") && store.get("folder/old.json").expect("read").is_none());
    }
}
