//! Rows that are looked up against a map, whatever was written, restored and merged in between.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use anabranch_model::{HASH_SEED, Rng, hash_u64};
use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

use super::*;
use crate::runs::levels::RUNS_MAX;
use crate::{hashes_of_window, in_window};

const FAN_IN: usize = Layout::Keys.fan_in();

/// Weight and version of each key and value.
type Rows = BTreeMap<(i64, i64), (i64, i64)>;

fn hash(columns: &[ArrayRef], _rows: usize, _window: Option<usize>, hashes: &mut Vec<u64>) -> Result<()> {
    let keys = columns[0].as_primitive::<Int64Type>().values();
    hashes.clear();
    hashes.extend(keys.iter().map(|key| hash_of(*key)));
    Ok(())
}

/// Some keys have the same hash.
fn hash_of(key: i64) -> u64 {
    hash_u64(HASH_SEED, (key / 2) as u64)
}

fn text(key: i64) -> String {
    format!("a text that is longer than a view, of {key}")
}

fn table() -> KeyedTable {
    let number = |name| Field::new(name, DataType::Int64, false);
    let text = Field::new("text", DataType::Utf8View, false);
    let schema = Arc::new(Schema::new(vec![number("k"), number("v"), text, number("$weight"), number("$snapshot")]));
    KeyedTable { schema, keys: 0..1, identity: vec![0, 1, 2], count: Some(3), window: None, time: None, hash }
}

fn batch(rows: &Rows) -> RecordBatch {
    let rows: Vec<[i64; 4]> =
        rows.iter().map(|((key, value), (weight, version))| [*key, *value, *weight, *version]).collect();
    let column = |at: usize| Arc::new(rows.iter().map(|row| row[at]).collect::<Int64Array>());
    let texts: StringViewArray = rows.iter().map(|row| Some(text(row[0]))).collect();
    let columns: Vec<ArrayRef> = vec![column(0), column(1), Arc::new(texts), column(2), column(3)];
    RecordBatch::try_new(table().schema, columns).expect("rows")
}

/// Keeps the latest.
#[derive(Default)]
struct Newest {
    rows: Rows,
    /// How often it was merged.
    steps: Rc<Cell<usize>>,
}

impl Merge for Newest {
    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let column = |at: usize| rows.column(at).as_primitive::<Int64Type>().values();
        for row in 0..rows.num_rows() {
            let key = (column(0)[row], column(1)[row]);
            assert_eq!(rows.column(2).as_string_view().value(row), text(key.0));
            let (weight, version) = (column(3)[row], column(4)[row]);
            if self.rows.get(&key).is_none_or(|(_, before)| *before < version) {
                self.rows.insert(key, (weight, version));
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Result<RecordBatch> {
        self.steps.set(self.steps.get() + 1);
        Ok(batch(&std::mem::take(&mut self.rows)))
    }
}

/// Returns the number of merge steps.
fn work(runs: &mut KeyedRuns) -> usize {
    let steps = Rc::new(Cell::new(0));
    let merge = || Ok(Box::new(Newest { steps: Rc::clone(&steps), ..Newest::default() }) as Box<dyn Merge>);
    runs.work(&merge).expect("work");
    steps.get()
}

fn newest() -> Result<Box<dyn Merge>> {
    Ok(Box::new(Newest::default()))
}

fn put(runs: &mut KeyedRuns, rows: &Rows, restored: bool) {
    runs.put(&batch(rows), restored, &newest).expect("put");
}

/// The rows of these keys that are there.
fn found(runs: &KeyedRuns, keys: &BTreeSet<i64>) -> Rows {
    let hashes: BTreeSet<u64> = keys.iter().map(|key| hash_of(*key)).collect();
    let mut merge = Newest::default();
    assert!(runs.look_up(&hashes.into_iter().collect::<Vec<_>>(), usize::MAX, &mut merge).expect("looked up"));
    there(merge.rows, keys)
}

fn there(rows: Rows, keys: &BTreeSet<i64>) -> Rows {
    rows.into_iter().filter(|((key, _), (weight, _))| *weight != 0 && keys.contains(key)).collect()
}

/// Rows as a checkpoint copies them.
fn copied(runs: &KeyedRuns) -> Rows {
    let mut merge = Newest::default();
    for file in runs.files() {
        let rows = crate::decode_rows(file.content().expect("content").into()).expect("rows");
        assert_eq!(rows.iter().map(|rows| rows.num_rows() as u64).sum::<u64>(), file.rows);
        rows.iter().try_for_each(|rows| merge.add(rows)).expect("added");
    }
    merge.rows
}

fn check(seed: u64) {
    let folder = tempfile::tempdir().expect("folder");
    let mut rng = Rng::new(seed);
    let mut below = |end: usize| rng.below(end as u64) as usize;
    let filter_bytes = [0, 5_000, 1 << 20][below(3)];
    let runs = KeyedRuns::new(table(), folder.path().join("made"), filter_bytes).expect("runs");
    let mut runs = runs.with_file_bytes([1, 20_000, 1 << 30][below(3)]);
    let (mut expected, mut keys_of, mut version) = (Rows::new(), [100, 1000][below(2)], 0);
    // Rows that were restored have no order.
    let mut restored: Vec<Rows> = Vec::new();
    for _ in 0..below(12) {
        let mut rows = Rows::new();
        for _ in 0..below(200) {
            version += 1;
            rows.insert((below(keys_of) as i64, below(3) as i64), (below(3) as i64, version));
        }
        expected.extend(rows.clone());
        restored.push(rows);
    }
    while !restored.is_empty() {
        let rows = restored.swap_remove(below(restored.len()));
        put(&mut runs, &rows, true);
    }
    for _ in 0..30 {
        version += 1;
        let rows = (0..below(300)).map(|_| ((below(keys_of) as i64, below(3) as i64), (below(3) as i64, version)));
        let rows: Rows = rows.collect();
        put(&mut runs, &rows, false);
        expected.extend(rows);
        (0..below(20)).for_each(|_| _ = work(&mut runs));
        let wanted: BTreeSet<i64> = (0..below(50)).map(|_| below(keys_of * 2) as i64).collect();
        assert_eq!(found(&runs, &wanted), there(expected.clone(), &wanted), "seed {seed}");
        keys_of += below(10);
    }
    let everything: BTreeSet<i64> = (0..keys_of as i64).collect();
    assert!(there(copied(&runs), &everything) == there(expected, &everything), "seed {seed}");
}

#[test]
fn rows_are_found_whatever_was_merged_meanwhile() {
    (0..8).for_each(check);
}

#[test]
fn rows_that_are_gone_vanish_and_their_files_with_them() {
    let folder = tempfile::tempdir().expect("folder");
    let mut runs = KeyedRuns::new(table(), folder.path(), 1 << 20).expect("runs");
    for version in 0..80 {
        let rows = (0..500).map(|key| ((key, 0), ((version + 1) % 2, version)));
        put(&mut runs, &rows.collect(), false);
        (0..4).for_each(|_| _ = work(&mut runs));
    }
    let rows: u64 = runs.files().iter().map(|file| file.rows).sum();
    assert!(rows < 500 * 2 * FAN_IN as u64 * 3, "{rows} rows are kept of 500 keys, of which none is there");
    let more: Rows = (1..4).map(|version| ((0, 0), (0, 1000 + version))).collect();
    put(&mut runs, &more, false);
    (0..2000).for_each(|_| _ = work(&mut runs));
    assert!(runs.levels.most_runs() < FAN_IN);
}

/// A merge of all runs leaves nothing of keys that are gone, unless rows that were restored are elsewhere.
#[test]
fn a_row_that_is_gone_stays_while_an_earlier_one_may_be_elsewhere() {
    let gone: Rows = (0..100).map(|key| ((key, 0), (0, 7))).collect();
    let there: Rows = (0..100).map(|key| ((key, 0), (1, 5))).collect();
    let none = Rows::new();
    for then in [&gone, &there] {
        let folder = tempfile::tempdir().expect("folder");
        let mut runs = KeyedRuns::new(table(), folder.path(), 1 << 20).expect("runs");
        for rows in [&gone, &none, &gone, &gone, &gone, then] {
            put(&mut runs, rows, true);
        }
        (0..1000).for_each(|_| _ = work(&mut runs));
        assert!(found(&runs, &(0..100).collect()).is_empty());
        (0..3).for_each(|_| put(&mut runs, &gone, false));
        (0..1000).for_each(|_| _ = work(&mut runs));
        assert!(found(&runs, &(0..100).collect()).is_empty());
    }
}

/// What is over leaves the disk without a merge, also from levels that are merged seldom.
#[test]
fn runs_of_early_times_vanish_as_a_whole() {
    let folder = tempfile::tempdir().expect("folder");
    let latest = |times: &ArrayRef| Ok(times.as_primitive::<Int64Type>().values().iter().max().copied());
    let with_times = KeyedTable { time: Some((1, latest)), ..table() };
    let mut runs = KeyedRuns::new(with_times, folder.path(), 1 << 20).expect("runs");
    let put = |runs: &mut KeyedRuns, time: i64| {
        let rows = (0..100).map(|key| ((time * 100 + key, time), (1, time)));
        put(runs, &rows.collect(), false);
    };
    let times = |runs: &KeyedRuns| copied(runs).into_keys().map(|(_, time)| time).collect::<BTreeSet<i64>>();
    for time in 0..=20 {
        put(&mut runs, time);
        (0..50).for_each(|_| _ = work(&mut runs));
    }
    runs.remove_before(15);
    assert_eq!(times(&runs), (0..=20).collect(), "the highest level has a row that is needed");
    runs.remove_before(18);
    assert_eq!(times(&runs), (16..=20).collect());
    assert_eq!(found(&runs, &[1_599, 1_600, 1_800].into()).len(), 2);
    runs.remove_before(21);
    assert!(runs.is_empty() && runs.files().is_empty());
    let mut without_times = KeyedRuns::new(table(), folder.path(), 1 << 20).expect("runs");
    put(&mut without_times, 0);
    without_times.remove_before(i64::MAX);
    assert_eq!(times(&without_times), [0].into());
}

#[test]
fn merging_keeps_pace() {
    for batches_per_put in [1, 10] {
        let folder = tempfile::tempdir().expect("folder");
        let mut runs = KeyedRuns::new(table(), folder.path(), 1 << 20).expect("runs");
        let (mut most, mut steps) = (0, 0);
        for version in 0..80 {
            let rows = (0..500).map(|key| ((version * 500 + key, 0), (1, version)));
            put(&mut runs, &rows.collect(), false);
            for _ in 0..batches_per_put {
                steps = steps.max(work(&mut runs));
            }
            most = most.max(runs.levels.most_runs());
        }
        assert!(most < 2 * FAN_IN && steps < 30, "{batches_per_put}: {most} runs, {steps} steps at once");
        assert_eq!(found(&runs, &[3, 17_000, 39_999, 40_000].into()).len(), 3);
    }
}

/// A range is read in slices that have all rows of their keys, however close together the hashes are.
#[test]
fn a_range_is_read_in_slices() {
    let folder = tempfile::tempdir().expect("folder");
    let mut runs = KeyedRuns::new(table(), folder.path(), 1 << 20).expect("runs");
    let mut expected = Rows::new();
    for version in 0..3 {
        let rows: Rows = (0..2000).map(|value| ((value / 7, value % 7), (1, version))).collect();
        put(&mut runs, &rows, false);
        expected.extend(rows);
    }
    let (first, last) = (u64::MAX / 4, u64::MAX / 2);
    expected.retain(|(key, _), _| (first..=last).contains(&hash_of(*key)));
    let (mut from, mut slices, mut read) = (first, 0, Rows::new());
    loop {
        let end = runs.slice_end(&(from..=last), 4);
        let mut merge = Newest::default();
        runs.read(&(from..=end), &mut merge).expect("read");
        assert!(merge.rows.len() < 1200 && merge.rows.keys().all(|(key, _)| (from..=end).contains(&hash_of(*key))));
        read.extend(merge.rows);
        slices += 1;
        if end == last {
            break;
        }
        from = end + 1;
    }
    assert!(read == expected && slices > 2, "{slices} slices");
}

#[test]
fn keys_of_a_window_lie_together() {
    let hashes = hashes_of_window(1_000);
    assert!([0, 5, u64::MAX].iter().all(|hash| hashes.contains(&in_window(1_000, *hash))));
    assert!(in_window(1_000, 5) != in_window(1_000, 6) && !hashes.contains(&in_window(2_000, 5)));
}

#[test]
fn more_than_may_be_loaded_is_left() {
    let folder = tempfile::tempdir().expect("folder");
    let mut runs = KeyedRuns::new(table(), folder.path(), 1 << 20).expect("runs");
    let rows = (0..5000).map(|value| ((2, value), (1, 1))).chain([((4, 0), (1, 1))]);
    put(&mut runs, &rows.collect(), false);
    let look_up = |key, bytes| runs.look_up(&[hash_of(key)], bytes, &mut Newest::default()).expect("looked up");
    assert!(!look_up(2, 50_000) && look_up(4, 50_000) && look_up(2, 1 << 20) && look_up(9, 0));
    assert_eq!(found(&runs, &[2].into()).len(), 5000, "one key has many blocks");
}

/// The disk returns other bytes than were written: that is an error, and never becomes a result or a
/// checkpoint.
#[test]
fn damage_of_a_block_is_detected() {
    let folder = tempfile::tempdir().expect("folder");
    let mut runs = KeyedRuns::new(table(), folder.path(), 1 << 20).expect("runs");
    let rows: Rows = (0..1000).map(|key| ((key, 0), (1, 1))).collect();
    put(&mut runs, &rows, false);
    let all: BTreeSet<u64> = (0..1000).map(hash_of).collect();
    let all: Vec<u64> = all.into_iter().collect();
    let [file] = runs.files().try_into().expect("one file");
    for at in (0..file.bytes).step_by(4999) {
        file.damage(at, 0x10);
        let read = runs.look_up(&all, usize::MAX, &mut Newest::default());
        let errors: Vec<String> = read.err().into_iter().chain(file.content().err()).map(|e| e.to_string()).collect();
        assert!(!errors.is_empty() && errors.iter().all(|error| error.contains("is damaged")), "byte {at}: {errors:?}");
        file.damage(at, 0x10);
    }
    assert_eq!(found(&runs, &(0..1000).collect()).len(), 1000);
}

/// Files that are open: of runs, and of merges in progress.
fn most_files(puts: u32) -> usize {
    let levels = 1 + puts.ilog(FAN_IN as u32) as usize;
    levels * (RUNS_MAX + 1)
}

/// A batch may put many times, or never, and snapshots may freeze runs at any time.
#[test]
fn runs_are_few_whatever_the_order_of_puts_and_work_and_snapshots() {
    for seed in 0..8 {
        let folder = tempfile::tempdir().expect("folder");
        let mut rng = Rng::new(seed);
        let mut below = |end: usize| rng.below(end as u64) as usize;
        let mut runs = KeyedRuns::new(table(), folder.path(), [0, 1 << 20][below(2)]).expect("runs");
        let (mut expected, mut version, puts_per_batch) = (Rows::new(), 0, [1, 4, 40][below(3)]);
        let (mut frozen, mut before) = (0, BTreeSet::new());
        let restored = below(200);
        for step in 0..400 {
            version += 1;
            let rows: Rows = (0..1 + below(8)).map(|_| ((below(300) as i64, 0), (below(2) as i64, version))).collect();
            put(&mut runs, &rows, step < restored);
            expected.extend(rows);
            if step >= restored && below(puts_per_batch) == 0 {
                work(&mut runs);
            }
            if step > restored && below(40) == 0 {
                match frozen < 3 && below(2) == 0 {
                    true => {
                        before = runs.files().iter().map(|file| file.id).collect();
                        runs.freeze();
                        frozen += 1;
                    }
                    false => {
                        (frozen, before) = (0, BTreeSet::new());
                        runs.thaw();
                    }
                }
            }
            let files: BTreeSet<u64> = runs.files().iter().map(|file| file.id).collect();
            assert!(before.is_subset(&files), "seed {seed}, step {step}: a frozen run was merged");
            // Frozen runs were as few. What is thawed is merged by the next put.
            assert!(files.len() <= (1 + 3) * most_files(400), "seed {seed}, step {step}: {} files", files.len());
            if step > restored && frozen == 0 && runs.levels.most_runs() > RUNS_MAX {
                put(&mut runs, &Rows::new(), false);
                assert!(runs.levels.most_runs() <= RUNS_MAX, "seed {seed}, step {step}");
            }
        }
        let everything: BTreeSet<i64> = (0..300).collect();
        assert!(found(&runs, &everything) == there(expected, &everything), "seed {seed}");
    }
}

/// As a batch that is divided many times does: nothing is merged but by the puts.
#[test]
fn puts_without_batches_between_them_merge() {
    let folder = tempfile::tempdir().expect("folder");
    let mut runs = KeyedRuns::new(table(), folder.path(), 1 << 20).expect("runs");
    let mut most = 0;
    for version in 0..2_000 {
        let rows = (0..10).map(|key| ((version * 10 + key, 0), (1, version)));
        put(&mut runs, &rows.collect(), false);
        most = most.max(runs.files().len());
    }
    assert!(most < 6 * 2 * FAN_IN, "{most} files at once");
    assert_eq!(found(&runs, &[3, 17_000, 19_999, 20_000].into()).len(), 3);
}

/// With little memory, a restore writes many small runs.
#[test]
fn runs_that_are_restored_are_merged() {
    let folder = tempfile::tempdir().expect("folder");
    let mut runs = KeyedRuns::new(table(), folder.path(), 1 << 20).expect("runs");
    let mut rng = Rng::new(1);
    let mut versions: Vec<i64> = (0..1_000).collect();
    while !versions.is_empty() {
        let version = versions.swap_remove(rng.below(versions.len() as u64) as usize);
        put(&mut runs, &(0..10).map(|key| ((key, 0), (version % 2, version))).collect(), true);
        assert!(runs.files().len() <= 3 * RUNS_MAX);
    }
    // The last version of all keys is there.
    assert_eq!(found(&runs, &(0..10).collect()).len(), 10);
}

/// What a snapshot has of a key may be in none of the runs.
#[test]
fn rows_that_are_gone_stay_while_runs_are_frozen() {
    let folder = tempfile::tempdir().expect("folder");
    let mut runs = KeyedRuns::new(table(), folder.path(), 1 << 20).expect("runs");
    runs.freeze();
    for version in 0..40 {
        put(&mut runs, &[((version, 0), (0, version))].into(), false);
    }
    (0..100).for_each(|_| _ = work(&mut runs));
    assert_eq!(runs.files_since_freeze().iter().map(|file| file.rows).sum::<u64>(), 40);
    runs.thaw();
    (0..4).for_each(|version| put(&mut runs, &[((0, 0), (0, 100 + version))].into(), false));
    for version in 0..1_000 {
        put(&mut runs, &[((0, 0), (0, 200 + version))].into(), false);
    }
    (0..100).for_each(|_| _ = work(&mut runs));
    assert!(runs.files().iter().map(|file| file.rows).sum::<u64>() < 40);
}
