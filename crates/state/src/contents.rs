//! Reads the contents of a place without running the job: a job's checkpoints, or a savepoint.

use anabranch_model::{Error, ErrorKind, Result};

use crate::{Blob, Entry, Log, Manifest, Savepoint, Store, decode_manifest};

/// How often the log is read again after the running job has removed a listed object.
const LOOKS: usize = 5;

/// A checkpoint as stored at a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Number of its entry in the job's log; `None` for a savepoint.
    pub number: Option<u64>,
    /// The manifest, as stored.
    pub blob: Blob,
    /// When the manifest was written, in milliseconds since 1970.
    pub written_ms: i64,
    /// Its contents.
    pub manifest: Manifest,
}

/// The contents of a place.
#[derive(Debug)]
pub struct Contents {
    /// For a savepoint, the place of the job's checkpoints; `None` for the place of a job.
    pub savepoint_from: Option<String>,
    /// Oldest first.
    pub checkpoints: Vec<Stored>,
    /// Checkpoints that are damaged: the numbers of their entries, and the errors. Oldest first.
    pub damaged: Vec<(u64, Error)>,
}

impl Contents {
    /// Reads the contents of a place. A job may be running there.
    pub fn read(store: &Store) -> Result<Contents> {
        Contents::read_if_any(store)?.ok_or_else(|| {
            Error::user("there are no checkpoints")
                .at(store.place().to_owned())
                .remedy("give the 'checkpoint-directory' of a job, or the place of a savepoint")
        })
    }

    /// Reads the contents of a place, or `None` if it is empty.
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
            let why = self.damaged.last().map_or_else(String::new, |(_, error)| format!(": {error}"));
            Error::outside(format!("no checkpoint can be read{why}"))
        })
    }

    /// The errors of the checkpoints after [`Contents::newest`].
    pub fn damaged_since(&self) -> impl Iterator<Item = &Error> {
        let newest = self.checkpoints.last().and_then(|checkpoint| checkpoint.number);
        self.damaged.iter().filter(move |(number, _)| Some(*number) > newest).map(|(_, error)| error)
    }
}

fn read_log(store: &Store) -> Result<Contents> {
    let mut contents = Contents { savepoint_from: None, checkpoints: Vec::new(), damaged: Vec::new() };
    for (number, entry) in Log::new(store.clone()).entries()? {
        let blob = match entry {
            Ok(Entry::Checkpoint { manifest, .. }) => manifest,
            Ok(_) => continue,
            Err(error) => {
                contents.damaged.push((number, error));
                continue;
            }
        };
        let place = || format!("{}/{}", store.place(), blob.name);
        let read = store.get_blob(&blob).and_then(|content| decode_manifest(&content).map_err(|e| e.at(place())));
        match read.and_then(|manifest| Ok((manifest, store.written_ms(&blob.name)?.unwrap_or_default()))) {
            Ok((manifest, written_ms)) => {
                contents.checkpoints.push(Stored { number: Some(number), blob, written_ms, manifest });
            }
            Err(error) if error.kind() == ErrorKind::Damaged => contents.damaged.push((number, error)),
            // What cannot be read at the moment may be undamaged: an older one does not replace it.
            Err(error) => return Err(error),
        }
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use anabranch_model::{Epoch, Incarnation, KeyGroups, PlanVersion};

    use super::*;
    use crate::lossy::{Loss, Lossy};
    use crate::{Access, Appended, FORMAT, encode_manifest};

    /// Complete checkpoints at these epochs.
    fn write(store: &Store, epochs: &[u64]) {
        for (number, epoch) in (1..).zip(epochs) {
            let (epoch, incarnation) = (Epoch(*epoch), Incarnation(1));
            let manifest = Manifest {
                format: FORMAT,
                job: "ads".into(),
                origin: None,
                parts: Vec::new(),
                unused: 0,
                key_groups: KeyGroups(128),
                epoch,
                incarnation,
                tasks: Vec::new(),
            };
            let content = encode_manifest(&manifest).expect("encoded");
            let manifest = store.put(&format!("manifests/1-{}.txt", epoch.0), content.into()).expect("put");
            let entry = Entry::Checkpoint { incarnation, epoch, manifest, version: PlanVersion(1) };
            assert_eq!(Log::new(store.clone()).append(number, &entry).expect("appended"), Appended::Last);
        }
    }

    #[test]
    fn damage_is_skipped_and_reported_and_an_unreadable_checkpoint_is_an_error() {
        let folder = tempfile::tempdir().expect("folder");
        let store = Store::open(folder.path().to_str().expect("text"), &Access::default()).expect("store");
        write(&store, &[3, 4, 5]);
        let file = |epoch: u64| folder.path().join(format!("manifests/1-{epoch}.txt"));
        std::fs::write(file(3), "nothing").expect("damaged");
        let contents = Contents::read(&store).expect("read");
        assert_eq!((contents.newest().expect("newest").manifest.epoch, contents.damaged.len()), (Epoch(5), 1));
        assert_eq!(contents.damaged_since().count(), 0);

        std::fs::write(file(5), "nothing").expect("damaged");
        let contents = Contents::read(&store).expect("read");
        assert_eq!(contents.newest().expect("newest").manifest.epoch, Epoch(4));
        let since: Vec<String> = contents.damaged_since().map(ToString::to_string).collect();
        assert!(since.len() == 1 && since[0].contains("manifests/1-5.txt"), "{since:?}");

        let lossy = Lossy::new("manifests/1-5.txt", Loss::Reads);
        write(&lossy.store(), &[3, 4, 5]);
        let read = Contents::read(&lossy.store());
        assert!(read.as_ref().is_err_and(|error| error.kind() == ErrorKind::Outside), "{read:?}");
        lossy.heal();
        assert_eq!(Contents::read(&lossy.store()).expect("read").checkpoints.len(), 3);
    }
}
