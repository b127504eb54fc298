//! Ways in a job's life that no seed of the simulation takes (`OTHERWISE_TESTED` in its tests): there the
//! store answers in the end, attempts do not run out, no task drops rows, and a worker reports that its tasks
//! have ended only together with their start.

use super::*;

/// The transitions of life that a coordinator has taken.
fn lives(bench: &Bench) -> impl Iterator<Item = (&'static str, &'static str)> {
    bench.coordinator.taken().filter(|(machine, ..)| *machine == "life").map(|(_, from, to)| (from, to))
}

#[test]
fn jobs_fail_without_attempts_or_store_and_finish_when_rows_were_dropped() {
    let restart = Restart { attempts_max: 0, ..config().restart };
    let mut without_attempts = Bench::running(Config { restart, ..config() });
    without_attempts.report(0, Report::Failed { retry: true });
    without_attempts.all_report(&Report::Gone);

    // Nobody carries out what these want of the store.
    let mut starting = Bench::new(config());
    starting.pass(5_000);
    let mut ending = ended();
    ending.pass(5_000);
    let mut pausing = Bench::checkpointing();
    (0..3).for_each(|index| pausing.acknowledge(index, 8, false));
    pausing.pass(4_995);
    pausing.report(0, Report::Failed { retry: true });
    pausing.all_report(&Report::Gone);
    assert_eq!(pausing.coordinator.phase(), Phase::Pausing);
    pausing.pass(5);

    // A static table ended before its time, so rows were dropped that would have been joined with it.
    let mut restoring = Bench::new(config());
    restoring.commands();
    let mut running = Bench::running(config());
    for bench in [&mut restoring, &mut running] {
        bench.report(1, Report::Dropped);
        bench.all_report(&Report::Gone);
    }

    // The report of a task that it has started is late.
    let mut unstarted = Bench::new(config());
    unstarted.commands();
    (0..3).for_each(|index| unstarted.acknowledge(index, 3, true));
    unstarted.commands();
    unstarted.all_report(&Report::Gone);

    let expected = [
        (without_attempts, ("cancelling", "failed")),
        (starting, ("starting", "failed")),
        (ending, ("ending", "failed")),
        (pausing, ("pausing", "failed")),
        (unstarted, ("restoring", "ending")),
        (restoring, ("restoring", "finished")),
        (running, ("running", "finished")),
    ];
    for (bench, way) in expected {
        let taken: Vec<_> = lives(&bench).collect();
        assert!(taken.contains(&way), "{way:?} is not among {taken:?}");
    }
}
