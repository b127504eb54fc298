//! Savepoints: a checkpoint that the user keeps, in a separate place, with all files that it names.
//!
//! The mark `savepoint.json` is written last, so a savepoint exists as a whole or not at all. A savepoint is
//! not a place for a job's checkpoints: any number of jobs may start from it, and each has its own place.
//!
//! The results that sinks had prepared are omitted. They belong to the job of the checkpoint, which makes
//! them visible. A second job that did the same would show them twice, or abort the first one's transactions.

use anabranch_model::{Error, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Blob, Manifest, Store, decode_manifest, encode_manifest};

const MARK: &str = "savepoint.json";
const MANIFEST: &str = "manifests/savepoint.txt";
/// Version of the mark. The manifest has its own.
const FORMAT: u32 = 1;

/// A savepoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Savepoint {
    /// The place of the job's checkpoints.
    pub from: String,
    /// The manifest, as stored.
    pub blob: Blob,
    /// Its contents.
    pub manifest: Manifest,
    /// Number of prepared parts of sinks that are omitted.
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
    /// A unique identifier of the savepoint, wherever it is copied to.
    #[must_use]
    pub fn id(&self) -> String {
        let Manifest { job, incarnation, epoch, .. } = &self.manifest;
        format!("{job}@{}-{}:{:08x}", incarnation.0, epoch.0, self.blob.crc32)
    }

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
            let remedy = "start the job with the version of Anabranch that wrote it";
            return Err(at(Error::user(error).remedy(remedy)));
        }
        let place = format!("{}/{}", store.place(), mark.manifest.name);
        let manifest = decode_manifest(&store.get_blob(&mark.manifest)?).map_err(|error| error.at(place))?;
        Ok(Some(Savepoint { from: mark.from, blob: mark.manifest, manifest, left_out: mark.left_out }))
    }

    /// Copies a checkpoint to an empty place, verifying everything when it is read and again when it is
    /// written. `step` is called after each object. If this fails, the written objects are removed.
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
            // The removal may fail for the same reason; the user gets the first error. The mark is removed
            // first, durably; if that fails, nothing else is removed: a savepoint with missing parts never
            // exists.
            let _ = written.iter().rev().try_for_each(|name| to.delete_durably(name));
        }
        copied
    }
}

/// Verifies that a place is empty.
pub fn check_empty(store: &Store) -> Result<()> {
    match store.list("")?.first() {
        None => Ok(()),
        Some(name) => Err(Error::user(format!("the place of a savepoint must be empty, but contains {name}"))
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
        left_out += task.prepared().count() as u64;
        if let Some(source) = &mut task.source {
            source.dead_letters.clear();
            source.late_rows.clear();
        }
        if let Some(sink) = &mut task.sink {
            sink.prepared.clear();
        }
    }
    for file in manifest.state_files(|_| true) {
        let content = from.get_blob(&file.blob)?;
        written.push(file.blob.name.clone());
        to.put(&file.blob.name, content)?;
        to.get_blob(&file.blob)?;
        step()?;
    }
    written.push(MANIFEST.to_owned());
    let blob = to.put(MANIFEST, encode_manifest(&manifest)?.into())?;
    to.get_blob(&blob)?;
    let mark = Mark { savepoint: FORMAT, from: from.place().to_owned(), manifest: blob.clone(), left_out };
    let text = serde_json::to_vec_pretty(&mark)
        .map_err(|error| Error::internal(format!("a savepoint cannot be encoded: {error}")))?;
    put_mark(to, &text.into(), written)?;
    Ok(Savepoint { from: mark.from, blob, manifest, left_out })
}

/// Writes the mark. If the answer is lost, or says that there is one, the mark is read: it may be our own.
/// `written` is what must be removed if this fails.
fn put_mark(to: &Store, text: &Bytes, written: &mut Vec<String>) -> Result<()> {
    let put = to.put_new(MARK, text.clone());
    if matches!(put, Ok(true)) {
        return Ok(());
    }
    match (to.get(MARK), put) {
        // In a directory no answer is lost: there the mark may not have reached the disk.
        (Ok(Some(found)), put) if found == text && (put.is_ok() || to.is_remote()) => Ok(()),
        (Ok(Some(found)), _) if found != text => {
            // The files of the other savepoint may have the names of those written here.
            written.clear();
            Err(Error::user("another process has written a savepoint there").at(to.place().to_owned()))
        }
        (Ok(_), Err(error)) => {
            written.push(MARK.to_owned());
            Err(error)
        }
        (Ok(_), Ok(_)) => {
            Err(Error::outside("the store refuses a new object, and there is none")
                .at(format!("{}/{MARK}", to.place())))
        }
        (Err(error), _) => {
            written.clear();
            Err(error.remedy(format!(
                "check whether {MARK} exists once the place can be read: then the savepoint is complete; otherwise remove \
                 what is there, or give a new place"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anabranch_model::{Epoch, Incarnation, KeyGroupRange, KeyGroups, StageId, TaskId};

    use super::*;
    use crate::lossy::{Loss, Lossy};
    use crate::{Access, OperatorState, Prepared, SinkState, StateFile, TaskState};

    fn store(path: &Path) -> Store {
        Store::open(path.to_str().expect("text"), &Access::default()).expect("store")
    }

    /// A checkpoint of one task with a file of state and something prepared; its manifest.
    fn checkpoint(store: &Store) -> Blob {
        let file = StateFile {
            blob: store.put("state/1-7-2.0-0.arrow", b"rows".to_vec().into()).expect("put"),
            rows: 4,
            last_pane_ms: None,
            key_groups: KeyGroupRange { first: 0, end: 128 },
            others: None,
            table: String::new(),
        };
        let blob = store.put("prepared/1-7-2.0-rows.bin", b"results".to_vec().into()).expect("put");
        let task = TaskState {
            task: TaskId { stage: StageId(2), index: 0 },
            finished: false,
            source: None,
            operators: vec![OperatorState { number: 0, watermark_ms: 5, files: vec![file] }],
            sink: Some(SinkState { number: 0, prepared: vec![Prepared { epoch: Epoch(7), task: 0, blob }] }),
        };
        let manifest = Manifest {
            format: crate::FORMAT,
            job: "ads-1".into(),
            origin: None,
            parts: Vec::new(),
            unused: 0,
            key_groups: KeyGroups(128),
            epoch: Epoch(7),
            incarnation: Incarnation(1),
            tasks: vec![task],
        };
        store.put("manifests/1-7.txt", encode_manifest(&manifest).expect("encoded").into()).expect("put")
    }

    #[test]
    fn a_copy_is_self_contained_without_what_sinks_had_prepared() {
        let (from, to) = (tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder"));
        let (job, place) = (store(from.path()), store(to.path()));
        let blob = checkpoint(&job);
        let copy = Savepoint::copy(&job, &blob, &place, &mut || Ok(())).expect("copied");
        drop(from);
        assert_eq!(Savepoint::read(&place).expect("read").as_ref(), Some(&copy));
        let names: Vec<String> = copy.manifest.names().collect();
        assert_eq!((names.as_slice(), copy.left_out), (["state/1-7-2.0-0.arrow".to_owned()].as_slice(), 1));
        assert_eq!(place.list("").expect("list"), ["manifests/savepoint.txt", "savepoint.json", &names[0]]);
        let error = Savepoint::copy(&place, &copy.blob, &place, &mut || Ok(())).expect_err("full").to_string();
        assert!(error.contains("must be empty") && error.contains("manifests/savepoint.txt"), "{error}");
    }

    #[test]
    fn nothing_is_left_of_a_copy_that_failed() {
        let (from, to) = (tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder"));
        let (job, place) = (store(from.path()), store(to.path()));
        let blob = checkpoint(&job);
        let mut interrupted = || Err(Error::user("interrupted"));
        assert!(Savepoint::copy(&job, &blob, &place, &mut interrupted).is_err());
        assert_eq!(place.list("").expect("list"), [""; 0]);
        std::fs::write(from.path().join("state/1-7-2.0-0.arrow"), "rowz").expect("damaged");
        let error = Savepoint::copy(&job, &blob, &place, &mut || Ok(())).expect_err("damaged").to_string();
        assert!(error.contains("checksum") && error.contains("state/1-7-2.0-0.arrow"), "{error}");
        assert_eq!((place.list("").expect("list"), Savepoint::read(&place).expect("read")), (Vec::new(), None));
    }

    #[test]
    fn a_lost_answer_to_the_mark_is_resolved_by_reading() {
        let folder = tempfile::tempdir().expect("folder");
        let job = store(folder.path());
        let blob = checkpoint(&job);
        for (loss, expected) in [
            (Loss::Answer, Ok(3)),
            (Loss::Request, Err(("lost on purpose", 0))),
            (Loss::AnswerAndReads, Err(("check whether savepoint.json exists", 3))),
        ] {
            let lossy = Lossy::new(MARK, loss);
            let place = lossy.store();
            let copied = Savepoint::copy(&job, &blob, &place, &mut || Ok(()));
            lossy.heal();
            let left = place.list("").expect("list").len();
            match expected {
                Ok(objects) => assert_eq!((copied.is_ok(), left), (true, objects), "{copied:?}"),
                Err((said, objects)) => {
                    let error = copied.expect_err("lost").to_string();
                    assert!(error.contains(said) && left == objects, "{left} objects, {error}");
                }
            }
            if left > 0 {
                assert!(Savepoint::read(&place).expect("read").is_some());
            }
        }
    }

    /// Written by the first version of the format, and never rewritten.
    #[test]
    fn the_first_format_of_the_mark_is_read_forever() {
        let fixture = include_str!("../fixtures/savepoint-1.json");
        let mark: Mark = serde_json::from_str(fixture).expect("readable");
        let manifest = Blob { name: MANIFEST.into(), bytes: 4711, crc32: 0xdead_beef };
        assert_eq!((mark.savepoint, mark.from.as_str(), mark.left_out), (1, "/ads", 2));
        assert_eq!(mark.manifest, manifest);
        assert_eq!(serde_json::to_string_pretty(&mark).expect("writable") + "\n", fixture);
        let folder = tempfile::tempdir().expect("folder");
        for (content, said) in [(fixture.replace(": 1,", ": 2,"), "has format 2"), ("{}".into(), "cannot be read")] {
            std::fs::write(folder.path().join(MARK), content).expect("written");
            let error = Savepoint::read(&store(folder.path())).expect_err("unknown").to_string();
            assert!(error.contains(said) && error.contains(MARK), "{error}");
        }
    }
}
