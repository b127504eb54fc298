//! Each mechanism gives threads the shares that were asked for, and is undone exactly.

use std::collections::BTreeSet;

use anabranch_model::{Clock, Nanos, SystemClock};
use anabranch_osched::kernel::{Hierarchy, Policy, Scheduling};
use anabranch_osched::translator::Options;
use anabranch_schedule::{Group, Scale, Schedule};

use crate::bench::{Bench, Home, Snapshot, assert_shares, may_set_nice, may_set_real_time, measure};
use crate::engine::{Engine, until};

fn schedule(engine: &Engine, priorities: &[(&str, f64)]) -> Schedule {
    let threads = priorities.iter().map(|(name, priority)| (engine.thread(name), *priority)).collect();
    Schedule { threads, ..Schedule::default() }
}

fn with_groups(mut schedule: Schedule, engine: &Engine, groups: &[(&str, f64, &[&str])]) -> Schedule {
    for (name, priority, threads) in groups {
        let threads: BTreeSet<_> = threads.iter().map(|name| engine.thread(name)).collect();
        schedule.groups.insert((*name).to_owned(), Group { priority: *priority, threads });
    }
    schedule
}

#[test]
fn nice_values_weigh_threads_against_each_other() {
    if !may_set_nice() {
        return;
    }
    let engine = Engine::start(&["low", "middle", "high"]);
    let mut bench = Bench::new();
    let before = Snapshot::of(&bench.kernel, &engine);
    bench.claim(&engine);
    let mut nice = bench.translator("nice", &Options { nice: (5, -5), ..Options::default() });
    // 1.25 to the fifth is 3.05 between neighbours.
    let ratio = 1.25_f64.powi(5);
    let asked = schedule(&engine, &[("low", 1.0), ("middle", ratio), ("high", ratio * ratio)]);
    assert_eq!(bench.carry_out(nice.as_mut(), &asked, &engine).len(), 2, "the middle one stays at 0");
    let threads = ["low", "middle", "high"].map(|name| engine.thread(name));
    assert_shares(&bench.kernel, &threads, &[1.0, ratio, ratio * ratio]);
    let kernel = bench.kernel.clone();
    let undone = bench.journal.close().expect("an undo");
    assert_eq!((undone.restored, undone.failed.len()), (2, 0));
    assert_eq!(Snapshot::of(&kernel, &engine), before);
    assert_shares(&kernel, &threads, &[1.0, 1.0, 1.0]);
}

#[test]
fn weights_of_a_group_for_each_thread_are_exact() {
    let Some(home) = Home::new("weights") else { return };
    let engine = Engine::start_in(&["low", "middle", "high"], Some(&home.group), false);
    let mut bench = Bench::new();
    let before = Snapshot::of(&bench.kernel, &engine);
    bench.claim(&engine);
    let mut groups = bench.translator("groups", &Options { weight: (0.25, 4.0), ..Options::default() });
    let asked = schedule(&engine, &[("low", 1.0), ("middle", 4.0), ("high", 16.0)]);
    let writes = bench.carry_out(groups.as_mut(), &asked, &engine);
    let controls = usize::from(home.group.hierarchy == Hierarchy::V2);
    assert_eq!(writes.len(), 9 + controls, "three groups, each made, weighted and filled");
    let threads = ["low", "middle", "high"].map(|name| engine.thread(name));
    assert_shares(&bench.kernel, &threads, &[1.0, 4.0, 16.0]);
    let kernel = bench.kernel.clone();
    let undone = bench.journal.close().expect("an undo");
    assert!(undone.failed.is_empty(), "{undone:?}");
    assert_eq!(Snapshot::of(&kernel, &engine), before);
    assert_shares(&kernel, &threads, &[1.0, 1.0, 1.0]);
}

#[test]
fn groups_compete_and_threads_compete_within_them() {
    let Some(home) = Home::new("both") else { return };
    if !may_set_nice() {
        return;
    }
    let names = ["a-low", "a-high", "b-low", "b-high"];
    let engine = Engine::start_in(&names, Some(&home.group), false);
    let mut bench = Bench::new();
    let before = Snapshot::of(&bench.kernel, &engine);
    bench.claim(&engine);
    let mut both = bench.translator("both", &Options { nice: (3, -3), weight: (0.5, 2.0), ..Options::default() });
    let ratio = 1.25_f64.powi(6);
    let asked = schedule(&engine, &[("a-low", 1.0), ("a-high", ratio), ("b-low", 10.0), ("b-high", 10.0 * ratio)]);
    let asked =
        with_groups(asked, &engine, &[("query a", 1.0, &["a-low", "a-high"]), ("b", 3.0, &["b-low", "b-high"])]);
    bench.carry_out(both.as_mut(), &asked, &engine);
    let threads = names.map(|name| engine.thread(name));
    assert_shares(&bench.kernel, &threads, &[1.0, ratio, 3.0, 3.0 * ratio]);
    // A query that ends takes its group with it.
    let mut asked = asked;
    asked.groups.remove("query a");
    let writes = bench.carry_out(both.as_mut(), &asked, &engine);
    assert!(writes.iter().any(|write| write.to_string().starts_with("remove cgroup")), "{writes:?}");
    let kernel = bench.kernel.clone();
    assert!(bench.journal.close().expect("an undo").failed.is_empty());
    assert_eq!(Snapshot::of(&kernel, &engine), before);
}

#[test]
fn an_idle_thread_and_an_idle_group_get_what_is_left() {
    let Some(home) = Home::new("idle") else { return };
    if !may_set_nice() {
        return;
    }
    let engine = Engine::start_in(&["low", "high"], Some(&home.group), false);
    let threads = ["low", "high"].map(|name| engine.thread(name));
    for name in ["class", "idle-groups"] {
        let mut bench = Bench::new();
        let before = Snapshot::of(&bench.kernel, &engine);
        bench.claim(&engine);
        let mut class = bench.translator(name, &Options { idle: true, ..Options::default() });
        bench.carry_out(class.as_mut(), &schedule(&engine, &[("low", 1.0), ("high", 2.0)]), &engine);
        let measured = measure(&bench.kernel, &threads);
        assert!(measured[0] < 0.03, "{name}: {measured:?}");
        let kernel = bench.kernel.clone();
        assert!(bench.journal.close().expect("an undo").failed.is_empty());
        assert_eq!(Snapshot::of(&kernel, &engine), before, "{name}");
    }
}

#[test]
fn a_quota_bounds_a_group_though_the_core_is_free() {
    let Some(home) = Home::new("quota") else { return };
    let engine = Engine::start_in(&["low", "high"], Some(&home.group), false);
    let mut bench = Bench::new();
    let before = Snapshot::of(&bench.kernel, &engine);
    bench.claim(&engine);
    // Of all cores: with two of them, a fifth of one core.
    let least = 0.2 / bench.machine.cores as f64;
    let mut quota = bench.translator("quota", &Options { quota: (least, 1.0), ..Options::default() });
    bench.carry_out(quota.as_mut(), &schedule(&engine, &[("low", 1.0), ("high", 1000.0)]), &engine);
    let (clock, low) = (SystemClock::new(), engine.thread("low"));
    let used = |bench: &Bench| bench.kernel.usage(low).expect("/proc").expect("a thread").run_ns;
    let (before_ns, start) = (used(&bench), clock.now());
    let group = bench.kernel.thread_group(low, home.group.hierarchy).expect("/proc").expect("a group");
    let statistics = bench.kernel.group_folder(&group).expect("a cgroup").join("cpu.stat");
    until("many periods in which the quota was used up", || {
        let text = std::fs::read_to_string(&statistics).expect("the statistics");
        let throttled = text.lines().find_map(|line| line.strip_prefix("nr_throttled ")).expect("a count");
        (throttled.parse::<u64>().expect("a number") > 50).then_some(())
    });
    let share = (used(&bench) - before_ns) as f64 / clock.now().since(start) as f64;
    assert!(share < 0.25, "{share} of a core");
    let kernel = bench.kernel.clone();
    assert!(bench.journal.close().expect("an undo").failed.is_empty());
    assert_eq!(Snapshot::of(&kernel, &engine), before);
}

#[test]
fn a_slice_reads_back_and_returns_to_the_default() {
    let mut bench = Bench::new();
    if bench.machine.default_slice_ns.is_none() {
        eprintln!("left out, as this kernel has no slices per thread");
        return;
    }
    let engine = Engine::start(&["low", "high"]);
    let before = Snapshot::of(&bench.kernel, &engine);
    bench.claim(&engine);
    let mut slice = bench.translator("slice", &Options { slice_ms: (20.0, 0.5), ..Options::default() });
    let asked = schedule(&engine, &[("low", 1.0), ("high", 1000.0)]);
    assert_eq!(bench.carry_out(slice.as_mut(), &asked, &engine).len(), 2);
    let state = bench.state(&engine, slice.needs(), Nanos(0));
    let slice_ns = |name: &str| state.threads[&engine.thread(name)].scheduling.slice_ns;
    assert_eq!((slice_ns("low"), slice_ns("high")), (Some(20_000_000), Some(500_000)));
    let kernel = bench.kernel.clone();
    assert!(bench.journal.close().expect("an undo").failed.is_empty());
    assert_eq!(Snapshot::of(&kernel, &engine), before);
}

/// A thread that spins exceeds its share of a core, so it is real-time for the time of one period only.
#[test]
fn a_real_time_thread_is_put_back_when_it_uses_too_much() {
    let bench = Bench::new();
    let options = Options { real_time: true, real_time_share_max: 0.5, ..Options::default() };
    let Ok(mut real_time) = anabranch_osched::translator::by_name("real-time", &options, &bench.machine) else {
        eprintln!("left out, as this machine has one core, or no bound to real-time threads");
        return;
    };
    if !may_set_real_time() {
        return;
    }
    let mut bench = bench;
    let engine = Engine::start(&["low", "high"]);
    let before = Snapshot::of(&bench.kernel, &engine);
    bench.claim(&engine);
    let asked = schedule(&engine, &[("low", 1.0), ("high", 2.0)]);
    let high = engine.thread("high");
    let policy = |bench: &Bench, now: u64| -> Scheduling {
        bench.state(&engine, real_time.needs(), Nanos(now)).threads[&high].scheduling
    };
    let start = bench.kernel.usage(high).expect("/proc").expect("a thread").run_ns;
    assert_eq!(policy(&bench, start).class.policy, Policy::Other);
    let state = bench.state(&engine, real_time.needs(), Nanos(start));
    let writes = real_time.plan(&asked, Scale::Linear, &state);
    bench.journal.apply(&writes).expect("a journal");
    let state = bench.state(&engine, real_time.needs(), Nanos(start));
    let class = state.threads[&high].scheduling.class;
    assert_eq!((class.policy, class.resets_on_fork), (Policy::Fifo(1), true), "{writes:?}");
    // By a clock that stands still it used more than any share.
    until("some processor time", || {
        let used = bench.kernel.usage(high).expect("/proc").expect("a thread").run_ns;
        (used > start + 1_000_000).then_some(())
    });
    let state = bench.state(&engine, real_time.needs(), Nanos(start + 1000));
    let writes = real_time.plan(&asked, Scale::Linear, &state);
    assert!(writes[0].to_string().contains("used more than its share"), "{writes:?}");
    assert!(writes.iter().all(|write| !write.to_string().contains("'high'") || write.to_string().contains("other:")));
    bench.journal.apply(&writes).expect("a journal");
    let kernel = bench.kernel.clone();
    assert!(bench.journal.close().expect("an undo").failed.is_empty());
    assert_eq!(Snapshot::of(&kernel, &engine), before);
}
