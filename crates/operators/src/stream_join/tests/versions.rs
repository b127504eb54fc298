//! Rows joined with the version that is valid at their time.

use anabranch_dataflow::ExpirySpec;
use arrow::array::{Int64Array, TimestampMillisecondArray};
use arrow::datatypes::TimeUnit;

use super::*;
use crate::event_time::event_times;
use crate::keyed_state::SPARSE_MIN;

/// Key, event time, number.
type Row = (Option<i64>, i64, i64);

/// Key, event time, number; a negative number ends the version before.
type Found = BTreeMap<Vec<Option<i64>>, i64>;

fn spec(kind: StreamJoinKind, filter: bool) -> StreamJoinSpec {
    let fields = vec![
        Field::new("k", DataType::Int64, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("n", DataType::Int64, false),
    ];
    let schema = Arc::new(Schema::new(fields));
    let less = Expr::Binary { op: BinaryOp::Lt, left: Expr::Column(2).into(), right: Expr::Column(5).into() };
    StreamJoinSpec {
        kind,
        keys: 1,
        nulls_equal: false,
        filter: filter.then_some(less),
        left: StreamSideSpec {
            schema: Arc::clone(&schema),
            updating: false,
            expiry: Some(ExpirySpec { time: 1, after_ms: 0 }),
            time_to_live_ms: None,
        },
        right: StreamSideSpec { schema, updating: true, expiry: None, time_to_live_ms: None },
        output: vec![0, 1, 2, 4, 5],
        delay_ms: 0,
        versions: Some(1),
        zone: None,
    }
}

fn batch(rows: &[Row], weights: bool) -> RecordBatch {
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>())),
        ("t", Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.1)))),
        ("n", Arc::new(rows.iter().map(|row| row.2.abs()).collect::<Int64Array>())),
    ];
    if weights {
        columns.push((WEIGHT, Arc::new(rows.iter().map(|row| row.2.signum()).collect::<Int64Array>())));
    }
    RecordBatch::try_from_iter(columns).expect("a batch")
}

fn drain(found: &mut Found, join: &mut StreamJoin, mut out: Output) {
    while join.more(&mut out).expect("more") {}
    for element in out.drain() {
        let Element::Batch(rows) = element else { continue };
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

/// The rows and versions so far.
#[derive(Clone, Default)]
struct Model {
    waiting: Vec<Row>,
    versions: Vec<Row>,
    expected: Found,
    found: Found,
    watermark: i64,
}

impl Model {
    /// Joins the rows whose time has come.
    fn join(&mut self, kind: StreamJoinKind, filter: bool) {
        let (due, waiting) = self.waiting.iter().partition(|row| row.1 <= self.watermark);
        self.waiting = waiting;
        let due: Vec<Row> = due;
        for (key, time, number) in due {
            let of_key = self.versions.iter().filter(|version| key.is_some() && version.0 == key && version.1 <= time);
            let valid = of_key.max_by_key(|version| version.1).filter(|version| version.2 > 0);
            let valid = valid.filter(|version| !filter || number < version.2);
            if valid.is_some() || kind == StreamJoinKind::Left {
                let version = [valid.map(|version| version.1), valid.map(|version| version.2)];
                *self
                    .expected
                    .entry([key, Some(time), Some(number)].into_iter().chain(version).collect())
                    .or_default() += 1;
            }
        }
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut below = |end: i64| rng.below(end as u64) as i64;
    let (kind, filter) = (KINDS[below(2) as usize], below(2) == 0);
    let operator = |disk_bytes: i64| {
        let options = options([None, Some(1000), Some(100_000)][disk_bytes as usize]);
        StreamJoin::new(&spec(kind, filter), &Functions::default(), &options).expect("an operator")
    };
    let (mut now, mut model, mut files) = (operator(below(3)), Model::default(), Files::default());
    let mut then = model.clone();
    Operator::watermark(&mut now, EventTime(0), &mut Output::default()).expect("a watermark");
    for _ in 0..80 {
        let mut out = Output::default();
        match below(9) {
            0 => {
                files.take(&mut now, below(4) == 0);
                then = model.clone();
            }
            1 if !files.is_empty() => {
                (now, model) = (operator(below(3)), then.clone());
                files.restore(&mut now, false, &mut |end| below(end as i64) as usize);
                now.restored(EventTime(model.watermark)).expect("restored");
                if below(2) == 0 {
                    now.goes_on();
                }
            }
            2..4 => {
                model.watermark += below(60);
                Operator::watermark(&mut now, EventTime(model.watermark), &mut out).expect("a watermark");
            }
            4..6 => {
                // Some of them are late, but their version is still there.
                let time = |after: i64| model.watermark + after / 2;
                let mut rows: Vec<Row> = (0..below(8)).map(|_| (Some(below(3)), time(below(150)), below(9))).collect();
                rows.iter_mut().for_each(|row| row.0 = row.0.filter(|_| below(9) > 0));
                now.batch(batch(&rows, false), &mut out).expect("a batch");
                model.waiting.extend(rows);
            }
            _ => {
                let mut number = || 1 + below(9) - 12 * i64::from(below(6) == 0);
                let mut rows: Vec<Row> = (0..3).map(|key| (Some(key), 0, number())).collect();
                rows.iter_mut().for_each(|row| row.1 = model.watermark + 1 + below(100));
                now.input_batch(1, batch(&rows, true), &mut out).expect("a batch");
                for row in rows {
                    model.versions.retain(|version| (version.0, version.1) != (row.0, row.1));
                    model.versions.push(row);
                }
            }
        }
        drain(&mut model.found, &mut now, out);
        // Without a key there is no version to wait for.
        let without = model.waiting.iter().filter(|row| row.0.is_none()).cloned().collect::<Vec<_>>();
        model.waiting.retain(|row| row.0.is_some());
        for (_, time, number) in without.into_iter().filter(|_| kind == StreamJoinKind::Left) {
            *model.expected.entry(vec![None, Some(time), Some(number), None, None]).or_default() += 1;
        }
        model.join(kind, filter);
        assert_eq!(model.found, model.expected, "seed {seed}, {kind:?}, filter {filter}");
    }
}

#[test]
fn rows_are_joined_with_the_version_of_their_time() {
    (1..=300).for_each(run);
}

#[test]
fn versions_that_are_over_are_forgotten() {
    let join = StreamJoin::new(&spec(StreamJoinKind::Inner, false), &Functions::default(), &options(None));
    let (mut join, mut found, mut files, mut most) = (join.expect("an operator"), Found::new(), Files::default(), 0);
    for second in 0..300 {
        let rows: Vec<Row> = (0..50).map(|row| (Some(row % 7), second * 1000 + row * 10, row + 1)).collect();
        let mut out = Output::default();
        join.input_batch(1, batch(&rows, true), &mut out).expect("a batch");
        drain(&mut found, &mut join, out);
        let mut out = Output::default();
        join.batch(batch(&rows, false), &mut out).expect("a batch");
        Operator::watermark(&mut join, EventTime(second * 1000 + 900), &mut out).expect("a watermark");
        drain(&mut found, &mut join, out);
        if second % 10 == 0 {
            files.take(&mut join, false);
        }
        most = most.max(join.side(JoinSide::Left).len() + join.side(JoinSide::Right).len());
    }
    assert_eq!(found.values().sum::<i64>(), 300 * 50);
    assert!(most < 2 * SPARSE_MIN + 2500, "{most} rows");
}
