//! Sources that pass nothing on get few groups, and wait for none that they need.

use super::requests::at_once;
use super::*;

/// Groups of one epoch, and a checkpoint after this time.
fn quiet(checkpoint_ms: u64) -> Config {
    let ms = Duration::from_millis;
    Config {
        group_size: GroupSizing::Fixed(1),
        quiet: Some(Quiet { soon: ms(30), pause: ms(30), longest: ms(200) }),
        checkpoint_interval: Some(ms(checkpoint_ms)),
        ..config()
    }
}

/// Both sources have cut the epoch that is granted at the beginning.
fn paused(config: Config) -> Bench {
    let mut bench = Bench::new(config);
    bench.commands();
    bench.all_report(&Report::Started);
    bench.tell(Input::Tick);
    assert_eq!(bench.commands(), [grant(1, 1, 1, false)]);
    bench.all_report(&Report::EpochCut(Epoch(1)));
    assert_eq!(bench.commands(), []);
    bench
}

/// A deadline that has passed would make its driver run in circles.
fn has_no_deadline_now(bench: &Bench) {
    assert!(bench.coordinator.next_deadline().is_none_or(|at| at > bench.now), "{:?}", bench.now);
}

#[test]
fn sources_that_pass_nothing_on_get_an_epoch_after_the_longest_time() {
    let mut bench = paused(quiet(3_600_000));
    for epoch in 2..5 {
        bench.pass(199);
        assert_eq!(bench.commands(), []);
        has_no_deadline_now(&bench);
        bench.pass(1);
        assert_eq!(bench.commands(), [grant(1, epoch, epoch, false)]);
        bench.all_report(&Report::EpochCut(Epoch(epoch)));
        bench.tell(Input::Tick);
        assert_eq!(bench.commands(), []);
    }
}

#[test]
fn what_comes_after_a_pause_gets_one_epoch_and_what_comes_soon_groups_as_ever() {
    let mut bench = paused(quiet(3_600_000));
    bench.pass(50);
    bench.report(0, Report::Active(Epoch(2)));
    assert_eq!(bench.commands(), [grant(1, 2, 2, false)]);
    bench.report(0, Report::Active(Epoch(2)));
    bench.all_report(&Report::EpochCut(Epoch(2)));
    bench.tell(Input::Tick);
    assert_eq!(bench.commands(), [], "nothing has come since");
    bench.pass(20);
    bench.report(0, Report::Active(Epoch(3)));
    bench.tell(Input::Tick);
    assert_eq!(bench.commands(), [grant(1, 3, 3, false), grant(1, 4, 4, false)]);
    for epoch in 3..7 {
        bench.report(1, Report::Active(Epoch(epoch)));
        bench.all_report(&Report::EpochCut(Epoch(epoch)));
        bench.tell(Input::Tick);
    }
    let more: Vec<_> = (5..8).map(|epoch| grant(1, epoch, epoch, false)).collect();
    let granted = bench.commands();
    assert!(granted.len() >= 3 && granted[..3] == more, "one is ahead: {granted:?}");
}

#[test]
fn a_checkpoint_is_taken_at_its_time_if_it_contains_something_new() {
    let mut bench = paused(quiet(100));
    bench.pass(50);
    bench.report(0, Report::Active(Epoch(2)));
    bench.all_report(&Report::EpochCut(Epoch(2)));
    assert_eq!(bench.commands(), [grant(1, 2, 2, false)]);
    bench.pass(49);
    assert_eq!(bench.commands(), []);
    bench.pass(1);
    assert_eq!(bench.commands(), [at_once(1, 3)]);
    has_no_deadline_now(&bench);
    bench.all_report(&Report::EpochCut(Epoch(3)));
    (0..3).for_each(|index| bench.acknowledge(index, 3, false));
    assert_eq!(bench.commands(), [Command::CheckpointDone(ONE, Epoch(3))]);
    bench.pass(199);
    assert_eq!(bench.commands(), [], "the next one would contain nothing new");
    bench.pass(1);
    assert_eq!(bench.commands(), [grant(1, 4, 4, true)]);
}

#[test]
fn a_checkpoint_that_has_failed_is_tried_again_although_nothing_comes() {
    let mut bench = paused(quiet(100));
    bench.tell(Input::Checkpoint);
    bench.report(2, Report::Declined(Epoch(2)));
    assert_eq!(bench.commands(), [at_once(1, 2), Command::AbortCheckpoint(ONE, Epoch(2))]);
    bench.all_report(&Report::EpochCut(Epoch(2)));
    has_no_deadline_now(&bench);
    bench.pass(30);
    assert_eq!(bench.commands(), [grant(1, 3, 3, true)]);
}

#[test]
fn groups_of_a_job_with_few_rows_stay_small() {
    let mut bench = paused(Config { group_size: GroupSizing::default(), ..quiet(3_600_000) });
    for epoch in 2..50 {
        bench.pass(50);
        bench.report(0, Report::Active(Epoch(epoch)));
        assert_eq!(bench.commands(), [grant(1, epoch, epoch, false)]);
        // The source has waited for the whole pause, and says so later.
        bench.all_report(&Report::EpochCut(Epoch(epoch)));
        bench.pass(20);
        bench.tell(Input::Overhead { coordinating: Duration::from_millis(45), group: Duration::from_millis(50) });
        assert_eq!(bench.commands(), []);
    }
    assert_eq!((bench.coordinator.group_epochs(), bench.coordinator.overhead()), (1, None));
}
