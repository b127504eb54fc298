//! Files that are written exactly once: when they become visible, what is removed, and who may remove it.

use std::fs;
use std::sync::atomic::Ordering::SeqCst;

use anabranch_connectors::FilesystemConnector;
use anabranch_dataflow::ConnectorSpec;
use anabranch_model::{Epoch, ErrorKind};
use anabranch_operators::testing::TestHost;
use anabranch_operators::{Committable, Sink};
use tempfile::TempDir;

use super::folder::{names, table, visible};
use crate::rows::batches;
use crate::suite::commit::{CommitCase, check_commits, check_late_commits};

/// Writers of a table of files, in a job with this scope.
fn files<'a>(table: &ConnectorSpec, scope: &'a str, read: &'a dyn Fn() -> Vec<String>) -> CommitCase<'a> {
    CommitCase { connector: &FilesystemConnector, spec: table.clone(), scope, batches: batches(), read }
}

/// A process that has lost its job to another one, and does not know it yet.
struct Loser {
    sink: Box<dyn Sink>,
    covered: Committable,
}

impl Loser {
    /// What it still does, in this order. It may fail: its rows belong to the other process now.
    fn step(&mut self, step: usize, batches: &[arrow::array::RecordBatch]) {
        let _ = match step {
            0 => self.sink.write(&batches[1]).and_then(|()| self.sink.epoch_end(Epoch(2))),
            1 => self.sink.prepare_commit(Epoch(3)).map(|_| ()),
            _ => self.sink.commit(&self.covered).and_then(|()| self.sink.finish()),
        };
    }
}

#[test]
fn a_process_that_lost_its_job_takes_nothing_from_the_one_that_has_it() {
    const LOSER_STEPS: usize = 3;
    const WINNER_STEPS: usize = 6;
    // Every order of the steps of both: the set bits are the loser's turns.
    for order in (0_u32..1 << (LOSER_STEPS + WINNER_STEPS)).filter(|order| order.count_ones() as usize == LOSER_STEPS) {
        let folder = TempDir::new().unwrap();
        let spec = table(folder.path(), &[("format", "json")]);
        let read = || visible(&spec);
        let job = files(&spec, "job-0", &read);
        // The checkpoint of epoch 1 is complete, and the commit of it is delayed when the other process takes
        // over.
        let mut sink = job.open_in(&TestHost::of_incarnation(1), 0, 1);
        let covered = job.prepare(sink.as_mut(), &[0], 1);
        let mut loser = Loser { sink, covered: covered.clone() };
        let mut winner = job.open_in(&TestHost::of_incarnation(2), 0, 1);
        let (mut loser_steps, mut winner_steps) = (0..LOSER_STEPS, 0..WINNER_STEPS);
        let (mut second, mut third) = (None, None);
        for turn in 0..LOSER_STEPS + WINNER_STEPS {
            if order & (1 << turn) != 0 {
                loser.step(loser_steps.next().unwrap(), &job.batches);
                continue;
            }
            match winner_steps.next().unwrap() {
                0 => winner.commit(&covered).unwrap(),
                1 => winner.write(&job.batches[2]).unwrap(),
                2 => second = winner.prepare_commit(Epoch(2)).unwrap(),
                3 => third = Some(job.prepare(winner.as_mut(), &[3], 3)),
                4 => winner.commit(second.as_ref().unwrap()).unwrap(),
                _ => winner.commit(third.as_ref().unwrap()).unwrap(),
            }
        }
        job.assert_visible(&[0, 2, 3], &format!("in the order {order:b}"));
    }
}

#[test]
fn nothing_is_committed_after_the_cancellation() {
    let folder = TempDir::new().unwrap();
    let spec = table(folder.path(), &[("format", "json")]);
    let read = || visible(&spec);
    let job = files(&spec, "job-0", &read);
    let life = TestHost::of_incarnation(1);
    let mut sink = job.open_in(&life, 0, 1);
    let covered = job.prepare(sink.as_mut(), &[0], 1);
    life.is_cancelled.store(true, SeqCst);
    sink.commit(&covered).unwrap();
    job.assert_visible(&[], "after the cancellation");
    job.open_in(&TestHost::of_incarnation(2), 0, 1).commit(&covered).unwrap();
    job.assert_visible(&[0], "after the commit of the next incarnation");
}

#[test]
fn results_are_visible_once_and_with_their_checkpoint() {
    for format in ["json", "csv", "parquet"] {
        let folder = TempDir::new().unwrap();
        for (name, rolling) in [("large", "128 mb"), ("small", "1 b")] {
            let spec = table(&folder.path().join(name), &[("format", format), ("sink.rolling-size", rolling)]);
            fs::create_dir_all(folder.path().join(name)).unwrap();
            check_commits(&CommitCase {
                connector: &FilesystemConnector,
                spec: spec.clone(),
                scope: "job-1",
                batches: batches(),
                read: &|| visible(&spec),
            });
            let spec = table(
                &folder.path().join(format!("late-{name}")),
                &[("format", format), ("sink.rolling-size", rolling)],
            );
            check_late_commits(&CommitCase {
                connector: &FilesystemConnector,
                spec: spec.clone(),
                scope: "job-1",
                batches: batches(),
                read: &|| visible(&spec),
            });
        }
    }
}

#[test]
fn what_a_crash_left_is_removed_when_nobody_can_own_it() {
    let folder = TempDir::new().unwrap();
    let spec = table(folder.path(), &[("format", "parquet")]);
    let read = || visible(&spec);
    let case = |scope| CommitCase {
        connector: &FilesystemConnector,
        spec: spec.clone(),
        scope,
        batches: batches(),
        read: &read,
    };
    let (job, other) = (case("job-1"), case("job"));
    let (before, now) = (TestHost::of_incarnation(1), TestHost::of_incarnation(2));
    let mut crashed: Vec<_> = (0..3).map(|task| job.open_in(&before, task, 3)).collect();
    let prepared: Vec<_> = crashed.iter_mut().map(|sink| job.prepare(sink.as_mut(), &[0], 1)).collect();
    let lost: Vec<_> = crashed.iter_mut().map(|sink| job.prepare(sink.as_mut(), &[1], 2)).collect();
    assert_eq!(lost.len(), 3);
    crashed.iter_mut().for_each(|sink| sink.write(&job.batches[2]).unwrap());
    let mut living = other.open(0, 1);
    living.write(&other.batches[3]).unwrap();
    drop(crashed);
    let hidden = |what: &str| names(folder.path()).iter().filter(|name| name.ends_with(what)).count();
    assert_eq!((hidden(".inprogress"), hidden(".complete")), (4, 6));

    // One task resumes where there were three. Its first row removes files in progress; complete ones may be
    // another task's to commit.
    let mut sink = job.open_in(&now, 0, 1);
    sink.write(&job.batches[4]).unwrap();
    assert_eq!((hidden(".inprogress"), hidden(".complete")), (2, 6), "its own, and that of another job");
    let next = sink.prepare_commit(Epoch(2)).unwrap().unwrap();
    prepared.iter().for_each(|committable| sink.commit(committable).unwrap());
    assert_eq!(hidden(".complete"), 4);
    sink.commit(&next).unwrap();
    assert_eq!((hidden(".inprogress"), hidden(".complete")), (1, 0));
    job.assert_visible(&[0, 0, 0, 4], "in the end");
}

#[test]
fn a_visible_file_may_be_moved_away_but_a_hidden_one_may_not() {
    let folder = TempDir::new().unwrap();
    let spec = table(folder.path(), &[("format", "json")]);
    let read = || visible(&spec);
    let job = files(&spec, "a", &read);
    let mut sink = job.open(0, 1);
    let first = job.prepare(sink.as_mut(), &[0], 7);
    sink.commit(&first).unwrap();
    assert_eq!(names(folder.path()), [".part-a-0-7.committed", "part-a-0-7-0.json"]);
    fs::remove_file(folder.path().join("part-a-0-7-0.json")).unwrap();
    sink.commit(&first).unwrap();
    job.open(0, 1).commit(&first).unwrap();
    job.assert_visible(&[], "after the file was moved away");

    let second = job.prepare(sink.as_mut(), &[1], 8);
    let hidden = names(folder.path()).into_iter().find(|name| name.ends_with(".complete")).unwrap();
    fs::remove_file(folder.path().join(&hidden)).unwrap();
    // Neither the sink that prepared it nor one of a later incarnation omits its rows.
    for sink in [
        &mut sink,
        &mut job.open_in(&TestHost::of_incarnation(2), 0, 1),
        &mut job.open_in(&TestHost::of_incarnation(3), 1, 2),
    ] {
        let error = sink.commit(&second).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "a restart within the process does not help");
        let error = error.to_string();
        assert!(error.contains(&hidden) && error.contains("has disappeared before"), "{error}");
    }

    // What another job has under the name stays.
    let third = job.prepare(sink.as_mut(), &[2], 9);
    fs::write(folder.path().join("part-a-0-9-0.json"), "").unwrap();
    let error = sink.commit(&third).unwrap_err().to_string();
    assert!(error.contains("part-a-0-9-0.json is there already"), "{error}");
}
