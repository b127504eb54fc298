//! Rows whose event times may be a bounded length apart: at the end of their time they are forgotten, and are
//! emitted without a match.

use anabranch_dataflow::ExpirySpec;
use arrow::array::{Int64Array, TimestampMillisecondArray};
use arrow::datatypes::TimeUnit;

use super::*;
use crate::event_time::event_times;

/// Key, event time, number.
type Row = (i64, i64, i64);

/// The event time of a right row is that of a left one plus `from` to `to` ms.
#[derive(Clone, Copy, Debug)]
struct Way {
    kind: StreamJoinKind,
    from: i64,
    to: i64,
    /// Both bounds are equal: the time is a key.
    of_windows: bool,
}

fn spec(way: Way) -> StreamJoinSpec {
    let fields = vec![
        Field::new("k", DataType::Int64, false),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("n", DataType::Int64, false),
    ];
    let side = |after_ms| StreamSideSpec {
        schema: Arc::new(Schema::new(fields.clone())),
        updating: false,
        expiry: Some(ExpirySpec { time: 1, after_ms }),
        time_to_live_ms: None,
    };
    let column = |index| Box::new(Expr::Column(index));
    let shifted = |ms: i64| {
        Box::new(Expr::Binary { op: BinaryOp::Plus, left: column(1), right: Box::new(Expr::interval_ms(ms)) })
    };
    let bound = |op, ms| Expr::Binary { op, left: column(4), right: shifted(ms) };
    let within = Expr::Binary {
        op: BinaryOp::And,
        left: Box::new(bound(BinaryOp::GtEq, way.from)),
        right: Box::new(bound(BinaryOp::LtEq, way.to)),
    };
    StreamJoinSpec {
        kind: way.kind,
        keys: if way.of_windows { 2 } else { 1 },
        nulls_equal: false,
        filter: (!way.of_windows).then_some(within),
        left: side(way.to),
        right: side(-way.from),
        output: if way.kind.gives_pairs() { vec![0, 1, 2, 3, 4, 5] } else { vec![0, 1, 2] },
        delay_ms: 0,
        versions: None,
        zone: None,
    }
}

const DISK_BYTES: [Option<usize>; 3] = [None, Some(1000), Some(100_000)];

/// State of more than `disk_bytes` is on disk.
fn operator(way: Way, disk_bytes: Option<usize>) -> StreamJoin {
    StreamJoin::new(&spec(way), &Functions::default(), &options(disk_bytes)).expect("an operator")
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
    ];
    RecordBatch::try_from_iter(["k", "t", "n"].into_iter().zip(columns)).expect("a batch")
}

/// Adds the rows that the operator emits.
fn drain(found: &mut BTreeMap<Vec<Option<i64>>, i64>, join: &mut StreamJoin, mut out: Output) -> Option<EventTime> {
    while join.more(&mut out).expect("more") {}
    let mut passed = None;
    for element in out.drain() {
        match element {
            Element::Watermark(watermark) => passed = Some(watermark),
            Element::Batch(rows) => {
                assert_eq!(passed, None, "the watermark passes on after the rows that it causes");
                for row in 0..rows.num_rows() {
                    let cell = |column: &ArrayRef| match column.data_type() {
                        _ if column.is_null(row) => None,
                        DataType::Int64 => Some(column.as_primitive::<Int64Type>().value(row)),
                        _ => Some(event_times(column).expect("times")[row]),
                    };
                    *found.entry(rows.columns().iter().map(cell).collect()).or_default() += 1;
                }
            }
        }
    }
    passed
}

/// The join of these rows when event time has reached `now`.
fn results(way: Way, left: &[Row], right: &[Row], now: i64) -> BTreeMap<Vec<Option<i64>>, i64> {
    let matches = |l: &Row, r: &Row| l.0 == r.0 && (l.1 + way.from..=l.1 + way.to).contains(&r.1);
    let cells = |row: &Row| [Some(row.0), Some(row.1), Some(row.2)];
    let mut results = BTreeMap::new();
    let mut add = |row: Vec<Option<i64>>| *results.entry(row).or_default() += 1;
    let (pads_left, pads_right) = way.kind.pads();
    for l in left {
        let found: Vec<&Row> = right.iter().filter(|r| matches(l, r)).collect();
        let is_over = l.1 + way.to <= now;
        match way.kind {
            StreamJoinKind::LeftSemi if !found.is_empty() => add(cells(l).to_vec()),
            StreamJoinKind::LeftAnti if found.is_empty() && is_over => add(cells(l).to_vec()),
            kind if kind.gives_pairs() => {
                found.iter().for_each(|r| add([cells(l), cells(r)].concat()));
                if found.is_empty() && pads_left && is_over {
                    add([cells(l), [None; 3]].concat());
                }
            }
            _ => {}
        }
    }
    for r in right.iter().filter(|r| pads_right && r.1 - way.from <= now) {
        if !left.iter().any(|l| matches(l, r)) {
            add([[None; 3], cells(r)].concat());
        }
    }
    results
}

fn difference(found: &BTreeMap<Vec<Option<i64>>, i64>, expected: &BTreeMap<Vec<Option<i64>>, i64>) -> String {
    let only = |of: &BTreeMap<_, i64>, other: &BTreeMap<_, i64>| {
        let rows = of.iter().filter(|(row, count)| other.get(*row) != Some(*count));
        rows.map(|row| format!("{row:?}")).collect::<Vec<_>>().join(" ")
    };
    format!("found {}, expected {}", only(found, expected), only(expected, found))
}

/// Runs random rows, each later than the watermark, which rises now and then.
fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut below = |end: i64| rng.below(end as u64) as i64;
    let of_windows = below(3) == 0;
    let from = if of_windows { 0 } else { below(300) - 200 };
    let to = if of_windows { 0 } else { from + below(200) };
    let way = Way { kind: KINDS[below(6) as usize], from, to, of_windows };
    let mut disk = DISK_BYTES[below(3) as usize];
    let (mut now, mut found, mut watermark) = (operator(way, disk), BTreeMap::new(), 0);
    let mut rows: [Vec<Row>; 2] = [Vec::new(), Vec::new()];
    Operator::watermark(&mut now, EventTime(watermark), &mut Output::default()).expect("a watermark");
    let (mut files, mut then) = (Files::default(), (rows.clone(), found.clone(), watermark));
    for _ in 0..60 {
        match below(9) {
            0 => {
                files.take(&mut now, below(4) == 0);
                then = (rows.clone(), found.clone(), watermark);
            }
            1 if !files.is_empty() => {
                disk = DISK_BYTES[below(3) as usize];
                now = operator(way, disk);
                (rows, found, watermark) = then.clone();
                files.restore(&mut now, false, &mut |end| below(end as i64) as usize);
                now.restored(EventTime(watermark)).expect("restored");
                if below(2) == 0 {
                    now.goes_on();
                }
            }
            2..4 => {
                watermark += below(120);
                let mut out = Output::default();
                Operator::watermark(&mut now, EventTime(watermark), &mut out).expect("a watermark");
                assert_eq!(drain(&mut found, &mut now, out), Some(EventTime(watermark)), "seed {seed}");
            }
            _ => {
                let side = below(2) as usize;
                let step = if of_windows { 50 } else { 1 };
                let time = |after: i64| (watermark / step + 1 + after / step) * step;
                let new: Vec<Row> = (0..below(8)).map(|_| (below(3), time(below(150)), below(3))).collect();
                let mut out = Output::default();
                match side {
                    0 => now.batch(batch(&new), &mut out).expect("a batch"),
                    _ => now.input_batch(1, batch(&new), &mut out).expect("a batch"),
                }
                rows[side].extend(new);
                drain(&mut found, &mut now, out);
            }
        }
        let expected = results(way, &rows[0], &rows[1], watermark);
        assert!(found == expected, "seed {seed}, {way:?}, {disk:?}: {}", difference(&found, &expected));
    }
    watermark = i64::MAX - 1;
    let mut out = Output::default();
    Operator::watermark(&mut now, EventTime(watermark), &mut out).expect("a watermark");
    drain(&mut found, &mut now, out);
    let expected = results(way, &rows[0], &rows[1], i64::MAX / 2);
    assert!(found == expected, "seed {seed}, {way:?}, {disk:?}: {}", difference(&found, &expected));
    assert_eq!((now.side(JoinSide::Left).live, now.side(JoinSide::Right).live), (0, 0), "seed {seed}");
}

#[test]
fn rows_match_while_they_may_and_appear_without_a_match_at_the_end_of_their_time() {
    (1..=150).for_each(run);
}

#[test]
fn state_stays_flat_over_a_long_stream() {
    let way = Way { kind: StreamJoinKind::Full, from: -100, to: 100, of_windows: false };
    let (mut join, mut found, mut files) = (operator(way, None), BTreeMap::new(), Files::default());
    let mut most = 0;
    for second in 0..200 {
        let rows: Vec<Row> = (0..100).map(|row| (row % 7, second * 1000 + row * 10, row)).collect();
        for side in 0..2 {
            let mut out = Output::default();
            match side {
                0 => join.batch(batch(&rows), &mut out).expect("a batch"),
                _ => join.input_batch(1, batch(&rows), &mut out).expect("a batch"),
            }
            drain(&mut found, &mut join, out);
        }
        let mut out = Output::default();
        Operator::watermark(&mut join, EventTime(second * 1000 + 900), &mut out).expect("a watermark");
        drain(&mut found, &mut join, out);
        found.clear();
        if second % 10 == 0 {
            files.take(&mut join, false);
        }
        most = most.max(join.side(JoinSide::Left).len() + join.side(JoinSide::Right).len());
    }
    // The rows of ten seconds wait for the next snapshot.
    assert!(most < 2500, "{most} rows");
    assert!(files.most_changes() <= 2, "files of rows that are over stay");
}

/// Most rows are on the disk when their time is over.
#[test]
fn more_rows_wait_than_fit_into_memory() {
    const BYTES: usize = 1 << 19;
    let way = Way { kind: StreamJoinKind::Full, from: -20_000, to: 20_000, of_windows: false };
    let (mut join, mut found) = (operator(way, Some(BYTES)), BTreeMap::new());
    let mut rows: [Vec<Row>; 2] = [Vec::new(), Vec::new()];
    for step in 0..60 {
        let new: Vec<Row> = (0..500).map(|row| (step * 250 + row, step * 1000 + row, row % 3)).collect();
        for side in [0, 1] {
            // Every second row has a match.
            let of_side: Vec<Row> =
                new.iter().filter(|row| row.0 % 2 == 0 || (row.0 / 2 + side) % 2 == 0).copied().collect();
            let mut out = Output::default();
            match side {
                0 => join.batch(batch(&of_side), &mut out).expect("a batch"),
                _ => join.input_batch(1, batch(&of_side), &mut out).expect("a batch"),
            }
            rows[side as usize].extend(of_side);
            drain(&mut found, &mut join, out);
            assert!(join.tables.size_bytes() <= BYTES / 4, "{} bytes", join.tables.size_bytes());
        }
        let mut out = Output::default();
        Operator::watermark(&mut join, EventTime(step * 1000), &mut out).expect("a watermark");
        drain(&mut found, &mut join, out);
        assert!(join.tables.size_bytes() <= BYTES / 4, "{} bytes", join.tables.size_bytes());
    }
    let mut out = Output::default();
    Operator::watermark(&mut join, EventTime(1 << 40), &mut out).expect("a watermark");
    drain(&mut found, &mut join, out);
    let expected = results(way, &rows[0], &rows[1], 1 << 40);
    assert!(found == expected, "{} rows of {}", found.len(), expected.len());
}

/// A lower bound below zero delays the watermark: the pairs may have event times as old as the bound allows.
#[test]
fn the_watermark_that_passes_on_is_late_by_the_delay() {
    let way = Way { kind: StreamJoinKind::Inner, from: -100, to: 0, of_windows: false };
    let spec = StreamJoinSpec { delay_ms: 100, ..spec(way) };
    let mut join = StreamJoin::new(&spec, &Functions::default(), &JobOptions::default()).expect("an operator");
    let mut out = Output::default();
    Operator::watermark(&mut join, EventTime(1000), &mut out).expect("a watermark");
    assert_eq!(drain(&mut BTreeMap::new(), &mut join, out), Some(EventTime(900)));
    let mut out = Output::default();
    Operator::watermark(&mut join, EventTime::MAX, &mut out).expect("a watermark");
    assert_eq!(drain(&mut BTreeMap::new(), &mut join, out), Some(EventTime::MAX), "the end of the input is not late");
}
