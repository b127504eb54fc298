//! Sessions against a recomputation over the sorted rows: with rows out of order, snapshots, and restored
//! operators.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dataflow::{AggregatePhase, AggregateSpec, Expr, NamedExpr};
use anabranch_model::Rng;
use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{Field, Int64Type, Schema, TimeUnit, TimestampMillisecondType};

use super::*;
use crate::Element;
use crate::keyed_state::files::{Files, Stated, options};

const GAP: i64 = 10;
const TIME: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

/// A row: key, time, value.
type Row = (Option<&'static str>, Option<i64>, Option<i64>);
/// A session: key, start, end, number of rows, sum, least value, distinct values.
type Result4 = (Option<String>, i64, i64, i64, Option<i64>, Option<i64>, i64);

const KEYS: [Option<&str>; 5] = [Some("a"), Some("b"), None, Some("a key of more than twelve bytes"), Some("d")];

fn operator(keys: usize, disk_bytes: Option<usize>) -> SessionAggregate {
    let call = |name: &str, function: &str, arg: Expr, distinct: bool| AggregateSpec {
        name: name.into(),
        function: function.into(),
        args: vec![arg],
        distinct,
        filter: None,
        data_type: DataType::Int64,
        nullable: true,
    };
    let key = NamedExpr { name: "key".into(), expr: Expr::Column(0), data_type: DataType::Utf8View, nullable: true };
    let spec = WindowAggregateSpec {
        phase: AggregatePhase::Complete,
        window: Window::Session { gap_ms: GAP },
        time: Some(Expr::Column(1)),
        time_type: TIME,
        keys: vec![key; keys],
        aggregates: vec![
            call("n", "count", Expr::number(1), false),
            call("total", "sum", Expr::Column(2), false),
            call("least", "min", Expr::Column(2), false),
            call("different", "count", Expr::Column(2), true),
        ],
        input_schema: schema(),
        zone: None,
    };
    SessionAggregate::new(&spec, &Functions::default(), &options(disk_bytes)).expect("valid")
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8View, true),
        Field::new("ts", TIME, true),
        Field::new("value", DataType::Int64, true),
    ]))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).expect("a batch")
}

fn feed(operator: &mut SessionAggregate, rows: &[Row]) {
    let mut out = Output::default();
    operator.batch(batch(rows), &mut out).expect("rows");
    while operator.more(&mut out).expect("more") {}
    assert!(out.is_empty(), "sessions end by watermarks");
}

/// The sessions that end at the watermark.
fn fire(operator: &mut SessionAggregate, watermark: i64) -> Vec<Result4> {
    let (mut out, mut found) = (Output::default(), Vec::new());
    operator.watermark(EventTime(watermark), &mut out).expect("a watermark");
    while operator.more(&mut out).expect("more") {}
    let mut passed = None;
    for element in out.drain() {
        match element {
            Element::Batch(rows) => {
                assert!(passed.is_none(), "a watermark overtook a row");
                found.extend(results(&rows));
            }
            Element::Watermark(time) => passed = Some(time.0),
        }
    }
    let expected = if watermark == i64::MAX { watermark } else { watermark - 1 };
    assert_eq!(passed, Some(expected));
    found.sort();
    found
}

fn results(rows: &RecordBatch) -> Vec<Result4> {
    let keys = rows.columns().len() - 7;
    let time =
        |column: usize, row: usize| rows.column(keys + column).as_primitive::<TimestampMillisecondType>().value(row);
    let number = |column: usize, row: usize| {
        let numbers = rows.column(keys + column).as_primitive::<Int64Type>();
        numbers.is_valid(row).then(|| numbers.value(row))
    };
    let key = |row: usize| {
        let texts = (keys > 0).then(|| rows.column(0).as_string_view());
        texts.filter(|texts| texts.is_valid(row)).map(|texts| texts.value(row).to_owned())
    };
    let of = |row: usize| {
        assert_eq!(time(2, row), time(1, row) - 1, "window_time is the last moment");
        let counts = (number(3, row).expect("a count"), number(6, row).expect("a count"));
        (key(row), time(0, row), time(1, row), counts.0, number(4, row), number(5, row), counts.1)
    };
    (0..rows.num_rows()).map(of).collect()
}

/// The sessions of all of these rows.
fn expected(rows: &[Row], keyed: bool) -> Vec<Result4> {
    let mut of_keys: BTreeMap<Option<&str>, Vec<(i64, Option<i64>)>> = BTreeMap::new();
    for (key, time, value) in rows {
        let key = key.filter(|_| keyed);
        of_keys.entry(key).or_default().extend(time.map(|time| (time, *value)));
    }
    let mut sessions = Vec::new();
    for (key, mut rows) in of_keys {
        rows.sort_unstable();
        let mut rest = &rows[..];
        while !rest.is_empty() {
            let len = rest.windows(2).position(|two| two[1].0 - two[0].0 > GAP).map_or(rest.len(), |place| place + 1);
            let (own, others) = rest.split_at(len);
            let values: Vec<i64> = own.iter().filter_map(|row| row.1).collect();
            let total = (!values.is_empty()).then(|| values.iter().sum());
            let different = values.iter().collect::<BTreeSet<_>>().len() as i64;
            let (start, end) = (own[0].0, own[len - 1].0 + GAP);
            let key = key.map(str::to_owned);
            sessions.push((key, start, end, len as i64, total, values.iter().min().copied(), different));
            rest = others;
        }
    }
    sessions.sort();
    sessions
}

/// A new operator, which gets the files in any order.
fn restored(files: &mut Files, mut operator: SessionAggregate, watermark: i64, rng: &mut Rng) -> SessionAggregate {
    let goes_on = rng.below(2) == 0;
    files.restore(&mut operator, goes_on, &mut |end| rng.below(end as u64) as usize);
    operator.restored(EventTime(watermark)).expect("restored");
    operator
}

fn check(seed: u64, keys: usize) {
    let mut rng = Rng::new(seed);
    let disk_bytes = |rng: &mut Rng| [None, Some(3_000), Some(30_000)][rng.below(3) as usize];
    let mut bytes = disk_bytes(&mut rng);
    let (mut sessions, mut files) = (operator(keys, bytes), Files::default());
    let (mut all, mut found, mut watermark) = (Vec::new(), Vec::new(), i64::MIN);
    for step in 0..120_i64 {
        let now = step * 6;
        let rows: Vec<Row> = (0..rng.below(12))
            .map(|_| {
                // Some keys have long sessions, others short ones. No row is behind the watermark.
                let key = KEYS[(rng.below(5) * rng.below(5) / 4) as usize];
                let time = (now + rng.below(30) as i64).max(watermark.saturating_add(1));
                let value = (rng.below(5) > 0).then(|| rng.below(9) as i64);
                (key, Some(time).filter(|_| rng.below(20) > 0), value)
            })
            .collect();
        feed(&mut sessions, &rows);
        all.extend(rows);
        if rng.below(2) == 0 {
            watermark = watermark.max(now - rng.below(15) as i64);
            found.extend(fire(&mut sessions, watermark));
        }
        match rng.below(6) {
            0 | 1 => files.take(&mut sessions, rng.below(2) == 0),
            2 => {
                files.take(&mut sessions, rng.below(2) == 0);
                bytes = disk_bytes(&mut rng);
                sessions = restored(&mut files, operator(keys, bytes), watermark, &mut rng);
            }
            3 => {
                let mut former = std::mem::replace(&mut sessions, operator(keys, bytes));
                sessions.succeed(&mut former).expect("of the same kind");
            }
            _ => {}
        }
    }
    found.extend(fire(&mut sessions, i64::MAX));
    found.sort();
    assert_eq!(found, expected(&all, keys > 0), "seed {seed}, {keys} keys");
    assert!(sessions.state.rows.sessions.is_empty() && sessions.state.rows.ends.is_empty(), "state is left over");
    assert_eq!((sessions.state.rows.pieces.size_bytes(), sessions.state.rows.live_keys), (0, 0), "state is left over");
    assert!(sessions.state.due.is_empty(), "keys are left over");
}

#[test]
fn sessions_are_those_of_all_rows_whatever_comes_first() {
    for seed in 0..15 {
        check(seed, 1);
        check(seed, 0);
    }
}

#[test]
fn a_row_between_two_sessions_makes_one_of_them() {
    let mut sessions = operator(1, None);
    feed(&mut sessions, &[(Some("a"), Some(0), Some(1)), (Some("a"), Some(20), Some(2)), (Some("b"), Some(9), None)]);
    feed(&mut sessions, &[(Some("a"), Some(10), Some(4))]);
    assert_eq!(fire(&mut sessions, 29), [(Some("b".to_owned()), 9, 19, 1, None, None, 0)]);
    assert_eq!(fire(&mut sessions, 30), [(Some("a".to_owned()), 0, 30, 3, Some(7), Some(1), 3)]);
}

#[test]
fn a_row_is_late_if_its_session_has_ended_with_all_that_it_meets() {
    let mut sessions = operator(1, None);
    feed(&mut sessions, &[(Some("a"), Some(0), Some(1)), (Some("b"), Some(8), Some(1))]);
    assert_eq!(fire(&mut sessions, 15).len(), 1);
    // Alone it would have ended at 12. It merges with a session that has not ended.
    feed(&mut sessions, &[(Some("b"), Some(2), Some(2))]);
    assert_eq!(sessions.take_dropped(), Dropped::default());
    feed(&mut sessions, &[(Some("a"), Some(2), Some(2)), (Some("a"), Some(3), Some(2)), (Some("a"), None, None)]);
    let dropped = Dropped { late_rows: 2, rows_without_event_time: 1, rows_with_null: 0 };
    assert_eq!(sessions.take_dropped(), dropped);
    // The previous session has ended: this one is another.
    feed(&mut sessions, &[(Some("a"), Some(9), Some(3))]);
    assert_eq!(
        fire(&mut sessions, i64::MAX),
        [(Some("a".to_owned()), 9, 19, 1, Some(3), Some(3), 1), (Some("b".to_owned()), 2, 18, 2, Some(3), Some(1), 2)]
    );
    assert_eq!(sessions.take_dropped(), Dropped::default());
}

#[test]
fn a_session_that_has_fired_does_not_come_back_with_a_restore() {
    let (mut sessions, mut files, mut rng) = (operator(1, None), Files::default(), Rng::new(1));
    feed(&mut sessions, &[(Some("a"), Some(0), Some(1)), (Some("b"), Some(100), Some(1))]);
    files.take(&mut sessions, false);
    assert_eq!(fire(&mut sessions, 12).len(), 1);
    feed(&mut sessions, &[(Some("a"), Some(9), Some(5))]);
    files.take(&mut sessions, false);
    let mut restored = restored(&mut files, operator(1, None), 12, &mut rng);
    let fired = fire(&mut restored, 50);
    assert_eq!(fired, [(Some("a".to_owned()), 9, 19, 1, Some(5), Some(5), 1)]);
}

/// Keys come back, and sessions end all the time, while most of them are on the disk.
#[test]
fn more_sessions_than_memory_are_open() {
    const BYTES: usize = 1 << 18;
    let mut sessions = operator(1, Some(BYTES));
    let keys: Vec<String> = (0..6_000).map(|key| format!("key number {key}")).collect();
    let keys: Vec<&'static str> = keys.into_iter().map(|key| &*key.leak()).collect();
    let (mut rng, mut all, mut found) = (Rng::new(7), Vec::new(), Vec::new());
    for step in 0..60_i64 {
        let row = |_| (Some(keys[rng.below(6_000) as usize]), Some(step * 2 + rng.below(3) as i64), Some(step % 9));
        let rows: Vec<Row> = (0..400).map(row).collect();
        feed(&mut sessions, &rows);
        all.extend(rows);
        assert!(sessions.state.size_bytes() <= BYTES / 4, "{} bytes", sessions.state.size_bytes());
        if step % 10 == 9 {
            found.extend(fire(&mut sessions, step * 2));
            assert!(sessions.state.size_bytes() <= BYTES / 4, "{} bytes", sessions.state.size_bytes());
        }
    }
    found.extend(fire(&mut sessions, i64::MAX));
    found.sort();
    assert!(found == expected(&all, true), "{} sessions", found.len());
}

#[test]
fn state_beyond_its_bound_stops_the_job_with_a_remedy() {
    let mut sessions = operator(1, None);
    sessions.state.bytes_max = 1 << 14;
    let rows: Vec<Row> = (0..1000).map(|n| (Some("a"), Some(n * 20), Some(n))).collect();
    let error = sessions.batch(batch(&rows), &mut Output::default()).expect_err("too much");
    assert!(error.to_string().contains("state-bytes"), "{error}");
}

#[test]
fn a_time_without_a_session_is_refused_and_not_wrapped() {
    let row: Row = (Some("a"), Some(i64::MAX - 5), Some(1));
    let error = operator(1, None).batch(batch(&[row]), &mut Output::default()).expect_err("out of range");
    assert!(error.to_string().contains("out of range"), "{error}");
}
