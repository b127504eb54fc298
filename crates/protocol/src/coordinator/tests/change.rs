//! Changes of the plan: the switch at the end of an epoch, and everything that undoes it.

use super::requests::at_once;
use super::*;

const TWO: Incarnation = Incarnation(2);

/// The tasks of a later plan version: one source more.
fn wider(version: u32) -> Tasks {
    let mut tasks = Tasks { version: PlanVersion(version), ..tasks() };
    tasks.all.insert(task(3));
    tasks.sources.insert(task(3));
    tasks
}

fn switch(incarnation: u64, epoch: u64) -> Command<u32> {
    let group = Group { first: Epoch(epoch), last: Epoch(epoch) };
    let (incarnation, then) = (Incarnation(incarnation), Then::Switch);
    Command::Grant { incarnation, group, checkpoint: true, then, pace: Pace::Steady }
}

/// The tasks have ended with epoch 5, and the next incarnation begins.
fn switched() -> Bench {
    let mut bench = Bench::running(config());
    bench.tell(Input::Change(wider(2)));
    assert_eq!(bench.commands(), [switch(1, 5)]);
    (0..3).for_each(|index| bench.acknowledge(index, 5, true));
    assert_eq!(bench.commands(), [Command::CheckpointDone(ONE, Epoch(5))]);
    bench.all_report(&Report::Gone);
    let from = bench.coordinator.newest_checkpoint().cloned();
    assert_eq!(bench.commands(), [Command::Start { incarnation: TWO, from }]);
    assert_eq!((bench.coordinator.version(), bench.coordinator.is_stopping()), (PlanVersion(2), false));
    bench
}

/// All four tasks of the wider version have started.
fn all_started(bench: &mut Bench) {
    (0..4).for_each(|index| bench.report(index, Report::Started));
}

#[test]
fn the_next_version_begins_with_an_entry_behind_the_checkpoint_that_both_share() {
    let mut bench = switched();
    let entries: Vec<_> = bench.log.values().cloned().collect();
    assert!(matches!(entries[..], [Entry::Checkpoint(_), Entry::Begins(TWO, _, PlanVersion(2))]), "{entries:?}");
    all_started(&mut bench);
    assert_eq!(bench.commands(), [at_once(2, 6)], "a checkpoint by the new version is taken at once");
    (0..4).for_each(|index| bench.acknowledge(index, 6, false));
    let settled = [Command::Changed(PlanVersion(2)), Command::CheckpointDone(TWO, Epoch(6))];
    assert!(bench.commands().ends_with(&settled), "the change is settled with it");
    let newest = bench.coordinator.newest_checkpoint().expect("committed");
    assert_eq!((newest.version, newest.tasks.len()), (PlanVersion(2), 4));
}

#[test]
fn a_checkpoint_that_was_requested_before_is_taken_first() {
    let mut bench = Bench::running(config());
    bench.tell(Input::Checkpoint);
    bench.tell(Input::Change(wider(2)));
    assert_eq!(bench.commands(), [at_once(1, 5)]);
    (0..3).for_each(|index| bench.acknowledge(index, 5, false));
    assert_eq!(bench.commands(), [Command::CheckpointDone(ONE, Epoch(5)), switch(1, 6)]);
}

#[test]
fn a_failure_before_the_switch_leaves_the_version_as_it_was() {
    let mut bench = Bench::running(config());
    bench.tell(Input::Change(wider(2)));
    assert_eq!(bench.commands(), [switch(1, 5)]);
    bench.report(0, Report::Failed { retry: true });
    assert_eq!(bench.commands(), [Command::NotChanged(PlanVersion(2)), Command::Cancel(ONE)]);
    bench.all_report(&Report::Gone);
    bench.pass(20);
    assert_eq!(bench.commands(), [Command::Start { incarnation: TWO, from: None }]);
    assert_eq!(bench.coordinator.version(), PlanVersion(1));
}

/// Whatever has failed, and whether or not a retry may help: the version before is not concerned.
#[test]
fn a_failure_before_the_first_checkpoint_of_the_next_version_undoes_it() {
    for retry in [true, false] {
        let mut bench = switched();
        all_started(&mut bench);
        bench.commands();
        bench.report(3, Report::Failed { retry });
        bench.report(0, Report::Failed { retry });
        assert_eq!(bench.commands(), [Command::NotChanged(PlanVersion(2)), Command::Cancel(TWO)]);
        (0..4).for_each(|index| bench.report(index, Report::Gone));
        bench.pass(20);
        let from = bench.coordinator.newest_checkpoint().cloned();
        let third = Incarnation(3);
        assert_eq!(bench.commands(), [Command::Start { incarnation: third, from }]);
        assert_eq!(bench.coordinator.version(), PlanVersion(3));
        bench.all_report(&Report::Started);
        bench.commands();
        // Nothing is undone twice.
        bench.report(0, Report::Failed { retry: false });
        assert_eq!(bench.commands(), [Command::Cancel(third)]);
        bench.all_report(&Report::Gone);
        assert_eq!(bench.commands(), [Command::Fail(third, Cause::Task(task(0)))]);
    }
}

#[test]
fn a_change_is_given_up_if_the_job_stops_ends_or_is_being_changed() {
    let mut bench = Bench::running(config());
    bench.tell(Input::Change(wider(2)));
    bench.tell(Input::Change(wider(3)));
    assert_eq!(bench.commands(), [switch(1, 5), Command::NotChanged(PlanVersion(3))]);
    let mut bench = Bench::running(config());
    bench.tell(Input::Stop);
    bench.tell(Input::Change(wider(2)));
    assert_eq!(bench.commands(), [last_grant(5, 5, true), Command::NotChanged(PlanVersion(2))]);
    let mut bench = Bench::running(config());
    (0..2).for_each(|index| bench.report(index, Report::SourceFinished));
    bench.tell(Input::Change(wider(2)));
    (0..3).for_each(|index| bench.acknowledge(index, 4, true));
    bench.all_report(&Report::Gone);
    let commands = bench.commands();
    assert!(commands.contains(&Command::NotChanged(PlanVersion(2))), "{commands:?}");
    assert_eq!(commands.last(), Some(&Command::Finish(ONE)));
    let mut bench = Bench::running(Config { checkpoint_interval: None, ..config() });
    bench.tell(Input::Change(wider(2)));
    assert_eq!(bench.commands(), [Command::NotChanged(PlanVersion(2))]);
}

#[test]
fn a_stop_that_comes_during_a_change_stops_the_next_version() {
    let mut bench = Bench::running(config());
    bench.tell(Input::Change(wider(2)));
    bench.tell(Input::Stop);
    (0..3).for_each(|index| bench.acknowledge(index, 5, true));
    bench.all_report(&Report::Gone);
    bench.commands();
    assert_eq!(bench.coordinator.incarnation(), TWO);
    all_started(&mut bench);
    let group = Group { first: Epoch(6), last: Epoch(6) };
    let (then, pace) = (Then::Stop, Pace::Steady);
    assert_eq!(bench.commands(), [Command::Grant { incarnation: TWO, group, checkpoint: true, then, pace }]);
}

/// The version that was to follow is known only to the coordinator that has died.
#[test]
fn a_coordinator_that_adopts_tasks_which_end_for_a_change_goes_on_by_the_version_in_the_log() {
    for all_gone in [false, true] {
        let mut bench = Bench::running(config());
        bench.tell(Input::Change(wider(2)));
        bench.commands();
        let mut adopter = bench.adopter();
        assert_eq!(adopter.commands(), [Command::Adopt { incarnation: ONE, newest: None }]);
        let group = Group { first: Epoch(5), last: Epoch(5) };
        let (then, pace) = (Then::Switch, Pace::Steady);
        let granted = Granted { group, checkpoint: true, then, pace, aborted: false };
        adopter.tell(Input::Granted(ONE, vec![granted]));
        if !all_gone {
            adopter.all_report(&Report::Started);
        }
        (0..3).for_each(|index| adopter.acknowledge(index, 5, true));
        adopter.all_report(&Report::Gone);
        let commands = adopter.commands();
        let from = adopter.coordinator.newest_checkpoint().cloned();
        assert_eq!(commands.last(), Some(&Command::Start { incarnation: TWO, from }), "{commands:?}");
        assert_eq!(adopter.coordinator.version(), PlanVersion(1));
    }
}

/// The entry is in the log, or will be: then the new version goes on, and the user hears of it.
#[test]
fn a_failure_while_the_first_checkpoint_is_being_written_does_not_undo_the_change() {
    let mut bench = switched();
    all_started(&mut bench);
    bench.commands();
    bench.tell(Input::Tick);
    assert_eq!(bench.commands(), [grant(2, 7, 10, false)]);
    (0..4).for_each(|index| bench.acknowledge(index, 6, false));
    let Some(Command::Append(sequence, entry)) = bench.coordinator.poll() else { panic!("the checkpoint is written") };
    bench.report(0, Report::Failed { retry: true });
    assert_eq!(bench.commands(), [Command::Cancel(TWO)]);
    bench.log.insert(sequence, entry);
    bench.tell(Input::Store(sequence, Answer::Appended));
    assert!(bench.commands().contains(&Command::Changed(PlanVersion(2))));
    (0..4).for_each(|index| bench.report(index, Report::Gone));
    bench.pass(20);
    let started = bench.commands();
    assert!(matches!(started[..], [Command::Start { incarnation: Incarnation(3), from: Some(_) }]), "{started:?}");
    assert_eq!(bench.coordinator.version(), PlanVersion(2));
}

/// Sinks of the present version may still have to make visible what its checkpoint covers.
#[test]
fn a_change_that_comes_during_a_restart_waits_until_tasks_run() {
    let mut bench = Bench::running(config());
    bench.report(0, Report::Failed { retry: true });
    assert_eq!(bench.commands(), [Command::Cancel(ONE)]);
    bench.tell(Input::Change(wider(2)));
    bench.all_report(&Report::Gone);
    bench.pass(20);
    assert_eq!(bench.commands(), [Command::Start { incarnation: TWO, from: None }]);
    assert_eq!(bench.coordinator.version(), PlanVersion(1));
    bench.all_report(&Report::Started);
    assert_eq!(bench.commands(), [switch(2, 1)]);
}

/// A task whose static side was cut short has not failed: the attempts of a healthy job are not used up by
/// changes.
#[test]
fn a_change_during_the_reading_of_a_static_side_restarts_the_version_before() {
    let mut bench = Bench::running(Config { restart: Restart { attempts_max: 0, ..config().restart }, ..config() });
    bench.tell(Input::Change(wider(2)));
    bench.commands();
    bench.report(2, Report::Dropped);
    let expected = [Command::NoneDone(ONE), Command::NotChanged(PlanVersion(2)), Command::Cancel(ONE)];
    assert_eq!(bench.commands(), expected);
    bench.all_report(&Report::Gone);
    bench.pass(20);
    assert_eq!(bench.commands(), [Command::Start { incarnation: TWO, from: None }]);
}
