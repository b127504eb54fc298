//! First rows against a recomputation over the sorted rows so far: with and without retractions, snapshots,
//! and restored operators.

mod time_to_live;

use anabranch_dataflow::{OperatorSpec, Ordering, WEIGHT, weight_field};
use anabranch_model::Rng;
use arrow::array::StringViewArray;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::*;
use crate::keyed_state::files::{Files, Stated, options};
use crate::{Element, Functions, build_operator};

/// A row: key, number that is ordered, text.
type Row = (Option<i64>, Option<i64>, &'static str);

const TEXTS: [&str; 3] = ["a", "b", "a text that is longer than twelve bytes"];

#[derive(Clone, Copy, Debug)]
struct Way {
    limit: u64,
    descending: bool,
    nulls_first: bool,
    updating: bool,
    numbered: bool,
    /// Of rows with the same number, the last one is first.
    latest: bool,
}

impl Way {
    fn any(below: &mut impl FnMut(usize) -> usize) -> Way {
        let way = Way {
            limit: [1, 2, 5][below(3)],
            descending: below(2) == 0,
            nulls_first: below(2) == 0,
            updating: below(2) == 0,
            numbered: below(2) == 0,
            latest: false,
        };
        Way { latest: way.limit == 1 && !way.updating && below(2) == 0, ..way }
    }
}

fn operator(way: Way) -> Box<dyn Operator> {
    on(way, None)
}

/// State of more than `disk_bytes` is on disk.
fn on(way: Way, disk_bytes: Option<usize>) -> Box<dyn Operator> {
    let spec = OperatorSpec::Rank(spec(way));
    build_operator(&spec, &Arc::new(Schema::empty()), &options(disk_bytes), &Functions::default())
        .expect("an operator")
        .0
}

fn spec(way: Way) -> RankSpec {
    let field = |name: &str, of| Field::new(name, of, true);
    let fields = vec![field("k", DataType::Int64), field("n", DataType::Int64), field("t", DataType::Utf8View)];
    RankSpec {
        keys: 1,
        order: vec![Ordering { descending: way.descending, nulls_first: way.nulls_first }],
        limit: way.limit,
        latest: way.latest,
        schema: Arc::new(Schema::new(fields)),
        updating: way.updating,
        output: vec![0, 2, 1],
        number: way.numbered.then(|| "number".to_owned()),
        window: None,
        time_to_live_ms: None,
        zone: None,
    }
}

fn batch(rows: &[(Row, i64)], updating: bool) -> RecordBatch {
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|((key, ..), _)| *key).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|((_, number, _), _)| *number).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|((.., text), _)| Some(*text)).collect::<StringViewArray>()),
    ];
    let field = |name: &str, of| Field::new(name, of, true);
    let mut fields = vec![field("k", DataType::Int64), field("n", DataType::Int64), field("t", DataType::Utf8View)];
    if updating {
        columns.push(Arc::new(rows.iter().map(|(_, weight)| *weight).collect::<Int64Array>()));
        fields.push(weight_field());
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a batch")
}

fn shown(number: Option<i64>) -> String {
    number.map_or("NULL".to_owned(), |number| number.to_string())
}

/// The first rows of each key.
fn results(way: Way, rows: &[Row]) -> BTreeMap<String, i64> {
    let mut sorted = rows.to_vec();
    if way.latest {
        sorted.reverse();
    }
    sorted.sort_by(|a, b| {
        let numbers = match (a.1, b.1) {
            (Some(a), Some(b)) if way.descending => b.cmp(&a),
            (Some(a), Some(b)) => a.cmp(&b),
            (a, b) if way.nulls_first => a.is_some().cmp(&b.is_some()),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        if way.latest { numbers } else { numbers.then(a.2.cmp(b.2)) }
    });
    let (mut seen, mut results) = (BTreeMap::<Option<i64>, u64>::new(), BTreeMap::new());
    for (key, number, text) in sorted {
        let place = seen.entry(key).or_default();
        *place += 1;
        if *place <= way.limit {
            let place = if way.numbered { format!("|{place}") } else { String::new() };
            *results.entry(format!("{}|{text}|{}{place}", shown(key), shown(number))).or_default() += 1;
        }
    }
    results
}

fn add(integral: &mut BTreeMap<String, i64>, out: &mut Output) {
    for element in out.drain() {
        let Element::Batch(batch) = element else { continue };
        let weights = batch.column_by_name(WEIGHT).expect("weights").as_primitive::<Int64Type>();
        let options = FormatOptions::default().with_null("NULL");
        let cells: Vec<_> = batch.columns()[..batch.num_columns() - 1]
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).expect("format"))
            .collect();
        for row in 0..weights.len() {
            let text = cells.iter().map(|cell| cell.value(row).to_string()).collect::<Vec<_>>().join("|");
            *integral.entry(text).or_default() += weights.value(row);
        }
    }
    integral.retain(|_, weight| *weight != 0);
}

fn run(seed: u64, disk_bytes: Option<usize>) {
    let mut rng = Rng::new(seed);
    let mut below = |end: usize| rng.below(end as u64) as usize;
    let way = Way::any(&mut below);
    let (mut now, mut rows, mut integral) = (on(way, disk_bytes), Vec::<Row>::new(), BTreeMap::new());
    let (mut files, mut then) = (Files::default(), (rows.clone(), integral.clone()));
    for _ in 0..60 {
        match below(9) {
            0 => {
                files.take(&mut *now, below(2) == 0);
                then = (rows.clone(), integral.clone());
            }
            1 if !files.is_empty() => {
                now = on(way, disk_bytes);
                let goes_on = below(2) == 0;
                files.restore(&mut *now, goes_on, &mut below);
                (rows, integral) = then.clone();
            }
            _ => {
                let mut of_batch: Vec<(Row, i64)> = Vec::new();
                for _ in 0..below(10) {
                    if way.updating && !rows.is_empty() && below(5) < 2 {
                        of_batch.push((rows.swap_remove(below(rows.len())), -1));
                        continue;
                    }
                    let mut some = |end: usize| Some(below(end) as i64).filter(|_| below(9) > 0);
                    let row = (some(4), some(6), TEXTS[below(3)]);
                    rows.push(row);
                    of_batch.push((row, 1));
                }
                let mut out = Output::default();
                now.batch(batch(&of_batch, way.updating), &mut out).expect("a batch");
                while now.more(&mut out).expect("more") {}
                add(&mut integral, &mut out);
            }
        }
        assert_eq!(integral, results(way, &rows), "seed {seed}, {way:?}, {disk_bytes:?}");
    }
}

#[test]
fn the_integral_of_the_output_is_the_first_rows_of_the_integral_of_the_input() {
    (1..=400).for_each(|seed| run(seed, None));
}

/// Little memory: all partitions are written after each batch, and batches are divided. More: some partitions
/// stay.
#[test]
fn partitions_on_disk_have_the_same_first_rows() {
    (1..=60).for_each(|seed| run(seed, Some([1_000, 8_000, 1 << 30][seed as usize % 3])));
}

#[test]
fn the_last_row_of_a_partition_is_the_first_in_order() {
    for updating in [false, true] {
        let way = Way { limit: 1, descending: true, nulls_first: true, updating, numbered: false, latest: false };
        let (mut rank, mut rng, mut kept) = (operator(way), Rng::new(7), BTreeMap::<String, String>::new());
        let mut rows: Vec<Row> = Vec::new();
        for _ in 0..200 {
            let mut of_batch: Vec<(Row, i64)> = Vec::new();
            for _ in 0..rng.below(5) {
                if updating && !rows.is_empty() && rng.below(3) == 0 {
                    of_batch.push((rows.swap_remove(rng.below(rows.len() as u64) as usize), -1));
                    continue;
                }
                rows.push((Some(rng.below(3) as i64), Some(rng.below(50) as i64), "a"));
                of_batch.extend(rows.last().map(|row| (*row, 1)));
            }
            let mut out = Output::default();
            rank.batch(batch(&of_batch, updating), &mut out).expect("a batch");
            while rank.more(&mut out).expect("more") {}
            for element in out.drain() {
                let Element::Batch(rows) = element else { continue };
                let options = FormatOptions::default();
                let cells: Vec<_> =
                    rows.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).expect("format")).collect();
                for row in 0..rows.num_rows() {
                    let cells: Vec<String> = cells.iter().map(|cell| cell.value(row).to_string()).collect();
                    match cells[3].as_str() {
                        "1" => _ = kept.insert(cells[0].clone(), cells[..3].join("|")),
                        _ => _ = kept.remove(&cells[0]),
                    }
                }
            }
            let expected = results(way, &rows);
            assert_eq!(kept.values().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        }
    }
}

#[test]
fn partitions_without_rows_take_no_memory() {
    let way = Way { limit: 2, descending: true, nulls_first: true, updating: true, numbered: false, latest: false };
    let mut rank = Rank::new(&spec(way), &options(None)).expect("an operator");
    let mut out = Output::default();
    for key in 0..3000 {
        let row = (Some(key), Some(key), "a");
        for weight in [1, -1] {
            rank.batch(batch(&[(row, weight)], true), &mut out).expect("a batch");
            while rank.more(&mut out).expect("more") {}
            out.drain().for_each(drop);
        }
        if key > 1500 && key % 5 == 0 {
            rank.snapshot(false).expect("a snapshot");
        }
    }
    assert!(rank.state.keys.len() < 100, "{} partitions", rank.state.keys.len());
    assert!(rank.state.size_bytes() < 1 << 16, "{} bytes", rank.state.size_bytes());
}
