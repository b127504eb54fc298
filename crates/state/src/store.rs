//! Objects by name: the few operations that checkpoints need, over `object_store`, for threads that may wait.
//!
//! Only two operations decide anything: `put_new`, which succeeds for at most one caller, and `get`. So the
//! same protocol is correct on a local directory and on every object store with a conditional put.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};

mod copies;
mod directory;
mod disk;
mod model_disk;
mod open;
mod requests;

use copies::Copies;
pub use copies::{CopiedTask, LocalCopies};
use directory::{Directory, Readers};
pub use disk::{Disk, DiskEntry, OsDisk};
pub use model_disk::{DiskFault, ModelDisk};
pub use open::Access;
use requests::Requests;

/// How often a refused conditional put is retried while there is no object of its name.
const CONFLICTS: usize = 5;

const MISSING: &str = "a file of the checkpoint is missing";

/// A place for the checkpoints of one job.
#[derive(Clone)]
pub struct Store {
    objects: Objects,
    /// Local copies of state files of a remote store.
    copies: Option<Arc<Copies>>,
    /// The place, for messages.
    place: String,
}

/// Where the objects are.
#[derive(Clone)]
enum Objects {
    Directory(Arc<Directory>),
    Store(Arc<dyn ObjectStore>, Requests),
}

/// Omits the client, which contains credentials.
impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("place", &self.place).finish_non_exhaustive()
    }
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
    /// A store of the caller, for simulation and for services with other credentials.
    pub fn new(objects: Arc<dyn ObjectStore>, place: impl Into<String>) -> Store {
        Store { objects: Objects::Store(objects, Requests::Local), copies: None, place: place.into() }
    }

    /// An existing directory on this disk.
    pub fn on_disk(disk: Arc<dyn Disk>, directory: impl Into<PathBuf>) -> Store {
        let directory = directory.into();
        let place = directory.display().to_string();
        Store { objects: Objects::Directory(Arc::new(Directory::new(disk, directory))), copies: None, place }
    }

    /// Keeps copies of state files in a local directory, if this store is remote. Removes copies of jobs that
    /// are gone.
    pub fn with_copies(mut self, directory: &std::path::Path) -> Result<Store> {
        if self.is_remote() {
            self.copies = Some(Arc::new(Copies::open(directory, &self.place)?));
        }
        Ok(self)
    }

    /// The place of the objects, for messages.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Whether requests go over a network.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        matches!(self.objects, Objects::Store(..))
    }

    /// Writes an object, replacing an existing one.
    #[expect(clippy::needless_pass_by_value, reason = "callers hand over what they have made for this")]
    pub fn put(&self, name: &str, content: Bytes) -> Result<Blob> {
        let blob = Blob { name: name.into(), bytes: content.len() as u64, crc32: crc32fast::hash(&content) };
        let path = Path::from(name);
        match &self.objects {
            Objects::Directory(directory) => {
                directory.put(name, &content).map_err(|e| self.refused("written", name, &e))?;
            }
            Objects::Store(objects, requests) => {
                let written = match requests.in_parts(blob.bytes) {
                    true => requests.wait(requests::put_parts(objects.as_ref(), &path, &content)),
                    false => requests.wait(objects.put(&path, content.clone().into())).map(|_| ()),
                };
                written.map_err(|error| failed("written", &self.at(name), &error))?;
            }
        }
        if let Some(copies) = &self.copies {
            copies.put(name, &content);
        }
        Ok(blob)
    }

    /// Writes an object unless there is one of this name: false if there is.
    pub fn put_new(&self, name: &str, content: Bytes) -> Result<bool> {
        self.put_new_for(name, content, Readers::All)
    }

    /// The same for an object with secrets. In a directory only the user of this process may read it; in an
    /// object store the rights of the bucket decide.
    pub fn put_new_private(&self, name: &str, content: Bytes) -> Result<bool> {
        self.put_new_for(name, content, Readers::Owner)
    }

    /// From now on only the user of this process may read these objects, if the store is a directory.
    pub fn make_private(&self, folder: &str) -> Result<()> {
        let Objects::Directory(directory) = &self.objects else { return Ok(()) };
        let protect = |name: String| directory.make_private(&name).map_err(|e| self.refused("protected", &name, &e));
        self.list(folder)?.into_iter().try_for_each(protect)
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers hand over what they have made for this")]
    fn put_new_for(&self, name: &str, content: Bytes, readers: Readers) -> Result<bool> {
        let path = Path::from(name);
        let (objects, requests) = match &self.objects {
            Objects::Directory(directory) => {
                return directory
                    .put_new(name, &content, readers)
                    .map_err(|error| self.refused("written", name, &error));
            }
            Objects::Store(objects, requests) => (objects, requests),
        };
        for _ in 0..CONFLICTS {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            match requests.wait(objects.put_opts(&path, content.clone().into(), options)) {
                Ok(_) => return Ok(true),
                Err(object_store::Error::AlreadyExists { .. }) => {}
                Err(error) => return Err(failed("written", &self.at(name), &error)),
            }
            // S3 also refuses while another process's request for this name is in progress, and that one may
            // fail.
            match requests.wait(objects.head(&path)) {
                Ok(_) => return Ok(false),
                Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(failed("read", &self.at(name), &error)),
            }
        }
        Err(Error::outside("the store refuses a new object, and there is none").at(self.at(name)))
    }

    /// An object's content, `None` if there is no such object.
    pub fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.get_in(name, Vec::new())
    }

    fn get_in(&self, name: &str, room: Vec<u8>) -> Result<Option<Bytes>> {
        match &self.objects {
            Objects::Directory(directory) => {
                let read = directory.get(name, room).map_err(|error| self.refused("read", name, &error))?;
                Ok(read.map(Bytes::from))
            }
            Objects::Store(objects, requests) => {
                let path = Path::from(name);
                let read = async { objects.get(&path).await?.bytes().await };
                self.found(name, requests.wait(read))
            }
        }
    }

    fn found<T>(&self, name: &str, read: object_store::Result<T>) -> Result<Option<T>> {
        match read {
            Ok(content) => Ok(Some(content)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed("read", &self.at(name), &error)),
        }
    }

    /// When an object was written, in milliseconds since 1970; `None` if there is no such object.
    pub fn written_ms(&self, name: &str) -> Result<Option<i64>> {
        match &self.objects {
            Objects::Directory(directory) => directory.written_ms(name).map_err(|e| self.refused("read", name, &e)),
            Objects::Store(objects, requests) => {
                let head = requests.wait(objects.head(&Path::from(name)));
                Ok(self.found(name, head)?.map(|object| object.last_modified.timestamp_millis()))
            }
        }
    }

    /// Reads an object and verifies it. Missing, shorter or changed content is damage, which differs from an
    /// error of reading.
    pub fn get_blob(&self, blob: &Blob) -> Result<Bytes> {
        self.get_blob_in(blob, Vec::new())
    }

    /// The same, in this memory if the store is a directory: it is no longer new, which saves half of the
    /// time for a large object.
    pub fn get_blob_in(&self, blob: &Blob, room: Vec<u8>) -> Result<Bytes> {
        let damaged = |what: String| self.damaged(blob, what);
        if let Some(content) = self.copies.as_ref().and_then(|copies| copies.get(blob)) {
            return Ok(content);
        }
        let content = match &self.objects {
            Objects::Store(objects, requests) if requests.in_parts(blob.bytes) => {
                let path = Path::from(blob.name.as_str());
                let read = requests::get_parts(objects.as_ref(), &path, blob.bytes);
                self.found(&blob.name, requests.wait(read))?
            }
            _ => self.get_in(&blob.name, room)?,
        };
        let content = content.ok_or_else(|| damaged(MISSING.into()))?;
        self.check_size(blob, content.len() as u64)?;
        if crc32fast::hash(&content) != blob.crc32 {
            return Err(damaged("a file of the checkpoint is damaged: its checksum does not match".into()));
        }
        if let Some(copies) = &self.copies {
            copies.put(&blob.name, &content);
        }
        Ok(content)
    }

    /// Verifies that objects are there and have their sizes, without reading them. `None` if that is
    /// impossible here.
    pub fn check_sizes<'a>(&self, blobs: impl Iterator<Item = &'a Blob>) -> Result<Option<()>> {
        let mut folders = BTreeMap::new();
        for blob in blobs {
            let folder = blob.name.split('/').next().unwrap_or_default();
            if !folders.contains_key(folder) {
                let Some(sizes) = self.sizes(folder)? else { return Ok(None) };
                folders.insert(folder, sizes);
            }
            let bytes = folders[folder].get(&blob.name).copied();
            self.check_size(blob, bytes.ok_or_else(|| self.damaged(blob, MISSING.into()))?)?;
        }
        Ok(Some(()))
    }

    fn check_size(&self, blob: &Blob, bytes: u64) -> Result<()> {
        match blob.bytes {
            was if was == bytes => Ok(()),
            was => {
                let what = format!("a file of the checkpoint is damaged: {bytes} bytes, {was} were written");
                Err(self.damaged(blob, what))
            }
        }
    }

    fn damaged(&self, blob: &Blob, what: String) -> Error {
        let error = Error::damaged(what).at(self.at(&blob.name));
        error.remedy("start from an older checkpoint, or restore the file from a copy")
    }

    /// Names of all objects in the folder `folder`, ascending.
    pub fn list(&self, folder: &str) -> Result<Vec<String>> {
        let mut names = match &self.objects {
            Objects::Directory(directory) => directory.list(folder).map_err(|e| self.refused("listed", folder, &e))?,
            Objects::Store(objects, requests) => {
                let found = requests.wait(objects.list(Some(&Path::from(folder))).try_collect::<Vec<_>>());
                let found = found.map_err(|error| failed("listed", &self.at(folder), &error))?;
                found.into_iter().map(|object| object.location.to_string()).collect()
            }
        };
        names.sort_unstable();
        Ok(names)
    }

    /// Names and sizes of all objects in the folder `folder`. `None` if only reading them says how large they
    /// are.
    fn sizes(&self, folder: &str) -> Result<Option<BTreeMap<String, u64>>> {
        let Objects::Store(objects, requests) = &self.objects else { return Ok(None) };
        let found = requests.wait(objects.list(Some(&Path::from(folder))).try_collect::<Vec<_>>());
        let found = found.map_err(|error| failed("listed", &self.at(folder), &error))?;
        Ok(Some(found.into_iter().map(|object| (object.location.to_string(), object.size)).collect()))
    }

    /// Names at the top level of the place: objects, and the first parts of longer names.
    pub fn top(&self) -> Result<Vec<String>> {
        match &self.objects {
            Objects::Directory(directory) => directory.top().map_err(|error| self.refused("listed", "", &error)),
            Objects::Store(objects, requests) => {
                let found = requests.wait(objects.list_with_delimiter(None));
                let found = found.map_err(|error| failed("listed", &self.place, &error))?;
                let objects = found.objects.into_iter().map(|object| object.location);
                Ok(found.common_prefixes.into_iter().chain(objects).map(|path| path.to_string()).collect())
            }
        }
    }

    /// Removes an object, if it exists.
    pub fn delete(&self, name: &str) -> Result<()> {
        if let Some(copies) = &self.copies {
            copies.delete(name);
        }
        match &self.objects {
            Objects::Directory(directory) => directory.delete(name).map_err(|e| self.refused("removed", name, &e)),
            Objects::Store(objects, requests) => match requests.wait(objects.delete(&Path::from(name))) {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(failed("removed", &self.at(name), &error)),
            },
        }
    }

    /// Removes objects, if they exist. An object store gets as few requests as it allows.
    pub fn delete_all<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<()> {
        let Objects::Store(objects, requests) = &self.objects else {
            let mut names = names;
            return names.try_for_each(|name| self.delete(name));
        };
        let paths: Vec<_> = names.inspect(|name| self.delete_copy(name)).map(|name| Ok(Path::from(name))).collect();
        let removed: Vec<_> = requests.wait(objects.delete_stream(futures::stream::iter(paths).boxed()).collect());
        removed.into_iter().try_for_each(|removed| match removed {
            Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("removed", &self.place, &error)),
        })
    }

    /// Removes an object so that no power failure brings it back.
    pub fn delete_durably(&self, name: &str) -> Result<()> {
        match &self.objects {
            Objects::Directory(directory) => {
                directory.delete_durably(name).map_err(|e| self.refused("removed", name, &e))
            }
            Objects::Store(..) => self.delete(name),
        }
    }

    /// Removes copies of files that are not needed, which an earlier process of the job has left.
    pub fn keep_copies(&self, needed: impl Fn(&str) -> bool) {
        if let Some(copies) = &self.copies {
            copies.keep(needed);
        }
    }

    /// Removes a local copy. The object stays.
    pub fn delete_copy(&self, name: &str) {
        if let Some(copies) = &self.copies {
            copies.delete(name);
        }
    }

    /// Removes all local copies. The objects stay.
    pub fn remove_copies(&self) {
        if let Some(copies) = &self.copies {
            copies.remove_all();
        }
    }

    /// The name of the folder that has the local copies of this place's objects, in any directory of copies.
    #[must_use]
    pub fn copies_name(&self) -> String {
        copies::folder_name(&self.place)
    }

    /// The error for a disk that has refused an operation.
    fn refused(&self, what: &str, name: &str, error: &std::io::Error) -> Error {
        Error::outside(format!("cannot be {what}: {error}"))
            .at(self.at(name))
            .remedy("check that the directory is writable, that its disk has space, and that the disk works")
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.place)
    }
}

/// Codes of S3 with status 400 that are nevertheless about the credentials.
const CREDENTIALS: [&str; 4] = ["ExpiredToken", "InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"];

/// The store's message goes into the error only as far as it fits into a line. For a refused request only the
/// code is included, because the rest may repeat credentials.
fn failed(what: &str, at: &str, error: &object_store::Error) -> Error {
    use object_store::Error::{PermissionDenied, Unauthenticated};
    let said = error.to_string();
    // Some errors have no kind.
    let refused = ["401 Unauthorized", "403 Forbidden"].iter().any(|status| said.contains(status));
    let code = code(&said);
    let refused = refused || code.is_some_and(|code| CREDENTIALS.contains(&code));
    if refused || matches!(error, PermissionDenied { .. } | Unauthenticated { .. }) {
        return Error::outside(format!("cannot be {what}: the store refuses the credentials"))
            .at(at.to_owned())
            .remedy(
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to a key that may list, read, write and delete there",
            );
    }
    let said = match said.split_once("status code: 4") {
        Some((before, status)) => {
            let status = status.split_once(':').map_or(status, |(status, _body)| status);
            format!("{before}status code: 4{status}{}", code.map_or_else(String::new, |code| format!(" ({code})")))
        }
        None => said,
    };
    let said: String = said.lines().next().unwrap_or_default().chars().take(500).collect();
    Error::outside(format!("cannot be {what}: {said}")).at(at.to_owned())
}

/// The code in the XML of an answer of S3.
fn code(said: &str) -> Option<&str> {
    let (code, _) = said.split_once("<Code>")?.1.split_once("</Code>")?;
    code.chars().all(|c| c.is_ascii_alphanumeric()).then_some(code)
}

#[cfg(test)]
mod tests;
