//! The first rows of windows: emitted once, when the window ends, after which no state is left. The rank
//! tests cover rows that are retracted.

use std::collections::BTreeMap;

use anabranch_dataflow::Ordering;
use anabranch_model::Rng;
use arrow::array::{AsArray, Int64Array, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{Field, Int64Type, Schema, TimeUnit};

use super::*;
use crate::Element;
use crate::keyed_state::files::{Files, Stated, options};

/// A row: key, last instant of its window, number.
type WindowRow = (i64, Option<i64>, i64);

const TIME: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

fn schema() -> SchemaRef {
    let field = |name: &str, of| Field::new(name, of, true);
    Arc::new(Schema::new(vec![field("k", DataType::Int64), field("w", TIME), field("n", DataType::Int64)]))
}

fn operator(limit: u64, disk_bytes: Option<usize>) -> FirstRows {
    let spec = RankSpec {
        keys: 2,
        order: vec![Ordering { descending: true, nulls_first: true }],
        limit,
        latest: false,
        schema: schema(),
        updating: false,
        output: vec![0, 2, 1],
        number: Some("number".to_owned()),
        window: Some(1),
        time_to_live_ms: None,
        zone: None,
    };
    FirstRows::new(&spec, &options(disk_bytes)).expect("an operator")
}

fn feed(rank: &mut FirstRows, rows: &[WindowRow]) {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
    ];
    let mut out = Output::default();
    rank.batch(RecordBatch::try_new(schema(), columns).expect("a batch"), &mut out).expect("rows");
    while rank.more(&mut out).expect("more") {}
    assert!(out.is_empty(), "rows wait for the end of their window");
}

/// Last instant of the window, key, number of the row, value.
fn fire(rank: &mut FirstRows, watermark: i64) -> Vec<[i64; 4]> {
    let (mut out, mut found, mut passed) = (Output::default(), Vec::new(), false);
    rank.watermark(EventTime(watermark), &mut out).expect("a watermark");
    while rank.more(&mut out).expect("more") {}
    for element in out.drain() {
        let Element::Batch(rows) = element else {
            passed = true;
            continue;
        };
        assert!(!passed, "a watermark overtook a row");
        let numbers = |column: usize| rows.column(column).as_primitive::<Int64Type>();
        let lasts = crate::event_time::event_times(rows.column(2)).expect("times");
        for row in 0..rows.num_rows() {
            found.push([lasts[row], numbers(0).value(row), numbers(3).value(row), numbers(1).value(row)]);
        }
    }
    assert!(passed);
    found
}

fn expected(rows: &[WindowRow], limit: u64) -> Vec<[i64; 4]> {
    let mut partitions: BTreeMap<(i64, i64), Vec<i64>> = BTreeMap::new();
    for (key, last, number) in rows {
        partitions.entry((last.expect("a time"), *key)).or_default().push(*number);
    }
    let mut first = Vec::new();
    for ((last, key), mut numbers) in partitions {
        numbers.sort_by(|a, b| b.cmp(a));
        let kept = numbers.into_iter().take(limit as usize);
        first.extend(kept.enumerate().map(|(place, number)| [last, key, place as i64 + 1, number]));
    }
    first
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let limit = [1, 3][rng.below(2) as usize];
    let disk_bytes = |rng: &mut Rng| [None, Some(2_000), Some(20_000)][rng.below(3) as usize];
    let mut bytes = disk_bytes(&mut rng);
    let (mut rank, mut files) = (operator(limit, bytes), Files::default());
    let (mut all, mut found, mut watermark) = (Vec::new(), Vec::new(), i64::MIN);
    for now in 0..60_i64 {
        let rows: Vec<WindowRow> = (0..rng.below(8))
            .map(|_| (rng.below(4) as i64, Some((now + rng.below(20) as i64) / 10 * 10 + 9), rng.below(30) as i64))
            .collect();
        let on_time: Vec<WindowRow> =
            rows.into_iter().filter(|row| row.1.is_some_and(|last| last > watermark)).collect();
        feed(&mut rank, &on_time);
        all.extend(on_time);
        if rng.below(3) == 0 {
            watermark = watermark.max(now - rng.below(5) as i64);
            found.extend(fire(&mut rank, watermark));
        }
        if rng.below(3) == 0 {
            files.take(&mut rank, rng.below(2) == 0);
            match rng.below(3) {
                0 => {
                    bytes = disk_bytes(&mut rng);
                    rank = operator(limit, bytes);
                    let goes_on = rng.below(2) == 0;
                    files.restore(&mut rank, goes_on, &mut |end| rng.below(end as u64) as usize);
                    rank.restored(EventTime(watermark)).expect("restored");
                }
                1 => {
                    let mut former = std::mem::replace(&mut rank, operator(limit, bytes));
                    rank.succeed(&mut former).expect("of the same kind");
                }
                _ => {}
            }
        }
    }
    found.extend(fire(&mut rank, i64::MAX));
    found.sort_unstable();
    assert_eq!(found, expected(&all, limit), "seed {seed}, the first {limit}");
    assert!(rank.state.rows.live_rows == 0 && rank.state.rows.live == 0, "state is left over");
}

#[test]
fn the_first_rows_of_a_window_are_those_of_all_its_rows() {
    (1..=200).for_each(run);
}

/// Many windows are open at once, of which one fires after the other: each is read in slices.
#[test]
fn windows_with_more_rows_than_memory_fire() {
    const BYTES: usize = 1 << 18;
    let (mut rank, mut all) = (operator(2, Some(BYTES)), Vec::new());
    for piece in 0..100_i64 {
        let rows: Vec<WindowRow> =
            (0..1000).map(|n| (n * 7 + piece, Some((n + piece) % 8 * 10 + 9), n * 31 % 1009)).collect();
        feed(&mut rank, &rows);
        assert!(rank.state.size_bytes() <= BYTES / 4, "{} bytes", rank.state.size_bytes());
        all.extend(rows);
    }
    let mut found = Vec::new();
    for window in 0..8 {
        found.extend(fire(&mut rank, window * 10 + 9));
        assert!(rank.state.size_bytes() <= BYTES / 4, "{} bytes", rank.state.size_bytes());
    }
    found.sort_unstable();
    assert!(found == expected(&all, 2), "{} rows", found.len());
}

#[test]
fn rows_of_a_window_that_has_ended_are_late() {
    let mut rank = operator(2, None);
    feed(&mut rank, &[(1, Some(9), 5), (1, Some(19), 6)]);
    assert_eq!(fire(&mut rank, 9), [[9, 1, 1, 5]]);
    feed(&mut rank, &[(1, Some(9), 7), (2, None, 7), (2, Some(19), 7)]);
    assert_eq!(rank.take_dropped(), Dropped { late_rows: 1, rows_without_event_time: 1, rows_with_null: 0 });
    assert_eq!(fire(&mut rank, 100), [[19, 1, 1, 6], [19, 2, 1, 7]]);
}

#[test]
fn rows_that_stay_need_no_more_memory_than_the_first_ones() {
    let field = |name: &str, of| Field::new(name, of, true);
    let schema =
        Schema::new(vec![field("k", DataType::Int64), field("n", DataType::Int64), field("t", DataType::Utf8View)]);
    let schema = Arc::new(schema);
    let spec = RankSpec {
        keys: 1,
        order: vec![Ordering { descending: true, nulls_first: true }],
        limit: 3,
        latest: false,
        schema: Arc::clone(&schema),
        updating: false,
        output: vec![0, 2, 1],
        number: None,
        window: None,
        time_to_live_ms: None,
        zone: None,
    };
    let (mut rank, mut out) = (FirstRows::new(&spec, &options(None)).expect("an operator"), Output::default());
    for number in 0..5000_i64 {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![number % 7])),
            Arc::new(Int64Array::from(vec![number])),
            Arc::new(StringViewArray::from(vec!["a text that is longer than twelve bytes"])),
        ];
        rank.batch(RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch"), &mut out).expect("a batch");
        while rank.more(&mut out).expect("more") {}
        out.drain().for_each(drop);
        if number % 100 == 0 {
            rank.snapshot(false).expect("a snapshot");
        }
    }
    assert_eq!((rank.state.rows.live_rows, rank.state.rows.live), (21, 7));
    // The rows of a hundred batches wait for the next snapshot.
    assert!(rank.state.rows.rows.len() < 200, "{} rows", rank.state.rows.rows.len());
    assert!(rank.state.size_bytes() < 1 << 16, "{} bytes", rank.state.size_bytes());
}

/// An earlier version kept all rows of a partition.
#[test]
fn more_than_the_first_rows_are_cut_when_they_are_read_from_the_disk() {
    let field = |name: &str| Field::new(name, DataType::Int64, true);
    let schema: SchemaRef = Arc::new(Schema::new(vec![field("k"), field("n")]));
    let operator = |limit: u64| {
        let order = vec![Ordering { descending: true, nulls_first: true }];
        let (schema, output) = (Arc::clone(&schema), vec![0, 1]);
        let spec = RankSpec {
            keys: 1,
            order,
            limit,
            latest: false,
            schema,
            updating: false,
            output,
            number: None,
            window: None,
            time_to_live_ms: None,
            zone: None,
        };
        FirstRows::new(&spec, &options(Some(1000))).expect("an operator")
    };
    let feed = |rank: &mut FirstRows, numbers: &[i64]| {
        let keys = Int64Array::from(vec![1; numbers.len()]);
        let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(Int64Array::from(numbers.to_vec()))];
        let mut out = Output::default();
        rank.batch(RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch"), &mut out).expect("rows");
        while rank.more(&mut out).expect("more") {}
        let mut changes = Vec::new();
        for element in out.drain() {
            let Element::Batch(rows) = element else { continue };
            let numbers = |column: usize| rows.column(column).as_primitive::<Int64Type>().values().to_vec();
            changes.extend(numbers(1).into_iter().zip(numbers(2)));
        }
        changes
    };
    let (mut rank, mut files) = (operator(9), Files::default());
    feed(&mut rank, &[5, 7, 7, 1, 3]);
    files.take(&mut rank, false);
    let mut rank = operator(3);
    files.restore(&mut rank, false, &mut |_| 0);
    assert_eq!(feed(&mut rank, &[4, 2]), []);
    assert_eq!(feed(&mut rank, &[9]), [(5, -1), (9, 1)]);
    assert_eq!(feed(&mut rank, &[8, 3]), [(7, -1), (8, 1)]);
}

/// Each row of a batch cost a walk over all rows of its partition.
#[test]
fn a_large_partition_is_restored() {
    let (mut rank, mut files) = (operator(100_000, None), Files::default());
    let rows = |from: i64| (from..from + 20_000).map(|n| (1, Some(9), n * 7_919 % 50_000)).collect::<Vec<_>>();
    let all: Vec<WindowRow> = [0, 20_000].into_iter().flat_map(rows).chain([(1, Some(9), 0); 3]).collect();
    all.chunks(8_192).for_each(|rows| feed(&mut rank, rows));
    files.take(&mut rank, false);
    feed(&mut rank, &all[..10]);
    files.take(&mut rank, true);
    let mut rank = operator(100_000, None);
    files.restore(&mut rank, false, &mut |len| len - 1);
    let all: Vec<WindowRow> = all.iter().chain(&all[..10]).copied().collect();
    assert!(fire(&mut rank, 9) == expected(&all, 100_000));
}
