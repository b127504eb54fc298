//! Checkpoints that are requested: each gets a group of one epoch, which sources cut at once.

use super::*;

/// The grant of one epoch for a checkpoint that was requested.
pub(super) fn at_once(incarnation: u64, epoch: u64) -> Command<u32> {
    let group = Group { first: Epoch(epoch), last: Epoch(epoch) };
    let (incarnation, then) = (Incarnation(incarnation), Then::Next);
    Command::Grant { incarnation, group, checkpoint: true, then, pace: Pace::AtOnce }
}

#[test]
fn a_request_is_fulfilled_by_a_checkpoint_that_begins_after_it_however_often_it_fails() {
    let mut bench = Bench::running(Config { checkpoint_interval: Some(Duration::from_secs(3600)), ..config() });
    bench.tell(Input::Checkpoint);
    assert_eq!(bench.commands(), [at_once(1, 5)]);
    bench.report(0, Report::Declined(Epoch(5)));
    assert_eq!(bench.commands(), [Command::AbortCheckpoint(ONE, Epoch(5))]);
    bench.all_report(&Report::EpochCut(Epoch(4)));
    assert_eq!(bench.commands(), [grant(1, 6, 9, true)], "one that has failed is tried again with the next group");
    bench.report(0, Report::Failed { retry: true });
    bench.pass(110);
    bench.commands();
    bench.all_report(&Report::Started);
    assert_eq!(bench.commands(), [at_once(2, 1)], "a restart keeps the request");
    (0..3).for_each(|index| bench.acknowledge(index, 1, false));
    assert_eq!(bench.commands(), [grant(2, 2, 5, false), Command::CheckpointDone(Incarnation(2), Epoch(1))]);
    bench.all_report(&Report::EpochCut(Epoch(3)));
    assert_eq!(bench.commands(), [grant(2, 6, 9, false)]);
}

#[test]
fn a_request_waits_for_the_checkpoint_that_is_pending() {
    let mut bench = Bench::checkpointing();
    bench.tell(Input::Checkpoint);
    assert_eq!(bench.commands(), []);
    (0..2).for_each(|index| bench.report(index, Report::EpochCut(Epoch(8))));
    assert_eq!(bench.commands(), [grant(1, 9, 12, false)]);
    (0..3).for_each(|index| bench.acknowledge(index, 8, false));
    assert_eq!(bench.commands(), [Command::CheckpointDone(ONE, Epoch(8)), at_once(1, 13)]);
}

/// Otherwise a worker could lack any number of groups, and another coordinator would not know which.
#[test]
fn of_two_requests_the_second_waits_until_sources_cut_what_the_first_was_granted() {
    let mut bench = Bench::running(config());
    bench.tell(Input::Checkpoint);
    assert_eq!(bench.commands(), [at_once(1, 5)]);
    // All tasks are finished by then for the checkpoint, but for one source, whose report of its cut is late.
    (0..3).for_each(|index| bench.acknowledge(index, 5, false));
    assert_eq!(bench.commands(), [Command::CheckpointDone(ONE, Epoch(5))]);
    bench.tell(Input::Checkpoint);
    assert_eq!(bench.commands(), []);
    bench.report(0, Report::EpochCut(Epoch(5)));
    assert_eq!(bench.commands(), []);
    bench.report(1, Report::EpochCut(Epoch(5)));
    assert_eq!(bench.commands(), [at_once(1, 6)]);
}

/// A worker that has not heard of the group hears the same from the next coordinator.
#[test]
fn a_coordinator_that_adopts_tasks_takes_a_group_to_be_cut_at_once_as_it_is() {
    let mut bench = Bench::running(config());
    bench.tell(Input::Checkpoint);
    bench.commands();
    let mut adopter = bench.adopter();
    adopter.commands();
    let granted = |first, last, pace| {
        let group = Group { first: Epoch(first), last: Epoch(last) };
        Granted { group, checkpoint: pace == Pace::AtOnce, then: Then::Next, pace, aborted: false }
    };
    adopter.tell(Input::Checkpoint);
    adopter.tell(Input::Granted(ONE, vec![granted(1, 4, Pace::Steady), granted(5, 5, Pace::AtOnce)]));
    adopter.all_report(&Report::Started);
    assert_eq!(adopter.commands(), [], "sources have not begun to cut it");
    (0..3).for_each(|index| adopter.acknowledge(index, 5, false));
    assert_eq!(adopter.commands(), [Command::CheckpointDone(ONE, Epoch(5))]);
    (0..2).for_each(|index| adopter.report(index, Report::EpochCut(Epoch(5))));
    assert_eq!(adopter.commands(), [at_once(1, 6)]);
}
