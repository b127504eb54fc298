//! Windows of local times against a naive recomputation, across changes of clocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{AggregatePhase, AggregateSpec, Expr, JobOptions, OperatorSpec, Window, WindowAggregateSpec};
use anabranch_functions::LOCAL_TIME;
use anabranch_model::Rng;
use arrow::array::{AsArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMillisecondType};

use super::*;
use crate::keyed_state::files::Stated;
use crate::{Element, Functions, build_operator};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
/// Rows are out of order by at most this time.
const BOUND: i64 = 10 * MINUTE;

fn schema() -> SchemaRef {
    let instant = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![Field::new("ts", instant, true)]))
}

fn spec(zone: &str, window: Window) -> OperatorSpec {
    let local = DataType::Timestamp(TimeUnit::Millisecond, None);
    let args = vec![Expr::Column(0), Expr::text(zone)];
    let time = Expr::Call { function: LOCAL_TIME.into(), args, returns: local.clone(), fails: false, varies: false };
    let count = AggregateSpec {
        name: "n".into(),
        function: "count".into(),
        args: vec![Expr::Column(0)],
        distinct: false,
        filter: None,
        data_type: DataType::Int64,
        nullable: false,
    };
    OperatorSpec::WindowAggregate(WindowAggregateSpec {
        phase: AggregatePhase::Complete,
        window,
        time: Some(time),
        time_type: local,
        keys: Vec::new(),
        aggregates: vec![count],
        input_schema: schema(),
        zone: Some(zone.to_owned()),
    })
}

fn operator(spec: &OperatorSpec) -> Box<dyn Operator> {
    build_operator(spec, &schema(), &JobOptions::default(), &Functions::default()).expect("builds").0
}

/// Takes the output: counts by the ends of windows, in local time. Returns the last watermark.
fn take(out: &mut Output, counts: &mut BTreeMap<(i64, i64), i64>) -> Option<EventTime> {
    let mut watermark = None;
    for element in out.drain() {
        match element {
            Element::Watermark(reached) => watermark = Some(reached),
            Element::Batch(batch) => {
                let times = |column: usize| batch.column(column).as_primitive::<TimestampMillisecondType>().values();
                let numbers = batch.column(3).as_primitive::<Int64Type>().values();
                for ((start, end), n) in times(0).iter().zip(times(1)).zip(numbers) {
                    assert_eq!(counts.insert((*start, *end), *n), None, "a window is emitted once");
                }
            }
        }
    }
    watermark
}

/// All windows of a local time.
fn windows(window: Window, local: i64) -> Vec<(i64, i64)> {
    let (size, slide) = match window {
        Window::Tumble { size_ms, .. } => (size_ms, size_ms),
        Window::Hop { size_ms, slide_ms, .. } => (size_ms, slide_ms),
        other => panic!("{other}"),
    };
    let last = local - local.rem_euclid(slide);
    (0..size / slide).map(|n| (last - n * slide, last - n * slide + size)).collect()
}

fn check(name: &str, start: i64, window: Window, seed: u64) {
    let (zone, mut rng) = (Zone::parse(name).expect("a zone"), Rng::new(seed));
    let spec = spec(name, window);
    let mut of = operator(&spec);
    let (mut latest, mut reached) = (start, EventTime::MIN);
    let (mut expected, mut counts) = (BTreeMap::<(i64, i64), i64>::new(), BTreeMap::new());
    let mut out = Output::default();
    for batch in 0..200 {
        let mut times = Vec::new();
        for _ in 0..rng.below(8) {
            latest += rng.below(12 * MINUTE as u64).cast_signed();
            times.push(latest - rng.below(BOUND as u64).cast_signed());
        }
        for time in &times {
            windows(window, zone.local_ms(*time)).into_iter().for_each(|of| *expected.entry(of).or_default() += 1);
        }
        let column = TimestampMillisecondArray::from(times).with_timezone("UTC");
        let rows = RecordBatch::try_new(schema(), vec![Arc::new(column)]).expect("a batch");
        of.batch(rows, &mut out).expect("rows");
        let watermark = EventTime(latest - BOUND - 1);
        of.watermark(watermark, &mut out).expect("a watermark");
        while of.more(&mut out).expect("more") {}
        let left = take(&mut out, &mut counts).expect("a watermark leaves");
        assert!(left <= watermark);
        let to_come = expected.keys().filter(|(_, end)| end - 1 > zone.passed_local_ms(watermark.0));
        let behind = to_come.filter(|(_, end)| zone.instant_ms(end - 1) <= left.0).count();
        assert_eq!(behind, 0, "{name}: results of windows are never behind event time");
        reached = reached.max(left);
        let over = expected.keys().filter(|(_, end)| end - 1 <= zone.passed_local_ms(watermark.0)).count();
        assert_eq!(counts.len(), over, "{name}: each window that is over has its result, and no other");
        if batch == 100 {
            let changes = of.snapshot(false).expect("a snapshot");
            of = operator(&spec);
            for rows in changes.into_iter().flat_map(|change| change.rows) {
                of.restore(0, rows).expect("a restore");
            }
            of.restored(watermark).expect("restored");
        }
    }
    assert_eq!(of.take_dropped(), Dropped::default(), "{name}: no row within the bound is late");
    of.watermark(EventTime::MAX, &mut out).expect("the end");
    while of.more(&mut out).expect("more") {}
    assert_eq!(take(&mut out, &mut counts), Some(EventTime::MAX));
    assert_eq!(counts, expected, "{name} {window}");
}

#[test]
fn windows_of_local_times_have_the_rows_of_a_naive_recomputation() {
    // A day before clocks are set forward, and back; and without any change.
    let starts = [
        ("America/New_York", 1_709_942_400_000),
        ("America/New_York", 1_730_505_600_000),
        ("Australia/Lord_Howe", 1_728_000_000_000),
        ("Australia/Lord_Howe", 1_712_275_200_000),
        ("America/Sao_Paulo", 1_541_203_200_000),
        ("Pacific/Apia", 1_325_116_800_000),
        ("GMT+05:45", 0),
    ];
    let window = [
        Window::Tumble { size_ms: 24 * HOUR, offset_ms: 0 },
        Window::Tumble { size_ms: 20 * MINUTE, offset_ms: 0 },
        Window::Hop { size_ms: 2 * HOUR, slide_ms: 40 * MINUTE, offset_ms: 0 },
    ];
    for (seed, (name, start)) in starts.into_iter().enumerate() {
        window.into_iter().for_each(|window| check(name, start, window, seed as u64));
    }
}
