//! What snapshots have, and when they are complete.

use super::*;
use crate::keyed_state::files::options;

/// More snapshots of all keys than may go by before one is complete.
const CHANGES_UNTIL_COMPLETE: usize = 10;

#[test]
fn a_snapshot_holds_what_has_changed() {
    let functions = Functions::default();
    let spec = spec(AggregatePhase::Complete, Window::Global);
    let mut aggregate = WindowAggregate::new(&spec, &functions, &JobOptions::default()).expect("valid");
    let mut out = Output::default();
    let rows = |keys: std::ops::Range<i64>| keys.map(|i| (Some(format!("key {i}")), 0, Some(i))).collect::<Vec<Row>>();
    let sizes = |change: &StateChange| change.rows.iter().map(RecordBatch::num_rows).sum::<usize>();
    aggregate.batch(batch(&rows(0..10_000)), &mut out).expect("batch");
    let first = aggregate.take_snapshot(false).expect("snapshot");
    assert_eq!((first.complete, sizes(&first)), (true, 10_000));
    for _ in 0..3 {
        aggregate.batch(batch(&rows(100..200)), &mut out).expect("batch");
        let change = aggregate.take_snapshot(false).expect("snapshot");
        assert_eq!((change.complete, sizes(&change)), (false, 100));
    }
    assert_eq!(sizes(&aggregate.take_snapshot(false).expect("snapshot")), 0);
    for _ in 0..CHANGES_UNTIL_COMPLETE {
        aggregate.batch(batch(&rows(0..10_000)), &mut out).expect("batch");
        if aggregate.take_snapshot(false).expect("snapshot").complete {
            return;
        }
    }
    panic!("changes are never gathered");
}

/// A change of the plan waits for the first snapshot, so that is not complete only because the state has
/// grown.
#[test]
fn the_first_snapshot_after_a_change_of_the_plan_has_what_has_changed() {
    let functions = Functions::default();
    let spec = spec(AggregatePhase::Complete, Window::Global);
    let thresholds = Thresholds { snapshot_changed_rows: 0, ..Thresholds::default() };
    let options = JobOptions { thresholds, ..JobOptions::default() };
    let new = || WindowAggregate::new(&spec, &functions, &options).expect("valid");
    let mut out = Output::default();
    // Never by so much that most groups have changed.
    let mut grows = |aggregate: &mut WindowAggregate, round: i64| {
        let keys = if round == 0 { 0..1000 } else { 600 + round * 400..1000 + round * 400 };
        let rows: Vec<Row> = keys.map(|i| (Some(format!("key {i}")), 0, Some(i))).collect();
        aggregate.batch(batch(&rows), &mut out).expect("batch");
        while aggregate.catch_up().expect("catch up") {}
        aggregate.take_snapshot(false).expect("snapshot").complete
    };
    let mut straight = new();
    let complete: Vec<i64> = (0..20).filter(|round| grows(&mut straight, *round)).collect();
    let [0, gathered, ..] = complete[..] else { panic!("complete in rounds {complete:?}") };
    let mut aggregate = new();
    assert_eq!((0..gathered).filter(|round| grows(&mut aggregate, *round)).count(), 1);
    let mut former = std::mem::replace(&mut aggregate, new());
    aggregate.succeed(&mut *former).expect("of the same kind");
    assert!(!grows(&mut aggregate, gathered));
    assert!(grows(&mut aggregate, gathered + 1), "only the first one");
}

#[test]
fn snapshots_are_complete_while_most_groups_change() {
    let functions = Functions::default();
    let new = |spec: &WindowAggregateSpec| WindowAggregate::new(spec, &functions, &options(None)).expect("valid");
    // Rows of so many keys, of a thousand. Whether the snapshot after them is complete.
    let given = |aggregate: &mut WindowAggregate, keys: i64, rows: i64| {
        let rows: Vec<Row> = (0..rows).map(|row| (Some(format!("key {}", row % keys)), 0, Some(row))).collect();
        aggregate.batch(batch(&rows), &mut Output::default()).expect("batch");
        let change = aggregate.take_snapshot(false).expect("snapshot");
        let count = change.rows.iter().map(RecordBatch::num_rows).sum::<usize>();
        assert_eq!(count, if change.complete { 1000 } else { keys as usize });
        aggregate.catch_up().expect("caught up");
        change.complete
    };
    let series = |aggregate: &mut WindowAggregate, keys: i64, rows: i64, snapshots: usize| -> Vec<bool> {
        (0..snapshots).map(|_| given(aggregate, keys, rows)).collect()
    };

    // The first one is complete, the second one shows that most groups change, and then complete ones show
    // that they still do.
    let spec = spec(AggregatePhase::Complete, Window::Global);
    let mut counts = new(&spec);
    assert_eq!(series(&mut counts, 1000, 1000, 2), [true, false]);
    assert_eq!(series(&mut counts, 1000, 1000, 40), [true; 40]);
    assert_eq!(series(&mut counts, 10, 10, 5), [true, false, false, false, false], "too few rows to have changed most");
    assert_eq!(series(&mut counts, 1000, 1000, 2), [false, true]);
    assert_eq!(series(&mut counts, 10, 1000, 5), [true, false, false, false, false], "many rows of few groups");

    // States that rows leave as they are show nothing: then there are longer and longer series of complete
    // ones, each after one that shows what changes.
    let mut least = new(&WindowAggregateSpec { aggregates: vec![spec.aggregates[3].clone()], ..spec });
    let expected = [true, false, true, false, true, true, false, true, true];
    assert_eq!(series(&mut least, 1000, 1000, 9), expected);
}
