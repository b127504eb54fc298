//! Everything is as it was: threads that were started meanwhile, numbers that were used again, journals of
//! others.

use std::process::Stdio;

use anabranch_model::Nanos;
use anabranch_osched::journal::{Journal, Outcome, StateFolder, restore};
use anabranch_osched::kernel::{Change, Class, Needs, Policy, Proc, ThreadValue};
use anabranch_osched::translator::{Options, Write};
use anabranch_schedule::{Schedule, ThreadId};

use crate::bench::{Bench, Home, Snapshot, may_set_nice, may_set_real_time};
use crate::engine::{Engine, own_role, role, until};

fn write(thread: ThreadId, value: ThreadValue) -> Write {
    let change = Change::Thread { thread, value };
    Write { change, before: String::new(), subject: String::new(), reason: String::new() }
}

fn nice_of(bench: &Bench, engine: &Engine, name: &str) -> i32 {
    bench.state(engine, Needs::default(), Nanos(0)).threads[&engine.thread(name)].scheduling.nice
}

/// A thread that a changed one starts inherits its nice value and its cgroup, and no line of the journal
/// names it.
#[test]
fn threads_that_inherited_a_value_lose_it() {
    let Some(home) = Home::new("inherited") else { return };
    if !may_set_nice() {
        return;
    }
    let mut engine = Engine::start_in(&["one", "two"], Some(&home.group), false);
    let mut bench = Bench::new();
    bench.claim(&engine);
    let mut both = bench.translator("both", &Options { nice: (10, -10), ..Options::default() });
    let threads = [("one", 1.0), ("two", 2.0)].map(|(name, priority)| (engine.thread(name), priority));
    let group = anabranch_schedule::Group { priority: 1.0, threads: threads.iter().map(|(id, _)| *id).collect() };
    let mut asked = Schedule { threads: threads.into(), ..Schedule::default() };
    asked.groups.insert("q".into(), group);
    bench.carry_out(both.as_mut(), &asked, &engine);
    // One is seen and changed before the undo, one is not.
    let seen = engine.start_another("one");
    engine.start_another("two");
    assert_eq!((nice_of(&bench, &engine, "one+"), nice_of(&bench, &engine, "two+")), (-7, -10), "inherited");
    let outcomes = bench.journal.apply(&[write(seen, ThreadValue::Nice(3))]).expect("a journal");
    assert!(matches!(outcomes[0], Outcome::Done));
    let usual = |bench: &Bench, name: &str| assert_eq!(nice_of(bench, &engine, name), 0, "{name}");
    let undone = bench.journal.undo().expect("an undo");
    assert!(undone.failed.is_empty(), "{undone:?}");
    for name in ["one", "two", "one+", "two+"] {
        usual(&bench, name);
        let group = bench.kernel.thread_group(engine.thread(name), home.group.hierarchy).expect("/proc");
        assert_eq!(group.as_ref(), Some(&home.group), "{name}");
    }
    // Nothing is left to do, and a second undo finds so.
    assert!(bench.journal.is_empty());
    assert_eq!(bench.journal.undo().expect("an undo").restored, 0);
}

#[test]
fn a_thread_whose_number_was_used_again_is_not_touched() {
    if !may_set_nice() {
        return;
    }
    let mut engine = Engine::start(&["ends", "stays"]);
    let mut bench = Bench::new();
    let (ends, stays) = (engine.thread("ends"), engine.thread("stays"));
    // Both must have started before the claim, or what they have may be inherited.
    until("a later tick of the clock", || (bench.kernel.ticks().expect("/proc") > stays.start).then_some(()));
    bench.claim(&engine);
    // As if the number of a thread that ended were that of the one that stays.
    let reused = ThreadId { start: stays.start + 1, ..stays };
    let outcomes = bench.journal.apply(&[write(reused, ThreadValue::Nice(7))]).expect("a journal");
    assert!(matches!(outcomes[0], Outcome::Gone), "{outcomes:?}");
    assert_eq!(nice_of(&bench, &engine, "stays"), 0);
    // The same in a journal that is restored: the first thread ended since, the second is another one with
    // its number.
    let of_ended = write(ends, ThreadValue::Nice(5));
    bench.journal.apply(&[of_ended, write(stays, ThreadValue::Nice(5))]).expect("a journal");
    engine.end("ends");
    let text = std::fs::read_to_string(bench.journal.path()).expect("the journal");
    let stale = text.replace(
        &format!("\"start\":{}}},\"value\":{{\"nice\":0", stays.start),
        &format!("\"start\":{},\"x\":0}},\"value\":{{\"nice\":0", stays.start + 1),
    );
    assert_ne!(stale, text);
    let copy = bench.folder.path().join("copy.journal");
    std::fs::write(&copy, stale.replace(",\"x\":0", "")).expect("a copy");
    let undone = restore(&copy, &bench.kernel).expect("an undo").expect("a journal");
    assert_eq!((undone.restored, undone.gone, undone.failed.len()), (0, 2, 0), "{undone:?}");
    assert_eq!(nice_of(&bench, &engine, "stays"), 5, "another thread with its number was not touched");
    let undone = bench.journal.close().expect("an undo");
    assert_eq!((undone.restored, undone.gone), (1, 1), "{undone:?}");
}

#[test]
fn a_class_returns_with_its_slice() {
    let bench = Bench::new();
    if bench.machine.default_slice_ns.is_none() || !may_set_real_time() {
        return;
    }
    let engine = Engine::start(&["one"]);
    let thread = engine.thread("one");
    // The engine itself, so to say, has given its thread a slice.
    let own = ThreadValue::SliceNs(7_000_000);
    let change = Change::Thread { thread, value: own };
    bench.kernel.carry_out(&change).expect("a slice");
    let before = Snapshot::of(&bench.kernel, &engine);
    let mut bench = bench;
    bench.claim(&engine);
    for policy in [Policy::Fifo(1), Policy::Idle, Policy::Batch, Policy::RoundRobin(2)] {
        let class = ThreadValue::Class(Class { policy, resets_on_fork: policy.is_real_time() });
        let outcomes = bench.journal.apply(&[write(thread, class)]).expect("a journal");
        assert!(matches!(outcomes[0], Outcome::Done), "{policy}: {outcomes:?}");
    }
    let kernel = bench.kernel.clone();
    assert!(bench.journal.close().expect("an undo").failed.is_empty());
    assert_eq!(Snapshot::of(&kernel, &engine), before);
}

#[test]
fn what_was_not_claimed_is_not_written() {
    let engine = Engine::start(&["one"]);
    let mut bench = Bench::new();
    let outcomes = bench.journal.apply(&[write(engine.thread("one"), ThreadValue::Nice(5))]).expect("a journal");
    assert!(matches!(&outcomes[0], Outcome::Failed(error) if error.message().contains("not claimed")), "{outcomes:?}");
    assert_eq!(nice_of(&bench, &engine, "one"), 0);
    assert!(bench.journal.is_empty());
}

/// Plays an osched that holds a process.
#[test]
fn plays_an_osched_that_holds_a_process() {
    let Some(role) = own_role() else { return };
    let (folder, pid) = role.split_once(' ').expect("a folder and a process");
    let kernel = Proc::new().expect("/proc");
    let (mut journal, _) = Journal::create(&StateFolder::open(folder).expect("a folder"), &kernel).expect("a journal");
    let process = kernel.process(pid.parse().expect("a number")).expect("/proc").expect("a process");
    journal.claim(&process).expect("a claim");
    std::fs::write(format!("{folder}/claimed"), "").expect("a file");
    // Until it is killed.
    drop(std::io::read_to_string(std::io::stdin()));
}

#[test]
fn two_oscheds_do_not_take_one_process() {
    let engine = Engine::start(&["one"]);
    let mut bench = Bench::new();
    let folder = bench.folder.path().to_owned();
    let other = format!("{} {}", folder.display(), engine.pid());
    let mut other =
        role("undone::plays_an_osched_that_holds_a_process", &other).stdin(Stdio::piped()).spawn().expect("a child");
    until("the claim of the other one", || folder.join("claimed").exists().then_some(()));
    let process = bench.kernel.process(engine.pid()).expect("/proc").expect("a process");
    let error = bench.journal.claim(&process).expect_err("it is taken");
    assert!(error.to_string().contains(&format!("another osched (process {})", other.id())), "{error}");
    other.kill().expect("a kill");
    other.wait().expect("its end");
    // What it left does not hold the process any more.
    bench.journal.claim(&process).expect("a claim");
    bench.journal.claim(&process).expect("a second claim of the same");
    assert_eq!(bench.journal.claims().len(), 1);
    assert_eq!(bench.folder.restore_left(&bench.kernel).expect("an undo").len(), 1);
    assert_eq!(bench.folder.journals().expect("a folder").len(), 1, "only that of this process is left");
}
