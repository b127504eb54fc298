//! Retractions that arrive before their rows, as where several inputs meet: snapshots and the removal of
//! groups keep negative counts.

use super::*;

/// Functions whose state may be below zero.
fn counting(disk_bytes: Option<usize>) -> GroupAggregate {
    let mut spec = spec(true);
    let is_kept = |call: &AggregateSpec| {
        ["count", "sum", "min", "max"].contains(&call.function.as_str()) && call.filter.is_none()
    };
    spec.aggregates.retain(is_kept);
    GroupAggregate::new(&spec, &Functions::default(), &options(disk_bytes)).expect("an operator")
}

#[test]
fn groups_below_zero_are_the_same_after_a_complete_and_an_incremental_snapshot() {
    let row = |key: i64, number: i64| (Some(key), Some(number), Some("a"));
    let owed = [(row(1, 5), -1), (row(2, 5), -1), (row(2, 6), 1), (row(2, 7), 1)];
    let come = [(row(1, 5), 1), (row(1, 6), 1), (row(2, 5), 1)];
    for disk_bytes in [None, Some(1_000)] {
        let after = |adds: Option<bool>, many: bool| {
            let (mut now, mut integral, mut out) = (counting(disk_bytes), Integral::default(), Output::default());
            let feed = |now: &mut GroupAggregate, rows: &[(Row, i64)], out: &mut Output| {
                now.batch(batch(rows, true), out).expect("a batch");
                while now.more(out).expect("more") {}
            };
            feed(&mut now, &owed, &mut out);
            if let Some(adds) = adds {
                let mut files = Files::default();
                files.take(&mut now, adds);
                now = counting(disk_bytes);
                files.restore(&mut now, false, &mut |_| 0);
            }
            // Enough groups come and go that groups without rows are removed.
            for key in 10..if many { 5_000 } else { 10 } {
                feed(&mut now, &[(row(key, 1), 1), (row(key, 2), 1)], &mut out);
                feed(&mut now, &[(row(key, 1), -1), (row(key, 2), -1)], &mut out);
                if key % 500 == 0 {
                    now.snapshot(true).expect("a snapshot");
                }
            }
            feed(&mut now, &come, &mut out);
            integral.add(&mut out);
            integral.0
        };
        let straight = after(None, false);
        assert_eq!(straight.len(), 2, "{straight:?}");
        assert!(straight.keys().any(|row| row.starts_with("1|1|6|6|")), "{straight:?}");
        assert!(straight.keys().any(|row| row.starts_with("2|2|13|6|")), "{straight:?}");
        for adds in [true, false] {
            assert_eq!(after(Some(adds), false), straight, "{disk_bytes:?}, adds {adds}");
        }
        if disk_bytes.is_none() {
            assert_eq!(after(None, true), straight, "after the removal of groups");
        }
    }
}
