//! The backend on disk against rows in a map.

use std::collections::BTreeMap;
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

#[expect(clippy::needless_pass_by_value, reason = "the form that the backend calls")]
fn merge(batches: Vec<RecordBatch>) -> Result<RecordBatch> {
    Ok(rows(&totals(&batches).into_iter().collect::<Vec<_>>()))
}

fn all(backend: &DiskBackend, panes: Range<i64>) -> BTreeMap<i64, i64> {
    let read = |bucket| backend.read(panes.clone(), bucket).expect("read");
    totals(&(0..BUCKETS).flat_map(read).collect::<Vec<_>>())
}

fn check(seed: u64) {
    let folder = tempfile::tempdir().expect("folder");
    let mut backend = DiskBackend::new(schema(), folder.path().join("made"), 3000).expect("backend");
    let mut rng = Rng::new(seed);
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
            backend.work(&mut merge).expect("work");
        }
        if rng.below(40) == 0 {
            let first = (step / 50) * 10;
            backend.remove_before(first);
            expected = expected.split_off(&first);
        }
        runs_max = runs_max.max(backend.runs().len());
    }
    for (pane, expected) in &expected {
        assert_eq!(&all(&backend, *pane..*pane + 1), expected, "pane {pane}, seed {seed}");
    }
    let copies: Vec<RecordBatch> = backend
        .runs()
        .iter()
        .flat_map(|run| crate::decode_rows(&run.content().expect("content")).expect("rows"))
        .collect();
    let copied = concat_batches(&schema(), &copies).expect("one batch");
    let everything = all(&backend, i64::MIN..i64::MAX);
    assert_eq!(totals(&[copied]), everything, "copies of the runs have the same rows, seed {seed}");
    assert!(runs_max < 6 * 3 * 2 * 8, "runs are merged: {runs_max}, seed {seed}");
    backend.remove_before(i64::MAX);
    assert!(backend.runs().is_empty() && !backend.holds(i64::MIN..i64::MAX));
    assert_eq!(std::fs::read_dir(folder.path().join("made")).expect("readable").count(), 0);
}

#[test]
fn rows_come_back_whatever_was_merged_meanwhile() {
    (0..3).for_each(check);
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
