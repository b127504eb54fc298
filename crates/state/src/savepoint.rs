//! Savepoints: a checkpoint that the user keeps, in a place of its own, with everything that it names.
//!
//! The mark `savepoint.json` is written last, so that a savepoint is there as a whole or not at all. It is no place for a
//! job's checkpoints: a job that begins with it has a place of its own, and any number of jobs may.
//!
//! What sinks had prepared is left out. It belongs to the job whose checkpoint this was, which makes it visible; a second
//! job that did the same would show it twice, or take the first one's transactions away.

use anabranch_model::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::{Blob, Manifest, Store, decode_manifest, encode_manifest};

const MARK: &str = "savepoint.json";
const MANIFEST: &str = "manifests/savepoint.txt";
/// Version of the mark. The manifest has its own.
const FORMAT: u32 = 1;

/// A savepoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Savepoint {
    /// Where the job's checkpoints lay.
    pub from: String,
    /// The manifest, as stored.
    pub blob: Blob,
    /// What it consists of.
    pub manifest: Manifest,
    /// Parts that sinks had prepared and that are left to the job.
    pub left_out: u64,
}

/// The content of the mark.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    savepoint: u32,
    from: String,
    manifest: Blob,
    left_out: u64,
}

impl Savepoint {
    /// Whether there is a savepoint at a place.
    pub fn is_at(store: &Store) -> Result<bool> {
        Ok(store.get(MARK)?.is_some())
    }

    /// The savepoint at a place, if there is one.
    pub fn read(store: &Store) -> Result<Option<Savepoint>> {
        let Some(content) = store.get(MARK)? else { return Ok(None) };
        let at = |error: Error| error.at(format!("{}/{MARK}", store.place()));
        let mark: Mark = serde_json::from_slice(&content).map_err(|error| {
            at(Error::outside(format!("the savepoint cannot be read: {error}"))
                .remedy("read it with the version of Anabranch that wrote it, or restore the file from a copy"))
        })?;
        if mark.savepoint != FORMAT {
            let error = format!("the savepoint has format {}; this version reads {FORMAT}", mark.savepoint);
            return Err(at(Error::user(error).remedy("use the version of Anabranch that wrote it")));
        }
        let place = format!("{}/{}", store.place(), mark.manifest.name);
        let manifest = decode_manifest(&store.get_blob(&mark.manifest)?).map_err(|error| error.at(place))?;
        Ok(Some(Savepoint { from: mark.from, blob: mark.manifest, manifest, left_out: mark.left_out }))
    }

    /// Copies a checkpoint to an empty place, checking everything as it is read and again as it was written. `step` is called
    /// after each object. What was written is removed again if this fails.
    pub fn copy(
        from: &Store,
        checkpoint: &Blob,
        to: &Store,
        step: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Savepoint> {
        check_empty(to)?;
        let place = format!("{}/{}", from.place(), checkpoint.name);
        let manifest = decode_manifest(&from.get_blob(checkpoint)?).map_err(|error| error.at(place))?;
        let mut written = Vec::new();
        let copied = copy_all(from, manifest, to, &mut written, step);
        if copied.is_err() {
            // The reason for the failure may be the reason why this fails too; the first one is what the user hears.
            let _ = written.iter().try_for_each(|name| to.delete(name));
        }
        copied
    }
}

/// Makes sure that nothing lies at a place.
pub fn check_empty(store: &Store) -> Result<()> {
    match store.list("")?.first() {
        None => Ok(()),
        Some(name) => Err(Error::user(format!("the place of a savepoint must be empty, and there is {name}"))
            .at(store.place().to_owned())
            .remedy("give a new place")),
    }
}

fn copy_all(
    from: &Store,
    mut manifest: Manifest,
    to: &Store,
    written: &mut Vec<String>,
    step: &mut dyn FnMut() -> Result<()>,
) -> Result<Savepoint> {
    let mut left_out = 0;
    for task in &mut manifest.tasks {
        if let Some(source) = &mut task.source {
            left_out += source.dead_letters.drain(..).len() as u64;
        }
        if let Some(sink) = &mut task.sink {
            left_out += sink.prepared.drain(..).len() as u64;
        }
        for file in task.operators.iter().flat_map(|operator| &operator.files) {
            let content = from.get_blob(&file.blob)?;
            written.push(file.blob.name.clone());
            to.put(&file.blob.name, content)?;
            to.get_blob(&file.blob)?;
            step()?;
        }
    }
    written.push(MANIFEST.to_owned());
    let blob = to.put(MANIFEST, encode_manifest(&manifest)?.into())?;
    to.get_blob(&blob)?;
    let mark = Mark { savepoint: FORMAT, from: from.place().to_owned(), manifest: blob.clone(), left_out };
    let text = serde_json::to_vec_pretty(&mark)
        .map_err(|error| Error::internal(format!("a savepoint cannot be encoded: {error}")))?;
    if !to.put_new(MARK, text.into())? {
        // What the other one has written may have the names of what was written here.
        written.clear();
        return Err(Error::user("somebody else has written a savepoint there").at(to.place().to_owned()));
    }
    Ok(Savepoint { from: mark.from, blob, manifest, left_out })
}
