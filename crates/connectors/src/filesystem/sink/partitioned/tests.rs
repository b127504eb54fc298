use std::collections::BTreeMap;
use std::fs;

use anabranch_dataflow::ConnectorSpec;
use anabranch_model::SystemClock;
use anabranch_operators::Former;
use anabranch_operators::testing::TestHost;
use arrow::array::{Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema};

use super::*;

fn sink(base: &Path, (task, tasks): (u32, u32), life: Option<u64>, trigger: &str) -> Box<dyn Sink> {
    let options = [
        ("path", base.to_str().unwrap()),
        ("format", "csv"),
        ("partition-keys", "dt,hm"),
        ("sink.partition-commit.trigger", trigger),
        ("sink.partition-commit.delay", if trigger == "process-time" { "0 s" } else { "1 min" }),
        ("sink.partition-commit.policy.kind", "success-file"),
        ("partition.time-extractor.timestamp-pattern", "$dt $hm:00"),
        ("sink.rolling-policy.rollover-interval", "1min"),
        ("sink.rolling-policy.check-interval", "1min"),
    ];
    let connector = ConnectorSpec::new("filesystem", &options);
    let columns = [("n", DataType::Int64), ("dt", DataType::Utf8), ("hm", DataType::Utf8)];
    let fields = columns.map(|(name, data_type)| Field::new(name, data_type, name != "n"));
    let spec = SinkSpec::new("logs", connector, Arc::new(Schema::new(fields.to_vec())));
    let delivery = match life {
        None => Delivery::AtLeastOnce,
        Some(_) => Delivery::ExactlyOnce { scope: "job".into(), former: Former::default() },
    };
    let host = TestHost::of_incarnation(life.unwrap_or(1));
    let clock = Arc::new(SystemClock::new());
    let context = TaskContext { index: task, parallelism: tasks, batch_rows: 10, delivery, clock, host };
    let options = FileOptions::read(&spec.connector).unwrap();
    super::super::open(&spec, options, &context).unwrap()
}

/// Rows of a number and a minute of 2024-01-01.
fn rows(rows: &[(i64, Option<&str>)]) -> RecordBatch {
    let numbers = Arc::new(Int64Array::from_iter_values(rows.iter().map(|(number, _)| *number)));
    let days = Arc::new(StringArray::from(vec!["2024-01-01"; rows.len()]));
    let minutes = Arc::new(StringArray::from_iter(rows.iter().map(|(_, minute)| *minute)));
    RecordBatch::try_from_iter([("n", numbers as _), ("dt", days as _), ("hm", minutes as _)]).unwrap()
}

fn time(minute: i64, ms: i64) -> EventTime {
    EventTime(1_704_103_200_000 + minute * 60_000 + ms)
}

/// The rows that are visible in each folder, sorted; and whether the folder is declared complete.
fn visible(base: &Path) -> BTreeMap<String, (Vec<String>, bool)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(base.join("dt=2024-01-01")).into_iter().flatten() {
        let folder = entry.unwrap();
        let (mut lines, mut success) = (Vec::new(), false);
        for file in fs::read_dir(folder.path()).unwrap() {
            let name = file.as_ref().unwrap().file_name().into_string().unwrap();
            success |= name == "_SUCCESS";
            if name.starts_with("part-") {
                let text = fs::read_to_string(file.unwrap().path()).unwrap();
                lines.extend(text.lines().map(str::to_owned));
            }
        }
        lines.sort();
        found.insert(folder.file_name().into_string().unwrap(), (lines, success));
    }
    found
}

fn expect(base: &Path, expected: &[(&str, &[&str], bool)]) {
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let expected = expected.iter().map(|(folder, lines, done)| ((*folder).to_owned(), (owned(lines), *done)));
    assert_eq!(visible(base), expected.collect());
}

#[test]
fn a_folder_is_complete_when_all_tasks_have_passed_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path();
    let mut tasks = [0, 1].map(|task| sink(base, (task, 2), None, "partition-time"));
    tasks[0].write(&rows(&[(1, Some("10:00")), (2, Some("10:05")), (3, Some("10:00"))])).unwrap();
    tasks[1].write(&rows(&[(4, Some("10:00"))])).unwrap();
    // Exactly one delay after the folder's time is too early.
    tasks[0].watermark(time(1, 1));
    tasks[1].watermark(time(1, 0));
    tasks.iter_mut().for_each(|task| task.epoch_end(Epoch(1)).unwrap());
    // A task completes its files when their time has come, and waits for the other.
    expect(base, &[("hm=10%3A00", &["1", "3"], false), ("hm=10%3A05", &[], false)]);
    tasks[1].watermark(time(1, 1));
    tasks[1].epoch_end(Epoch(2)).unwrap();
    expect(base, &[("hm=10%3A00", &["1", "3", "4"], true), ("hm=10%3A05", &[], false)]);
    // The last task is responsible for the folders of the other.
    for task in &mut tasks {
        task.watermark(EventTime::MAX);
        task.epoch_end(Epoch(3)).unwrap();
        task.finish().unwrap();
    }
    expect(base, &[("hm=10%3A00", &["1", "3", "4"], true), ("hm=10%3A05", &["2"], true)]);
}

#[test]
fn what_a_former_run_has_said_counts_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path();
    for task in 0..3 {
        fs::write(base.join(format!(".watermark-{task}-of-2-{}", i64::MAX)), "").unwrap();
    }
    let mut tasks = [0, 1].map(|task| sink(base, (task, 2), None, "partition-time"));
    tasks[0].write(&rows(&[(1, Some("10:00"))])).unwrap();
    tasks[0].watermark(time(9, 0));
    tasks[0].epoch_end(Epoch(1)).unwrap();
    expect(base, &[("hm=10%3A00", &["1"], false)]);
}

#[test]
fn rows_are_visible_and_complete_when_their_checkpoint_is() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path();
    let mut task = sink(base, (0, 1), Some(1), "partition-time");
    task.write(&rows(&[(1, Some("10:00")), (2, Some("10:01")), (3, None)])).unwrap();
    task.watermark(time(1, 1));
    let first = task.prepare_commit(Epoch(1)).unwrap().unwrap();
    let missing = "hm=__DEFAULT_PARTITION__";
    expect(base, &[("hm=10%3A00", &[], false), ("hm=10%3A01", &[], false), (missing, &[], false)]);
    // A later checkpoint without rows comes after the first.
    assert!(task.prepare_commit(Epoch(2)).unwrap().is_none());
    expect(base, &[("hm=10%3A00", &[], false), ("hm=10%3A01", &[], false), (missing, &[], false)]);
    task.commit(&first).unwrap();
    // NULL has no time.
    expect(base, &[("hm=10%3A00", &["1"], true), ("hm=10%3A01", &["2"], false), (missing, &["3"], false)]);
}

#[test]
fn a_later_life_commits_what_the_former_has_prepared() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path();
    let mut former = sink(base, (0, 2), Some(1), "partition-time");
    former.write(&rows(&[(1, Some("10:00")), (2, Some("10:01"))])).unwrap();
    former.watermark(time(1, 1));
    let prepared = former.prepare_commit(Epoch(1)).unwrap().unwrap();
    // Rows that no checkpoint covers.
    former.write(&rows(&[(9, Some("10:01"))])).unwrap();
    drop(former);
    let mut task = sink(base, (0, 1), Some(2), "partition-time");
    task.commit(&prepared).unwrap();
    task.commit(&prepared).unwrap();
    expect(base, &[("hm=10%3A00", &["1"], false), ("hm=10%3A01", &["2"], false)]);
    task.write(&rows(&[(3, Some("10:01"))])).unwrap();
    task.watermark(time(2, 1));
    let own = task.prepare_commit(Epoch(2)).unwrap().unwrap();
    expect(base, &[("hm=10%3A00", &["1"], false), ("hm=10%3A01", &["2"], false)]);
    task.commit(&own).unwrap();
    expect(base, &[("hm=10%3A00", &["1"], true), ("hm=10%3A01", &["2", "3"], true)]);
    task.finish().unwrap();
    let hidden = |name: &str| fs::read_dir(base.join("dt=2024-01-01").join(name)).unwrap().count();
    // The row, the file that declares the folder complete, and the marker of its commit.
    assert_eq!(hidden("hm=10%3A00"), 3);
}

#[test]
fn by_process_time_a_folder_is_complete_when_its_rows_are_visible() {
    let folder = tempfile::tempdir().unwrap();
    let mut task = sink(folder.path(), (0, 3), Some(1), "process-time");
    task.write(&rows(&[(1, Some("10:00"))])).unwrap();
    let prepared = task.prepare_commit(Epoch(1)).unwrap().unwrap();
    expect(folder.path(), &[("hm=10%3A00", &[], false)]);
    task.commit(&prepared).unwrap();
    expect(folder.path(), &[("hm=10%3A00", &["1"], true)]);
}

#[test]
fn versions_are_frozen() {
    let folder = tempfile::tempdir().unwrap();
    let mut task = sink(folder.path(), (0, 1), Some(1), "process-time");
    task.write(&rows(&[(1, Some("10:00"))])).unwrap();
    let prepared = task.prepare_commit(Epoch(1)).unwrap().unwrap();
    let text = String::from_utf8(prepared.content.to_vec()).unwrap();
    assert!(text.starts_with(r#"{"partitions":["{\"files\":[["#) && text.ends_with(r#"],"version":1}"#), "{text}");
    for (content, expected) in [("{}", "is damaged"), (r#"{"version":2}"#, "version 2, known is 1"), ("", "is damaged")]
    {
        let error = read(content.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
