//! Runs the object store's requests for a thread that may wait: local files on the thread itself, remote
//! requests on a small runtime of the store, because the S3 client needs one.

use std::future::Future;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::runtime::{Builder, Runtime};

/// Objects above this size are written and read in parts of this size, several at once. S3 accepts 10,000
/// parts.
const PART_BYTES: usize = 16 << 20;
const PARTS_AT_ONCE: usize = 4;

#[derive(Clone)]
pub(super) enum Requests {
    Local,
    Remote(Arc<Runtime>),
}

impl Requests {
    pub(super) fn remote() -> Result<Requests> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("object-store").enable_all().build();
        let runtime = runtime.map_err(|error| {
            Error::outside(format!("cannot start a thread: {error}")).remedy("raise the limit of threads (ulimit -u)")
        })?;
        Ok(Requests::Remote(Arc::new(runtime)))
    }

    /// Waits for a request.
    pub(super) fn wait<T>(&self, request: impl Future<Output = T>) -> T {
        match self {
            Requests::Local => futures::executor::block_on(request),
            Requests::Remote(runtime) => runtime.block_on(request),
        }
    }

    /// Whether an object of this size goes over the network in parts.
    pub(super) fn in_parts(&self, bytes: u64) -> bool {
        matches!(self, Requests::Remote(_)) && bytes > PART_BYTES as u64
    }
}

/// Writes a large object. It appears when all parts are written, and not before.
pub(super) async fn put_parts(objects: &dyn ObjectStore, path: &Path, content: &Bytes) -> object_store::Result<()> {
    let mut upload = objects.put_multipart(path).await?;
    let parts = (0..content.len()).step_by(PART_BYTES);
    let parts = parts.map(|start| upload.put_part(content.slice(start..content.len().min(start + PART_BYTES)).into()));
    // The requests begin when they are polled, a few at a time.
    let parts: Vec<_> = parts.collect();
    let written = futures::stream::iter(parts).buffer_unordered(PARTS_AT_ONCE).try_collect::<()>().await;
    match written {
        Ok(()) => upload.complete().await.map(|_| ()),
        Err(error) => {
            // Parts of an upload that is not completed cost space until the bucket's rules remove them.
            let _ = upload.abort().await;
            Err(error)
        }
    }
}

/// Reads a large object that should have this size.
pub(super) async fn get_parts(objects: &dyn ObjectStore, path: &Path, bytes: u64) -> object_store::Result<Bytes> {
    let part = PART_BYTES as u64;
    let ranges = (0..bytes.div_ceil(part)).map(|n| n * part..bytes.min((n + 1) * part));
    let mut parts = futures::stream::iter(ranges.map(|range| objects.get_range(path, range))).buffered(PARTS_AT_ONCE);
    let mut content = BytesMut::with_capacity(usize::try_from(bytes).unwrap_or(0));
    while let Some(part) = parts.try_next().await? {
        content.extend_from_slice(&part);
    }
    Ok(content.freeze())
}
