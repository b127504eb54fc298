//! The emitted rows against all rows, sorted anew: with rows out of order, late rows, snapshots, and restored
//! operators.

use std::cmp::Ordering as Compared;

use anabranch_model::Rng;
use arrow::array::{AsArray, Int64Array, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{Field, Int64Type, Schema, SchemaRef, TimeUnit};

use super::*;
use crate::Element;
use crate::keyed_state::files::{Files, options};

/// A row: time, value, text, and its number.
type Row = (Option<i64>, Option<i64>, &'static str, i64);

const TIME: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);
const TEXTS: [&str; 3] = ["x", "a text of more than twelve bytes", "a text of more than twelve letters"];
const UP: Ordering = Ordering { descending: false, nulls_first: true };
const DOWN: Ordering = Ordering { descending: true, nulls_first: true };
const DOWN_NULLS_LAST: Ordering = Ordering { descending: true, nulls_first: false };

fn specs() -> Vec<SortSpec> {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("ts", TIME, true),
        Field::new("value", DataType::Int64, true),
        Field::new("text", DataType::Utf8View, false),
        Field::new("number", DataType::Int64, false),
    ]));
    let orders = [
        (Some(0), vec![]),
        (Some(0), vec![(1, UP)]),
        (Some(0), vec![(2, DOWN), (1, DOWN_NULLS_LAST)]),
        (None, vec![(1, DOWN)]),
        (None, vec![(1, DOWN_NULLS_LAST), (2, UP)]),
        (None, vec![(2, UP), (0, DOWN_NULLS_LAST)]),
    ];
    orders.into_iter().map(|(time, order)| SortSpec { time, order, schema: Arc::clone(&schema) }).collect()
}

/// `disk`: the memory limit of an operator with a disk.
fn operator(spec: &SortSpec, disk: Option<usize>) -> Sort {
    Sort::new(spec, &options(disk)).expect("valid")
}

fn batch(spec: &SortSpec, rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.2)).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|row| row.3).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(Arc::clone(&spec.schema), columns).expect("a batch")
}

/// Advances event time, and records the numbers of the emitted rows.
fn fire(sort: &mut Sort, watermark: i64, found: &mut Vec<i64>) {
    let mut out = Output::default();
    sort.watermark(EventTime(watermark), &mut out).expect("a watermark");
    while sort.more(&mut out).expect("more") {}
    let mut passed = Vec::new();
    for element in out.drain() {
        match element {
            Element::Batch(rows) => {
                assert!(passed.is_empty(), "a watermark overtook a row");
                assert!(rows.num_rows() <= RESULT_ROWS);
                found.extend(rows.column(3).as_primitive::<Int64Type>().values());
            }
            Element::Watermark(time) => passed.push(time.0),
        }
    }
    let passes = sort.spec.time.is_some() || watermark == i64::MAX;
    assert_eq!(passed.len(), usize::from(passes), "the watermark is passed on once");
}

fn compare(a: &Row, b: &Row, spec: &SortSpec) -> Compared {
    fn of<T: Ord>(a: Option<T>, b: Option<T>, order: Ordering) -> Compared {
        match (a, b) {
            (Some(a), Some(b)) if order.descending => b.cmp(&a),
            (Some(a), Some(b)) => a.cmp(&b),
            (a, b) if order.nulls_first => a.is_some().cmp(&b.is_some()),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
    let by_time = spec.time.map_or(Compared::Equal, |_| a.0.cmp(&b.0));
    spec.order.iter().fold(by_time, |before, (column, order)| {
        before.then_with(|| match column {
            0 => of(a.0, b.0, *order),
            1 => of(a.1, b.1, *order),
            _ => of(Some(a.2), Some(b.2), *order),
        })
    })
}

fn run(seed: u64, spec: &SortSpec) {
    let mut rng = Rng::new(seed);
    // A checkpoint may be restored with the other backend.
    let disk = |rng: &mut Rng| [None, Some(100), Some(4_000), Some(20_000)][rng.below(4) as usize];
    let mut bytes = disk(&mut rng);
    let (mut sort, mut files) = (operator(spec, bytes), Files::default());
    let (mut all, mut found, mut watermark) = (Vec::new(), Vec::new(), i64::MIN);
    let mut lost = (0, 0);
    for step in 0..60_i64 {
        let now = step * 2;
        let row = |number: u64, rng: &mut Rng| {
            let time = Some(now + rng.below(12) as i64).filter(|_| rng.below(20) > 0);
            let value = (rng.below(5) > 0).then(|| rng.below(4) as i64);
            (time, value, TEXTS[rng.below(3) as usize], step * 10 + number as i64)
        };
        let rows: Vec<Row> = (0..rng.below(8)).map(|number| row(number, &mut rng)).collect();
        let mut out = Output::default();
        sort.batch(batch(spec, &rows), &mut out).expect("rows");
        assert!(out.is_empty(), "rows wait for the watermark");
        let is_late = |row: &Row| row.0.is_some_and(|time| time <= watermark);
        if spec.time.is_some() {
            lost.0 += rows.iter().filter(|row| is_late(row)).count() as u64;
            lost.1 += rows.iter().filter(|row| row.0.is_none()).count() as u64;
        }
        all.extend(rows.into_iter().filter(|row| spec.time.is_none() || row.0.is_some() && !is_late(row)));
        let dropped = sort.take_dropped();
        lost = (lost.0 - dropped.late_rows, lost.1 - dropped.rows_without_event_time);
        if rng.below(3) == 0 {
            watermark = watermark.max(now - rng.below(5) as i64);
            fire(&mut sort, watermark, &mut found);
        }
        if rng.below(3) > 0 {
            continue;
        }
        files.take(&mut sort, rng.below(4) == 0);
        match rng.below(3) {
            0 => {
                bytes = disk(&mut rng);
                sort = operator(spec, bytes);
                files.restore(&mut sort, false, &mut |len| rng.below(len as u64) as usize);
                sort.restored(EventTime(watermark)).expect("restored");
                if rng.below(2) == 0 {
                    sort.goes_on();
                } else {
                    files = Files::default();
                    files.take(&mut sort, false);
                }
            }
            1 => {
                let mut former = std::mem::replace(&mut sort, operator(spec, bytes));
                sort.succeed(&mut former).expect("of the same kind");
            }
            _ => {}
        }
    }
    fire(&mut sort, i64::MAX, &mut found);
    all.sort_by(|a, b| compare(a, b, spec));
    let expected: Vec<i64> = all.iter().map(|row| row.3).collect();
    assert_eq!(found, expected, "seed {seed}, {spec}");
    assert_eq!(lost, (0, 0), "late rows and rows without a time are counted");
    assert!(sort.waiting.is_empty());
}

#[test]
fn rows_leave_in_their_order() {
    for spec in specs() {
        (1..=30).for_each(|seed| run(seed, &spec));
    }
}

#[test]
fn a_restored_sort_whose_input_has_ended_has_no_rows() {
    for spec in specs() {
        let (mut sort, mut files, mut found) = (operator(&spec, None), Files::default(), Vec::new());
        sort.batch(batch(&spec, &[(Some(5), None, TEXTS[0], 1)]), &mut Output::default()).expect("rows");
        files.take(&mut sort, false);
        fire(&mut sort, i64::MAX, &mut found);
        files.take(&mut sort, false);
        let mut sort = operator(&spec, None);
        files.restore(&mut sort, false, &mut |_| 0);
        sort.restored(EventTime::MAX).expect("restored");
        fire(&mut sort, i64::MAX, &mut found);
        assert_eq!(found, [1], "{spec}");
    }
}

#[test]
fn many_rows_leave_in_pieces() {
    for spec in specs() {
        let rows: Vec<Row> = (0..2 * RESULT_ROWS as i64 + 5).map(|n| (Some(7), Some(n % 3), TEXTS[0], n)).collect();
        let (mut sort, mut found) = (operator(&spec, None), Vec::new());
        sort.batch(batch(&spec, &rows), &mut Output::default()).expect("rows");
        fire(&mut sort, i64::MAX, &mut found);
        assert_eq!(found.len(), rows.len());
    }
}

/// The number of NULL and of the greatest value is the highest there is.
#[test]
fn rows_at_the_end_of_the_order_leave_from_the_disk() {
    let (template, values) = (&specs()[0], [None, Some(i64::MAX), Some(7), Some(i64::MIN)]);
    for (descending, nulls_first) in [(false, false), (false, true), (true, false), (true, true)] {
        let order = vec![(1, Ordering { descending, nulls_first })];
        let spec = SortSpec { time: None, order, schema: Arc::clone(&template.schema) };
        let (mut sort, mut found) = (operator(&spec, Some(3_000)), Vec::new());
        let rows: Vec<Row> = (0..4_000).map(|n| (Some(n), values[(n * n % 13 % 4) as usize], TEXTS[1], n)).collect();
        for batch_of in rows.chunks(100) {
            sort.batch(batch(&spec, batch_of), &mut Output::default()).expect("rows");
        }
        fire(&mut sort, i64::MAX, &mut found);
        let mut expected = rows;
        expected.sort_by(|a, b| compare(a, b, &spec));
        assert_eq!(found, expected.iter().map(|row| row.3).collect::<Vec<_>>(), "{spec}");
        fire(&mut sort, i64::MAX, &mut found);
        assert_eq!(found.len(), expected.len(), "no row leaves twice");
    }
}

/// Merges read some megabytes at once, whatever the memory for state.
#[test]
fn wide_rows_are_merged_with_little_memory() {
    let (spec, wide) = (&specs()[3], &*"a wide text ".repeat(30).leak());
    let (mut sort, mut found) = (operator(spec, Some(1 << 18)), Vec::new());
    let rows: Vec<Row> = (0..30_000).map(|n| (Some(n), Some(n * 7919 % 30_000), wide, n)).collect();
    for rows in rows.chunks(500) {
        sort.batch(batch(spec, rows), &mut Output::default()).expect("rows");
    }
    fire(&mut sort, i64::MAX, &mut found);
    let values: Vec<i64> = found.iter().map(|n| n * 7919 % 30_000).collect();
    assert!(values.len() == rows.len() && values.is_sorted_by(|a, b| a > b));
}

#[test]
fn rows_of_one_number_that_do_not_fit_into_memory_are_an_error() {
    let spec = &specs()[3];
    let rows: Vec<Row> = (0..80_000).map(|n| (Some(n), Some(1), TEXTS[1], n)).collect();
    let mut sort = operator(spec, Some(3_000));
    let taken: Result<()> =
        rows.chunks(1_000).try_for_each(|rows| sort.batch(batch(spec, rows), &mut Output::default()));
    let error = taken.and_then(|()| sort.watermark(EventTime::MAX, &mut Output::default())).expect_err("too much");
    assert!(error.to_string().contains("of its state at once"), "{error}");
}

#[test]
fn rows_that_take_too_much_memory_are_an_error() {
    let spec = &specs()[0];
    let mut sort = operator(spec, None);
    sort.bytes_max = 10;
    let error = sort.batch(batch(spec, &[(Some(5), None, TEXTS[0], 1)]), &mut Output::default()).expect_err("too much");
    assert!(error.to_string().contains("state of this task"), "{error}");
}
