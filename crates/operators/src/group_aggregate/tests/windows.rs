//! Groups of windows, against results of all rows that were not too late.

use anabranch_dataflow::EmissionSpec;
use arrow::array::TimestampMillisecondArray;
use arrow::datatypes::TimeUnit;

use super::*;

/// Key, last instant of the window, number, weight.
type Row = (i64, i64, i64, i64);

#[derive(Clone, Copy, Debug)]
struct Way {
    lateness_ms: i64,
    early: bool,
    /// Rows are updated.
    weighted: bool,
    mini_batch_rows: Option<u64>,
    /// State of more bytes is on disk.
    disk_bytes: Option<usize>,
}

fn input() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("window_time", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("n", DataType::Int64, false),
        Field::new("weight", DataType::Int64, false),
    ]))
}

fn operator(way: Way) -> GroupAggregate {
    let key = |name: &str, column| NamedExpr {
        name: name.into(),
        expr: Expr::Column(column),
        data_type: input().field(column).data_type().clone(),
        nullable: false,
    };
    let call = |function: &str, distinct| AggregateSpec {
        name: format!("{function}_{distinct}"),
        function: function.into(),
        args: vec![Expr::Column(2)],
        distinct,
        filter: None,
        data_type: DataType::Int64,
        nullable: true,
    };
    let spec = GroupAggregateSpec {
        keys: vec![key("k", 0), key("window_time", 1)],
        aggregates: vec![call("count", false), call("max", false), call("count", true)],
        weight: way.weighted.then_some(3),
        input_schema: input(),
        time_to_live_ms: None,
        mini_batch_rows: way.mini_batch_rows,
        emission: Some(EmissionSpec { time: 1, lateness_ms: way.lateness_ms, early: way.early }),
        zone: None,
    };
    GroupAggregate::new(&spec, &Functions::default(), &options(way.disk_bytes)).expect("an operator")
}

fn batch(rows: &[Row]) -> RecordBatch {
    let numbers = |of: fn(&Row) -> i64| Arc::new(rows.iter().map(of).collect::<Int64Array>()) as ArrayRef;
    let times = rows.iter().map(|row| Some(row.1)).collect::<TimestampMillisecondArray>();
    let columns = vec![numbers(|row| row.0), Arc::new(times), numbers(|row| row.2), numbers(|row| row.3)];
    RecordBatch::try_new(input(), columns).expect("a batch")
}

const DISK_BYTES: [Option<usize>; 3] = [None, Some(4_000), Some(40_000)];

/// The expected state at a watermark.
#[derive(Clone, Default)]
struct Expected {
    groups: BTreeMap<(i64, i64), Vec<i64>>,
    watermark: i64,
    late: u64,
}

impl Expected {
    fn results(&self, way: Way) -> BTreeMap<String, i64> {
        let shown = self
            .groups
            .iter()
            .filter(|((_, time), numbers)| !numbers.is_empty() && (way.early || *time <= self.watermark));
        let result = |((key, time), numbers): (&(i64, i64), &Vec<i64>)| {
            let time = ArrayFormatter::try_new(batch(&[(0, *time, 0, 1)]).column(1), &FormatOptions::default())
                .expect("format")
                .value(0)
                .to_string();
            let distinct = numbers.iter().collect::<std::collections::BTreeSet<_>>().len();
            let most = numbers.iter().max().copied().unwrap_or_default();
            (format!("{key}|{time}|{}|{most}|{distinct}", numbers.len()), 1)
        };
        shown.map(result).collect()
    }
}

fn run(seed: u64) {
    let mut numbers = Numbers(Rng::new(seed));
    let mut way = Way {
        lateness_ms: [0, 30, 100][numbers.below(3)],
        early: numbers.below(2) == 0,
        weighted: numbers.below(2) == 0,
        mini_batch_rows: [None, Some(7)][numbers.below(2)],
        disk_bytes: DISK_BYTES[numbers.below(3)],
    };
    let (mut now, mut integral, mut expected) = (operator(way), Integral::default(), Expected::default());
    let (mut files, mut then, mut late) = (Files::default(), (expected.clone(), BTreeMap::new(), 0), 0);
    now.watermark(EventTime(0), &mut Output::default()).expect("a watermark");
    for _ in 0..80 {
        let mut out = Output::default();
        match numbers.below(9) {
            0 => {
                now.flush(&mut out).expect("flushed");
                while now.more(&mut out).expect("more") {}
                integral.add(&mut out);
                late += now.take_dropped().late_rows;
                files.take(&mut now, numbers.below(2) == 0);
                then = (expected.clone(), integral.0.clone(), late);
            }
            1 if !files.is_empty() => {
                way.disk_bytes = DISK_BYTES[numbers.below(3)];
                now = operator(way);
                let goes_on = numbers.below(2) == 0;
                files.restore(&mut now, goes_on, &mut |end| numbers.below(end));
                (expected, integral.0, late) = then.clone();
                now.restored(EventTime(expected.watermark)).expect("restored");
            }
            2 | 3 => {
                expected.watermark += numbers.below(40) as i64;
                now.watermark(EventTime(expected.watermark), &mut out).expect("a watermark");
                while now.more(&mut out).expect("more") {}
                integral.add(&mut out);
            }
            _ => {
                let mut rows: Vec<Row> = Vec::new();
                for _ in 0..numbers.below(8) {
                    let behind = expected.watermark + 40 - numbers.below(160) as i64;
                    let time = behind.max(0) / 20 * 20 + 19;
                    let mut row = (numbers.below(3) as i64, time, numbers.below(5) as i64, 1);
                    if time + way.lateness_ms <= expected.watermark {
                        expected.late += 1;
                    } else {
                        let group = expected.groups.entry((row.0, time)).or_default();
                        match group.len() {
                            len if way.weighted && len > 0 && numbers.below(2) == 0 => {
                                (row.2, row.3) = (group.swap_remove(numbers.below(len)), -1);
                            }
                            _ => group.push(row.2),
                        }
                    }
                    rows.push(row);
                }
                now.batch(batch(&rows), &mut out).expect("a batch");
                while now.more(&mut out).expect("more") {}
                now.flush(&mut out).expect("flushed");
                while now.more(&mut out).expect("more") {}
                integral.add(&mut out);
            }
        }
        assert_eq!(integral.0, expected.results(way), "seed {seed}, {way:?}");
    }
    late += now.take_dropped().late_rows;
    assert_eq!(late, expected.late, "seed {seed}, {way:?}");
    let rows = now.state.rows.live;
    assert!(rows < 60, "{rows} groups are there, though most windows are over");
}

#[test]
fn late_rows_change_results_until_it_is_too_late() {
    (1..=200).for_each(run);
}

#[test]
fn many_results_of_a_window_are_emitted_in_pieces() {
    for disk_bytes in [None, Some(1 << 20)] {
        results_in_pieces(disk_bytes);
    }
}

fn results_in_pieces(disk_bytes: Option<usize>) {
    let mut now = operator(Way { lateness_ms: 10, early: false, weighted: false, mini_batch_rows: None, disk_bytes });
    let rows: Vec<Row> = (0..40_000).map(|key| (key, 99, key, 1)).collect();
    let mut out = Output::default();
    for rows in rows.chunks(1000) {
        now.batch(batch(rows), &mut out).expect("a batch");
        while now.more(&mut out).expect("more") {}
        assert!(disk_bytes.is_none_or(|bytes| now.state.size_bytes() <= bytes / 4), "{} bytes", now.state.size_bytes());
    }
    assert!(out.is_empty());
    now.watermark(EventTime(99), &mut out).expect("a watermark");
    let mut pieces = Vec::new();
    loop {
        for element in out.drain() {
            match element {
                Element::Batch(rows) => pieces.push(rows.num_rows()),
                Element::Watermark(watermark) => assert_eq!((watermark, pieces.iter().sum()), (EventTime(99), 40_000)),
            }
        }
        if !now.more(&mut out).expect("more") {
            break;
        }
    }
    assert!(pieces.len() > 2 && pieces.iter().all(|rows| *rows <= RESULT_ROWS), "{pieces:?}");
}
