//! Late rows, rows without event time, times that no window can hold.

use super::*;

const TUMBLE: Window = Window::Tumble { size_ms: 10, offset_ms: 0 };

fn new(phase: AggregatePhase) -> WindowAggregate {
    WindowAggregate::new(&spec(phase, TUMBLE), &Functions::default(), &JobOptions::default()).expect("valid")
}

fn partial_half() -> PartialAggregate {
    let spec = spec(AggregatePhase::Partial, TUMBLE);
    PartialAggregate::new(&spec, &Functions::default(), &JobOptions::default()).expect("valid")
}

/// Rows of one key at these times; `None` has no event time.
fn at(times: &[Option<i64>]) -> RecordBatch {
    let rows = batch(&times.iter().map(|_| (Some("key".to_owned()), 0, Some(1))).collect::<Vec<_>>());
    let mut columns = rows.columns().to_vec();
    columns[1] = Arc::new(times.iter().copied().collect::<TimestampMillisecondArray>());
    RecordBatch::try_new(schema(), columns).expect("batch")
}

fn times(times: &[i64]) -> RecordBatch {
    at(&times.iter().copied().map(Some).collect::<Vec<_>>())
}

#[test]
fn a_batch_that_is_late_as_a_whole_in_one_pane_is_counted() {
    let (mut aggregate, mut out) = (new(AggregatePhase::Complete), Output::default());
    aggregate.watermark(EventTime(9), &mut out).expect("watermark");
    aggregate.batch(times(&[1, 5, 9]), &mut out).expect("batch");
    assert_eq!(aggregate.take_dropped(), Dropped { late_rows: 3, rows_without_event_time: 0, rows_with_null: 0 });
    assert!(aggregate.panes.is_empty());
}

#[test]
fn rows_without_event_time_are_not_late() {
    for phase in [AggregatePhase::Complete, AggregatePhase::Partial] {
        let (mut aggregate, mut out) = (new(phase), Output::default());
        aggregate.watermark(EventTime(9), &mut out).expect("watermark");
        aggregate.batch(at(&[None, Some(15), None]), &mut out).expect("batch");
        assert_eq!(
            aggregate.take_dropped(),
            Dropped { late_rows: 0, rows_without_event_time: 2, rows_with_null: 0 },
            "{phase:?}"
        );
    }
}

/// The final half counts rows, not groups, that the partial half could not know to be late.
#[test]
fn a_task_that_was_idle_hands_on_rows_that_may_be_late_singly() {
    let (mut partial, mut last) = (partial_half(), new(AggregatePhase::Final));
    let mut out = Output::default();
    last.watermark(EventTime(19), &mut out).expect("watermark");
    out.drain().count();
    partial.event_time_ahead(EventTime(19));
    partial.batch(times(&[3, 4, 12, 25, 26]), &mut out).expect("batch");
    partial.flush(&mut out).expect("flush");
    let mut fired = Output::default();
    for element in out.drain() {
        let Element::Batch(batch) = element else { panic!("no watermark was given") };
        last.batch(batch, &mut fired).expect("batch");
    }
    assert_eq!(last.take_dropped(), Dropped { late_rows: 3, rows_without_event_time: 0, rows_with_null: 0 });
    assert_eq!(last.panes.keys().copied().collect::<Vec<_>>(), [20]);
}

/// Also for functions whose states cannot be computed row by row.
#[test]
fn late_rows_are_counted_one_by_one_whatever_the_functions() {
    let mut spec = spec(AggregatePhase::Partial, TUMBLE);
    spec.aggregates =
        vec![aggregate("deviation", "stddev", vec![cast_to_float(Expr::Column(2))], None, DataType::Float64)];
    let mut partial = PartialAggregate::new(&spec, &Functions::default(), &JobOptions::default()).expect("valid");
    let mut last = WindowAggregate::new(
        &WindowAggregateSpec { phase: AggregatePhase::Final, ..spec },
        &Functions::default(),
        &JobOptions::default(),
    )
    .expect("valid");
    let mut out = Output::default();
    for half in [&mut partial as &mut dyn Operator, &mut last] {
        half.watermark(EventTime(19), &mut out).expect("watermark");
    }
    out.drain().count();
    partial.batch(times(&[1, 1, 1, 21, 21]), &mut out).expect("batch");
    partial.flush(&mut out).expect("flush");
    let states: Vec<Element> = out.drain().collect();
    for element in states {
        let Element::Batch(batch) = element else { panic!("no watermark was given") };
        last.batch(batch, &mut out).expect("batch");
    }
    assert_eq!(last.take_dropped().late_rows, 3);
}

#[test]
fn times_without_a_window_are_refused_and_not_wrapped() {
    for phase in [AggregatePhase::Complete, AggregatePhase::Partial] {
        for time in [i64::MIN, i64::MIN + 5, i64::MAX - 5, i64::MAX] {
            let error = new(phase).batch(times(&[time]), &mut Output::default()).expect_err("no window holds it");
            assert!(error.to_string().contains("out of range for windows of 10 ms"), "{error}");
        }
    }
    let mut far = new(AggregatePhase::Complete);
    for time in [i64::MIN + 100, i64::MAX - 100] {
        far.batch(times(&[time]), &mut Output::default()).expect("a window holds it");
    }
    let mut out = Output::default();
    far.watermark(EventTime::MAX, &mut out).expect("watermark");
    while far.more(&mut out).expect("more") {}
    let mut results = Results::new();
    collect(&mut out, true, &mut results);
    assert_eq!(results.len(), 2);
}

/// When a table of the partial half reaches its limit, it emits all of its groups, and none is lost.
#[test]
fn a_full_partial_half_loses_no_group() {
    let options =
        JobOptions { thresholds: Thresholds { partial_groups: 3, ..Thresholds::default() }, ..JobOptions::default() };
    let functions = Functions::default();
    let mut partial =
        PartialAggregate::new(&spec(AggregatePhase::Partial, TUMBLE), &functions, &options).expect("valid");
    let mut out = Output::default();
    let mut groups = 0;
    for n in 0..20_i64 {
        let rows: Vec<Row> = (0..2).map(|i| (Some(format!("key {n} {i}")), 5, Some(i))).collect();
        partial.batch(batch(&rows), &mut out).expect("batch");
        let held: usize = partial.panes.values().map(|groups| groups.len()).sum();
        assert!(held < 3, "{held} groups are held");
        groups += out.drain().map(|e| if let Element::Batch(b) = e { b.num_rows() } else { 0 }).sum::<usize>();
    }
    partial.flush(&mut out).expect("flush");
    groups += out.drain().map(|e| if let Element::Batch(b) = e { b.num_rows() } else { 0 }).sum::<usize>();
    assert_eq!(groups, 40);
}

/// Changes that have outgrown the state are replaced by the whole state, not by the last changes.
#[test]
fn an_outgrown_snapshot_holds_everything() {
    let options = JobOptions {
        thresholds: Thresholds { snapshot_changed_rows: 10, ..Thresholds::default() },
        ..JobOptions::default()
    };
    let spec = spec(AggregatePhase::Complete, Window::Global);
    let mut aggregate = WindowAggregate::new(&spec, &Functions::default(), &options).expect("valid");
    let mut out = Output::default();
    let rows = |keys: std::ops::Range<i64>| keys.map(|i| (Some(format!("key {i}")), 0, Some(i))).collect::<Vec<Row>>();
    aggregate.batch(batch(&rows(0..100)), &mut out).expect("batch");
    assert!(aggregate.take_snapshot(false).expect("snapshot").complete);
    for n in 0..100 {
        aggregate.batch(batch(&rows(n % 90..n % 90 + 10)), &mut out).expect("batch");
        let change = aggregate.take_snapshot(false).expect("snapshot");
        if change.complete {
            assert_eq!(change.rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 100);
            return;
        }
    }
    panic!("changes are never gathered");
}

/// An operator that goes on from files which others have written counts the changes in them: state that moves
/// again and again is written as a whole in the end.
#[test]
fn changes_are_gathered_however_often_state_moves() {
    let options = JobOptions {
        thresholds: Thresholds { snapshot_changed_rows: 10, ..Thresholds::default() },
        ..JobOptions::default()
    };
    let spec = spec(AggregatePhase::Complete, Window::Global);
    let new = || WindowAggregate::new(&spec, &Functions::default(), &options).expect("valid");
    let rows: Vec<Row> = (0..100).map(|i| (Some(format!("key {i}")), 0, Some(i))).collect();
    let (mut aggregate, mut out, mut files) = (new(), Output::default(), Vec::new());
    for _ in 0..20 {
        aggregate.batch(batch(&rows), &mut out).expect("batch");
        let change = aggregate.take_snapshot(!files.is_empty()).expect("snapshot");
        if change.complete {
            files.clear();
        }
        files.extend(change.rows);
        assert!(files.len() < 7, "{} files of the same keys", files.len());
        aggregate = new();
        files.iter().for_each(|rows| aggregate.restore(0, rows.clone()).expect("restore"));
        aggregate.restored(EventTime(0)).expect("restored");
        aggregate.goes_on();
        // The first snapshot of an operator that has moved.
        let change = aggregate.take_snapshot(false).expect("snapshot");
        if change.complete {
            files.clear();
        }
        files.extend(change.rows.into_iter().filter(|rows| rows.num_rows() > 0));
    }
}

/// A task whose receivers may be anywhere in event time hands on all rows singly, whenever they happened.
#[test]
fn rows_of_any_century_may_be_late() {
    for times_of in [[1, 5, 9], [-9, -5, -1], [i64::MIN / 4, i64::MIN / 4 + 1, i64::MIN / 4 + 2]] {
        let (mut partial, mut out) = (partial_half(), Output::default());
        partial.event_time_ahead(EventTime::MAX);
        partial.batch(times(&times_of), &mut out).expect("batch");
        assert!(partial.panes.is_empty(), "{times_of:?}");
        assert_eq!(out.drain().map(|e| if let Element::Batch(b) = e { b.num_rows() } else { 0 }).sum::<usize>(), 3);
        let (mut whole, mut out) = (new(AggregatePhase::Complete), Output::default());
        whole.watermark(EventTime::MAX, &mut out).expect("watermark");
        whole.batch(times(&times_of), &mut out).expect("batch");
        assert_eq!(whole.take_dropped().late_rows, 3, "{times_of:?}");
    }
}
