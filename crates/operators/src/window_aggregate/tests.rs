//! Every form of the aggregate against a naive recomputation over all rows that were not late.

mod disk;
mod late;
mod snapshots;

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{AggregateSpec, Expr, NamedExpr, Thresholds, Window};
use anabranch_model::Rng;
use arrow::array::{AsArray, Int64Array, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{Float64Type, Int64Type, TimestampMillisecondType};

use super::partial::SAMPLE_ROWS;
use super::*;
use crate::Element;

const ROWS: u64 = 4000;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8View, true),
        Field::new("ts", PANE_TYPE, true),
        Field::new("value", DataType::Int64, true),
    ]))
}

fn aggregate(name: &str, function: &str, args: Vec<Expr>, filter: Option<Expr>, data_type: DataType) -> AggregateSpec {
    AggregateSpec {
        name: name.into(),
        function: function.into(),
        args,
        distinct: false,
        filter,
        data_type,
        nullable: true,
    }
}

fn spec(phase: AggregatePhase, window: Window) -> WindowAggregateSpec {
    let positive = Expr::Binary {
        op: anabranch_dataflow::BinaryOp::Gt,
        left: Box::new(Expr::Column(2)),
        right: Box::new(Expr::number(0)),
    };
    let key = NamedExpr { name: "key".into(), expr: Expr::Column(0), data_type: DataType::Utf8View, nullable: true };
    WindowAggregateSpec {
        phase,
        window,
        time: (window != Window::Global).then_some(Expr::Column(1)),
        time_type: PANE_TYPE,
        keys: vec![key],
        aggregates: vec![
            aggregate("n", "count", vec![Expr::number(1)], None, DataType::Int64),
            aggregate("positive", "count", vec![Expr::Column(2)], Some(positive), DataType::Int64),
            aggregate("total", "sum", vec![Expr::Column(2)], None, DataType::Int64),
            aggregate("least", "min", vec![Expr::Column(2)], None, DataType::Int64),
            aggregate("mean", "avg", vec![cast_to_float(Expr::Column(2))], None, DataType::Float64),
        ],
        input_schema: schema(),
        zone: None,
    }
}

fn cast_to_float(expr: Expr) -> Expr {
    Expr::Cast { expr: Box::new(expr), to: DataType::Float64, safe: false }
}

type Row = (Option<String>, i64, Option<i64>);
/// Results by window end and key: n, positive, total, least, mean as text.
type Results = BTreeMap<(i64, Option<String>), String>;

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.0.clone()).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|r| Some(r.1)).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|r| r.2).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).expect("batch")
}

fn summary(values: &[Option<i64>]) -> String {
    let present: Vec<i64> = values.iter().flatten().copied().collect();
    let total = (!present.is_empty()).then(|| present.iter().sum::<i64>());
    let mean = total.map(|t| t as f64 / present.len() as f64);
    let positive = present.iter().filter(|v| **v > 0).count();
    format!("{} {positive} {total:?} {:?} {mean:?}", values.len(), present.iter().min())
}

/// End and last instant of the windows by definition: every start that is a multiple of the slide and holds
/// the time.
fn windows_of(window: Window, time: i64) -> Vec<(i64, i64)> {
    let (size, slide, offset) = match window {
        Window::Global => return vec![(0, i64::MAX)],
        Window::Session { .. } => unreachable!("another operator has sessions"),
        Window::Tumble { size_ms, offset_ms } => (size_ms, size_ms, offset_ms),
        Window::Hop { size_ms, slide_ms, offset_ms } => (size_ms, slide_ms, offset_ms),
        Window::Cumulate { step_ms, max_ms, offset_ms } => {
            let starts = (-60..400).map(|n| offset_ms + n * max_ms);
            let windows = starts.flat_map(|start| (1..=max_ms / step_ms).map(move |n| start..start + n * step_ms));
            return windows.filter(|w| w.contains(&time)).map(|w| (w.end, w.end - 1)).collect();
        }
    };
    let starts = (-60..400).map(|n| offset + n * slide);
    starts.filter(|s| (*s..s + size).contains(&time)).map(|s| (s + size, s + size - 1)).collect()
}

fn collect(out: &mut Output, windowed: bool, results: &mut Results) {
    for element in out.drain() {
        let Element::Batch(batch) = element else { continue };
        let first = if windowed { 4 } else { 1 };
        let ints = |i: usize| batch.column(first + i).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let keys = batch.column(0).as_string_view();
            let key = keys.is_valid(row).then(|| keys.value(row).to_owned());
            let end = match windowed {
                true => batch.column(2).as_primitive::<TimestampMillisecondType>().value(row),
                false => 0,
            };
            let option = |i: usize| ints(i).is_valid(row).then(|| ints(i).value(row));
            let means = batch.column(first + 4).as_primitive::<Float64Type>();
            let mean = means.is_valid(row).then(|| means.value(row));
            let text = format!(
                "{} {} {:?} {:?} {mean:?}",
                ints(0).value(row),
                ints(1).value(row),
                option(2),
                option(3).as_ref()
            );
            let twice = results.insert((end, key.clone()), text);
            assert!(twice.is_none(), "the window of {key:?} that ends at {end} fired twice");
        }
    }
}

/// What a store would hold of an operator's snapshots.
#[derive(Default)]
struct Saved {
    rows: Vec<RecordBatch>,
    runs: Vec<Arc<anabranch_state::Run>>,
}

impl Saved {
    fn add(&mut self, change: StateChange) {
        if change.complete {
            self.rows.clear();
        }
        self.runs = change.runs;
        self.rows.extend(change.rows);
        self.rows.retain(|rows| {
            let panes = rows.column(0).as_primitive_opt::<TimestampMillisecondType>();
            panes.is_none_or(|panes| panes.values().iter().any(|pane| *pane >= change.first_pane.0))
        });
    }

    /// A new operator that resumes from the last snapshot.
    fn restore(&self, mut operator: WindowAggregate, watermark: i64, rng: &mut Rng) -> WindowAggregate {
        let mut rows = self.rows.clone();
        for run in &self.runs {
            rows.extend(anabranch_state::decode_rows(run.content().expect("content").into()).expect("rows"));
        }
        while !rows.is_empty() {
            let next = rows.swap_remove(rng.below(rows.len() as u64) as usize);
            operator.restore(0, next).expect("restore");
        }
        operator.restored(EventTime(watermark)).expect("restored");
        operator
    }
}

/// A complete aggregate or a final half, and its panes.
struct WindowAggregate(Box<dyn Operator>);

impl WindowAggregate {
    fn new(spec: &WindowAggregateSpec, functions: &Functions, options: &JobOptions) -> Result<WindowAggregate> {
        build(spec, functions, options).map(|(operator, _)| WindowAggregate(operator))
    }
}

impl std::ops::Deref for WindowAggregate {
    type Target = Panes;

    fn deref(&self) -> &Panes {
        let operator: &dyn std::any::Any = &*self.0;
        let complete = operator.downcast_ref::<CompleteAggregate>().map(|complete| &complete.panes);
        complete.or(operator.downcast_ref::<FinalAggregate>().map(|last| &last.panes)).expect("panes")
    }
}

impl std::ops::DerefMut for WindowAggregate {
    fn deref_mut(&mut self) -> &mut Panes {
        crate::operator::same_kind(self.0.state().expect("state")).expect("panes")
    }
}

impl Operator for WindowAggregate {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.0.batch(batch, out)
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.0.watermark(watermark, out)
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        self.0.more(out)
    }

    fn take_dropped(&mut self) -> Dropped {
        self.0.take_dropped()
    }
}

/// What is saved of an operator, and an operator that follows snapshots that only add.
#[derive(Default)]
struct Backup {
    saved: Saved,
    follower: Option<WindowAggregate>,
}

impl Backup {
    /// Takes a snapshot. At random times another operator replaces this one.
    fn take(&mut self, complete: &mut WindowAggregate, new: impl Fn() -> WindowAggregate, rng: &mut Rng) {
        let Backup { saved, follower } = self;
        let adds = follower.is_some() || rng.below(4) == 0;
        let change = complete.take_snapshot(adds).expect("snapshot");
        if let Some(follower) = follower {
            assert!(!change.complete && same_runs(&change.runs, &saved.runs));
            change.rows.iter().for_each(|rows| follower.restore(0, rows.clone()).expect("restore"));
            follower.restored(EventTime(complete.watermark)).expect("restored");
        }
        saved.add(change);
        if adds && follower.is_none() {
            *follower = Some(saved.restore(new(), complete.watermark, rng));
        }
        match (rng.below(8), follower.is_some()) {
            // One of the next plan version takes its state. What follows it may go on.
            (3, _) => {
                let mut former = std::mem::replace(complete, new());
                complete.succeed(&mut *former).expect("of the same kind");
                return;
            }
            (0, _) => *complete = saved.restore(new(), complete.watermark, rng),
            (1, _) => {}
            (2, true) => {
                *complete = follower.take().expect("it follows");
                complete.goes_on();
            }
            _ => return,
        }
        *follower = None;
    }
}

fn same_runs(a: &[Arc<anabranch_state::Run>], b: &[Arc<anabranch_state::Run>]) -> bool {
    a.iter().map(|run| run.id).eq(b.iter().map(|run| run.id))
}

/// Runs random rows with random watermarks through the operators and compares with the definition.
fn check(seed: u64, window: Window, two_phases: bool, many_keys: bool) {
    check_with(seed, window, two_phases, many_keys, false);
}

fn random_rows(rng: &mut Rng, count: u64, now: i64, many_keys: bool) -> Vec<Row> {
    let row = |_| {
        let key = rng.below(if many_keys { 100_000 } else { 9 });
        let value = rng.below(100) as i64 - 40;
        let time = now + rng.below(60) as i64;
        ((key != 3).then(|| format!("key {key}")), time, (value % 11 != 1).then_some(value))
    };
    (0..count).map(row).collect()
}

/// With `restarts`, snapshots are taken at random times, and at random times a new operator that restores
/// them replaces the old one, or one that has followed snapshots that only add.
fn check_with(seed: u64, window: Window, two_phases: bool, many_keys: bool, restarts: bool) {
    // Every other seed has thresholds that few rows reach.
    let thresholds = match seed % 2 {
        0 => Thresholds::default(),
        _ => Thresholds { partial_groups: 1 + seed as usize * 3, snapshot_changed_rows: 20, ..Thresholds::default() },
    };
    check_on(&JobOptions { thresholds, ..JobOptions::default() }, seed, window, two_phases, many_keys, restarts);
}

fn check_on(options: &JobOptions, seed: u64, window: Window, two_phases: bool, many_keys: bool, restarts: bool) {
    let functions = Functions::default();
    let new = |phase| WindowAggregate::new(&spec(phase, window), &functions, options).expect("valid");
    let mut complete = new(if two_phases { AggregatePhase::Final } else { AggregatePhase::Complete });
    let partial = || PartialAggregate::new(&spec(AggregatePhase::Partial, window), &functions, options).expect("valid");
    let mut partial = two_phases.then(partial);
    let windowed = window != Window::Global;
    let (mut rng, mut out, mut results) = (Rng::new(seed), Output::default(), Results::new());
    let (mut expected, mut watermark, mut late) = (BTreeMap::<_, Vec<Option<i64>>>::new(), i64::MIN, 0);
    let feed = |element: Element, complete: &mut dyn Operator, out: &mut Output| match element {
        Element::Batch(batch) => complete.batch(batch, out).expect("batch"),
        Element::Watermark(time) => {
            complete.watermark(time, out).expect("watermark");
            while complete.more(out).expect("more") {}
        }
    };
    let (mut backup, mut rows_left) = (Backup::default(), ROWS);
    while rows_left > 0 {
        let count = 1 + rng.below(300).min(rows_left - 1);
        let now = ((ROWS - rows_left) / 8) as i64;
        rows_left -= count;
        let rows = random_rows(&mut rng, count, now, many_keys);
        for (key, time, value) in &rows {
            let windows = windows_of(window, *time);
            late += u64::from(windows.iter().all(|(_, last)| *last <= watermark));
            for (end, _) in windows.iter().filter(|(_, last)| *last > watermark) {
                expected.entry((*end, key.clone())).or_default().push(*value);
            }
        }
        // Between batches a task does some of what snapshots have put off.
        for _ in 0..rng.below(4) {
            complete.catch_up().expect("catch up");
        }
        let mut elements = vec![Element::Batch(batch(&rows))];
        if rng.below(3) == 0 {
            watermark = watermark.max(now - rng.below(30) as i64);
            elements.push(Element::Watermark(EventTime(watermark)));
        }
        if rows_left == 0 {
            elements.push(Element::Watermark(EventTime::MAX));
        }
        for element in elements {
            let Some(partial) = &mut partial else {
                feed(element, &mut complete, &mut out);
                continue;
            };
            let mut between = Output::default();
            feed(element, partial, &mut between);
            if rng.below(4) == 0 {
                partial.flush(&mut between).expect("flush");
                assert!(partial.panes.is_empty(), "a partial aggregate holds nothing across an epoch");
            }
            between.drain().for_each(|element| feed(element, &mut complete, &mut out));
        }
        collect(&mut out, windowed, &mut results);
        if restarts && rng.below(3) == 0 {
            let phase = if two_phases { AggregatePhase::Final } else { AggregatePhase::Complete };
            backup.take(&mut complete, || new(phase), &mut rng);
        }
    }
    let expected: Results = expected.into_iter().map(|(k, values)| (k, summary(&values))).collect();
    assert_eq!(results, expected, "seed {seed} {window:?} two phases {two_phases}");
    assert!(complete.panes.is_empty(), "state is left over");
    if !restarts {
        let dropped = Dropped { late_rows: late, rows_without_event_time: 0, rows_with_null: 0 };
        assert_eq!(complete.take_dropped(), dropped, "seed {seed} {window:?} two phases {two_phases}");
        assert_eq!(partial.map(|mut partial| partial.take_dropped()).unwrap_or_default(), Dropped::default());
    }
}

#[test]
fn equals_naive_recomputation_for_every_window_and_phase() {
    let windows = [
        Window::Tumble { size_ms: 20, offset_ms: 0 },
        Window::Tumble { size_ms: 7, offset_ms: 3 },
        Window::Hop { size_ms: 30, slide_ms: 10, offset_ms: 0 },
        Window::Hop { size_ms: 25, slide_ms: 10, offset_ms: 4 },
        Window::Cumulate { step_ms: 5, max_ms: 40, offset_ms: 0 },
        Window::Cumulate { step_ms: 3, max_ms: 21, offset_ms: 8 },
        Window::Global,
    ];
    for seed in 0..4 {
        for window in windows {
            check(seed, window, false, false);
            check(seed, window, false, true);
        }
    }
}

#[test]
fn resumes_from_its_snapshots_with_the_same_results() {
    let windows = [
        Window::Tumble { size_ms: 20, offset_ms: 0 },
        Window::Tumble { size_ms: 5000, offset_ms: 0 },
        Window::Hop { size_ms: 30, slide_ms: 10, offset_ms: 0 },
        Window::Hop { size_ms: 400, slide_ms: 10, offset_ms: 4 },
        Window::Cumulate { step_ms: 10, max_ms: 400, offset_ms: 4 },
        Window::Cumulate { step_ms: 5, max_ms: 20, offset_ms: 0 },
        Window::Global,
    ];
    for seed in 0..8 {
        for window in windows {
            check_with(seed, window, false, seed % 2 == 0, true);
        }
        check_with(seed, Window::Tumble { size_ms: 5000, offset_ms: 0 }, true, seed % 2 == 0, true);
    }
}

#[test]
fn windows_in_memory_are_emitted_one_by_one() {
    let window = Window::Hop { size_ms: 100, slide_ms: 10, offset_ms: 0 };
    let spec = spec(AggregatePhase::Complete, window);
    let mut aggregate = WindowAggregate::new(&spec, &Functions::default(), &JobOptions::default()).expect("valid");
    let mut out = Output::default();
    let rows: Vec<Row> = (0..1000).map(|i| (Some(format!("key {i}")), i % 100, Some(i))).collect();
    aggregate.batch(batch(&rows), &mut out).expect("batch");
    aggregate.watermark(EventTime::MAX, &mut out).expect("watermark");
    let mut windows = 0;
    loop {
        let given = out.drain().filter(|element| matches!(element, Element::Batch(_))).count();
        assert!(given <= 1, "{given} windows at once");
        windows += given;
        if !aggregate.more(&mut out).expect("more") {
            break;
        }
    }
    assert_eq!(windows, 19);
}

#[test]
fn two_phases_equal_one_and_count_the_same_late_rows() {
    for seed in 0..4 {
        for window in [
            Window::Tumble { size_ms: 1000, offset_ms: 0 },
            Window::Hop { size_ms: 2000, slide_ms: 500, offset_ms: 0 },
            Window::Cumulate { step_ms: 100, max_ms: 400, offset_ms: 0 },
        ] {
            check(seed, window, true, false);
            check(seed, window, true, true);
        }
        check(seed, Window::Global, true, true);
    }
}

#[test]
fn keys_that_hardly_repeat_are_passed_on_as_states() {
    let functions = Functions::default();
    let window = Window::Tumble { size_ms: 1000, offset_ms: 0 };
    let mut partial = PartialAggregate::new(&spec(AggregatePhase::Partial, window), &functions, &JobOptions::default())
        .expect("valid");
    let mut out = Output::default();
    for first in (0..SAMPLE_ROWS as i64 * 2).step_by(4096) {
        let rows: Vec<Row> = (first..first + 4096).map(|i| (Some(format!("key {i}")), i % 1000, Some(i))).collect();
        partial.batch(batch(&rows), &mut out).expect("batch");
    }
    assert!(partial.pass_on.rows_left > 0);
    assert!(partial.panes.is_empty());
    let rows: usize = out.drain().map(|e| if let Element::Batch(b) = e { b.num_rows() } else { 0 }).sum();
    assert_eq!(rows as u64, SAMPLE_ROWS * 2);
}

#[test]
fn state_beyond_its_bound_stops_the_job_with_a_remedy() {
    let functions = Functions::default();
    let window = Window::Tumble { size_ms: 1000, offset_ms: 0 };
    let mut complete = WindowAggregate::new(
        &spec(AggregatePhase::Complete, window),
        &functions,
        &JobOptions { state_bytes: 1 << 20, ..JobOptions::default() },
    )
    .expect("valid");
    let mut out = Output::default();
    let error = (0..1000_i64)
        .map(|n| (0..1000).map(|i| (Some(format!("key {n} {i}")), 5, Some(i))).collect::<Vec<Row>>())
        .find_map(|rows| complete.batch(batch(&rows), &mut out).err())
        .expect("the bound is kept");
    assert!(error.to_string().contains("state-bytes"), "{error}");
}

#[test]
fn memory_that_is_full_is_an_error_with_a_remedy() {
    on_disk::check_size(100, 100).expect("fits");
    let error = on_disk::check_size(101, 100).expect_err("full").to_string();
    assert!(error.contains("take 101 bytes; the limit is 100"), "{error}");
    assert!(error.contains("'state-bytes'") && error.contains("'disk'"), "{error}");
}
