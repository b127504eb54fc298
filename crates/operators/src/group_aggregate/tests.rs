//! Results against a recomputation over all rows so far: with retractions, snapshots, and restored operators.

mod below_zero;
mod divided;
mod time_to_live;
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dataflow::{AggregateSpec, Expr, NamedExpr, WEIGHT, weight_field};
use anabranch_model::Rng;
use arrow::array::{Array, AsArray, Float64Array, StringViewArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Float64Type, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::*;
use crate::Element;
use crate::keyed_state::files::{Files, Stated, options};

/// A row: key, number, text.
type Row = (Option<i64>, Option<i64>, Option<&'static str>);

const TEXTS: [&str; 4] = ["a", "b", "a text that is longer than twelve bytes", ""];

/// Random numbers below a bound.
struct Numbers(Rng);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0.below(end as u64) as usize
    }
}

fn input(weighted: bool) -> SchemaRef {
    let mut fields = vec![
        Field::new("k", DataType::Int64, true),
        Field::new("n", DataType::Int64, true),
        Field::new("t", DataType::Utf8View, true),
        Field::new("x", DataType::Float64, true),
    ];
    fields.extend(weighted.then(weight_field));
    Arc::new(Schema::new(fields))
}

fn spec(weighted: bool) -> GroupAggregateSpec {
    let call = |function: &str, column: usize, distinct: bool, data_type: DataType| AggregateSpec {
        name: format!("{function}_{column}_{distinct}"),
        function: function.into(),
        args: vec![Expr::Column(column)],
        distinct,
        filter: None,
        data_type,
        nullable: true,
    };
    let key = NamedExpr { name: "k".into(), expr: Expr::Column(0), data_type: DataType::Int64, nullable: true };
    let filtered = AggregateSpec {
        name: "filtered".into(),
        filter: Some(Expr::IsNull(Box::new(Expr::Column(2)))),
        ..call("count", 1, false, DataType::Int64)
    };
    // These two have the pairs of the sum of distinct numbers.
    let distinct = call("count", 1, true, DataType::Int64);
    let filtered_distinct =
        AggregateSpec { name: "filtered_distinct".into(), filter: filtered.filter.clone(), ..distinct.clone() };
    let texts = DataType::List(Arc::new(Field::new("item", DataType::Utf8View, true)));
    let joined = |distinct: bool| {
        let call = call("string_agg", 2, distinct, DataType::Utf8View);
        AggregateSpec { args: vec![Expr::Column(2), Expr::text("+")], ..call }
    };
    GroupAggregateSpec {
        keys: vec![key],
        aggregates: vec![
            call("count", 1, false, DataType::Int64),
            call("sum", 1, false, DataType::Int64),
            call("min", 1, false, DataType::Int64),
            call("max", 2, false, DataType::Utf8View),
            call("count", 2, true, DataType::Int64),
            call("sum", 1, true, DataType::Int64),
            call("stddev_pop", 3, false, DataType::Float64),
            filtered,
            filtered_distinct,
            distinct,
            call("first_value", 2, false, DataType::Utf8View),
            call("last_value", 1, false, DataType::Int64),
            call("array_agg", 2, false, texts),
            joined(false),
            joined(true),
        ],
        weight: weighted.then_some(4),
        input_schema: input(weighted),
        time_to_live_ms: None,
        mini_batch_rows: None,
        emission: None,
        zone: None,
    }
}

fn operator(weighted: bool, disk_bytes: Option<usize>) -> GroupAggregate {
    GroupAggregate::new(&spec(weighted), &Functions::default(), &options(disk_bytes)).expect("an operator")
}

fn batch(rows: &[(Row, i64)], weighted: bool) -> RecordBatch {
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|((key, ..), _)| *key).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|((_, number, _), _)| *number).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|((.., text), _)| *text).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|((_, number, _), _)| number.map(|n| n as f64)).collect::<Float64Array>()),
    ];
    if weighted {
        columns.push(Arc::new(rows.iter().map(|(_, weight)| *weight).collect::<Int64Array>()));
    }
    RecordBatch::try_new(input(weighted), columns).expect("a batch")
}

/// Values in the order of their arrival; a retraction removes the first occurrence. `distinct`: a value
/// arrives with its first occurrence and leaves with its last one.
fn in_order<T: Copy + PartialEq>(events: &[(T, i64)], distinct: bool) -> Vec<T> {
    let (mut list, mut all) = (Vec::new(), Vec::new());
    for (value, weight) in events {
        let before = all.contains(value);
        if *weight > 0 {
            all.push(*value);
        } else {
            all.remove(all.iter().position(|of| of == value).expect("it has come"));
        }
        let has_changed = before != all.contains(value);
        if *weight > 0 && (!distinct || has_changed) {
            list.push(*value);
        } else if *weight < 0 && (!distinct || has_changed) {
            list.remove(list.iter().position(|of| of == value).expect("it has come"));
        }
    }
    list
}

/// The results of the functions that depend on the order of rows, as text.
fn expected_in_order(events: &[(Row, i64)]) -> String {
    let texts: Vec<_> = events.iter().map(|((.., text), weight)| (*text, *weight)).collect();
    let some: Vec<_> = texts.iter().filter_map(|(text, weight)| Some(((*text)?, *weight))).collect();
    let numbers: Vec<_> = events.iter().filter_map(|((_, n, _), weight)| Some(((*n)?, *weight))).collect();
    let shown: Vec<&str> = in_order(&texts, false).into_iter().map(|text| text.unwrap_or("NULL")).collect();
    let joined = |texts: &[&str]| if texts.is_empty() { "NULL".to_owned() } else { texts.join("+") };
    [
        in_order(&some, false).first().map_or("NULL".into(), ToString::to_string),
        in_order(&numbers, false).last().map_or("NULL".into(), ToString::to_string),
        format!("[{}]", shown.join(", ")),
        joined(&in_order(&some, false)),
        joined(&in_order(&some, true)),
    ]
    .join("|")
}

/// The results of the other aggregates of a group of rows, as text.
fn expected(rows: &[&Row]) -> String {
    let numbers: Vec<i64> = rows.iter().filter_map(|row| row.1).collect();
    let texts: Vec<&str> = rows.iter().filter_map(|row| row.2).collect();
    let mut distinct = numbers.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let mut words = texts.clone();
    words.sort_unstable();
    words.dedup();
    let shown = |number: Option<i64>| number.map_or("NULL".into(), |number| number.to_string());
    let sum = |of: &[i64]| shown((!of.is_empty()).then(|| of.iter().sum()));
    let mean = numbers.iter().sum::<i64>() as f64 / numbers.len() as f64;
    let variance = numbers.iter().map(|n| (*n as f64 - mean).powi(2)).sum::<f64>() / numbers.len() as f64;
    let deviation = if numbers.is_empty() { "NULL".to_owned() } else { format!("{:.6}", variance.sqrt()) };
    let filtered: Vec<i64> = rows.iter().filter(|row| row.2.is_none()).filter_map(|row| row.1).collect();
    let filtered_distinct: BTreeSet<i64> = filtered.iter().copied().collect();
    [
        numbers.len().to_string(),
        sum(&numbers),
        shown(numbers.iter().min().copied()),
        texts.iter().max().map_or("NULL".into(), ToString::to_string),
        words.len().to_string(),
        sum(&distinct),
        deviation,
        filtered.len().to_string(),
        filtered_distinct.len().to_string(),
        distinct.len().to_string(),
    ]
    .join("|")
}

/// Adds up what an operator has emitted.
#[derive(Default)]
struct Integral(BTreeMap<String, i64>);

impl Integral {
    fn add(&mut self, out: &mut Output) {
        for element in out.drain() {
            let Element::Batch(batch) = element else { continue };
            // Rows without weights stay.
            let is_updating = batch.schema().fields().iter().any(|field| field.name() == WEIGHT);
            let (cells, weights) = batch.columns().split_at(batch.num_columns() - usize::from(is_updating));
            let weights = weights.first().map(|weights| weights.as_primitive::<Int64Type>());
            let options = FormatOptions::default().with_null("NULL");
            let shown = |column: &ArrayRef, row: usize| match column.as_primitive_opt::<Float64Type>() {
                Some(floats) if floats.is_valid(row) => format!("{:.6}", floats.value(row)),
                _ => ArrayFormatter::try_new(column, &options).expect("format").value(row).to_string(),
            };
            for row in 0..batch.num_rows() {
                let cells = cells.iter().map(|column| shown(column, row));
                let weight = weights.map_or(1, |weights| weights.value(row));
                *self.0.entry(cells.collect::<Vec<_>>().join("|")).or_default() += weight;
            }
            self.0.retain(|_, weight| *weight != 0);
        }
    }
}

fn results(rows: &[Row], events: &[(Row, i64)]) -> BTreeMap<String, i64> {
    let mut groups: BTreeMap<Option<i64>, Vec<&Row>> = BTreeMap::new();
    rows.iter().for_each(|row| groups.entry(row.0).or_default().push(row));
    let key = |key: Option<i64>| key.map_or("NULL".into(), |key: i64| key.to_string());
    let result = |(of, rows): (Option<i64>, Vec<&Row>)| {
        // A group that has been empty begins anew, but its lists are empty too.
        let events: Vec<(Row, i64)> = events.iter().filter(|(row, _)| row.0 == of).copied().collect();
        (format!("{}|{}|{}", key(of), expected(&rows), expected_in_order(&events)), 1)
    };
    groups.into_iter().map(result).collect()
}

/// Runs random rows; `weighted`: some retract earlier ones. State of more than `disk_bytes` is on disk.
fn run(seed: u64, weighted: bool, disk_bytes: Option<usize>) {
    let mut numbers = Numbers(Rng::new(seed));
    let (mut now, mut rows, mut integral) = (operator(weighted, disk_bytes), Vec::<Row>::new(), Integral::default());
    // As of the last snapshot.
    let (mut files, mut then) = (Files::default(), (Vec::new(), BTreeMap::new(), Vec::new()));
    let mut events: Vec<(Row, i64)> = Vec::new();
    for _ in 0..60 {
        match numbers.below(8) {
            0 => {
                files.take(&mut now, numbers.below(2) == 0);
                then = (rows.clone(), integral.0.clone(), events.clone());
            }
            1 if !files.is_empty() => {
                now = operator(weighted, disk_bytes);
                let goes_on = numbers.below(2) == 0;
                files.restore(&mut now, goes_on, &mut |end| numbers.below(end));
                (rows, integral.0, events) = then.clone();
            }
            _ => {
                let mut of_batch: Vec<(Row, i64)> = Vec::new();
                for _ in 0..numbers.below(12) {
                    if weighted && !rows.is_empty() && numbers.below(5) < 2 {
                        let gone = rows.swap_remove(numbers.below(rows.len()));
                        of_batch.push((gone, -1));
                        continue;
                    }
                    let some = |numbers: &mut Numbers, end| Some(numbers.below(end)).filter(|_| numbers.below(9) > 0);
                    let key = some(&mut numbers, 12).map(|key| key as i64);
                    let number = some(&mut numbers, 7).map(|number| number as i64 - 3);
                    let row = (key, number, some(&mut numbers, 4).map(|text| TEXTS[text]));
                    rows.push(row);
                    of_batch.push((row, 1));
                }
                let mut out = Output::default();
                now.batch(batch(&of_batch, weighted), &mut out).expect("a batch");
                while now.more(&mut out).expect("more") {}
                integral.add(&mut out);
                events.extend(of_batch);
            }
        }
        assert_eq!(integral.0, results(&rows, &events), "seed {seed}, weighted {weighted}, {disk_bytes:?}");
    }
}

#[test]
fn the_integral_of_the_output_is_the_result_of_the_integral_of_the_input() {
    for seed in 1..=60 {
        run(seed, true, None);
        run(seed, false, None);
    }
}

/// Little memory: all groups are written after each batch, and batches are divided. More: some groups stay.
#[test]
fn groups_on_disk_have_the_same_results() {
    for seed in 1..=5 {
        for bytes in [1_000, 60_000] {
            run(seed, true, Some(bytes));
            run(seed, false, Some(bytes));
        }
    }
    run(6, true, Some(1 << 30));
}

#[test]
fn groups_that_are_gone_take_no_memory() {
    let mut now = operator(true, None);
    let mut out = Output::default();
    for key in 0..6_000 {
        let row = (Some(key), Some(key), Some("a"));
        now.batch(batch(&[(row, 1)], true), &mut out).expect("a batch");
        while now.more(&mut out).expect("more") {}
        now.batch(batch(&[(row, -1)], true), &mut out).expect("a batch");
        while now.more(&mut out).expect("more") {}
        if key == 3_000 {
            now.snapshot(false).expect("a snapshot");
        }
        if key > 3_000 && key % 4 == 0 {
            let changes = now.snapshot(false).expect("a snapshot");
            assert!(changes[0].rows.iter().map(RecordBatch::num_rows).sum::<usize>() <= 4);
        }
    }
    assert!(now.state.rows.rows.len() < 100, "{} groups", now.state.rows.rows.len());
    assert!(now.state.size_bytes() < 1 << 18, "{} bytes", now.state.size_bytes());
}

#[test]
fn a_group_that_stays_the_same_emits_nothing() {
    let mut now = operator(true, None);
    let mut out = Output::default();
    let row = |n: i64| (Some(1), Some(n), Some("a"));
    now.batch(batch(&[(row(1), 1), (row(5), 1)], true), &mut out).expect("a batch");
    while now.more(&mut out).expect("more") {}
    assert_eq!(out.drain().count(), 1);
    now.batch(batch(&[(row(2), 1), (row(2), -1)], true), &mut out).expect("a batch");
    while now.more(&mut out).expect("more") {}
    assert_eq!(out.drain().count(), 0);
    now.batch(batch(&[(row(5), -1), (row(1), -1)], true), &mut out).expect("a batch");
    while now.more(&mut out).expect("more") {}
    let rows: Vec<RecordBatch> =
        out.drain().filter_map(|e| if let Element::Batch(b) = e { Some(b) } else { None }).collect();
    let rows = concat_batches(now.schema(), &rows).expect("one batch");
    assert_eq!(rows.num_rows(), 1);
    assert_eq!(rows.columns().last().expect("weights").as_primitive::<Int64Type>().value(0), -1);
}

#[test]
fn too_many_groups_are_an_error_with_a_remedy() {
    let options = JobOptions { state_bytes: 20_000, ..JobOptions::default() };
    let mut now = GroupAggregate::new(&spec(false), &Functions::default(), &options).expect("an operator");
    let mut out = Output::default();
    let failed = (0..1000).find_map(|key| now.batch(batch(&[((Some(key), None, None), 1)], false), &mut out).err());
    assert!(failed.expect("too many").to_string().contains("'state-bytes'"));
}

#[test]
fn gathered_rows_change_a_group_once() {
    let spec = GroupAggregateSpec { mini_batch_rows: Some(5), ..spec(true) };
    let mut now = GroupAggregate::new(&spec, &Functions::default(), &options(None)).expect("an operator");
    let row = |number| ((Some(1), Some(number), Some("a")), 1);
    let (mut out, mut integral) = (Output::default(), Integral::default());
    for batches in [vec![vec![row(1)], vec![row(2), row(3)]], vec![vec![row(1); 3], vec![row(2); 2]]] {
        for rows in &batches {
            assert!(out.is_empty(), "rows are gathered");
            now.batch(batch(rows, true), &mut out).expect("a batch");
            while now.more(&mut out).expect("more") {}
        }
        // Five rows are enough.
        assert_eq!(out.is_empty(), batches[1].len() + batches[0].len() < 5);
        now.flush(&mut out).expect("flushed");
        while now.more(&mut out).expect("more") {}
        integral.add(&mut out);
        assert_eq!(integral.0.len(), 1, "the former result is taken back");
    }
    let all: Vec<Row> = [1, 2, 3, 1, 1, 1, 2, 2].map(|number| row(number).0).into();
    assert_eq!(integral.0, results(&all, &all.iter().map(|row| (*row, 1)).collect::<Vec<_>>()));
    now.flush(&mut out).expect("flushed");
    while now.more(&mut out).expect("more") {}
    assert!(out.is_empty());
}
