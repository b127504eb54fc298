//! State that does not fit into memory: the bound is kept, and nothing else changes.

use anabranch_dataflow::StateBackendKind;

use super::*;

fn on_disk(directory: &std::path::Path) -> JobOptions {
    let state_directory = Some(directory.into());
    JobOptions { state_backend: StateBackendKind::Disk, state_directory, ..JobOptions::default() }
}

#[test]
fn tables_on_disk_keep_to_their_bound() {
    let directory = tempfile::tempdir().expect("folder");
    let options = JobOptions { state_bytes: 1 << 20, ..on_disk(directory.path()) };
    let window = Window::Tumble { size_ms: 1000, offset_ms: 0 };
    let spec = spec(AggregatePhase::Complete, window);
    let mut aggregate = WindowAggregate::new(&spec, &Functions::default(), &options).expect("valid");
    let mut out = Output::default();
    for n in 0..40 {
        let rows: Vec<Row> = (0..1000).map(|i| (Some(format!("key {n} {i}")), 5, Some(i))).collect();
        aggregate.batch(batch(&rows), &mut out).expect("batch");
        let bytes: usize = aggregate.panes.values().map(Pane::size_bytes).sum();
        assert!(bytes < 1 << 19, "{bytes}");
    }
    assert!(aggregate.disk.as_ref().is_some_and(|disk| !disk.files().is_empty()));
    aggregate.watermark(EventTime::MAX, &mut out).expect("watermark");
    let (mut rows, mut pieces) = (0, 0);
    loop {
        let given: usize = out.drain().map(|e| if let Element::Batch(b) = e { b.num_rows() } else { 0 }).sum();
        assert!(given < 1000, "the window is emitted in pieces");
        rows += given;
        pieces += 1;
        if !aggregate.more(&mut out).expect("more") {
            break;
        }
    }
    assert_eq!(rows, 40_000);
    assert!(pieces > 100);
    assert!(aggregate.panes.is_empty());
    assert!(aggregate.disk.as_ref().is_some_and(|disk| disk.is_empty() && disk.files().is_empty()));
}

/// Few rows may take much memory: long keys, and restored rows with long lists.
#[test]
fn the_bound_is_one_of_bytes_and_not_of_rows() {
    let directory = tempfile::tempdir().expect("folder");
    let options = JobOptions { state_bytes: 8 << 20, ..on_disk(directory.path()) };
    let mut spec = spec(AggregatePhase::Complete, Window::Tumble { size_ms: 1000, offset_ms: 0 });
    spec.aggregates.truncate(1);
    let new = |spec: &WindowAggregateSpec| WindowAggregate::new(spec, &Functions::default(), &options).expect("valid");
    let in_tables = |aggregate: &WindowAggregate| aggregate.panes.values().map(Pane::size_bytes).sum::<usize>();
    let mut aggregate = new(&spec);
    for n in 0..10 {
        let rows: Vec<Row> = (0..100).map(|i| (Some(format!("{n} {i} {}", "x".repeat(20_000))), 5, Some(i))).collect();
        aggregate.batch(batch(&rows), &mut Output::default()).expect("batch");
        assert!(in_tables(&aggregate) < 8 << 20, "{}", in_tables(&aggregate));
    }
    spec.aggregates[0] = AggregateSpec { distinct: true, args: vec![Expr::Column(2)], ..spec.aggregates[0].clone() };
    let mut distinct = new(&spec);
    let rows: Vec<Row> = (0..50_000).map(|i| (Some(format!("key {}", i % 10)), 5, Some(i))).collect();
    distinct.batch(batch(&rows), &mut Output::default()).expect("batch");
    let state = distinct.take_snapshot(false).expect("snapshot").rows;
    let mut restored = new(&spec);
    for key in 0..25 {
        let renamed = renamed(&state[0], key);
        restored.restore(0, renamed).expect("restored");
        assert!(in_tables(&restored) < 8 << 20, "{}", in_tables(&restored));
    }
}

/// The values of one key cannot be divided: the job stops before they take more memory than the bound.
#[test]
fn one_key_with_more_values_than_fit_is_an_error_that_says_so() {
    let directory = tempfile::tempdir().expect("folder");
    let options = JobOptions { state_bytes: 4 << 20, ..on_disk(directory.path()) };
    let mut spec = spec(AggregatePhase::Complete, Window::Tumble { size_ms: 1000, offset_ms: 0 });
    spec.aggregates.truncate(1);
    spec.aggregates[0] = AggregateSpec { distinct: true, args: vec![Expr::Column(2)], ..spec.aggregates[0].clone() };
    let mut aggregate = WindowAggregate::new(&spec, &Functions::default(), &options).expect("valid");
    let mut out = Output::default();
    let error = (0..1000).find_map(|n| {
        let rows: Vec<Row> = (0..10_000).map(|i| (Some("giant".to_owned()), 5, Some(n * 10_000 + i))).collect();
        let added = aggregate.batch(batch(&rows), &mut out);
        let bytes: usize = aggregate.panes.values().map(Pane::size_bytes).sum();
        assert!(bytes < 2 * options.state_bytes, "{bytes}");
        added.err()
    });
    let error = error.or_else(|| aggregate.watermark(EventTime::MAX, &mut out).err()).expect("too many").to_string();
    assert!(error.contains("the values that one key collects take"), "{error}");
    assert!(error.contains("SET 'state-bytes' higher"), "{error}");
}

/// The last value is that of the newest run, whatever was merged, before and after a restore.
#[test]
fn the_order_of_rows_survives_disk_and_restore() {
    let directory = tempfile::tempdir().expect("folder");
    let options = JobOptions { state_bytes: 64 << 10, ..on_disk(directory.path()) };
    let mut spec = spec(AggregatePhase::Complete, Window::Tumble { size_ms: 1000, offset_ms: 0 });
    spec.aggregates = vec![aggregate("last", "last_value", vec![Expr::Column(2)], None, DataType::Int64)];
    let new = || WindowAggregate::new(&spec, &Functions::default(), &options).expect("valid");
    let mut operator = new();
    for n in 0..40 {
        let rows: Vec<Row> = (0..1000).map(|i| (Some(format!("key {i}")), 5, Some(n))).collect();
        operator.batch(batch(&rows), &mut Output::default()).expect("batch");
    }
    let change = operator.take_snapshot(false).expect("snapshot");
    let ids: Vec<u64> = change.runs.iter().map(|run| run.id).collect();
    assert!(!ids.is_sorted(), "an older run has a higher number, because it was merged: {ids:?}");
    let mut restored = new();
    for run in &change.runs {
        for rows in anabranch_state::decode_rows(run.content().expect("content").into()).expect("rows") {
            restored.restore(0, rows).expect("restored");
        }
    }
    change.rows.into_iter().for_each(|rows| restored.restore(0, rows).expect("restored"));
    restored.restored(EventTime(0)).expect("restored");
    for mut operator in [operator, restored] {
        let mut out = Output::default();
        operator.watermark(EventTime::MAX, &mut out).expect("watermark");
        while operator.more(&mut out).expect("more") {}
        let mut rows = 0;
        for element in out.drain() {
            let Element::Batch(batch) = element else { continue };
            rows += batch.num_rows();
            let last = batch.column(batch.num_columns() - 1).as_primitive::<Int64Type>();
            assert!(last.values().iter().all(|value| *value == 39), "{last:?}");
        }
        assert_eq!(rows, 1000);
    }
}

/// The same states with other keys.
fn renamed(states: &RecordBatch, name: u64) -> RecordBatch {
    let keys: StringViewArray = (0..states.num_rows()).map(|row| Some(format!("key {name} {row}"))).collect();
    let mut columns = states.columns().to_vec();
    columns[1] = Arc::new(keys);
    RecordBatch::try_new(states.schema(), columns).expect("batch")
}

#[test]
fn state_on_disk_gives_the_same() {
    let windows = [
        Window::Tumble { size_ms: 100, offset_ms: 0 },
        Window::Tumble { size_ms: 5000, offset_ms: 0 },
        Window::Hop { size_ms: 400, slide_ms: 100, offset_ms: 4 },
        Window::Global,
    ];
    let directory = tempfile::tempdir().expect("folder");
    for (seed, state_bytes) in [(0, 100_000), (1, 100_000), (0, 500_000), (1, 500_000)] {
        for window in windows {
            let options = JobOptions { state_bytes, ..on_disk(directory.path()) };
            check_on(&options, seed, window, false, seed % 2 == 0, seed % 2 == 0);
        }
    }
    assert_eq!(std::fs::read_dir(directory.path()).expect("readable").count(), 0, "files are left over");
}
