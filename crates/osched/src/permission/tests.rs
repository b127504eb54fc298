//! The rules, by what is refused.

use std::collections::BTreeMap;

use super::*;
use crate::kernel::{Class, GroupState, Hierarchy, Machine, Policy, Scheduling};

fn process(pid: u32) -> Process {
    let (name, command) = ("java".into(), "java -jar x".into());
    Process { pid, start: 5, name, command, uid: user(), is_kernel_thread: false }
}

fn no(why: &str) -> Ability {
    Ability::No { why: why.into(), remedy: "r".into() }
}

fn abilities(best_nice: i32) -> Abilities {
    let yes = || Ability::Yes;
    Abilities { best_nice, batch: yes(), idle: yes(), slice: yes(), real_time: yes(), v1: yes(), v2: no("v1 has it") }
}

fn thread(tid: u32) -> ThreadId {
    ThreadId { pid: 100, process_start: 5, tid, start: 6 }
}

/// Why each change of a thread is refused, given what it has now.
fn refusal(rules: &Rules, policy: Policy, nice: i32, value: ThreadValue) -> Option<String> {
    let class = Class { policy, resets_on_fork: false };
    let scheduling = Scheduling { class, nice, slice_ns: Some(3_000_000) };
    let state = ThreadState { name: "t".into(), scheduling, group: None, usage: None };
    let state = State { threads: BTreeMap::from([(thread(1), state)]), ..State::default() };
    let change = Change::Thread { thread: thread(1), value };
    let write = Write { change, before: String::new(), subject: String::new(), reason: String::new() };
    let sifted = rules.sift(vec![write], &state, &BTreeSet::new());
    assert_eq!(sifted.permitted.len() + sifted.refused.len(), 1);
    sifted.refused.into_iter().next().map(|(_, why)| why)
}

fn rules(best_nice: i32) -> Rules {
    let threads = BTreeSet::from([thread(1)]);
    Rules { abilities: abilities(best_nice), threads, other_cpusets: false, real_time: false }
}

#[test]
fn processes_that_are_never_scheduled() {
    check_process(&process(100), false).expect("one of this user");
    let refused = |process: &Process, is_named: bool| {
        let error = check_process(process, is_named).expect_err("a refusal");
        assert!(error.help().is_some() && error.place().is_some(), "{error}");
        error.message().to_owned()
    };
    assert!(refused(&process(1), true).contains("process 1"));
    assert!(refused(&process(std::process::id()), true).contains("itself"));
    assert!(refused(&Process { is_kernel_thread: true, ..process(3) }, true).contains("kernel"));
    let of_other = Process { uid: user() + 1, ..process(100) };
    assert!(refused(&of_other, false).contains("it belongs to user"));
    assert_eq!(check_process(&of_other, true).is_ok(), user() == 0, "root may if it is named");
}

#[test]
fn what_cannot_be_taken_back_is_not_written() {
    let nice = ThreadValue::Nice;
    let (root, user, limited) = (rules(-20), rules(19), rules(0));
    assert_eq!(refusal(&root, Policy::Other, 0, nice(-10)), None);
    assert!(refusal(&user, Policy::Other, 0, nice(5)).expect("a refusal").contains("its nice 0 could not be restored"));
    // With RLIMIT_NICE 20 it may be raised and lowered again.
    assert_eq!(refusal(&limited, Policy::Other, 0, nice(5)), None);
    assert!(refusal(&limited, Policy::Other, 0, nice(-1)).expect("a refusal").contains("0 at best"));
    let class = |policy| ThreadValue::Class(Class { policy, resets_on_fork: false });
    assert!(refusal(&user, Policy::Other, 0, class(Policy::Idle)).is_some());
    assert_eq!(refusal(&user, Policy::Other, 0, class(Policy::Batch)), None);
    assert_eq!(refusal(&limited, Policy::Other, 0, class(Policy::Idle)), None);
    assert!(refusal(&user, Policy::Other, 0, ThreadValue::SliceNs(1)).is_some(), "a kernel without slices");
    let group = |hierarchy| ThreadValue::Group(GroupPath { hierarchy, path: "/x".into() });
    assert_eq!(refusal(&root, Policy::Other, 0, group(Hierarchy::V2)), Some("v1 has it".into()));
    assert_eq!(refusal(&root, Policy::Other, 0, group(Hierarchy::V1)), None);
}

#[test]
fn real_time_and_unnamed_threads_are_left_alone() {
    let nice = || ThreadValue::Nice(5);
    for policy in [Policy::Fifo(1), Policy::RoundRobin(1), Policy::Deadline, Policy::Unknown(7)] {
        assert!(refusal(&rules(-20), policy, 0, nice()).expect("a refusal").contains("left alone"), "{policy}");
    }
    let unnamed = Rules { threads: BTreeSet::new(), ..rules(-20) };
    assert!(refusal(&unnamed, Policy::Other, 0, nice()).expect("a refusal").contains("no driver"));
    let fifo = || ThreadValue::Class(Class { policy: Policy::Fifo(1), resets_on_fork: true });
    assert!(refusal(&rules(-20), Policy::Other, 0, fifo()).is_some(), "not asked for");
    assert_eq!(refusal(&Rules { real_time: true, ..rules(-20) }, Policy::Other, 0, fifo()), None);
}

#[test]
fn groups_are_refused_where_the_engine_is() {
    let group = |path: &str| GroupPath { hierarchy: Hierarchy::V2, path: path.into() };
    let (open, closed) = (GroupState::default(), GroupState { takes_no_groups: Some("no"), ..GroupState::default() });
    let machine = Machine { label: "osched-7".into(), ..Machine::default() };
    let groups = BTreeMap::from([(group("/a"), open), (group("/b"), closed)]);
    let state = State { machine, groups, ..State::default() };
    let refusal = |path: &str| rules(-20).refusal(&Change::Create { group: group(path) }, &state, &BTreeSet::new());
    assert_eq!(refusal("/a/osched-7.g.x"), None, "though osched itself is where it can make none");
    assert_eq!(refusal("/b/osched-7.g.x").as_deref(), Some("no"));
    assert_eq!(refusal("/c/osched-7.g.x").as_deref(), Some("v1 has it"), "nothing is known of it");
}

#[test]
fn a_thread_in_another_cpuset_is_left_alone_unless_asked() {
    let class = Class { policy: Policy::Other, resets_on_fork: false };
    let scheduling = Scheduling { class, nice: 0, slice_ns: None };
    let state = ThreadState { name: "t".into(), scheduling, group: None, usage: None };
    let cpusets = BTreeSet::from([100]);
    assert!(rules(-20).refusal_of_thread(thread(1), &state, &cpusets).is_some_and(|why| why.contains("cpuset")));
    let asked = Rules { other_cpusets: true, ..rules(-20) };
    assert_eq!(asked.refusal_of_thread(thread(1), &state, &cpusets), None);
}

#[test]
fn what_this_user_may_do_is_found_and_leaves_no_trace() {
    let kernel = Proc::new().expect("/proc");
    let own = || (system_calls::scheduling(0).expect("own"), kernel.cgroups().clone());
    let before = own();
    let found = Abilities::find(&kernel).expect("a trial");
    assert_eq!(own(), before);
    if user() == 0 {
        assert!(found.batch.is_yes(), "{found:?}");
    }
    let report = Report::new(&kernel, &Machine::of(&kernel, "x"), &found);
    assert!(report.lines.iter().all(|line| line.works || !line.remedy.is_empty()), "{report}");
    assert!(report.lines.len() >= 8, "{report}");
}

#[test]
fn managers_of_cgroups_are_recognized() {
    let manager = |path: &str| report::manager_of(&GroupPath { hierarchy: Hierarchy::V2, path: path.into() });
    assert_eq!(manager("/system.slice/flink.service"), Some("systemd"));
    assert_eq!(manager("/user.slice/user-5.slice/session-3.scope"), Some("systemd"));
    assert_eq!(manager("/kubepods/burstable/pod1"), Some("a container manager"));
}
