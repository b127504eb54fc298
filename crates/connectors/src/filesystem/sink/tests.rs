//! Power failures. What a sink has synced to disk survives. Of everything else any part may survive: a prefix
//! of the bytes written to a file, and any subset of the renames, creations and removals.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anabranch_dataflow::ConnectorSpec;
use anabranch_model::{ErrorKind, Rng};
use anabranch_operators::testing::{TestHost, context};
use anabranch_operators::{Committable, Former};
use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::disk::{Operation, Watch};
use super::*;

/// An operation that can be done again to a model of the disk.
#[derive(Clone, Debug)]
enum Done {
    MakeFolder(PathBuf),
    Create(PathBuf),
    Write(PathBuf, Vec<u8>),
    Cut(PathBuf, u64),
    SyncFile(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncFolder(PathBuf),
}

impl From<Operation<'_>> for Done {
    fn from(operation: Operation<'_>) -> Done {
        match operation {
            Operation::MakeFolder(path) => Done::MakeFolder(path.into()),
            Operation::Create(path) => Done::Create(path.into()),
            Operation::Write(path, bytes) => Done::Write(path.into(), bytes.into()),
            Operation::Cut(path, bytes) => Done::Cut(path.into(), bytes),
            Operation::SyncFile(path) => Done::SyncFile(path.into()),
            Operation::Rename(from, to) => Done::Rename(from.into(), to.into()),
            Operation::Remove(path) => Done::Remove(path.into()),
            Operation::SyncFolder(path) => Done::SyncFolder(path.into()),
        }
    }
}

/// Records all operations. The `failing`-th sync fails, or any operation with an error of the operating
/// system.
#[derive(Default)]
struct Recorder {
    done: Mutex<Vec<Done>>,
    failing: Option<usize>,
    refused: Option<(usize, i32)>,
}

impl Watch for Recorder {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        let mut done = self.done.lock().unwrap();
        let is_sync = |done: &Done| matches!(done, Done::SyncFile(_) | Done::SyncFolder(_));
        let next = Done::from(operation);
        let syncs = done.iter().filter(|done| is_sync(done)).count();
        let fails = is_sync(&next) && self.failing == Some(syncs);
        done.push(next);
        if let Some((_, error)) = self.refused.filter(|(at, _)| *at + 1 == done.len()) {
            return Err(io::Error::from_raw_os_error(error));
        }
        if fails { Err(io::Error::other("the disk does not answer")) } else { Ok(()) }
    }
}

/// A model of a disk that knows what was synced.
#[derive(Default)]
struct Model {
    /// Content of each file, and how many bytes of it were synced.
    files: Vec<(Vec<u8>, usize)>,
    /// Names now, and those that are on disk.
    names: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    /// Changes of names that were not synced, with the files that were made.
    pending: Vec<(Done, Option<usize>)>,
    folders: Vec<PathBuf>,
}

fn change(names: &mut BTreeMap<PathBuf, usize>, done: &Done, created: Option<usize>) {
    match done {
        Done::Create(path) => {
            names.insert(path.clone(), created.unwrap());
        }
        Done::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        Done::Remove(path) => {
            names.remove(path);
        }
        _ => {}
    }
}

impl Model {
    fn apply(&mut self, done: &Done) {
        match done {
            Done::MakeFolder(path) => self.folders.push(path.clone()),
            Done::Create(path) => {
                self.files.push((Vec::new(), 0));
                self.names.insert(path.clone(), self.files.len() - 1);
                self.pending.push((done.clone(), Some(self.files.len() - 1)));
            }
            Done::Rename(..) | Done::Remove(_) => {
                change(&mut self.names, done, None);
                self.pending.push((done.clone(), None));
            }
            Done::Write(path, bytes) => self.files[self.names[path]].0.extend(bytes),
            Done::Cut(path, bytes) => self.files[self.names[path]].0.truncate(usize::try_from(*bytes).unwrap()),
            Done::SyncFile(path) => {
                let (content, synced) = &mut self.files[self.names[path]];
                *synced = content.len();
            }
            Done::SyncFolder(folder) => {
                self.folders.retain(|made| made.parent() != Some(folder));
                let is_within = |path: &PathBuf| path.parent() == Some(folder.as_path());
                self.durable.retain(|path, _| !is_within(path));
                let now = self.names.iter().filter(|(path, _)| is_within(path));
                self.durable.extend(now.map(|(path, file)| (path.clone(), *file)));
                self.pending.retain(|(done, _)| match done {
                    Done::Create(path) | Done::Remove(path) | Done::Rename(path, _) => !is_within(path),
                    _ => true,
                });
            }
        }
    }

    /// Leaves in `folder` what a power failure now might leave.
    fn fail_power(mut self, folder: &Path, rng: &mut Rng) {
        for (done, created) in &self.pending {
            if rng.below(2) == 0 {
                change(&mut self.durable, done, *created);
            }
        }
        let _ = fs::remove_dir_all(folder);
        if !self.folders.is_empty() {
            assert!(self.durable.is_empty(), "files were synced in a folder whose own name was not");
            return;
        }
        fs::create_dir_all(folder).unwrap();
        for (path, file) in &self.durable {
            let (content, synced) = &self.files[*file];
            let survived = synced + rng.below((content.len().saturating_sub(*synced)) as u64 + 1) as usize;
            fs::write(path, &content[..survived.min(content.len())]).unwrap();
        }
    }
}

/// A table of numbers.
struct Table {
    root: tempfile::TempDir,
    format: &'static str,
    delivery: Delivery,
}

impl Table {
    fn new(format: &'static str, delivery: Delivery) -> Table {
        Table { root: tempfile::tempdir().unwrap(), format, delivery }
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("out")
    }

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]))
    }

    fn rows(epoch: u64) -> RecordBatch {
        let first = i64::try_from(epoch).unwrap() * 10;
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 10));
        RecordBatch::try_new(Self::schema(), vec![ids]).unwrap()
    }

    fn ids(epochs: impl IntoIterator<Item = u64>) -> Vec<i64> {
        epochs.into_iter().flat_map(|epoch| (0..10).map(move |id| i64::try_from(epoch).unwrap() * 10 + id)).collect()
    }

    fn open(&self, disk: Disk, incarnation: u64) -> Result<Box<dyn Sink>> {
        let folder = self.folder();
        let options = [("path", folder.to_str().unwrap()), ("format", self.format), ("sink.rolling-size", "150")];
        let connector = ConnectorSpec::new("filesystem", &options);
        let options = FileOptions::read(&connector).unwrap();
        let spec = SinkSpec::new("t", connector, Self::schema());
        let (delivery, host) = (self.delivery.clone(), TestHost::of_incarnation(incarnation));
        let context = TaskContext { delivery, host, ..context(0, 1, 64) };
        open_on(disk, &spec, options, &context)
    }

    /// What readers see.
    fn visible(&self) -> Vec<i64> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(self.folder()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().starts_with('.') {
                continue;
            }
            if self.format == "parquet" {
                let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(&path).unwrap()).unwrap();
                for batch in reader.build().unwrap() {
                    let batch = batch.unwrap();
                    let column = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
                    ids.extend(column.values().iter());
                }
            } else {
                let text = fs::read_to_string(&path).unwrap();
                let id = |line: &str| line.strip_prefix("{\"id\":").unwrap().strip_suffix('}').unwrap().parse::<i64>();
                ids.extend(text.lines().map(|line| id(line).unwrap()));
            }
        }
        ids.sort_unstable();
        ids
    }
}

/// Writes five epochs. Calls `promised` after each step with what the step guarantees.
fn write_exactly_once(
    sink: &mut dyn Sink,
    mut promised: impl FnMut(Option<&Committable>, Option<&Committable>),
) -> Result<()> {
    let mut covered: Option<Committable> = None;
    for epoch in 1..=5 {
        sink.write(&Table::rows(epoch))?;
        let prepared = sink.prepare_commit(Epoch(epoch))?.unwrap();
        promised(Some(&prepared), None);
        // The commit of one checkpoint comes after the rows of the next.
        if let Some(covered) = covered.replace(prepared) {
            promised(None, Some(&covered));
            sink.commit(&covered)?;
        }
    }
    let last = covered.unwrap();
    promised(None, Some(&last));
    sink.commit(&last)?;
    sink.finish()
}

fn write_at_least_once(sink: &mut dyn Sink, mut promised: impl FnMut(u64)) -> Result<()> {
    for epoch in 1..=5 {
        sink.write(&Table::rows(epoch))?;
        sink.epoch_end(Epoch(epoch))?;
        promised(epoch);
    }
    sink.finish()
}

#[test]
fn exactly_what_a_checkpoint_covers_survives_a_power_failure() {
    let mut rng = Rng::new(7);
    for format in ["json", "parquet"] {
        let table = Table::new(format, Delivery::ExactlyOnce { scope: "job-0".into(), former: Former::default() });
        let recorder = Arc::new(Recorder::default());
        let count = || recorder.done.lock().unwrap().len();
        let mut sink = table.open(Disk::watched(recorder.clone()), 1).unwrap();
        // Up to how many operations a checkpoint cannot be complete, and from how many on it must be.
        let (mut possible, mut certain) = (Vec::new(), Vec::new());
        write_exactly_once(sink.as_mut(), |prepared, covered| {
            possible.extend(prepared.map(|prepared| (count(), prepared.clone())));
            certain.extend(covered.map(|covered| (count(), covered.epoch.0)));
        })
        .unwrap();
        drop(sink);
        assert_eq!(table.visible(), Table::ids(1..=5));
        let done = recorder.done.lock().unwrap().clone();
        for end in 0..=done.len() {
            let prepared: Vec<_> = possible.iter().filter(|(at, _)| *at <= end).map(|(_, c)| c).collect();
            let covered = certain.iter().filter(|(at, _)| *at < end).map(|(_, epoch)| *epoch).max().unwrap_or(0);
            for newest in covered..=prepared.len() as u64 {
                let mut model = Model::default();
                done[..end].iter().for_each(|done| model.apply(done));
                model.fail_power(&table.folder(), &mut rng);
                let mut sink = table.open(Disk::default(), 2).unwrap();
                let restored = prepared.iter().filter(|prepared| prepared.epoch.0 <= newest);
                restored.for_each(|prepared| sink.commit(prepared).unwrap());
                assert_eq!(table.visible(), Table::ids(1..=newest), "{format}, failure before operation {end}");
                sink.write(&Table::rows(newest + 1)).unwrap();
                let next = sink.prepare_commit(Epoch(newest + 1)).unwrap().unwrap();
                sink.commit(&next).unwrap();
                assert_eq!(table.visible(), Table::ids(1..=newest + 1), "{format}, failure before operation {end}");
            }
        }
    }
}

#[test]
fn an_ended_epoch_survives_a_power_failure() {
    let mut rng = Rng::new(8);
    for format in ["json", "parquet"] {
        let table = Table::new(format, Delivery::AtLeastOnce);
        let recorder = Arc::new(Recorder::default());
        let mut sink = table.open(Disk::watched(recorder.clone()), 1).unwrap();
        let mut promised = Vec::new();
        write_at_least_once(sink.as_mut(), |epoch| promised.push((recorder.done.lock().unwrap().len(), epoch)))
            .unwrap();
        drop(sink);
        let done = recorder.done.lock().unwrap().clone();
        for end in 0..=done.len() {
            for _ in 0..4 {
                let mut model = Model::default();
                done[..end].iter().for_each(|done| model.apply(done));
                model.fail_power(&table.folder(), &mut rng);
                table.open(Disk::default(), 2).unwrap().finish().unwrap();
                let visible = table.visible();
                let ended = promised.iter().filter(|(at, _)| *at <= end).map(|(_, epoch)| *epoch);
                let missing: Vec<_> = Table::ids(ended).into_iter().filter(|id| !visible.contains(id)).collect();
                assert!(missing.is_empty(), "{format}, failure before operation {end}: {missing:?} are missing");
            }
        }
    }
}

#[test]
fn a_failed_sync_fails_the_epoch() {
    for format in ["json", "parquet"] {
        for delivery in
            [Delivery::AtLeastOnce, Delivery::ExactlyOnce { scope: "job-0".into(), former: Former::default() }]
        {
            for failing in 0.. {
                let table = Table::new(format, delivery.clone());
                let recorder = Arc::new(Recorder { failing: Some(failing), ..Recorder::default() });
                let written = table.open(Disk::watched(recorder.clone()), 1).and_then(|mut sink| match delivery {
                    Delivery::AtLeastOnce => write_at_least_once(sink.as_mut(), |_| {}),
                    Delivery::ExactlyOnce { .. } => write_exactly_once(sink.as_mut(), |_, _| {}),
                });
                let syncs = recorder.done.lock().unwrap();
                let syncs = syncs.iter().filter(|done| matches!(done, Done::SyncFile(_) | Done::SyncFolder(_))).count();
                match written {
                    Ok(()) => {
                        assert!(syncs <= failing && failing > 5, "the failure of {failing} was ignored");
                        break;
                    }
                    Err(error) => {
                        assert_eq!(syncs, failing + 1, "the sink went on");
                        assert!(error.to_string().contains("cannot sync to disk"), "{error}");
                    }
                }
            }
        }
    }
}

/// A full disk and a broken one refuse an operation. The sink fails with the place and may be opened again,
/// or the operation did not matter; what a checkpoint covers is visible once, and nothing else.
#[test]
fn an_operation_that_the_disk_refuses_loses_nothing_and_doubles_nothing() {
    let delivery = Delivery::ExactlyOnce { scope: "job-0".into(), former: Former::default() };
    let (full, broken) = (28, 5);
    for (format, error) in [("json", full), ("json", broken), ("parquet", full)] {
        for operation in 0.. {
            let table = Table::new(format, delivery.clone());
            let recorder = Arc::new(Recorder { refused: Some((operation, error)), ..Recorder::default() });
            let (mut prepared, mut covered) = (Vec::new(), 0);
            let written = table.open(Disk::watched(recorder.clone()), 1).and_then(|mut sink| {
                write_exactly_once(sink.as_mut(), |new, done| {
                    prepared.extend(new.cloned());
                    covered = done.map_or(covered, |done| done.epoch.0);
                })
            });
            let operations = recorder.done.lock().unwrap().len();
            let what = format!("{format}, error {error} of operation {operation} of {operations}: {written:?}");
            if operations <= operation {
                assert!(written.is_ok() && operation > 20, "{what}");
                break;
            }
            if let Err(error) = &written {
                let place = table.root.path().to_str().unwrap();
                assert!(error.kind() == ErrorKind::Outside && error.to_string().contains(place), "{what}");
            }
            let mut sink = table.open(Disk::default(), 2).unwrap();
            for prepared in prepared.iter().filter(|prepared| prepared.epoch.0 <= covered) {
                sink.commit(prepared).unwrap();
            }
            assert_eq!(table.visible(), Table::ids(1..=covered), "{what}");
            sink.write(&Table::rows(covered + 1)).unwrap();
            let next = sink.prepare_commit(Epoch(covered + 1)).unwrap().unwrap();
            sink.commit(&next).unwrap();
            assert_eq!(table.visible(), Table::ids(1..=covered + 1), "{what}");
        }
    }
}

#[test]
fn an_ended_epoch_survives_an_operation_that_the_disk_refuses() {
    for format in ["json", "parquet"] {
        for operation in 0.. {
            let table = Table::new(format, Delivery::AtLeastOnce);
            let recorder = Arc::new(Recorder { refused: Some((operation, 28)), ..Recorder::default() });
            let mut ended = 0;
            let written = table
                .open(Disk::watched(recorder.clone()), 1)
                .and_then(|mut sink| write_at_least_once(sink.as_mut(), |epoch| ended = epoch));
            let operations = recorder.done.lock().unwrap().len();
            if operations <= operation {
                assert!(written.is_ok() && operation > 5, "{format}: {written:?}");
                break;
            }
            table.open(Disk::default(), 2).unwrap().finish().unwrap();
            let visible = table.visible();
            let missing: Vec<_> = Table::ids(1..=ended).into_iter().filter(|id| !visible.contains(id)).collect();
            assert!(missing.is_empty(), "{format}, operation {operation}, {written:?}: {missing:?} are missing");
        }
    }
}
