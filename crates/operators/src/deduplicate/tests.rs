//! The rows that are emitted against all rows, in their order: with rows out of order, late rows, keys that
//! are forgotten, snapshots, and restored operators.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use anabranch_model::Rng;
use arrow::array::{AsArray, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{Field, Int64Type, Schema, TimeUnit};

use super::*;
use crate::Element;
use crate::keyed_state::TimeToLive;
use crate::keyed_state::files::{Files, Stated, options};

/// A row: key, time, and its number.
type Row = (Option<&'static str>, Option<i64>, i64);

const KEYS: [Option<&str>; 8] = [
    Some("a"),
    Some("b"),
    Some("c"),
    Some(""),
    None,
    Some("a key of more than twelve bytes"),
    Some("another key of more than twelve"),
    Some("z"),
];
const TIME_TO_LIVE_MS: i64 = 80;
const STEP_MS: i64 = 10;

fn spec(keys: usize, time: Option<usize>, time_to_live_ms: Option<i64>) -> DeduplicateSpec {
    let schema = Schema::new(vec![
        Field::new("key", DataType::Utf8View, true),
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("number", DataType::Int64, false),
    ]);
    DeduplicateSpec { keys, time, schema: Arc::new(schema), output: vec![0, 2], time_to_live_ms }
}

/// `disk`: the memory limit of an operator with a disk.
fn operator(spec: &DeduplicateSpec, disk: Option<usize>) -> Deduplicate {
    Deduplicate::new(spec, &options(disk)).expect("valid")
}

fn batch(spec: &DeduplicateSpec, rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(Arc::clone(&spec.schema), columns).expect("a batch")
}

fn numbers_of(out: &mut Output, found: &mut Vec<i64>) {
    let mut passed = false;
    for element in out.drain() {
        match element {
            Element::Batch(rows) => {
                assert!(!passed, "a watermark overtook a row");
                assert!(rows.num_rows() <= RESULT_ROWS);
                found.extend(rows.column(1).as_primitive::<Int64Type>().values());
            }
            Element::Watermark(_) => passed = true,
        }
    }
}

fn fire(deduplicate: &mut Deduplicate, watermark: i64, found: &mut Vec<i64>) {
    let mut out = Output::default();
    deduplicate.watermark(EventTime(watermark), &mut out).expect("a watermark");
    while deduplicate.more(&mut out).expect("more") {}
    numbers_of(&mut out, found);
}

/// What the operator should do.
struct Model {
    spec: DeduplicateSpec,
    waiting: Vec<Row>,
    /// When the keys have had their rows.
    known: BTreeMap<Option<&'static str>, i64>,
    emitted: Vec<i64>,
    watermark: i64,
    late: u64,
    without_time: u64,
}

impl Model {
    fn new(spec: &DeduplicateSpec) -> Model {
        Model {
            spec: spec.clone(),
            waiting: Vec::new(),
            known: BTreeMap::new(),
            emitted: Vec::new(),
            watermark: i64::MIN,
            late: 0,
            without_time: 0,
        }
    }

    fn take(&mut self, row: Row, written: i64) {
        let key = row.0.filter(|_| self.spec.keys > 0);
        if let Entry::Vacant(entry) = self.known.entry(key) {
            entry.insert(written);
            self.emitted.push(row.2);
        }
    }

    fn add(&mut self, rows: &[Row], written: i64) {
        for row in rows {
            match (self.spec.time, row.1) {
                (None, _) => self.take(*row, written),
                (Some(_), None) => self.without_time += 1,
                (Some(_), Some(time)) if time <= self.watermark => self.late += 1,
                _ => self.waiting.push(*row),
            }
        }
    }

    fn fire(&mut self, watermark: i64, written: i64) {
        self.watermark = watermark;
        let mut due: Vec<Row> = self.waiting.extract_if(.., |row| row.1 <= Some(watermark)).collect();
        due.sort_by_key(|row| row.1);
        due.into_iter().for_each(|row| self.take(row, written));
    }
}

fn run(seed: u64, spec: &DeduplicateSpec) {
    let mut rng = Rng::new(seed);
    // A checkpoint may be restored with the other backend.
    let disk = |rng: &mut Rng| [None, Some(100), Some(2_000), Some(20_000)][rng.below(4) as usize];
    let mut bytes = disk(&mut rng);
    let (mut deduplicate, mut files) = (operator(spec, bytes), Files::default());
    let mut model = Model::new(spec);
    let (mut found, mut dropped, mut clock) = (Vec::new(), Dropped::default(), 1_000_000);
    // The time of what is changed now: of the operator, as if it had one more key.
    let written = |of: &Deduplicate| of.state.times.as_ref().map_or(0, TimeToLive::current);
    for step in 0..60_i64 {
        let now = step * 2;
        let row = |number: u64, rng: &mut Rng| {
            let key = KEYS[rng.below(1 + step as u64 / 5) as usize % KEYS.len()];
            let time = Some(now + rng.below(12) as i64).filter(|_| rng.below(20) > 0);
            (key, time, step * 10 + number as i64)
        };
        let rows: Vec<Row> = (0..rng.below(8)).map(|number| row(number, &mut rng)).collect();
        let mut out = Output::default();
        model.add(&rows, written(&deduplicate));
        deduplicate.batch(batch(spec, &rows), &mut out).expect("rows");
        while deduplicate.more(&mut out).expect("more") {}
        assert!(spec.time.is_none() || out.is_empty(), "rows wait for the watermark");
        numbers_of(&mut out, &mut found);
        // A row that waits may find its key forgotten, or not: with a time to live, none does.
        if rng.below(3) == 0 || spec.time_to_live_ms.is_some() {
            let late = if spec.time_to_live_ms.is_some() { -12 } else { rng.below(5) as i64 };
            let watermark = model.watermark.max(now - late);
            model.fire(watermark, written(&deduplicate));
            fire(&mut deduplicate, watermark, &mut found);
        }
        assert_eq!(found, model.emitted, "seed {seed}, step {step}, {spec}");
        let more = deduplicate.take_dropped();
        dropped.late_rows += more.late_rows;
        dropped.rows_without_event_time += more.rows_without_event_time;
        if rng.below(3) > 0 {
            continue;
        }
        clock += STEP_MS * (1 + rng.below(20) as i64);
        deduplicate.processing_time(clock).expect("a time");
        model.known.retain(|_, written| spec.time_to_live_ms.is_none_or(|ms| *written > clock - ms));
        files.take(&mut deduplicate, rng.below(4) == 0);
        match rng.below(3) {
            0 => {
                bytes = disk(&mut rng);
                deduplicate = operator(spec, bytes);
                deduplicate.processing_time(clock).expect("a time");
                files.restore(&mut deduplicate, false, &mut |len| rng.below(len as u64) as usize);
                deduplicate.restored(EventTime(model.watermark)).expect("restored");
                if rng.below(2) == 0 {
                    deduplicate.goes_on();
                } else {
                    files = Files::default();
                    files.take(&mut deduplicate, false);
                }
            }
            1 => {
                let mut former = std::mem::replace(&mut deduplicate, operator(spec, bytes));
                deduplicate.succeed(&mut former).expect("of the same kind");
            }
            _ => {}
        }
    }
    model.fire(i64::MAX, written(&deduplicate));
    fire(&mut deduplicate, i64::MAX, &mut found);
    assert_eq!(found, model.emitted, "seed {seed}, {spec}");
    assert_eq!((dropped.late_rows, dropped.rows_without_event_time), (model.late, model.without_time));
    assert!(deduplicate.state.waiting.is_none_or(|waiting| waiting.is_empty()));
}

#[test]
fn the_first_row_of_each_key_is_emitted_once() {
    for keys in [0, 1] {
        for time in [None, Some(1)] {
            (1..=40).for_each(|seed| run(seed, &spec(keys, time, None)));
        }
    }
}

#[test]
fn keys_are_forgotten_when_their_time_is_over() {
    for time in [None, Some(1)] {
        (1..=60).for_each(|seed| run(seed, &spec(1, time, Some(TIME_TO_LIVE_MS))));
    }
}

#[test]
fn rows_of_keys_that_have_had_one_do_not_wait() {
    let spec = spec(1, Some(1), None);
    let (mut deduplicate, mut found) = (operator(&spec, None), Vec::new());
    let rows = |from: i64| (from..from + 100).map(|n| (KEYS[(n % 5) as usize], Some(n), n)).collect::<Vec<Row>>();
    deduplicate.batch(batch(&spec, &rows(0)), &mut Output::default()).expect("rows");
    fire(&mut deduplicate, 100, &mut found);
    deduplicate.batch(batch(&spec, &rows(200)), &mut Output::default()).expect("rows");
    assert!(deduplicate.state.waiting.as_ref().is_some_and(Waiting::is_empty));
    assert_eq!(found, [0, 1, 2, 3, 4]);
}

#[test]
fn rows_of_no_columns_are_counted_and_names_of_columns_do_not_matter() {
    for time in [None, Some(1)] {
        let spec = DeduplicateSpec { output: Vec::new(), ..spec(1, time, None) };
        let mut deduplicate = operator(&spec, None);
        let rows: Vec<Row> = (0..10).map(|n| (KEYS[(n % 4) as usize], Some(n), n)).collect();
        let rows = batch(&spec, &rows);
        let fields =
            rows.schema().fields().iter().map(|field| field.as_ref().clone().with_name("x")).collect::<Vec<_>>();
        let mut out = Output::default();
        let renamed = RecordBatch::try_new(Arc::new(Schema::new(fields)), rows.columns().to_vec()).expect("a batch");
        deduplicate.batch(renamed, &mut out).expect("rows");
        while deduplicate.more(&mut out).expect("more") {}
        deduplicate.watermark(EventTime::MAX, &mut out).expect("a watermark");
        while deduplicate.more(&mut out).expect("more") {}
        let counts =
            out.drain().filter_map(|of| if let Element::Batch(rows) = of { Some(rows.num_rows()) } else { None });
        assert_eq!(counts.sum::<usize>(), 4);
    }
}

#[test]
fn keys_of_one_time_need_not_fit_into_memory_at_once() {
    let spec = DeduplicateSpec { keys: 3, ..spec(1, Some(1), None) };
    let (mut deduplicate, mut found) = (operator(&spec, Some(3 << 20)), Vec::new());
    let rows: Vec<Row> = (0..60_000).map(|n| (KEYS[(n % 7) as usize], Some(5), n)).collect();
    for rows in rows.chunks(8_000) {
        deduplicate.batch(batch(&spec, rows), &mut Output::default()).expect("rows");
    }
    fire(&mut deduplicate, 10, &mut found);
    assert_eq!(found, rows.iter().map(|row| row.2).collect::<Vec<_>>());
}

/// More keys than fit into memory, in batches that need more of them than fit.
#[test]
fn keys_on_the_disk_are_known() {
    let spec = DeduplicateSpec { keys: 3, ..spec(1, None, None) };
    let (mut deduplicate, mut found) = (operator(&spec, Some(1 << 16)), Vec::new());
    let rows: Vec<Row> = (0..40_000).map(|n| (KEYS[(n % 7) as usize], Some(n), n)).collect();
    for _ in 0..2 {
        for rows in rows.chunks(8_000) {
            let mut out = Output::default();
            deduplicate.batch(batch(&spec, rows), &mut out).expect("rows");
            while deduplicate.more(&mut out).expect("more") {}
            numbers_of(&mut out, &mut found);
        }
    }
    assert!(deduplicate.state.disk.as_ref().is_some_and(|disk| !disk.is_empty()), "it has written keys");
    assert_eq!(found, rows.iter().map(|row| row.2).collect::<Vec<_>>());
}
