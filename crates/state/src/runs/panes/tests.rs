//! Rows of panes against rows in a map, whatever was merged in between.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use anabranch_model::{HASH_SEED, Rng, hash_u64};
use arrow::array::{ArrayRef, AsArray, Int64Array, ListArray, StringViewArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};

use super::*;
use crate::BUCKETS;
use crate::runs::levels::RUNS_MAX;

const FAN_IN: usize = Layout::Buckets.fan_in();

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

fn hash(columns: &[ArrayRef], _rows: usize, _window: Option<usize>, hashes: &mut Vec<u64>) -> Result<()> {
    let keys = columns[0].as_primitive::<Int64Type>().values();
    hashes.clear();
    hashes.extend(keys.iter().map(|key| hash_u64(HASH_SEED, *key as u64)));
    Ok(())
}

fn new(folder: &std::path::Path) -> PaneRuns {
    PaneRuns::new(schema(), 0..1, hash, folder).expect("runs")
}

/// Returns the number of buckets that the put merged.
fn put(runs: &mut PaneRuns, pane: i64, pairs: &[(i64, i64)]) -> usize {
    let steps = Rc::new(Cell::new(0));
    let merge = || Ok(Box::new(Totals { steps: Rc::clone(&steps), ..Totals::default() }) as Box<dyn Merge>);
    runs.put(pane, &rows(pairs), &merge).expect("put");
    steps.get()
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
fn work(runs: &mut PaneRuns) -> usize {
    let steps = Rc::new(Cell::new(0));
    let merge = || Ok(Box::new(Totals { steps: Rc::clone(&steps), ..Totals::default() }) as Box<dyn Merge>);
    runs.work(&merge).expect("work");
    steps.get()
}

fn all(runs: &PaneRuns, panes: Range<i64>) -> BTreeMap<i64, i64> {
    let mut merge = Totals::default();
    (0..BUCKETS).for_each(|bucket| runs.read(panes.clone(), bucket, &mut merge).expect("read"));
    totals(&merge.batches)
}

fn check(seed: u64) {
    let folder = tempfile::tempdir().expect("folder");
    let mut rng = Rng::new(seed);
    let mut runs = new(&folder.path().join("made")).with_file_bytes([60_000, 1 << 30][rng.below(2) as usize]);
    let mut expected: BTreeMap<i64, BTreeMap<i64, i64>> = BTreeMap::new();
    let mut runs_max = 0;
    for step in 0..200 {
        let pane = (step / 50 + rng.below(3) as i64) * 10;
        let pairs: Vec<(i64, i64)> =
            (0..rng.below(300)).map(|_| (rng.below(500) as i64, rng.below(9) as i64)).collect();
        let distinct: BTreeMap<i64, i64> = pairs.into_iter().collect();
        put(&mut runs, pane, &distinct.clone().into_iter().collect::<Vec<_>>());
        let totals = expected.entry(pane).or_default();
        distinct.into_iter().for_each(|(key, value)| *totals.entry(key).or_default() += value);
        for _ in 0..rng.below(150) {
            work(&mut runs);
        }
        if rng.below(40) == 0 {
            let first = (step / 50) * 10;
            runs.remove_before(first);
            expected = expected.split_off(&first);
        }
        runs_max = runs_max.max(runs.most_runs());
    }
    for (pane, expected) in &expected {
        assert_eq!(&all(&runs, *pane..*pane + 1), expected, "pane {pane}, seed {seed}");
    }
    let files = runs.files();
    assert!(files.iter().all(|file| expected.contains_key(&file.pane)), "a pane that was removed has files");
    let copies: Vec<RecordBatch> = files
        .iter()
        .flat_map(|run| crate::decode_rows(run.content().expect("content").into()).expect("rows"))
        .collect();
    let copied = concat_batches(&schema(), &copies).expect("one batch");
    let everything = all(&runs, i64::MIN..i64::MAX);
    assert_eq!(totals(&[copied]), everything, "copies of the runs have the same rows, seed {seed}");
    assert!(runs_max < RUNS_MAX, "runs are merged: {runs_max}, seed {seed}");
    runs.remove_before(i64::MAX);
    assert!(runs.is_empty() && runs.files().is_empty() && !runs.holds(i64::MIN..i64::MAX));
    drop(files);
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
        let mut runs = new(folder.path());
        let (mut most, mut steps) = (0, 0);
        for number in 0..40 * panes.min(8) {
            put(&mut runs, number % panes, &[(number, 1), (number + 1, 1)]);
            for _ in 0..batches_per_put {
                steps = steps.max(work(&mut runs));
            }
            most = most.max(runs.most_runs());
        }
        assert!(most < 2 * FAN_IN && steps <= steps_max, "{panes} panes: {most} runs, {steps} steps at once");
    }
}

/// Panes that are put at once have enough runs at once, on the second level too. While one pane is merged
/// there, all get runs on the first.
#[test]
fn panes_that_are_put_at_once_are_merged_a_bit_after_each_batch() {
    let folder = tempfile::tempdir().expect("folder");
    let mut runs = new(folder.path());
    let (mut most, mut steps, mut merged, mut of_puts) = (0, 0, 0, 0);
    for number in 0..100 {
        for pane in 0..12 {
            let pairs: Vec<(i64, i64)> = (0..30).map(|key| (number * 30 + key, 1)).collect();
            of_puts += put(&mut runs, pane, &pairs);
        }
        for _ in 0..100 {
            let of_batch = work(&mut runs);
            (steps, merged) = (steps.max(of_batch), merged + of_batch);
        }
        most = most.max(runs.most_runs());
    }
    // A merge of 8 runs has about 156 buckets here, a quarter of which are due from one put to the next: 5 of
    // the 12 panes' after each batch. Of the second level 1 is.
    assert!(steps <= 8 && of_puts == 0, "{steps} buckets after one batch, {of_puts} by puts");
    assert!(most < 2 * FAN_IN && merged > 12 * (12 * 130 + 256), "{most} runs, {merged} buckets");
    assert_eq!(all(&runs, 7..8), (0..3_000).map(|key| (key, 1)).collect());
}

/// As one batch with many keys does: nothing is merged but by the puts.
#[test]
fn puts_without_batches_between_them_merge() {
    let folder = tempfile::tempdir().expect("folder");
    let mut runs = new(folder.path());
    for number in 0..300 {
        put(&mut runs, number % 2, &[(number, 1), (number + 1, 1)]);
        assert!(runs.most_runs() < RUNS_MAX, "{} runs", runs.most_runs());
    }
    assert_eq!(all(&runs, 0..2).len(), 301);
}

/// The total of each key that was added last.
#[derive(Default)]
struct Newest(BTreeMap<i64, i64>);

impl Merge for Newest {
    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let column = |at: usize| rows.column(at).as_primitive::<Int64Type>().values();
        self.0.extend(column(0).iter().copied().zip(column(1).iter().copied()));
        Ok(())
    }

    fn take(&mut self) -> Result<RecordBatch> {
        Ok(rows(&std::mem::take(&mut self.0).into_iter().collect::<Vec<_>>()))
    }
}

/// States such as the last value depend on it.
#[test]
fn rows_are_read_and_merged_in_the_order_in_which_they_were_put() {
    for seed in 0..4 {
        let folder = tempfile::tempdir().expect("folder");
        let (mut rng, mut runs, mut expected) = (Rng::new(seed), new(folder.path()), BTreeMap::new());
        for number in 0..150 {
            let newest: BTreeMap<i64, i64> = (0..30).map(|_| (rng.below(100) as i64, number)).collect();
            let pairs: Vec<(i64, i64)> = newest.into_iter().collect();
            runs.put(0, &rows(&pairs), &|| Ok(Box::new(Newest::default()))).expect("put");
            expected.extend(pairs);
            for _ in 0..rng.below(20) {
                runs.work(&|| Ok(Box::new(Newest::default()))).expect("work");
            }
            if number % 10 < 9 {
                continue;
            }
            let mut read = Newest::default();
            (0..BUCKETS).for_each(|bucket| runs.read(0..1, bucket, &mut read).expect("read"));
            assert_eq!(read.0, expected, "seed {seed}");
        }
    }
}

/// Keys of each bucket, from every run.
fn keys(runs: &PaneRuns) -> Vec<Vec<i64>> {
    let keys = |bucket| {
        let mut merge = Totals::default();
        runs.read(0..1, bucket, &mut merge).expect("read");
        totals(&merge.batches).into_keys().collect()
    };
    (0..BUCKETS).map(keys).collect()
}

#[test]
fn a_run_has_the_same_buckets_in_however_many_files_it_is() {
    let pairs: Vec<(i64, i64)> = (0..5000).map(|key| (key, 1)).collect();
    let in_files_of = |bytes| {
        let folder = tempfile::tempdir().expect("folder");
        let mut runs = new(folder.path()).with_file_bytes(bytes);
        put(&mut runs, 0, &pairs);
        (runs.files().len(), keys(&runs))
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
    let mut runs = new(folder.path());
    put(&mut runs, 0, &(0..1000).map(|key| (key, key)).collect::<Vec<_>>());
    let [run] = runs.files().try_into().expect("one run");
    for at in (0..run.bytes).step_by(4999) {
        let [byte] = run.damage(at, 0x10);
        let errors: Vec<String> = (0..BUCKETS)
            .filter_map(|bucket| runs.read(0..1, bucket, &mut Totals::default()).err())
            .chain(run.content().err())
            .map(|error| error.to_string())
            .collect();
        let place = folder.path().to_str().expect("text");
        assert!(!errors.is_empty(), "byte {at} is not checked");
        assert!(errors.iter().all(|error| error.contains("is damaged") && error.contains(place)), "{errors:?}");
        run.damage(at, 0x10);
        assert_eq!(run.damage(at, 0), [byte]);
    }
    assert_eq!(all(&runs, 0..1).len(), 1000);
}

#[test]
fn a_bucket_does_not_carry_the_strings_of_others() {
    let pairs: Vec<(i64, i64)> = (0..20_000).map(|key| (key, 1)).collect();
    let folder = tempfile::tempdir().expect("folder");
    let mut runs = new(folder.path());
    put(&mut runs, 0, &pairs);
    let bytes: u64 = runs.files().iter().map(|run| run.bytes).sum();
    let plain = pairs.len() as u64 * 2 * (16 + name(10_000).len() as u64 + 10);
    assert!(bytes < 2 * plain, "{bytes} bytes for about {plain}");
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_with_a_remedy() {
    let error = PaneRuns::new(schema(), 0..1, hash, "/proc/none").err().expect("no directory").to_string();
    assert!(error.contains("/proc/none") && error.contains("state-directory"), "{error}");
}
