//! Restarts after failures, and the pauses before them.

use super::*;

#[test]
fn a_failure_restarts_from_the_newest_checkpoint_with_growing_pauses_until_no_attempt_is_left() {
    let mut bench = Bench::checkpointing();
    (0..3).for_each(|index| bench.acknowledge(index, 8, false));
    bench.commands();
    let newest = bench.coordinator.newest_checkpoint().cloned();
    for (incarnation, pause) in [(2, 10), (3, 30)] {
        bench.report(0, Report::Failed { retry: true });
        assert_eq!(bench.commands(), [Command::Cancel(Incarnation(incarnation - 1))]);
        bench.report(1, Report::Gone);
        bench.report(2, Report::Gone);
        bench.pass(pause - 1);
        assert_eq!(bench.commands(), []);
        bench.pass(1);
        let start = Command::Start { incarnation: Incarnation(incarnation), from: newest.clone() };
        assert_eq!(bench.commands(), [start]);
        bench.tell(Input::Task(ONE, task(0), Report::Failed { retry: true }));
        bench.all_report(&Report::Started);
        assert_eq!(bench.commands(), [grant(incarnation, 9, 12, false)]);
    }
    assert_eq!(bench.coordinator.refused(), 2);
    bench.report(2, Report::Failed { retry: true });
    bench.pass(100);
    let three = Incarnation(3);
    assert_eq!(bench.commands(), [Command::Cancel(three), Command::Fail(three, Cause::Task(task(2)))]);
}

#[test]
fn the_pause_after_a_lost_worker_is_the_shortest_whatever_failed_with_it() {
    let mut bench = Bench::running(config());
    for (incarnation, fails_first) in [(2, false), (3, true)] {
        if fails_first {
            // Another task sees its connection end before the coordinator does.
            bench.report(1, Report::Failed { retry: true });
        }
        bench.report(0, Report::Lost);
        bench.report(1, Report::Gone);
        bench.report(2, Report::Gone);
        assert_eq!(bench.commands(), [Command::Cancel(Incarnation(incarnation - 1))]);
        bench.pass(10);
        assert_eq!(bench.commands(), [Command::Start { incarnation: Incarnation(incarnation), from: None }]);
        bench.all_report(&Report::Started);
        bench.commands();
    }
    // Lost workers count as failures.
    bench.report(0, Report::Lost);
    bench.report(1, Report::Gone);
    bench.report(2, Report::Gone);
    let three = Incarnation(3);
    assert_eq!(bench.commands(), [Command::Cancel(three), Command::Fail(three, Cause::Task(task(0)))]);
}

#[test]
fn failures_are_forgotten_after_running_well_and_a_users_error_is_not_retried() {
    let mut bench = Bench::running(config());
    for _ in 0..5 {
        bench.pass(10_000);
        bench.report(0, Report::Failed { retry: true });
        bench.pass(110);
        bench.commands();
        bench.all_report(&Report::Started);
        assert_eq!(bench.coordinator.phase(), Phase::Running);
        bench.commands();
    }
    bench.report(0, Report::Failed { retry: true });
    bench.report(1, Report::Failed { retry: false });
    bench.report(2, Report::Gone);
    let six = Incarnation(6);
    assert_eq!(bench.commands(), [Command::Cancel(six), Command::Fail(six, Cause::Task(task(1)))]);
}
