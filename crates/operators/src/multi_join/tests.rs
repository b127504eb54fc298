//! Results against a recomputation over all rows so far: with retractions, snapshots, restored operators, and
//! state on disk.

mod against_chain;

use std::collections::BTreeMap;

use anabranch_dataflow::{
    BinaryOp, Expr, JoinChain, JoinCondition, JoinInputSpec, StreamJoinKind, StreamJoinSpec, StreamSideSpec,
};
use anabranch_model::Rng;
use arrow::array::AsArray;
use arrow::datatypes::{Field, Int64Type, Schema};

use super::*;
use crate::join_tables::samples::{Row, TEXTS, add, batch, fields, pieces, side, texts};
use crate::keyed_state::files::{Files, Stated, options};

/// The random choices of a run.
#[derive(Clone, Debug)]
struct Way {
    updating: Vec<bool>,
    outer: Vec<bool>,
    nulls_equal: bool,
    /// The number of the first input is less than that of the second one.
    less: Vec<(usize, usize)>,
}

impl Way {
    fn draw(below: &mut impl FnMut(usize) -> usize) -> Way {
        let inputs = 3 + below(2);
        let mut outer: Vec<bool> = (0..inputs).map(|_| below(3) == 0).collect();
        let needed = below(inputs);
        outer[needed] = false;
        let mut less = Vec::new();
        for _ in 0..below(3) {
            let (a, b) = (below(inputs), below(inputs));
            less.extend(Some((a, b)).filter(|_| a != b));
        }
        let updating = (0..inputs).map(|_| below(2) == 0).collect();
        Way { updating, outer, nulls_equal: below(4) == 0, less }
    }

    fn inner(inputs: usize, updating: bool) -> Way {
        Way { updating: vec![updating; inputs], outer: vec![false; inputs], nulls_equal: false, less: Vec::new() }
    }
}

fn spec(way: &Way) -> MultiJoinSpec {
    let inputs = way.updating.len();
    let column = |input: usize| Box::new(Expr::Column(3 * input + 2));
    let condition = |(a, b): &(usize, usize)| JoinCondition {
        condition: Expr::Binary { op: BinaryOp::Lt, left: column(*a), right: column(*b) },
        inputs: BTreeSet::from([*a, *b]),
    };
    let output: Vec<usize> = (0..inputs).flat_map(|input| [1, 0, 2].map(|column| 3 * input + column)).collect();
    let updating = way.updating.iter().chain(&way.outer).any(|is| *is);
    let left: Vec<Field> = (1..inputs).flat_map(|_| fields()).collect();
    let last = StreamJoinSpec {
        kind: StreamJoinKind::Inner,
        keys: 1,
        nulls_equal: way.nulls_equal,
        filter: None,
        left: StreamSideSpec { schema: Arc::new(Schema::new(left)), updating, ..side(false) },
        right: side(false),
        output: output.clone(),
        delay_ms: 0,
        versions: None,
        zone: None,
    };
    MultiJoinSpec {
        keys: 1,
        nulls_equal: way.nulls_equal,
        inputs: way
            .updating
            .iter()
            .zip(&way.outer)
            .map(|(updating, outer)| JoinInputSpec { side: side(*updating), outer: *outer })
            .collect(),
        conditions: way.less.iter().map(condition).collect(),
        output,
        chain: JoinChain { stages: Vec::new(), last, sides: Vec::new() },
    }
}

/// State of more than `disk_bytes` is on disk.
fn on(way: &Way, disk_bytes: Option<usize>) -> MultiJoin {
    MultiJoin::new(&spec(way), &Functions::default(), &options(disk_bytes)).expect("an operator")
}

/// The join of all rows, by nested loops.
fn results(way: &Way, inputs: &[Vec<Row>]) -> BTreeMap<String, i64> {
    let mut results: BTreeMap<String, i64> = BTreeMap::new();
    let number = |n: Option<i64>| n.map_or("NULL".to_owned(), |n| n.to_string());
    let text = |row: &Option<&Row>| match row {
        Some(row) => format!("{}|{}|{}", row.1.unwrap_or("NULL"), number(row.0), number(row.2)),
        None => "NULL|NULL|NULL".to_owned(),
    };
    let mut add = |rows: &[Option<&Row>]| {
        let n = |input: usize| rows[input].and_then(|row| row.2);
        if way.less.iter().all(|(a, b)| n(*a).zip(n(*b)).is_some_and(|(a, b)| a < b)) {
            *results.entry(rows.iter().map(text).collect::<Vec<_>>().join("|")).or_default() += 1;
        }
    };
    let keys: BTreeSet<Option<i64>> = inputs.iter().flatten().map(|row| row.0).collect();
    for key in keys.into_iter().filter(|key| way.nulls_equal || key.is_some()) {
        let mut products: Vec<Vec<Option<&Row>>> = vec![Vec::new()];
        for (rows, outer) in inputs.iter().zip(&way.outer) {
            let mut found: Vec<Option<&Row>> = rows.iter().filter(|row| row.0 == key).map(Some).collect();
            if found.is_empty() && *outer {
                found.push(None);
            }
            let mut longer = Vec::new();
            for row in &found {
                longer.extend(products.iter().map(|product| [product.as_slice(), &[*row]].concat()));
            }
            products = longer;
        }
        products.iter().for_each(|product| add(product));
    }
    let needed: Vec<usize> = (0..inputs.len()).filter(|input| !way.outer[*input]).collect();
    if let ([needed], false) = (needed.as_slice(), way.nulls_equal) {
        for row in inputs[*needed].iter().filter(|row| row.0.is_none()) {
            let rows: Vec<_> = (0..inputs.len()).map(|input| Some(row).filter(|_| input == *needed)).collect();
            add(&rows);
        }
    }
    results
}

/// Runs random rows, some of which retract earlier ones where the input allows it.
fn run(seed: u64, disk_bytes: Option<usize>) {
    let mut rng = Rng::new(seed);
    let mut below = |end: usize| rng.below(end as u64) as usize;
    let way = Way::draw(&mut below);
    let inputs = way.updating.len();
    let (mut now, mut integral) = (on(&way, disk_bytes), BTreeMap::new());
    let mut rows: Vec<Vec<Row>> = vec![Vec::new(); inputs];
    let (mut files, mut then) = (Files::default(), (rows.clone(), BTreeMap::new()));
    for _ in 0..50 {
        match below(9) {
            0 => {
                files.take(&mut now, below(2) == 0);
                then = (rows.clone(), integral.clone());
            }
            1 if !files.is_empty() => {
                // State may also leave the disk.
                now = on(&way, disk_bytes.filter(|_| below(3) > 0));
                let goes_on = below(2) == 0;
                files.restore(&mut now, goes_on, &mut below);
                (rows, integral) = then.clone();
            }
            _ => {
                let input = below(inputs);
                let mut of_batch: Vec<(Row, i64)> = Vec::new();
                for _ in 0..below(8) {
                    if way.updating[input] && !rows[input].is_empty() && below(5) < 3 {
                        let gone = below(rows[input].len());
                        of_batch.push((rows[input].swap_remove(gone), -1));
                        continue;
                    }
                    let mut some = |end: usize| Some(below(end)).filter(|_| below(9) > 0);
                    let row = (some(6).map(|k| k as i64), some(3).map(|t| TEXTS[t]), some(3).map(|n| n as i64));
                    rows[input].push(row);
                    of_batch.push((row, 1));
                }
                add(&mut integral, &mut now, input, batch(&of_batch, way.updating[input]));
            }
        }
        assert_eq!(integral, results(&way, &rows), "seed {seed}, {way:?}, {disk_bytes:?}");
    }
}

#[test]
fn the_integral_of_the_output_is_the_join_of_the_integrals_of_the_inputs() {
    (1..=300).for_each(|seed| run(seed, None));
}

/// Little memory: all rows are written after each batch, and batches are divided. More: some stay.
#[test]
fn rows_on_disk_give_the_same_join() {
    (1..=60).for_each(|seed| run(seed, Some([1_000, 40_000, 1 << 30][seed as usize % 3])));
}

/// State is divided among other tasks by the keys of its rows, and each of them has the join of its keys.
#[test]
fn state_goes_to_other_tasks_by_its_keys() {
    for seed in 1..=40 {
        let mut rng = Rng::new(seed);
        let mut below = |end: usize| rng.below(end as u64) as usize;
        let way = Way { less: Vec::new(), ..Way::draw(&mut below) };
        let inputs = way.updating.len();
        let mut row = |end| (Some(below(end) as i64), Some(TEXTS[below(3)]), Some(below(3) as i64));
        let rows: Vec<Vec<Row>> = (0..inputs).map(|_| (0..12).map(|_| row(8)).collect()).collect();
        let (mut one, mut integral, mut files) = (on(&way, None), BTreeMap::new(), Files::default());
        for (input, rows) in rows.iter().enumerate() {
            let rows: Vec<(Row, i64)> = rows.iter().map(|row| (*row, 1)).collect();
            add(&mut integral, &mut one, input, batch(&rows, way.updating[input]));
            files.take(&mut one, true);
        }
        // Three tasks own the keys by their remainders.
        let mut tasks: Vec<MultiJoin> = (0..3).map(|_| on(&way, None)).collect();
        files.each(|table, rows| {
            let keys = rows.column(0).as_primitive::<Int64Type>().clone();
            for (number, task) in tasks.iter_mut().enumerate() {
                let owns = keys.iter().map(|key| Some(key.unwrap_or(0) % 3 == number as i64)).collect();
                let own = arrow::compute::filter_record_batch(rows, &owns).expect("its rows");
                task.restore(table, own).expect("restored");
            }
        });
        let more: Vec<Vec<Row>> = (0..inputs).map(|_| (0..6).map(|_| row(8)).collect()).collect();
        for (input, rows) in more.iter().enumerate() {
            for (number, task) in tasks.iter_mut().enumerate() {
                let own = rows.iter().filter(|row| row.0.unwrap_or(0) % 3 == number as i64);
                let own: Vec<(Row, i64)> = own.map(|row| (*row, 1)).collect();
                add(&mut integral, task, input, batch(&own, way.updating[input]));
            }
        }
        let all: Vec<Vec<Row>> = rows.into_iter().zip(more).map(|(rows, more)| [rows, more].concat()).collect();
        assert_eq!(integral, results(&way, &all), "seed {seed}, {way:?}");
    }
}

/// Each input has one row of each number at a time, and each batch changes some. A table that keeps the last
/// row of each combination of numbers has the result.
#[test]
fn the_last_row_of_a_key_is_the_one_that_is_there() {
    for seed in 1..=100 {
        let mut rng = Rng::new(seed);
        let mut below = |end: usize| rng.below(end as u64) as usize;
        let way = Way { less: Vec::new(), nulls_equal: false, ..Way::draw(&mut below) };
        let inputs = way.updating.len();
        let way = Way { updating: vec![true; inputs], ..way };
        let (mut join, mut sides) = (on(&way, None), vec![BTreeMap::<i64, Row>::new(); inputs]);
        let mut kept: BTreeMap<Vec<String>, String> = BTreeMap::new();
        for _ in 0..40 {
            let input = below(inputs);
            let mut of_batch: Vec<(Row, i64)> = Vec::new();
            for _ in 0..=below(4) {
                let number = below(3) as i64;
                let next = (Some(below(3) as i64), Some(TEXTS[below(3)]), Some(number));
                of_batch.extend(sides[input].remove(&number).map(|row| (row, -1)));
                if below(4) > 0 {
                    sides[input].insert(number, next);
                    of_batch.push((next, 1));
                }
            }
            for (text, weight) in pieces(&mut join, input, batch(&of_batch, true)).iter().flat_map(texts) {
                let key = text.split('|').skip(2).step_by(3).map(str::to_owned).collect();
                match weight {
                    1 => _ = kept.insert(key, text),
                    _ => _ = kept.remove(&key),
                }
            }
            let all: Vec<Vec<Row>> = sides.iter().map(|side| side.values().copied().collect()).collect();
            let mut found: Vec<&String> = kept.values().collect();
            found.sort();
            let expected = results(&way, &all);
            assert_eq!(found, expected.keys().collect::<Vec<_>>(), "seed {seed}, {way:?}");
        }
    }
}

#[test]
fn many_matches_are_emitted_in_pieces() {
    let way = Way::inner(3, false);
    let mut join = on(&way, None);
    let many: Vec<(Row, i64)> = (0..60).map(|number| ((Some(1), None, Some(number)), 1)).collect();
    for input in [1, 2] {
        assert!(pieces(&mut join, input, batch(&many, false)).is_empty());
    }
    let found: Vec<usize> = pieces(&mut join, 0, batch(&many, false)).iter().map(RecordBatch::num_rows).collect();
    assert_eq!(found.iter().sum::<usize>(), 60 * 60 * 60);
    assert!(found.len() > 10 && found.iter().all(|rows| *rows <= 1 << 14), "{found:?}");
}

/// Only the key of one input is needed: equal rows are stored once, with their count.
#[test]
fn equal_rows_that_stay_are_emitted_as_often_as_they_count() {
    let way = Way::inner(3, false);
    let mut of = spec(&way);
    of.inputs[2].side.schema = Arc::new(Schema::new(fields()[..1].to_vec()));
    (of.output, of.chain.last.output) = (vec![2, 5, 6], vec![2, 5, 6]);
    let mut join = MultiJoin::new(&of, &Functions::default(), &options(None)).expect("an operator");
    let row = (Some(1), Some("a"), Some(1));
    let mut found = BTreeMap::new();
    for _ in 0..2 {
        let keys = batch(&[(row, 1); 5], false).project(&[0]).expect("a key");
        add(&mut found, &mut join, 2, keys);
    }
    add(&mut found, &mut join, 1, batch(&[(row, 1); 3], false));
    add(&mut found, &mut join, 0, batch(&[(row, 1); 2], false));
    assert_eq!(join.tables.rows.sides[2].len(), 1);
    assert_eq!(found, BTreeMap::from([("1|1|1".to_owned(), 60)]));
}

#[test]
fn rows_that_are_gone_take_no_memory() {
    let mut join = on(&Way::inner(3, true), None);
    for key in 0..3000 {
        let row = (Some(key), Some("a"), Some(key));
        for (input, weight) in [(0, 1), (1, 1), (2, 1), (1, -1), (2, -1), (0, -1)] {
            pieces(&mut join, input, batch(&[(row, weight)], true));
        }
        if key > 1500 && key % 5 == 0 {
            join.snapshot(false).expect("a snapshot");
        }
    }
    let rows: usize = join.tables.rows.sides.iter().map(Side::len).sum();
    assert!(rows < 100, "{rows} rows");
    assert!(join.tables.size_bytes() < 1 << 18, "{} bytes", join.tables.size_bytes());
}

/// A row is forgotten when it has not arrived again for long.
#[test]
fn rows_live_for_a_time() {
    for disk_bytes in [None, Some(1000)] {
        let mut of = spec(&Way::inner(3, false));
        of.inputs.iter_mut().zip([1000, 60_000, 60_000]).for_each(|(of, ms)| of.side.time_to_live_ms = Some(ms));
        let mut join = MultiJoin::new(&of, &Functions::default(), &options(disk_bytes)).expect("an operator");
        let rows = || batch(&[((Some(1), Some("a"), Some(1)), 1)], false);
        let mut found = BTreeMap::new();
        join.processing_time(10_000).expect("a time");
        [0, 1].into_iter().for_each(|input| add(&mut found, &mut join, input, rows()));
        join.processing_time(20_000).expect("a time");
        add(&mut found, &mut join, 2, rows());
        assert!(found.is_empty(), "{found:?}, {disk_bytes:?}");
        add(&mut found, &mut join, 0, rows());
        assert_eq!(found.values().sum::<i64>(), 1, "{disk_bytes:?}");
    }
}
