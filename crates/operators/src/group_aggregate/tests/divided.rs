//! Batches whose groups do not fit into memory at once.

use super::*;

const GROUPS: i64 = 18;

fn distinct(disk_bytes: usize) -> GroupAggregate {
    let aggregates = spec(false).aggregates.into_iter().filter(|of| of.name == "count_1_true").collect();
    let spec = GroupAggregateSpec { aggregates, ..spec(false) };
    let mut options = options(Some(disk_bytes));
    // Each run is one file.
    options.thresholds.run_file_bytes = 1 << 30;
    GroupAggregate::new(&spec, &Functions::default(), &options).expect("an operator")
}

/// Every batch has rows of all groups. Each group is read once per batch, and the writes of a batch's parts
/// are merged at once.
#[test]
fn groups_that_all_batches_touch_are_read_once_and_leave_few_files() {
    let mut now = distinct(200_000);
    let mut integral = Integral::default();
    let (mut most_files, mut most_parts) = (0, 0);
    for round in 0..60 {
        let rows: Vec<(Row, i64)> =
            (0..GROUPS * 20).map(|row| ((Some(row % GROUPS), Some(round * 20 + row / GROUPS), None), 1)).collect();
        let (mut out, mut parts) = (Output::default(), 1);
        now.batch(batch(&rows, false), &mut out).expect("a batch");
        while now.more(&mut out).expect("more") {
            parts += 1;
        }
        integral.add(&mut out);
        most_parts = most_parts.max(parts);
        let files = now.state.disk.as_ref().map_or(0, |disk| disk.files());
        most_files = most_files.max(files);
    }
    let expected = (0..GROUPS).map(|group| format!("{group}|1200"));
    assert_eq!(integral.0.keys().cloned().collect::<BTreeSet<_>>(), expected.collect());
    // A half whose groups do not fit into memory either is a part, too.
    assert!(most_parts > 8 && most_parts < 2 * GROUPS as usize, "{most_parts} parts of a batch");
    assert!(most_files > 2 && most_files < 64, "{most_files} files");
}
