//! The object store as one process sees it: answers are lost, writes are torn or late, and a process may
//! crash at each call. Its contents outlive all processes.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::outside::{Fate, Happened, ProcessId, Shared, Write};

/// The folder whose objects are written once.
const LOG: &str = "log/";
/// The folder of state files, and the part of a name that identifies a run of the operator's.
const STATE: &str = "state/";
const RUN_HYPHENS: usize = 4;

/// Writes fail more often than other calls, by this factor: there are fewer of them, and more depends on
/// them.
const WRITES_GO_WRONG: u64 = 4;

/// The access of one process to the objects.
#[derive(Debug)]
pub(crate) struct FaultyStore {
    pub(crate) shared: Shared,
    pub(crate) process: ProcessId,
    /// The planted bug: a late write is accepted even if it overwrites an object that must be written once.
    pub(crate) overwrites: bool,
}

impl FaultyStore {
    /// The objects, unless the call fails.
    fn objects(&self) -> Result<Arc<InMemory>> {
        let outside = &mut *self.shared.lock();
        match outside.fate(self.process, 1, &[Fate::Fails]) {
            Fate::Good => Ok(Arc::clone(&outside.objects)),
            _ => Err(failed()),
        }
    }
}

fn failed() -> Error {
    Error::Generic { store: "simulated", source: "there is no answer".into() }
}

fn bytes_of(payload: &PutPayload) -> Vec<u8> {
    payload.iter().flat_map(|part| part.iter().copied()).collect()
}

/// Writes, and reports entries of the log to the checks.
async fn put(shared: &Shared, late: Write) -> Result<PutResult> {
    let Write { by, path, payload, mode } = late;
    let objects = shared.lock().objects.clone();
    let content = bytes_of(&payload);
    let replaced = objects.head(&path).await.is_ok();
    let done = objects.put_opts(&path, payload, PutOptions { mode, ..PutOptions::default() }).await?;
    let name = path.to_string();
    if name.starts_with(STATE) && name.matches('-').count() == RUN_HYPHENS {
        shared.lock().seen.add("runs of state on disk", 1);
    }
    if name.starts_with(LOG) {
        shared.lock().happened.push(Happened::Logged { by, name, content, replaced });
    }
    Ok(done)
}

/// Lets a delayed write take effect.
pub(crate) fn arrive(shared: &Shared, late: Write) {
    // A late write may find an entry that is there already.
    let _ = futures::executor::block_on(put(shared, late));
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated store of process {}", self.process)
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if self.shared.lock().refuses() {
            return Err(failed());
        }
        let once = options.mode == PutMode::Create;
        // A store with a conditional put writes an object whole or not at all; otherwise checksums detect a
        // part.
        let wrong: &[Fate] = if once {
            &[Fate::Fails, Fate::Unanswered, Fate::Late]
        } else {
            &[Fate::Fails, Fate::Unanswered, Fate::Late, Fate::Torn]
        };
        let write = Write { by: self.process, path: path.clone(), payload, mode: options.mode };
        let fate = self.shared.lock().fate(self.process, WRITES_GO_WRONG, wrong);
        match fate {
            Fate::Good => return put(&self.shared, write).await,
            Fate::Fails => {}
            Fate::Unanswered => {
                put(&self.shared, write).await?;
            }
            Fate::Late => {
                let mode = if self.overwrites { PutMode::Overwrite } else { write.mode.clone() };
                self.shared.lock().late.push(Write { mode, ..write });
            }
            Fate::Torn => {
                let (whole, objects) = (bytes_of(&write.payload), self.shared.lock().objects.clone());
                // What is there already is replaced as a whole or not at all, also in a directory.
                if objects.head(path).await.is_err() {
                    put(&self.shared, Write { payload: whole[..whole.len() / 2].to_vec().into(), ..write }).await?;
                }
            }
        }
        Err(failed())
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let objects = self.objects()?;
        if self.shared.lock().refuses() {
            return Err(failed());
        }
        objects.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.objects()?.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (shared, process) = (self.shared.clone(), self.process);
        let delete = move |path: Result<Path>| {
            let shared = shared.clone();
            async move {
                let path = path?;
                let fate = shared.lock().fate(process, 1, &[Fate::Fails, Fate::Unanswered]);
                if fate != Fate::Fails {
                    let objects = shared.lock().objects.clone();
                    objects.delete(&path).await?;
                }
                if fate == Fate::Good { Ok(path) } else { Err(failed()) }
            }
        };
        paths.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.objects() {
            Ok(objects) => objects.list(prefix),
            Err(error) => stream::once(async move { Err(error) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.objects()?.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects()?.copy_opts(from, to, options).await
    }
}
