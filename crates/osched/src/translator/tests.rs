//! Plans as values: what is written, in which order, and that a second plan is empty.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Nanos, Rng};
use anabranch_schedule::{Group, Scale, Schedule, ThreadId};

use super::spread::{differs, share_of_nice, spread};
use super::*;
use crate::kernel::{Class, GroupPath, GroupState, GroupValue, Policy, Quota, Scheduling, ThreadState, Usage};

fn thread(tid: u32) -> ThreadId {
    ThreadId { pid: 100, process_start: 5, tid, start: 6 }
}

fn group(hierarchy: Hierarchy, path: &str) -> GroupPath {
    GroupPath { hierarchy, path: path.into() }
}

fn machine(groups: Option<Hierarchy>) -> Machine {
    Machine { cores: 4, groups, default_slice_ns: Some(3_000_000), real_time_share: 0.95, label: "osched-7".into() }
}

/// Threads 1 to `count` of a process in the group `/job`.
fn state(count: u32, hierarchy: Hierarchy) -> State {
    let class = Class { policy: Policy::Other, resets_on_fork: false };
    let scheduling = Scheduling { class, nice: 0, slice_ns: Some(3_000_000) };
    let home = group(hierarchy, "/job");
    let thread_state = |tid| ThreadState {
        name: format!("task {tid}"),
        scheduling,
        group: Some(home.clone()),
        usage: Some(Usage::default()),
    };
    State {
        machine: machine(Some(hierarchy)),
        threads: (1..=count).map(|tid| (thread(tid), thread_state(tid))).collect(),
        groups: BTreeMap::from([(home.clone(), GroupState { controls_cpu: Some(false), ..GroupState::default() })]),
        ..State::default()
    }
}

fn schedule(priorities: &[f64]) -> Schedule {
    let threads = priorities.iter().zip(1..).map(|(priority, tid)| (thread(tid), *priority)).collect();
    Schedule { threads, ..Schedule::default() }
}

fn with_group(mut schedule: Schedule, name: &str, priority: f64, tids: &[u32]) -> Schedule {
    let threads: BTreeSet<_> = tids.iter().map(|tid| thread(*tid)).collect();
    schedule.groups.insert(name.into(), Group { priority, threads });
    schedule
}

fn plan(name: &str, schedule: &Schedule, state: &State) -> Vec<String> {
    let mut translator = by_name(name, &usual(), &state.machine).expect("a translator");
    translator.plan(schedule, Scale::Linear, state).iter().map(Write::to_string).collect()
}

/// The state after a change.
fn apply(state: &mut State, change: &Change) {
    match change {
        Change::Thread { thread, value } => {
            let Some(state) = state.threads.get_mut(thread) else { return };
            match value {
                ThreadValue::Nice(nice) => state.scheduling.nice = *nice,
                ThreadValue::Class(class) => state.scheduling.class = *class,
                ThreadValue::SliceNs(slice) => state.scheduling.slice_ns = Some(*slice),
                ThreadValue::Group(group) => state.group = Some(group.clone()),
            }
        }
        Change::Group { group, value } => {
            let Some(state) = state.groups.get_mut(group) else { return };
            state.set(*value);
        }
        Change::Create { group } => {
            state.groups.entry(group.clone()).or_default();
        }
        Change::Remove { group } => {
            state.groups.remove(group);
            for thread in state.threads.values_mut().filter(|thread| thread.group.as_ref() == Some(group)) {
                thread.group = Some(group.parent());
            }
        }
    }
}

/// A range on both sides of 0.
fn usual() -> Options {
    Options { nice: (10, -10), ..Options::default() }
}

#[test]
fn nice_is_written_only_where_it_differs() {
    let mut state = state(3, Hierarchy::V1);
    let asked = schedule(&[1.0, 2.0, 3.0, 4.0]);
    let expected = [
        "nice 0 -> 10: thread 1 'task 1' of process 100 (priority 1)",
        "nice 0 -> -10: thread 3 'task 3' of process 100 (priority 3)",
    ];
    assert_eq!(plan("nice", &asked, &state), expected, "the middle one is at 0, and thread 4 is gone");
    // What is real-time already, or unknown, is left alone and does not stretch the range.
    let class = &mut state.threads.get_mut(&thread(1)).expect("it").scheduling.class;
    class.policy = Policy::RoundRobin(5);
    let expected = [
        "nice 0 -> 10: thread 2 'task 2' of process 100 (priority 2)",
        "nice 0 -> -10: thread 3 'task 3' of process 100 (priority 3)",
    ];
    assert_eq!(plan("nice", &asked, &state), expected);
}

#[test]
fn by_default_nothing_is_raised_and_equal_priorities_change_nothing() {
    let state = state(3, Hierarchy::V1);
    let planned = |of: &[f64]| {
        let mut nice = by_name("nice", &Options::default(), &state.machine).expect("a translator");
        let writes = nice.plan(&schedule(of), Scale::Linear, &state);
        writes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(planned(&[2.0, 2.0, 2.0]).is_empty() && planned(&[f64::NAN, 2.0, f64::INFINITY]).is_empty());
    assert_eq!(planned(&[1.0, 2.0, 2.0]), ["nice 0 -> 10: thread 1 'task 1' of process 100 (priority 1)"]);
}

#[test]
fn a_thread_without_priority_takes_that_of_its_group() {
    let asked = with_group(with_group(schedule(&[]), "a", 1.0, &[1, 2]), "b", 2.0, &[3]);
    let expected = [
        "nice 0 -> 10: thread 1 'task 1' of process 100 (priority 1)",
        "nice 0 -> 10: thread 2 'task 2' of process 100 (priority 1)",
        "nice 0 -> -10: thread 3 'task 3' of process 100 (priority 2)",
    ];
    assert_eq!(plan("nice", &asked, &state(3, Hierarchy::V2)), expected);
}

#[test]
fn version_2_gets_threaded_groups_and_the_controller_once() {
    let state = state(2, Hierarchy::V2);
    let asked = with_group(with_group(schedule(&[]), "a", 1.0, &[1]), "b/c", 2.0, &[2]);
    let writes = plan("weight", &asked, &state);
    // A name that cannot be that of a folder has a hash.
    let b = writes[4].split(' ').nth(2).expect("a path");
    assert!(b.starts_with("/job/osched-7.g.b_c-") && b.len() == "/job/osched-7.g.b_c-".len() + 8, "{b}");
    assert_eq!(
        writes,
        [
            "make cgroup /job/osched-7.g.a (v2) (for 'a')".to_owned(),
            "cpu control off -> on: cgroup /job (v2) (its groups need weights)".to_owned(),
            "weight 11: cgroup /job/osched-7.g.a (v2) (priority 1)".to_owned(),
            "group /job -> /job/osched-7.g.a: thread 1 'task 1' of process 100 (priority 1)".to_owned(),
            format!("make cgroup {b} (v2) (for 'b/c')"),
            format!("weight 931: cgroup {b} (v2) (priority 2)"),
            format!("group /job -> {b}: thread 2 'task 2' of process 100 (priority 2)"),
        ]
    );
}

#[test]
fn an_ended_group_is_removed_and_others_of_this_osched_stay() {
    let mut state = state(2, Hierarchy::V1);
    let asked = with_group(with_group(schedule(&[]), "a", 1.0, &[1]), "b", 1.0, &[2]);
    let mut shares = by_name("shares", &usual(), &state.machine).expect("a translator");
    for write in shares.plan(&asked, Scale::Linear, &state) {
        apply(&mut state, &write.change);
    }
    // Of another policy of this osched, and of another osched.
    for other in ["/job/osched-7.p2.x", "/job/osched-8.g.x", "/job/user"] {
        state.groups.insert(group(Hierarchy::V1, other), GroupState::default());
    }
    let mut asked = asked;
    asked.groups.remove("b");
    let writes = shares.plan(&asked, Scale::Linear, &state);
    let texts: Vec<String> = writes.iter().map(Write::to_string).collect();
    assert_eq!(texts, ["remove cgroup /job/osched-7.g.b (v1) (no scheduled threads)"]);
    apply(&mut state, &writes[0].change);
    assert_eq!(state.threads[&thread(2)].group, Some(group(Hierarchy::V1, "/job")));
}

#[test]
fn both_weighs_threads_within_their_group_only() {
    let asked = with_group(with_group(schedule(&[1.0, 2.0, 100.0, 200.0, 7.0]), "a", 1.0, &[1, 2]), "b", 2.0, &[3, 4]);
    let writes = plan("both", &asked, &state(5, Hierarchy::V1));
    let nice: Vec<&str> = writes.iter().filter(|text| text.starts_with("nice")).map(|text| &text[..23]).collect();
    // The fifth is in no group, alone, and stays in the middle.
    let expected =
        ["nice 0 -> 10: thread 1 ", "nice 0 -> -10: thread 2", "nice 0 -> 10: thread 3 ", "nice 0 -> -10: thread 4"];
    assert_eq!(nice, expected);
    assert_eq!(plan("groups", &asked, &state(5, Hierarchy::V1)).len(), writes.len() - 4);
}

#[test]
fn a_quota_is_a_share_of_what_the_group_above_may_use() {
    let mut state = state(2, Hierarchy::V1);
    let home = state.groups.get_mut(&group(Hierarchy::V1, "/job")).expect("it");
    home.quota = Some(Quota { quota_us: Some(6_000), period_us: 10_000 });
    let mut quota = by_name("quota", &usual(), &state.machine).expect("a translator");
    let writes = quota.plan(&schedule(&[1.0, 2.0]), Scale::Linear, &state);
    let values: Vec<GroupValue> = writes
        .iter()
        .filter_map(|w| if let Change::Group { value, .. } = w.change { Some(value) } else { None })
        .collect();
    let of = |quota_us| GroupValue::Quota(Quota { quota_us, period_us: 20_000 });
    assert_eq!(values, [of(Some(1_200)), of(None)]);
}

#[test]
fn real_time_keeps_its_bounds() {
    let mut options = Options { real_time: true, ..Options::default() };
    let mut machine = machine(None);
    let mut state = state(6, Hierarchy::V1);
    let mut real_time = by_name("real-time", &options, &machine).expect("a translator");
    let asked = schedule(&[1.0, 2.0, 3.0, 4.0, 5.0, f64::NAN]);
    let tids = |writes: &[Write]| -> Vec<u32> {
        writes.iter().map(|w| if let Change::Thread { thread, .. } = w.change { thread.tid } else { 0 }).collect()
    };
    let writes = real_time.plan(&asked, Scale::Linear, &state);
    assert_eq!(tids(&writes), [3, 4, 5], "one of four cores is left to the others");
    writes.iter().for_each(|write| apply(&mut state, &write.change));
    // The fifth uses 0.6 of a core: it is put back, and the second takes its place.
    state.at = Nanos(1_000_000_000);
    state.threads.get_mut(&thread(5)).expect("it").usage = Some(Usage { run_ns: 600_000_000, wait_ns: 0 });
    let writes = real_time.plan(&asked, Scale::Linear, &state);
    assert_eq!(tids(&writes), [5, 2]);
    assert!(writes[0].to_string().starts_with("class fifo 1 -> other: thread 5 "), "{}", writes[0]);
    writes.iter().for_each(|write| apply(&mut state, &write.change));
    state.at = Nanos(2_900_000_000);
    assert_eq!(real_time.plan(&asked, Scale::Linear, &state).len(), 0, "it is barred for two seconds");
    state.at = Nanos(3_000_000_001);
    assert_eq!(tids(&real_time.plan(&asked, Scale::Linear, &state)), [2, 5]);
    for (share, cores, asked) in [(1.0, 4, true), (f64::NAN, 4, true), (0.95, 1, true), (0.95, 4, false)] {
        (machine.real_time_share, machine.cores, options.real_time) = (share, cores, asked);
        let error = by_name("real-time", &options, &machine).err().expect("a refusal");
        assert!(error.help().is_some() && error.place().is_some(), "{error}");
    }
}

#[test]
fn unknown_names_and_missing_mechanisms_are_refused_with_a_remedy() {
    let refusal = |name: &str, options: &Options, machine: &Machine| {
        by_name(name, options, machine).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let (usual, v1, none) = (usual(), machine(Some(Hierarchy::V1)), machine(None));
    let error = refusal("nise", &usual, &v1);
    assert!(error.contains("did you mean 'nice'?"), "{error}");
    assert!(refusal("zzz", &usual, &v1).contains("use one of: nice, groups,"));
    assert!(refusal("weight", &usual, &v1).contains("use 'groups'"));
    assert!(refusal("groups", &usual, &none).contains("use 'nice'"));
    let old = Machine { default_slice_ns: None, ..none };
    assert!(refusal("slice", &usual, &old).contains("Linux 6.12"));
    for name in NAMES.iter().filter(|name| !["weight", "real-time"].contains(name)) {
        assert_eq!(refusal(name, &usual, &v1), "");
    }
    for wrong in [
        Options { nice: (-5, 5), ..usual.clone() },
        Options { nice: (20, 0), ..usual.clone() },
        Options { weight: (0.0, 1.0), ..usual.clone() },
        Options { slice_ms: (0.5, 10.0), ..usual.clone() },
        Options { quota: (0.5, 1.5), ..usual.clone() },
        Options { real_time_share_max: f64::NAN, ..usual.clone() },
        Options { mark: "a/b".into(), ..usual },
    ] {
        assert!(refusal("nice", &wrong, &v1).contains("is out of range"), "{wrong:?}");
    }
}

/// Carrying out a plan on a rehearsed state and planning again gives nothing, for all translators and random
/// schedules.
#[test]
fn a_second_plan_is_empty() {
    let seed = 20_261_129;
    eprintln!("seed {seed}");
    let mut random = Rng::new(seed);
    for round in 0..300 {
        let hierarchy = if random.below(2) == 0 { Hierarchy::V1 } else { Hierarchy::V2 };
        let mut state = state(8, hierarchy);
        let translators = NAMES.iter().filter_map(|name| Some((name, by_name(name, &usual(), &state.machine).ok()?)));
        for (name, mut translator) in translators.collect::<Vec<_>>() {
            for _ in 0..2 {
                let number =
                    |random: &mut Rng| [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9, 3.5, 8e12][random.below(7) as usize];
                let mut asked = schedule(&(0..8).map(|_| number(&mut random)).collect::<Vec<_>>());
                for name in ["a", "b", "c"].iter().take(random.below(4) as usize) {
                    asked = with_group(asked, name, number(&mut random), &[]);
                }
                for tid in 1..=8 {
                    let index = random.below(4) as usize;
                    if let Some(group) = asked.groups.values_mut().nth(index) {
                        group.threads.insert(thread(tid));
                    }
                }
                let scale = [Scale::Linear, Scale::Logarithmic, Scale::Ladder][random.below(3) as usize];
                translator.plan(&asked, scale, &state).iter().for_each(|write| apply(&mut state, &write.change));
                let again = translator.plan(&asked, scale, &state);
                assert!(again.is_empty(), "seed {seed}, round {round}, {name}, {asked:?}: {}", again[0]);
            }
        }
    }
}

#[test]
fn a_spread_is_geometric_and_keeps_the_order() {
    let near = |values: Vec<f64>, wanted: &[f64]| {
        assert!(values.iter().zip(wanted).all(|(a, b)| (a / b - 1.0).abs() < 0.01), "{values:?}, wanted {wanted:?}");
    };
    near(spread(&[1.0, 2.0, 3.0], (0.25, 4.0), Scale::Linear), &[0.25, 1.0, 4.0]);
    near(spread(&[1.0, 10.0, 100.0], (0.25, 4.0), Scale::Logarithmic), &[0.25, 1.0, 4.0]);
    near(spread(&[1.0, 3.0, f64::NAN], (0.25, 4.0), Scale::Logarithmic), &[0.25, 4.0, 1.0]);
    near(spread(&[1.0, 3.0, f64::NAN], (0.25, 4.0), Scale::Ladder), &[4.0 / 3.0, 4.0, 1.0]);
    near(spread(&[1.0, 1e9], (0.25, 4.0), Scale::Ladder), &[0.25, 4.0]);
    near(spread(&[7.0, 7.0], (0.25, 4.0), Scale::Ladder), &[1.0, 1.0]);
    near(spread(&[7.0, 7.0], (0.25, 4.0), Scale::Logarithmic), &[1.0, 1.0]);
    near(spread(&[1.0, 2.0], (10.0, 0.5), Scale::Linear), &[10.0, 0.5]);
    assert!((share_of_nice(10) * share_of_nice(-10) - 1.0).abs() < 1e-9);
    assert!(!differs(1000.0, 1040.0) && differs(1000.0, 1060.0) && differs(1000.0, 940.0) && !differs(0.0, 0.0));
}
