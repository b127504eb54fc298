//! The results of each row against a recomputation over the sorted rows: with rows out of order, late rows,
//! snapshots, and restored operators.

use std::collections::BTreeMap;

use anabranch_dataflow::{AggregateSpec, Expr, Frame, LAG};
use anabranch_model::Rng;
use arrow::array::{AsArray, Float64Array, Int64Array, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{Field, Float64Type, Int64Type, Schema, TimeUnit};

mod time_to_live;

use super::*;
use crate::Element;
use crate::keyed_state::SPARSE_MIN;
use crate::keyed_state::files::{Files, Stated, options};

/// A row: key, time, value, text, and its number.
type Row = (Option<&'static str>, Option<i64>, Option<i64>, &'static str, i64);

const TIME: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);
const KEYS: [Option<&str>; 4] = [Some("a"), Some("b"), None, Some("a key of more than twelve bytes")];
const TEXTS: [&str; 4] = ["x", "yy", "a text of more than twelve bytes", "another text of more than twelve"];
const FRAMES: [Frame; 8] = [
    Frame::Rows { preceding: Some(0) },
    Frame::Rows { preceding: Some(2) },
    Frame::Rows { preceding: Some(100) },
    Frame::Rows { preceding: None },
    Frame::Range { preceding_ms: Some(0) },
    Frame::Range { preceding_ms: Some(7) },
    Frame::Range { preceding_ms: Some(60) },
    Frame::Range { preceding_ms: None },
];
const LAST: &str = "no row";

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8View, true),
        Field::new("ts", TIME, true),
        Field::new("value", DataType::Int64, true),
        Field::new("text", DataType::Utf8View, true),
        Field::new("number", DataType::Int64, false),
        Field::new("otherwise", DataType::Utf8View, true),
    ]))
}

fn literal(number: i64) -> Expr {
    Expr::number(number)
}

fn call(name: &str, function: &str, args: Vec<Expr>, data_type: DataType) -> AggregateSpec {
    AggregateSpec {
        name: name.into(),
        function: function.into(),
        args,
        distinct: name == "distinct",
        filter: None,
        data_type,
        nullable: true,
    }
}

/// `disk`: the memory limit of an operator with a disk.
fn operator(frame: Frame, time: Option<usize>, disk: Option<usize>) -> Over {
    Over::new(&spec(frame, time), &Functions::default(), &options(disk)).expect("valid")
}

fn spec(frame: Frame, time: Option<usize>) -> OverSpec {
    let (value, text) = (|| vec![Expr::Column(2)], || vec![Expr::Column(3)]);
    let mut functions = vec![
        call("n", "count", vec![literal(1)], DataType::Int64),
        call("total", "sum", value(), DataType::Int64),
        call("least", "min", value(), DataType::Int64),
        call("most", "max", text(), DataType::Utf8View),
        call("first", "first_value", text(), DataType::Utf8View),
        call("last", "last_value", value(), DataType::Int64),
        call("distinct", "count", value(), DataType::Int64),
    ];
    if let Frame::Rows { preceding: Some(2..) } = frame {
        let args = vec![Expr::Column(3), literal(2), Expr::Column(5)];
        functions.insert(1, call("before", LAG, args, DataType::Utf8View));
    }
    OverSpec { keys: 1, time, frame, time_to_live_ms: None, functions, schema: schema(), output: vec![0, 4] }
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.3)).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|row| row.4).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|_| Some(LAST)).collect::<StringViewArray>()),
    ];
    RecordBatch::try_new(schema(), columns).expect("a batch")
}

/// The results of rows by their numbers, as text.
type Found = BTreeMap<i64, Vec<String>>;

fn read(out: &mut Output, found: &mut Found) -> bool {
    let mut passed = false;
    for element in out.drain() {
        let Element::Batch(rows) = element else {
            passed = true;
            continue;
        };
        assert!(!passed, "a watermark overtook a row");
        let numbers = rows.column(1).as_primitive::<Int64Type>();
        for row in 0..rows.num_rows() {
            let shown = rows.columns()[2..].iter().map(|column| {
                if column.is_null(row) {
                    return "NULL".to_owned();
                }
                match column.as_string_view_opt() {
                    Some(texts) => texts.value(row).to_owned(),
                    None => column.as_primitive::<Int64Type>().value(row).to_string(),
                }
            });
            assert!(found.insert(numbers.value(row), shown.collect()).is_none(), "a row was emitted twice");
        }
    }
    passed
}

fn fire(over: &mut Over, watermark: i64, found: &mut Found) {
    let mut out = Output::default();
    over.watermark(EventTime(watermark), &mut out).expect("a watermark");
    while over.more(&mut out).expect("more") {}
    assert!(read(&mut out, found));
}

fn result(row: usize, of: &[Row], frame: Frame) -> Vec<String> {
    let time = of[row].1;
    let counts: Vec<&Row> = match frame {
        Frame::Rows { preceding } => {
            let preceding = preceding.map_or(usize::MAX, |rows| rows as usize);
            of[row.saturating_sub(preceding)..=row].iter().collect()
        }
        Frame::Range { preceding_ms } => {
            let first = preceding_ms.and_then(|ms| Some(time? - ms));
            of.iter().filter(|row| row.1 <= time && first.is_none_or(|first| row.1 >= Some(first))).collect()
        }
    };
    let values: Vec<i64> = counts.iter().filter_map(|row| row.2).collect();
    let number = |number: Option<i64>| number.map_or("NULL".to_owned(), |number| number.to_string());
    let mut distinct = values.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let mut results = vec![
        counts.len().to_string(),
        number((!values.is_empty()).then(|| values.iter().sum())),
        number(values.iter().min().copied()),
        counts.iter().map(|row| row.3).max().expect("the row itself").to_owned(),
        counts[0].3.to_owned(),
        number(values.last().copied()),
        distinct.len().to_string(),
    ];
    if let Frame::Rows { preceding: Some(2..) } = frame {
        results.insert(1, row.checked_sub(2).map_or(LAST, |row| of[row].3).to_owned());
    }
    results
}

/// The results of all rows: the rows of a key in the order of their times, then of their arrival.
fn expected(rows: &[Row], frame: Frame, by_time: bool) -> Found {
    let mut found = Found::new();
    for key in KEYS {
        let mut of: Vec<Row> =
            rows.iter().filter(|row| row.0 == key && (!by_time || row.1.is_some())).copied().collect();
        if by_time {
            of.sort_by_key(|row| row.1);
        }
        found.extend((0..of.len()).map(|row| (of[row].4, result(row, &of, frame))));
    }
    found
}

fn run(seed: u64, frame: Frame, time: Option<usize>) {
    let mut rng = Rng::new(seed);
    // A checkpoint may be restored with the other backend.
    let disk = |rng: &mut Rng| [None, Some(100), Some(4_000), Some(20_000)][rng.below(4) as usize];
    let mut bytes = disk(&mut rng);
    let (mut over, mut files) = (operator(frame, time, bytes), Files::default());
    let (mut all, mut found, mut watermark, mut late) = (Vec::new(), Found::new(), i64::MIN, 0);
    for step in 0..60_i64 {
        let now = step * 2;
        let rows: Vec<Row> = (0..rng.below(8))
            .map(|number| {
                let time = Some(now + rng.below(12) as i64).filter(|_| rng.below(20) > 0);
                let value = (rng.below(5) > 0).then(|| rng.below(9) as i64);
                (KEYS[rng.below(4) as usize], time, value, TEXTS[rng.below(4) as usize], step * 10 + number as i64)
            })
            .collect();
        let mut out = Output::default();
        over.batch(batch(&rows), &mut out).expect("rows");
        assert!(time.is_none() || out.is_empty(), "rows wait for the watermark");
        read(&mut out, &mut found);
        let is_late = |row: &Row| time.is_some() && row.1.is_some_and(|time| time <= watermark);
        late += rows.iter().filter(|row| is_late(row)).count();
        all.extend(rows.into_iter().filter(|row| !is_late(row)));
        late -= over.take_dropped().late_rows as usize;
        if rng.below(3) == 0 {
            watermark = watermark.max(now - rng.below(5) as i64);
            fire(&mut over, watermark, &mut found);
        }
        if rng.below(3) > 0 {
            continue;
        }
        files.take(&mut over, rng.below(4) == 0);
        match rng.below(3) {
            0 => {
                bytes = disk(&mut rng);
                over = operator(frame, time, bytes);
                files.restore(&mut over, false, &mut |len| rng.below(len as u64) as usize);
                over.restored(EventTime(watermark)).expect("restored");
                if rng.below(2) == 0 {
                    over.goes_on();
                } else {
                    files = Files::default();
                    files.take(&mut over, false);
                }
            }
            1 => {
                let mut former = std::mem::replace(&mut over, operator(frame, time, bytes));
                over.succeed(&mut former).expect("of the same kind");
            }
            _ => {}
        }
    }
    fire(&mut over, i64::MAX, &mut found);
    assert_eq!(found, expected(&all, frame, time.is_some()), "seed {seed}, {frame:?}");
    assert_eq!(late, 0, "late rows are counted");
    assert!(over.state.waiting.is_none_or(|waiting| waiting.is_empty()));
}

#[test]
fn each_row_has_the_rows_before_it_by_event_time() {
    for seed in 1..=12 {
        FRAMES.into_iter().for_each(|frame| run(seed, frame, Some(1)));
    }
}

#[test]
fn each_row_has_the_rows_before_it_as_they_come() {
    for seed in 1..=12 {
        FRAMES.into_iter().take(4).for_each(|frame| run(seed, frame, None));
    }
}

#[test]
fn only_rows_that_later_ones_need_stay() {
    for (frame, kept) in [(Frame::Rows { preceding: Some(2) }, 2), (Frame::Range { preceding_ms: Some(7) }, 8)] {
        let (mut over, mut found, mut out) = (operator(frame, Some(1), None), Found::new(), Output::default());
        let mut most = 0;
        for time in 0..2000 {
            over.batch(batch(&[(KEYS[0], Some(time), Some(time), TEXTS[0], time)]), &mut out).expect("rows");
            fire(&mut over, time, &mut found);
            most = most.max(over.state.rows.history.live);
        }
        assert!(most <= 2 * kept + SPARSE_MIN, "{most} rows, {frame:?}");
        let memory = over.state.size_bytes();
        for time in 2000..4000 {
            over.batch(batch(&[(KEYS[0], Some(time), Some(time), TEXTS[0], time)]), &mut out).expect("rows");
            fire(&mut over, time, &mut found);
        }
        assert!(over.state.size_bytes() < 2 * memory, "{} bytes after {memory}, {frame:?}", over.state.size_bytes());
        fire(&mut over, 10_000, &mut found);
        let left = if matches!(frame, Frame::Rows { .. }) { 2 } else { 0 };
        assert_eq!(over.state.rows.history.live, left, "{frame:?}");
    }
}

#[test]
fn partitions_whose_time_is_over_are_forgotten() {
    let names: Vec<&'static str> = (0..500).map(|n| &*format!("key {n}").leak()).collect();
    let (mut over, mut found) = (operator(Frame::Range { preceding_ms: Some(5) }, Some(1), None), Found::new());
    for (time, name) in names.iter().enumerate() {
        let time = time as i64;
        over.batch(batch(&[(Some(name), Some(time), Some(1), TEXTS[1], time)]), &mut Output::default()).expect("rows");
        fire(&mut over, time, &mut found);
        assert!(over.state.keys.len() < 40, "{} partitions", over.state.keys.len());
    }
    assert!(found.values().all(|results| results[0] == "1" && results[1] == "1"));
}

#[test]
fn rows_that_are_in_no_frame_any_more_are_not_restored() {
    let frame = Frame::Rows { preceding: Some(2) };
    let (mut over, mut files, mut out) = (operator(frame, None, None), Files::default(), Output::default());
    for number in 0..400 {
        let rows = KEYS.map(|key| (key, None, Some(number), TEXTS[2], number));
        over.batch(batch(&rows), &mut out).expect("rows");
        files.take(&mut over, true);
    }
    assert!(files.most_changes() > 300, "each snapshot adds a file");
    let mut over = operator(frame, None, None);
    // All rows would take more.
    over.state.bytes_max = 64 << 10;
    files.restore(&mut over, false, &mut |len| len / 2);
    over.restored(EventTime::MIN).expect("restored");
    assert_eq!(over.state.rows.restored_rows(), 2 * KEYS.len());
}

#[test]
fn a_snapshot_that_only_adds_keeps_all_files() {
    let (mut over, mut found) = (operator(Frame::Range { preceding_ms: Some(7) }, Some(1), None), Found::new());
    let rows = [(KEYS[0], Some(50), Some(1), TEXTS[0], 1), (KEYS[0], Some(100), Some(1), TEXTS[0], 2)];
    over.batch(batch(&rows), &mut Output::default()).expect("rows");
    fire(&mut over, 60, &mut found);
    for (adds, first) in [(true, [i64::MIN; 2]), (false, [61, 54])] {
        let panes = over.snapshot(adds).expect("a snapshot").into_iter().map(|change| change.first_pane.0);
        assert_eq!(panes.collect::<Vec<_>>(), first);
    }
}

#[test]
fn what_is_not_finite_leaves_a_frame_without_a_trace() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8View, true),
        Field::new("value", DataType::Float64, true),
    ]));
    let functions = ["sum", "avg"].map(|of| call(of, of, vec![Expr::Column(1)], DataType::Float64)).to_vec();
    let frame = Frame::Rows { preceding: Some(1) };
    let (schema_of, output) = (Arc::clone(&schema), Vec::new());
    let spec = OverSpec { keys: 1, time: None, frame, time_to_live_ms: None, functions, schema: schema_of, output };
    let mut over = Over::new(&spec, &Functions::default(), &options(None)).expect("valid");
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let values = [Some(1.0), Some(nan), Some(2.0), Some(3.0), Some(inf), Some(-inf), Some(4.0), None, None, Some(5.0)];
    let expected = ["1.0", "NaN", "NaN", "5.0", "inf", "NaN", "-inf", "4.0", "NULL", "5.0"];
    let averages = ["1.0", "NaN", "NaN", "2.5", "inf", "NaN", "-inf", "4.0", "NULL", "5.0"];
    let mut found = [Vec::new(), Vec::new()];
    for piece in values.chunks(3) {
        let keys: StringViewArray = piece.iter().map(|_| Some("a")).collect();
        let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(Float64Array::from(piece.to_vec()))];
        let mut out = Output::default();
        over.batch(RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch"), &mut out).expect("rows");
        for element in out.drain() {
            let Element::Batch(rows) = element else { continue };
            for (found, column) in found.iter_mut().zip(rows.columns()) {
                let column = column.as_primitive::<Float64Type>().iter();
                found.extend(column.map(|of| of.map_or("NULL".to_owned(), |of| format!("{of:?}"))));
            }
        }
    }
    assert_eq!(found, [expected, averages].map(|of| of.map(str::to_owned).to_vec()));
}
