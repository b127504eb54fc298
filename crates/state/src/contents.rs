//! What lies at a place, for whoever wants to look at it without running the job: a job's checkpoints, or a savepoint.

use anabranch_model::{Error, Result};

use crate::{Blob, Entry, Log, Manifest, Savepoint, Store, decode_manifest};

/// How often the log is read again because the running job has removed what was just listed.
const LOOKS: usize = 5;

/// A checkpoint that lies at a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Number of its entry in the job's log; `None` for a savepoint.
    pub number: Option<u64>,
    /// The manifest, as stored.
    pub blob: Blob,
    /// When that was written, in milliseconds since 1970.
    pub written_ms: i64,
    /// What it consists of.
    pub manifest: Manifest,
}

/// What lies at a place.
#[derive(Debug)]
pub struct Contents {
    /// Where the job's checkpoints lay whose savepoint this is; `None` for the place of a job.
    pub savepoint_from: Option<String>,
    /// Oldest first.
    pub checkpoints: Vec<Stored>,
    /// Why others cannot be read.
    pub damaged: Vec<Error>,
}

impl Contents {
    /// Reads what lies at a place. A job may be running there.
    pub fn read(store: &Store) -> Result<Contents> {
        Contents::read_if_any(store)?.ok_or_else(|| {
            Error::user("there are no checkpoints")
                .at(store.place().to_owned())
                .remedy("give the 'checkpoint-directory' of a job that keeps checkpoints, or the place of a savepoint")
        })
    }

    /// Reads what lies at a place, if anything does.
    pub fn read_if_any(store: &Store) -> Result<Option<Contents>> {
        if let Some(savepoint) = Savepoint::read(store)? {
            let Savepoint { from, blob, manifest, .. } = savepoint;
            let written_ms = store.written_ms(&blob.name)?.unwrap_or_default();
            let checkpoint = Stored { number: None, blob, written_ms, manifest };
            let (savepoint_from, checkpoints) = (Some(from), vec![checkpoint]);
            return Ok(Some(Contents { savepoint_from, checkpoints, damaged: Vec::new() }));
        }
        let mut contents = read_log(store)?;
        for _ in 1..LOOKS {
            if contents.damaged.is_empty() {
                break;
            }
            contents = read_log(store)?;
        }
        Ok((!contents.checkpoints.is_empty() || !contents.damaged.is_empty()).then_some(contents))
    }

    /// The newest checkpoint that can be read.
    pub fn newest(&self) -> Result<&Stored> {
        self.checkpoints.last().ok_or_else(|| {
            let why = self.damaged.first().map_or_else(String::new, |error| format!(": {error}"));
            Error::outside(format!("no checkpoint can be read{why}"))
        })
    }
}

fn read_log(store: &Store) -> Result<Contents> {
    let mut contents = Contents { savepoint_from: None, checkpoints: Vec::new(), damaged: Vec::new() };
    for (number, entry) in Log::new(store.clone()).entries()? {
        let Entry::Checkpoint { manifest: blob, .. } = entry else { continue };
        let place = || format!("{}/{}", store.place(), blob.name);
        let read = store.get_blob(&blob).and_then(|content| decode_manifest(&content).map_err(|e| e.at(place())));
        match read.and_then(|manifest| Ok((manifest, store.written_ms(&blob.name)?.unwrap_or_default()))) {
            Ok((manifest, written_ms)) => {
                contents.checkpoints.push(Stored { number: Some(number), blob, written_ms, manifest });
            }
            Err(error) => contents.damaged.push(error),
        }
    }
    Ok(contents)
}
