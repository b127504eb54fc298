//! Damages objects after they were written: a bit flips, or an object loses its end or disappears.
//!
//! All processes stop, and one object is damaged. If only the newest checkpoint has this object, or if it is
//! this checkpoint's entry at the end of the log, the next process must resume from the checkpoint before it,
//! and epochs repeat whose results were visible already. Nothing needs an earlier entry of the log.

use futures::executor::block_on;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};

use super::outside::Shared;

/// Damages an object. Returns what has happened to it.
pub(super) fn damage(shared: &Shared, name: &str) -> Result<String, object_store::Error> {
    let objects = shared.lock().objects.clone();
    let path = Path::from(name);
    let mut content = block_on(async { objects.get(&path).await?.bytes().await })?.to_vec();
    let (kind, at) = {
        let outside = &mut *shared.lock();
        (outside.below(3), outside.below(content.len()))
    };
    // Nothing tells that the last entry of the log has gone.
    if (kind == 0 && !name.starts_with("log/")) || content.is_empty() {
        block_on(objects.delete(&path))?;
        return Ok(format!("{name} is gone"));
    }
    let what = match kind {
        0 | 1 => {
            content.truncate(at);
            format!("{name} ends after {at} bytes")
        }
        _ => {
            content[at] ^= 1 << (at % 8);
            format!("byte {at} of {name} is another")
        }
    };
    block_on(objects.put(&path, PutPayload::from(content)))?;
    Ok(what)
}
