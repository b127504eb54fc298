//! The backend on disk against rows in a map.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use anabranch_model::{HASH_SEED, Rng, hash_u64};
use arrow::array::{AsArray, Int64Array, ListArray, StringViewArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};

use super::*;

fn schema() -> SchemaRef {
    let names = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)));
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("total", DataType::Int64, false),
        Field::new("name", DataType::Utf8View, false),
        Field::new("names", names, true),
    ]))
}

fn name(key: i64) -> String {
    format!("the name of key {key}, which is not short")
}

fn rows(pairs: &[(i64, i64)]) -> RecordBatch {
    let names: StringViewArray = pairs.iter().map(|(key, _)| Some(name(*key))).collect();
    let field = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(pairs.iter().map(|_| 1));
    let lists = ListArray::new(field, offsets, Arc::new(names.clone()), None);
    let keys: Int64Array = pairs.iter().map(|(key, _)| *key).collect();
    let totals: Int64Array = pairs.iter().map(|(_, total)| *total).collect();
    RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(totals), Arc::new(names), Arc::new(lists)])
        .expect("batch")
}

fn buckets(pairs: &[(i64, i64)]) -> Buckets {
    let hashes: Vec<u64> = pairs.iter().map(|(key, _)| hash_u64(HASH_SEED, *key as u64)).collect();
    Buckets::new(rows(pairs), &hashes)
}

fn totals(batches: &[RecordBatch]) -> BTreeMap<i64, i64> {
    let mut totals = BTreeMap::new();
    for batch in batches {
        let keys = batch.column(0).as_primitive::<Int64Type>();
        let values = batch.column(1).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let key = keys.value(row);
            *totals.entry(key).or_default() += values.value(row);
            assert_eq!(batch.column(2).as_string_view().value(row), name(key));
            let list = batch.column(3).as_list::<i32>().value(row);
            assert_eq!(list.as_string_view().value(0), name(key));
        }
    }
    totals
}

#[derive(Default)]
struct Totals {
    batches: Vec<RecordBatch>,
    /// Buckets that were merged.
    steps: Rc<Cell<usize>>,
}

impl Merge for Totals {
    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        self.batches.push(rows.clone());
        Ok(())
    }

    fn take(&mut self) -> Result<RecordBatch> {
        self.steps.set(self.steps.get() + 1);
        Ok(rows(&totals(&std::mem::take(&mut self.batches)).into_iter().collect::<Vec<_>>()))
    }
}

/// One step of work; returns the number of merged buckets.
fn work(backend: &mut DiskBackend) -> usize {
    let steps = Rc::new(Cell::new(0));
    let merge = || Ok(Box::new(Totals { steps: Rc::clone(&steps), ..Totals::default() }) as Box<dyn Merge>);
    backend.work(&merge).expect("work");
    steps.get()
}

fn all(backend: &DiskBackend, panes: Range<i64>) -> BTreeMap<i64, i64> {
    let mut merge = Totals::default();
    (0..BUCKETS).for_each(|bucket| backend.read(panes.clone(), bucket, &mut merge).expect("read"));
    totals(&merge.batches)
}

fn check(seed: u64) {
    let folder = tempfile::tempdir().expect("folder");
    let mut rng = Rng::new(seed);
    let backend = DiskBackend::new(schema(), folder.path().join("made"), 3000).expect("backend");
    let mut backend = backend.with_file_bytes([60_000, 1 << 30][rng.below(2) as usize]);
    let mut expected: BTreeMap<i64, BTreeMap<i64, i64>> = BTreeMap::new();
    let mut runs_max = 0;
    for step in 0..200 {
        let pane = (step / 50 + rng.below(3) as i64) * 10;
        let pairs: Vec<(i64, i64)> =
            (0..rng.below(300)).map(|_| (rng.below(500) as i64, rng.below(9) as i64)).collect();
        let distinct: BTreeMap<i64, i64> = pairs.into_iter().collect();
        backend.put(pane, &buckets(&distinct.clone().into_iter().collect::<Vec<_>>())).expect("put");
        let totals = expected.entry(pane).or_default();
        distinct.into_iter().for_each(|(key, value)| *totals.entry(key).or_default() += value);
        for _ in 0..rng.below(150) {
            work(&mut backend);
        }
        if rng.below(40) == 0 {
            let first = (step / 50) * 10;
            backend.remove_before(first);
            expected = expected.split_off(&first);
        }
        runs_max = runs_max.max(backend.most_runs());
    }
    for (pane, expected) in &expected {
        assert_eq!(&all(&backend, *pane..*pane + 1), expected, "pane {pane}, seed {seed}");
    }
    let copies: Vec<RecordBatch> = backend
        .runs()
        .iter()
        .flat_map(|run| crate::decode_rows(run.content().expect("content").into()).expect("rows"))
        .collect();
    let copied = concat_batches(&schema(), &copies).expect("one batch");
    let everything = all(&backend, i64::MIN..i64::MAX);
    assert_eq!(totals(&[copied]), everything, "copies of the runs have the same rows, seed {seed}");
    assert!(runs_max < 2 * disk::FAN_IN, "runs are merged: {runs_max}, seed {seed}");
    backend.remove_before(i64::MAX);
    assert!(backend.runs().is_empty() && !backend.holds(i64::MIN..i64::MAX));
    assert_eq!(std::fs::read_dir(folder.path().join("made")).expect("readable").count(), 0);
}

#[test]
fn rows_are_read_back_whatever_was_merged_meanwhile() {
    (0..3).for_each(check);
}

/// The fewer batches between two puts and the more panes, the more work after a batch; but never a backlog at
/// once.
#[test]
fn merging_keeps_pace_with_any_number_of_panes() {
    for (panes, batches_per_put, steps_max) in [(1, 10, 20), (24, 10, 40), (24, 40, 20)] {
        let folder = tempfile::tempdir().expect("folder");
        let mut backend = DiskBackend::new(schema(), folder.path(), 1).expect("backend");
        let (mut runs, mut steps) = (0, 0);
        for put in 0..40 * panes.min(8) {
            backend.put(put % panes, &buckets(&[(put, 1), (put + 1, 1)])).expect("put");
            for _ in 0..batches_per_put {
                steps = steps.max(work(&mut backend));
            }
            runs = runs.max(backend.most_runs());
        }
        assert!(runs < 2 * disk::FAN_IN && steps <= steps_max, "{panes} panes: {runs} runs, {steps} steps at once");
    }
}

/// Keys of each bucket, from every run.
fn keys(backend: &DiskBackend) -> Vec<Vec<i64>> {
    let keys = |bucket| {
        let mut merge = Totals::default();
        backend.read(0..1, bucket, &mut merge).expect("read");
        totals(&merge.batches).into_keys().collect()
    };
    (0..BUCKETS).map(keys).collect()
}

#[test]
fn a_run_has_the_same_buckets_in_however_many_files_it_is() {
    let pairs: Vec<(i64, i64)> = (0..5000).map(|key| (key, 1)).collect();
    let in_files_of = |bytes| {
        let folder = tempfile::tempdir().expect("folder");
        let backend = DiskBackend::new(schema(), folder.path(), 1).expect("backend");
        let mut backend = backend.with_file_bytes(bytes);
        backend.put(0, &buckets(&pairs)).expect("put");
        (backend.runs().len(), keys(&backend))
    };
    let (one, expected) = in_files_of(1 << 30);
    assert!(one == 1 && expected.iter().all(|keys| !keys.is_empty()));
    for (bytes, files_min) in [(1, BUCKETS), (20_000, 10)] {
        let (files, keys) = in_files_of(bytes);
        assert!(files >= files_min && keys == expected, "{files} files");
    }
}

/// The disk returns other bytes than were written: that is an error, and never becomes a result or a
/// checkpoint.
#[test]
fn damage_of_a_run_on_the_local_disk_is_detected() {
    let folder = tempfile::tempdir().expect("folder");
    let mut backend = DiskBackend::new(schema(), folder.path(), 1).expect("backend");
    backend.put(0, &buckets(&(0..1000).map(|key| (key, key)).collect::<Vec<_>>())).expect("put");
    let [run] = backend.runs().try_into().expect("one run");
    for at in (0..run.bytes).step_by(4999) {
        let [byte] = run.damage(at, 0x10);
        let errors: Vec<String> = (0..BUCKETS)
            .filter_map(|bucket| backend.read(0..1, bucket, &mut Totals::default()).err())
            .chain(run.content().err())
            .map(|error| error.to_string())
            .collect();
        let place = folder.path().to_str().expect("text");
        assert!(!errors.is_empty(), "byte {at} is not checked");
        assert!(errors.iter().all(|error| error.contains("is damaged") && error.contains(place)), "{errors:?}");
        run.damage(at, 0x10);
        assert_eq!(run.damage(at, 0), [byte]);
    }
    assert_eq!(all(&backend, 0..1).len(), 1000);
}

#[test]
fn a_bucket_does_not_carry_the_strings_of_others() {
    let pairs: Vec<(i64, i64)> = (0..20_000).map(|key| (key, 1)).collect();
    let folder = tempfile::tempdir().expect("folder");
    let mut backend = DiskBackend::new(schema(), folder.path(), 1).expect("backend");
    let rows = buckets(&pairs);
    backend.put(0, &rows).expect("put");
    let bytes: u64 = backend.runs().iter().map(|run| run.bytes).sum();
    let plain = pairs.len() as u64 * 2 * (16 + name(10_000).len() as u64 + 10);
    assert!(bytes < 2 * plain, "{bytes} bytes for about {plain}");
}

#[test]
fn memory_that_is_full_is_an_error_with_a_remedy() {
    let memory = MemoryBackend { bytes_max: 100 };
    assert!(!memory.is_full(100).expect("fits"));
    let error = memory.is_full(101).expect_err("full").to_string();
    assert!(error.contains("'state-bytes'") && error.contains("'disk'"), "{error}");
    let error = DiskBackend::new(schema(), "/proc/none", 1).err().expect("no directory").to_string();
    assert!(error.contains("/proc/none") && error.contains("state-directory"), "{error}");
}
