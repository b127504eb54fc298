//! Objects by name: the few operations that checkpoints need, over `object_store`, called by threads that may wait.
//!
//! Only two of them decide anything: `put_new`, which succeeds for one caller at most, and `get`. So the same protocol is
//! right on a local directory and on every object store with a conditional put.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};

/// A place for the checkpoints of one job.
#[derive(Clone, Debug)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    /// The directory, if it is one: what is written there is brought to the disk before it counts as written.
    directory: Option<PathBuf>,
    /// For messages.
    place: String,
}

/// An object that was written: its name in the store, its size and its checksum.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Blob {
    /// Name within the job's place.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// CRC-32 (IEEE) of the content.
    pub crc32: u32,
}

impl Store {
    /// A local directory, made if it does not exist. A `file://` before the path is allowed.
    pub fn directory(place: &str) -> Result<Store> {
        if let Some((scheme, _)) = place.split_once("://")
            && scheme != "file"
        {
            return Err(Error::user(format!("checkpoints cannot be kept at {place}: '{scheme}' is not known"))
                .remedy("use a directory: a path, or file:// and a path"));
        }
        let path = PathBuf::from(place.strip_prefix("file://").unwrap_or(place));
        let made = std::fs::create_dir_all(&path).and_then(|()| path.canonicalize());
        let path = made.map_err(|error| {
            Error::outside(format!("the directory cannot be made: {error}"))
                .at(place.to_owned())
                .remedy("use a directory that can be written")
        })?;
        let objects = LocalFileSystem::new_with_prefix(&path).map_err(|error| failed("opened", place, &error))?;
        let place = path.display().to_string();
        Ok(Store { objects: Arc::new(objects), directory: Some(path), place })
    }

    /// A store of the caller's own, for simulation and for services with credentials of their own.
    pub fn new(objects: Arc<dyn ObjectStore>, place: impl Into<String>) -> Store {
        Store { objects, directory: None, place: place.into() }
    }

    /// Where the objects lie, for messages.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Writes an object, or writes it again.
    pub fn put(&self, name: &str, content: Bytes) -> Result<Blob> {
        let blob = Blob { name: name.into(), bytes: content.len() as u64, crc32: crc32fast::hash(&content) };
        let written = wait(self.objects.put(&Path::from(name), content.into()));
        written.map_err(|error| failed("written", &self.at(name), &error))?;
        self.sync(name)?;
        Ok(blob)
    }

    /// Writes an object unless there is one of this name: false if there is.
    pub fn put_new(&self, name: &str, content: Bytes) -> Result<bool> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match wait(self.objects.put_opts(&Path::from(name), content.into(), options)) {
            Ok(_) => self.sync(name).map(|()| true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(failed("written", &self.at(name), &error)),
        }
    }

    /// An object's content, `None` if there is no such object.
    pub fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let read = async { self.objects.get(&Path::from(name)).await?.bytes().await };
        match wait(read) {
            Ok(content) => Ok(Some(content)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed("read", &self.at(name), &error)),
        }
    }

    /// An object as it was written: missing, shorter or changed content is an error that is told from one of reading.
    pub fn get_blob(&self, blob: &Blob) -> Result<Bytes> {
        let damaged = |what: String| {
            Error::damaged(what)
                .at(self.at(&blob.name))
                .remedy("start from an older checkpoint, or restore the file from a copy")
        };
        let content = self.get(&blob.name)?.ok_or_else(|| damaged("a file of the checkpoint is missing".into()))?;
        if content.len() as u64 != blob.bytes {
            let (is, was) = (content.len(), blob.bytes);
            return Err(damaged(format!("a file of the checkpoint is damaged: {is} bytes, {was} were written")));
        }
        if crc32fast::hash(&content) != blob.crc32 {
            return Err(damaged("a file of the checkpoint is damaged: its checksum does not fit".into()));
        }
        Ok(content)
    }

    /// Names of all objects that begin with the folder `folder`, ascending.
    pub fn list(&self, folder: &str) -> Result<Vec<String>> {
        let found = wait(self.objects.list(Some(&Path::from(folder))).try_collect::<Vec<_>>());
        let found = found.map_err(|error| failed("listed", &self.at(folder), &error))?;
        let mut names: Vec<String> = found.into_iter().map(|object| object.location.to_string()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Removes an object; that there is none is fine.
    pub fn delete(&self, name: &str) -> Result<()> {
        match wait(self.objects.delete(&Path::from(name))) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("removed", &self.at(name), &error)),
        }
    }

    fn sync(&self, name: &str) -> Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let path = directory.join(name);
        let file = std::fs::File::open(&path).and_then(|file| file.sync_all());
        let folder =
            path.parent().map_or(Ok(()), |folder| std::fs::File::open(folder).and_then(|file| file.sync_all()));
        file.and(folder)
            .map_err(|error| Error::outside(format!("cannot be brought to the disk: {error}")).at(self.at(name)))
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.place)
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    futures::executor::block_on(future)
}

fn failed(what: &str, at: &str, error: &object_store::Error) -> Error {
    Error::outside(format!("cannot be {what}: {error}")).at(at.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_at_most_writes_a_new_object() {
        let folder = tempfile::tempdir().expect("folder");
        let store = Store::directory(folder.path().to_str().expect("text")).expect("store");
        let wins: usize = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8_u8)
                .map(|racer| {
                    let store = store.clone();
                    scope.spawn(move || usize::from(store.put_new("log/1", vec![racer; 100].into()).expect("put")))
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().expect("no panic")).sum()
        });
        assert_eq!(wins, 1);
        let content = store.get("log/1").expect("get").expect("there");
        assert!(content.len() == 100 && content.iter().all(|byte| *byte == content[0]));
        assert_eq!(store.list("log").expect("list"), ["log/1"]);
        store.delete("log/1").expect("delete");
        store.delete("log/1").expect("delete again");
        assert_eq!(store.get("log/1").expect("get"), None);
    }

    #[test]
    fn damage_is_told_from_absence() {
        let folder = tempfile::tempdir().expect("folder");
        let store = Store::directory(&format!("file://{}", folder.path().display())).expect("store");
        let blob = store.put("state/a", Bytes::from_static(b"content")).expect("put");
        assert_eq!(store.get_blob(&blob).expect("get"), "content");
        for (content, expected) in [("contenT", "checksum"), ("cont", "4 bytes, 7 were written")] {
            std::fs::write(folder.path().join("state/a"), content).expect("write");
            let error = store.get_blob(&blob).expect_err("damaged").to_string();
            assert!(error.contains(expected) && error.contains("state/a"), "{error}");
        }
        store.delete("state/a").expect("delete");
        assert!(store.get_blob(&blob).expect_err("missing").to_string().contains("is missing"));
        let error = Store::directory("ftp://there").expect_err("unknown").to_string();
        assert!(error.contains("'ftp' is not known"), "{error}");
    }
}
