//! Results against a recomputation over all rows so far: with retractions, snapshots, and restored operators.

mod expiry;
mod time_to_live;
mod versions;

use std::collections::BTreeMap;

use anabranch_dataflow::{BinaryOp, Expr, StreamSideSpec, WEIGHT};
use anabranch_model::Rng;
use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::*;
use crate::Element;
use crate::join_tables::samples::{Row, TEXTS, add, batch, fields, side};
use crate::keyed_state::files::{Files, Stated, options};

const KINDS: [StreamJoinKind; 6] = [
    StreamJoinKind::Inner,
    StreamJoinKind::Left,
    StreamJoinKind::Right,
    StreamJoinKind::Full,
    StreamJoinKind::LeftSemi,
    StreamJoinKind::LeftAnti,
];

/// The random choices of a run.
#[derive(Clone, Copy, Debug)]
struct Way {
    kind: StreamJoinKind,
    filter: bool,
    nulls_equal: bool,
    updating: [bool; 2],
}

fn spec(way: Way) -> StreamJoinSpec {
    let column = |index| Box::new(Expr::Column(index));
    // The left number is less than the right one.
    let filter = Expr::Binary { op: BinaryOp::Lt, left: column(2), right: column(5) };
    StreamJoinSpec {
        kind: way.kind,
        keys: 1,
        nulls_equal: way.nulls_equal,
        filter: way.filter.then_some(filter),
        left: side(way.updating[0]),
        right: side(way.updating[1]),
        output: if way.kind.gives_pairs() { vec![1, 0, 2, 4, 5] } else { vec![1, 0, 2] },
        delay_ms: 0,
        versions: None,
        zone: None,
    }
}

fn operator(way: Way) -> StreamJoin {
    on(way, None)
}

/// State of more than `disk_bytes` is on disk.
fn on(way: Way, disk_bytes: Option<usize>) -> StreamJoin {
    StreamJoin::new(&spec(way), &Functions::default(), &options(disk_bytes)).expect("an operator")
}

/// The join of all rows, by nested loops.
fn results(way: Way, left: &[Row], right: &[Row]) -> BTreeMap<String, i64> {
    let matches = |l: &Row, r: &Row| {
        let keys = l.0 == r.0 && (way.nulls_equal || l.0.is_some());
        keys && (!way.filter || l.2.zip(r.2).is_some_and(|(l, r)| l < r))
    };
    let number = |n: Option<i64>| n.map_or("NULL".to_owned(), |n| n.to_string());
    let text = |t: Option<&str>| t.unwrap_or("NULL").to_owned();
    let left_text = |row: &Row| format!("{}|{}|{}", text(row.1), number(row.0), number(row.2));
    let right_text = |row: &Row| format!("{}|{}", text(row.1), number(row.2));
    let mut results: BTreeMap<String, i64> = BTreeMap::new();
    let mut add = |row: String| *results.entry(row).or_default() += 1;
    let (pads_left, pads_right) = way.kind.pads();
    for l in left {
        let found: Vec<&Row> = right.iter().filter(|r| matches(l, r)).collect();
        match way.kind {
            StreamJoinKind::LeftSemi if !found.is_empty() => add(left_text(l)),
            StreamJoinKind::LeftAnti if found.is_empty() => add(left_text(l)),
            kind if kind.gives_pairs() => {
                found.iter().for_each(|r| add(format!("{}|{}", left_text(l), right_text(r))));
                if found.is_empty() && pads_left {
                    add(format!("{}|NULL|NULL", left_text(l)));
                }
            }
            _ => {}
        }
    }
    for r in right.iter().filter(|r| pads_right && !left.iter().any(|l| matches(l, r))) {
        add(format!("NULL|NULL|NULL|{}", right_text(r)));
    }
    results
}

/// Runs random rows, some of which retract earlier ones where the side allows it.
fn run(seed: u64, disk_bytes: Option<usize>) {
    let mut rng = Rng::new(seed);
    let mut below = |end: usize| rng.below(end as u64) as usize;
    let way = Way {
        kind: KINDS[below(6)],
        filter: below(2) == 0,
        nulls_equal: below(4) == 0,
        updating: [below(2) == 0, below(2) == 0],
    };
    let (mut now, mut integral) = (on(way, disk_bytes), BTreeMap::new());
    let mut rows: [Vec<Row>; 2] = [Vec::new(), Vec::new()];
    let (mut files, mut then) = (Files::default(), (rows.clone(), integral.clone()));
    for _ in 0..50 {
        match below(9) {
            0 => {
                files.take(&mut now, below(2) == 0);
                then = (rows.clone(), integral.clone());
            }
            1 if !files.is_empty() => {
                // State may also leave the disk.
                now = on(way, disk_bytes.filter(|_| below(3) > 0));
                let goes_on = below(2) == 0;
                files.restore(&mut now, goes_on, &mut below);
                for time in 0..below(6) as i64 {
                    let mut out = Output::default();
                    Operator::watermark(&mut now, EventTime(time), &mut out).expect("a watermark");
                    while now.more(&mut out).expect("more") {}
                }
                (rows, integral) = then.clone();
            }
            _ => {
                let side = below(2);
                let mut of_batch: Vec<(Row, i64)> = Vec::new();
                for _ in 0..below(10) {
                    if way.updating[side] && !rows[side].is_empty() && below(5) < 2 {
                        let gone = below(rows[side].len());
                        of_batch.push((rows[side].swap_remove(gone), -1));
                        continue;
                    }
                    let mut some = |end: usize| Some(below(end)).filter(|_| below(9) > 0);
                    let row = (some(6).map(|k| k as i64), some(3).map(|t| TEXTS[t]), some(3).map(|n| n as i64));
                    rows[side].push(row);
                    of_batch.push((row, 1));
                }
                add(&mut integral, &mut now, side, batch(&of_batch, way.updating[side]));
            }
        }
        assert_eq!(integral, results(way, &rows[0], &rows[1]), "seed {seed}, {way:?}, {disk_bytes:?}");
    }
}

#[test]
fn the_integral_of_the_output_is_the_join_of_the_integrals_of_the_inputs() {
    (1..=400).for_each(|seed| run(seed, None));
}

/// Little memory: all rows are written after each batch, and batches are divided. More: some stay.
#[test]
fn rows_on_disk_give_the_same_join() {
    (1..=60).for_each(|seed| run(seed, Some([1_000, 40_000, 1 << 30][seed as usize % 3])));
}

#[test]
fn many_matches_are_emitted_in_pieces() {
    let way = Way { kind: StreamJoinKind::Inner, filter: false, nulls_equal: false, updating: [false; 2] };
    let mut join = operator(way);
    let row = |number| ((Some(1), None, Some(number)), 1);
    let many: Vec<(Row, i64)> = (0..300).map(row).collect();
    let mut out = Output::default();
    join.batch(batch(&many, false), &mut out).expect("a batch");
    while join.more(&mut out).expect("more") {}
    join.input_batch(1, batch(&many, false), &mut out).expect("a batch");
    let mut pieces = Vec::new();
    loop {
        pieces.push(out.drain().map(|e| if let Element::Batch(b) = e { b.num_rows() } else { 0 }).sum::<usize>());
        if !join.more(&mut out).expect("more") {
            break;
        }
    }
    assert_eq!(pieces.iter().sum::<usize>(), 90_000);
    assert!(pieces.len() > 4 && pieces.iter().all(|rows| *rows <= 1 << 14), "{pieces:?}");
}

#[test]
fn equal_rows_that_only_match_are_there_once() {
    let way = |kind| Way { kind, filter: false, nulls_equal: false, updating: [false; 2] };
    let (row, mut out) = ((Some(1), Some("a"), Some(1)), Output::default());
    for kind in [StreamJoinKind::LeftSemi, StreamJoinKind::LeftAnti] {
        let mut join = operator(way(kind));
        for _ in 0..3 {
            join.input_batch(1, batch(&[(row, 1); 100], false), &mut out).expect("a batch");
            while join.more(&mut out).expect("more") {}
        }
        assert_eq!((join.side(JoinSide::Right).len(), join.side(JoinSide::Right).weight(0)), (1, 300), "{kind:?}");
    }
    // Only the key of one side is needed.
    let all = spec(way(StreamJoinKind::Inner));
    let keys = StreamSideSpec { schema: Arc::new(Schema::new(fields()[..1].to_vec())), ..all.right };
    let spec = StreamJoinSpec { right: keys, output: vec![1, 0, 2, 3], ..all };
    let mut join = StreamJoin::new(&spec, &Functions::default(), &options(None)).expect("an operator");
    for _ in 0..2 {
        let rows = batch(&[(row, 1); 5], false).project(&[0]).expect("a key");
        join.input_batch(1, rows, &mut out).expect("a batch");
        while join.more(&mut out).expect("more") {}
    }
    assert_eq!((join.side(JoinSide::Right).len(), join.side(JoinSide::Left).rows.is_numbered()), (1, true));
    let mut found = BTreeMap::new();
    add(&mut found, &mut join, 0, batch(&[(row, 1)], false));
    assert_eq!(found, BTreeMap::from([("a|1|1|1".to_owned(), 10)]));
}

/// The table that finds rows that are restored twice was as large as the rows, so that a task at half of its
/// limit could not restart.
#[test]
fn state_that_fits_is_restored_within_the_same_limit() {
    let way = Way { kind: StreamJoinKind::Inner, filter: false, nulls_equal: false, updating: [false; 2] };
    let (mut join, mut files, mut out) = (operator(way), Files::default(), Output::default());
    for key in 0..40 {
        let rows: Vec<(Row, i64)> = (0..100).map(|number| ((Some(key), None, Some(number)), 1)).collect();
        join.batch(batch(&rows, false), &mut out).expect("a batch");
        while join.more(&mut out).expect("more") {}
    }
    files.take(&mut join, false);
    let limit = JobOptions { state_bytes: join.tables.size_bytes() * 5 / 4, ..options(None) };
    let mut join = StreamJoin::new(&spec(way), &Functions::default(), &limit).expect("an operator");
    files.restore(&mut join, false, &mut |_| 0);
    assert_eq!(join.side(JoinSide::Left).live, 4000);
}

#[test]
fn rows_that_are_gone_take_no_memory() {
    let way = Way { kind: StreamJoinKind::Full, filter: false, nulls_equal: false, updating: [true; 2] };
    let mut join = operator(way);
    let mut out = Output::default();
    for key in 0..3000 {
        let row = (Some(key), Some("a"), Some(key));
        for weight in [1, -1] {
            join.batch(batch(&[(row, weight)], true), &mut out).expect("a batch");
            while join.more(&mut out).expect("more") {}
            out.drain().for_each(drop);
        }
        if key > 1500 && key % 5 == 0 {
            join.snapshot(false).expect("a snapshot");
        }
    }
    assert!(join.side(JoinSide::Left).len() < 100, "{} rows", join.side(JoinSide::Left).len());
    assert!(join.tables.size_bytes() < 1 << 18, "{} bytes", join.tables.size_bytes());
}

/// Both sides have one row of each number at a time, and each batch of a side changes some. A table that
/// keeps the last row of each pair of numbers has the result.
#[test]
fn the_last_row_of_a_key_is_the_one_that_is_there() {
    for seed in 1..=150 {
        let mut rng = Rng::new(seed);
        let mut below = |end: usize| rng.below(end as u64) as usize;
        let kind = KINDS[below(6)];
        let way = Way { kind, filter: false, nulls_equal: false, updating: [true; 2] };
        let (mut join, mut sides) = (operator(way), [BTreeMap::<i64, Row>::new(), BTreeMap::new()]);
        let mut kept: BTreeMap<(i64, String), String> = BTreeMap::new();
        for _ in 0..40 {
            let side = below(2);
            let mut of_batch: Vec<(Row, i64)> = Vec::new();
            for _ in 0..=below(4) {
                let number = below(4) as i64;
                let next = (Some(below(3) as i64), Some(TEXTS[below(3)]), Some(number));
                of_batch.extend(sides[side].remove(&number).map(|row| (row, -1)));
                if below(4) > 0 {
                    sides[side].insert(number, next);
                    of_batch.push((next, 1));
                }
            }
            let mut out = Output::default();
            match side {
                0 => join.batch(batch(&of_batch, true), &mut out).expect("a batch"),
                _ => join.input_batch(1, batch(&of_batch, true), &mut out).expect("a batch"),
            }
            while join.more(&mut out).expect("more") {}
            for element in out.drain() {
                let Element::Batch(rows) = element else { continue };
                let options = FormatOptions::default().with_null("NULL");
                let cells: Vec<_> =
                    rows.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).expect("format")).collect();
                for row in 0..rows.num_rows() {
                    let cells: Vec<String> = cells.iter().map(|cell| cell.value(row).to_string()).collect();
                    let (weight, cells) = cells.split_last().expect("a weight");
                    let number = |at: usize| cells.get(at).and_then(|n| n.parse().ok()).unwrap_or(-1_i64);
                    let key = (number(2), if kind.gives_pairs() { cells[4].clone() } else { String::new() });
                    match weight.as_str() {
                        "1" => _ = kept.insert(key, cells.join("|")),
                        _ => _ = kept.remove(&key),
                    }
                }
            }
            let all = |side: usize| sides[side].values().copied().collect::<Vec<Row>>();
            let expected: BTreeMap<String, i64> = results(way, &all(0), &all(1));
            let mut found: Vec<&String> = kept.values().collect();
            found.sort();
            assert_eq!(found, expected.keys().collect::<Vec<_>>(), "seed {seed}, {way:?}");
        }
    }
}

#[test]
fn equal_rows_that_stay_are_emitted_in_pieces() {
    let way = Way { kind: StreamJoinKind::Inner, filter: false, nulls_equal: false, updating: [false; 2] };
    let mut join = operator(way);
    let equal = vec![((Some(1), Some("a"), Some(1)), 1); 400];
    let mut out = Output::default();
    join.batch(batch(&equal, false), &mut out).expect("a batch");
    while join.more(&mut out).expect("more") {}
    join.input_batch(1, batch(&equal, false), &mut out).expect("a batch");
    let mut pieces = Vec::new();
    loop {
        pieces.push(out.drain().map(|e| if let Element::Batch(b) = e { b.num_rows() } else { 0 }).sum::<usize>());
        if !join.more(&mut out).expect("more") {
            break;
        }
    }
    assert_eq!(pieces.iter().sum::<usize>(), 160_000);
    assert!(pieces.iter().all(|rows| *rows <= 1 << 14), "{pieces:?}");
}
