//! Which entries stay in the log, and which are removed.

use super::*;

#[test]
fn the_log_stays_short_and_its_numbers_ascend() {
    let mut bench = Bench::new(Config { checkpoint_interval: Some(Duration::ZERO), ..config() });
    bench.commands();
    bench.all_report(&Report::Started);
    let mut epoch = 4;
    for round in 0..50_u64 {
        let last = bench.log.last_key_value().map(|(sequence, _)| *sequence);
        if round % 3 == 0 {
            bench.report(0, Report::Failed { retry: true });
            bench.pass(110);
            bench.commands();
            epoch = bench.coordinator.newest_checkpoint().map_or(0, |newest| newest.epoch.0) + 4;
            bench.all_report(&Report::Started);
            bench.pass(10_000);
        } else {
            (0..3).for_each(|index| bench.acknowledge(index, epoch, false));
            bench.commands();
            bench.all_report(&Report::EpochCut(Epoch(epoch)));
            epoch += 4;
        }
        bench.commands();
        assert!(bench.log.len() <= 2, "round {round}: {:?}", bench.log);
        assert!(bench.log.last_key_value().map(|(sequence, _)| *sequence) > last, "round {round}");
    }
    assert!(bench.coordinator.newest_checkpoint().is_some_and(|newest| newest.epoch > Epoch(100)));
    let mut zombie = Bench::on(config(), BTreeMap::new(), Owner(9));
    zombie.log = bench.log;
    assert_eq!(zombie.commands(), [Command::Fenced(Incarnation(0))], "its number is free, but later ones are there");
}

/// No process removes an entry that arrives when its writer is dead: after the newest checkpoint it would
/// count as a newer one.
#[test]
fn no_number_after_the_newest_checkpoint_becomes_free() {
    let mut bench = Bench::new(Config { checkpoint_interval: Some(Duration::ZERO), ..config() });
    bench.commands();
    bench.all_report(&Report::Started);
    (0..3).for_each(|index| bench.acknowledge(index, 4, false));
    bench.commands();
    assert_eq!(bench.log.keys().copied().collect::<Vec<_>>(), [1], "entries before the checkpoint are removed");
    for owner in 2..6 {
        let log = std::mem::take(&mut bench.log);
        bench = Bench::on(config(), log, Owner(owner));
        bench.commands();
    }
    assert_eq!(bench.log.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
}

/// Otherwise a new process would count on from the older checkpoint, and begin an incarnation that there was.
#[test]
fn if_the_newest_checkpoint_is_damaged_the_log_still_says_which_incarnations_there_were() {
    let config = Config { checkpoint_interval: Some(Duration::ZERO), checkpoints_kept: 2, ..config() };
    let checkpoint = |bench: &mut Bench, epoch| {
        bench.all_report(&Report::Started);
        (0..3).for_each(|index| bench.acknowledge(index, epoch, false));
        bench.commands();
    };
    let mut bench = Bench::new(config.clone());
    bench.commands();
    checkpoint(&mut bench, 4);
    for owner in 2..5 {
        bench = Bench::on(config.clone(), std::mem::take(&mut bench.log), Owner(owner));
        bench.commands();
    }
    checkpoint(&mut bench, 8);
    assert_eq!(bench.log.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    // As who reads the log counts a damaged entry.
    let mut log = std::mem::take(&mut bench.log);
    log.insert(5, Entry::Unusable(Incarnation(5)));
    let mut bench = Bench::on(config, log, Owner(9));
    let started = bench.commands();
    assert!(matches!(started[..], [Command::Start { incarnation: Incarnation(6), from: Some(_) }]), "{started:?}");
}

#[test]
fn what_is_unusable_is_known_until_a_checkpoint_follows_on_it() {
    let unusable =
        BTreeMap::from([(3, Entry::Begins(Incarnation(1), Owner(1), PlanVersion(1))), (4, Entry::Unusable(ONE))]);
    let mut bench = Bench::on(Config { checkpoint_interval: Some(Duration::ZERO), ..config() }, unusable, Owner(2));
    assert_eq!(bench.commands(), [Command::Start { incarnation: Incarnation(2), from: None }]);
    assert_eq!(bench.log.keys().copied().collect::<Vec<_>>(), [3, 4, 5]);
    bench.all_report(&Report::Started);
    (0..3).for_each(|index| bench.acknowledge(index, 4, false));
    bench.commands();
    assert_eq!(bench.log.keys().copied().collect::<Vec<_>>(), [6]);
}
