//! An in-memory store that loses a part of the first write under one name, as a network may.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::Store;

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The write takes no effect.
    Request,
    /// The write takes effect, but fails.
    Answer,
    /// The object exists, and cannot be read.
    Reads,
    /// The write takes effect, but fails, and the object cannot be read.
    AnswerAndReads,
    /// The first answer: the client retries, and finds its own object.
    Retried,
}

#[derive(Clone, Debug)]
pub(crate) struct Lossy(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    objects: InMemory,
    name: Path,
    loss: Loss,
    written: AtomicBool,
    healed: AtomicBool,
}

impl Lossy {
    pub(crate) fn new(name: &str, loss: Loss) -> Lossy {
        let (written, healed) = (AtomicBool::new(false), AtomicBool::new(false));
        Lossy(Arc::new(Inner { objects: InMemory::new(), name: name.into(), loss, written, healed }))
    }

    pub(crate) fn store(&self) -> Store {
        Store::new(Arc::new(self.clone()), "lossy")
    }

    /// Injects no fault from here on.
    pub(crate) fn heal(&self) {
        self.0.healed.store(true, Ordering::Relaxed);
    }
}

impl fmt::Display for Lossy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lossy store")
    }
}

fn lost() -> Error {
    Error::Generic { store: "lossy", source: "lost on purpose".into() }
}

#[async_trait]
impl ObjectStore for Lossy {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let inner = &self.0;
        if *path != inner.name || inner.loss == Loss::Reads || inner.written.swap(true, Ordering::Relaxed) {
            return inner.objects.put_opts(path, payload, options).await;
        }
        if inner.loss != Loss::Request {
            inner.objects.put_opts(path, payload, options).await?;
        }
        match inner.loss {
            Loss::Retried => Err(Error::AlreadyExists { path: path.to_string(), source: "there is one".into() }),
            _ => Err(lost()),
        }
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.0.objects.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let healed = self.0.healed.load(Ordering::Relaxed);
        if *path == self.0.name && matches!(self.0.loss, Loss::Reads | Loss::AnswerAndReads) && !healed {
            return Err(lost());
        }
        self.0.objects.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.objects.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.objects.copy_opts(from, to, options).await
    }
}
