//! Other sessions, other users, and what the kernel tells about real threads.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use anabranch_model::Nanos;
use anabranch_osched::journal::{Journal, Outcome, StateFolder};
use anabranch_osched::kernel::{Machine, Needs, Proc, UsageReader, separate_sessions};
use anabranch_osched::permission::{self, Abilities, Report, Rules};
use anabranch_osched::translator::{self, Options};
use anabranch_schedule::{Scale, Schedule};

use crate::bench::Home;
use crate::engine::{Engine, become_user, own_role, role, until};

/// A user that owns nothing, as every system has one.
const NOBODY: u32 = 65_534;
const PASSED: i32 = 23;

#[test]
fn a_process_is_found_with_its_threads() {
    let engine = Engine::start(&["first (x) y", "second"]);
    let kernel = Proc::new().expect("/proc");
    let found = kernel.find(|process| process.command.contains("plays_an_engine") && process.pid == engine.pid());
    let found = found.expect("/proc");
    let [process] = &found[..] else { panic!("{found:?}") };
    assert!(process.start > 0 && !process.is_kernel_thread, "{process:?}");
    assert_eq!(process.uid, permission::user());
    let threads = kernel.threads(engine.pid()).expect("/proc");
    let named = threads.iter().find(|thread| thread.name == "first (x) y").expect("its thread");
    assert_eq!((named.id.process_start, named.id.pid), (process.start, process.pid));
    assert!(named.id.start >= process.start && kernel.is_alive(named.id).expect("/proc"));
    assert!(kernel.find(|process| process.pid == std::process::id()).expect("/proc").is_empty(), "without this one");
    let thread = named.id;
    drop(engine);
    assert!(!kernel.is_alive(thread).expect("/proc"));
    assert_eq!(kernel.threads(thread.pid).expect("/proc"), []);
    assert_eq!(kernel.usage(thread).expect("/proc"), None);
    assert_eq!(kernel.process(thread.pid).expect("/proc"), None);
}

#[test]
fn usage_grows_and_ends_with_the_thread() {
    let mut engine = Engine::start(&["one", "two"]);
    let (kernel, mut reader) = (Proc::new().expect("/proc"), UsageReader::default());
    let [one, two] = ["one", "two"].map(|name| engine.thread(name));
    let first = reader.read(&kernel, one).expect("/proc").expect("a thread");
    // Two threads on one core: each runs, and waits meanwhile for the other.
    until("more run time and waiting time", || {
        let now = reader.read(&kernel, one).expect("/proc").expect("a thread").since(first);
        (now.run_ns > 20_000_000 && now.wait_ns > 5_000_000).then_some(())
    });
    assert!(reader.read(&kernel, two).expect("/proc").is_some());
    engine.end("two");
    assert_eq!(reader.read(&kernel, two).expect("/proc"), None);
    reader.retain(|thread| thread == one);
    assert!(reader.read(&kernel, one).expect("/proc").is_some());
}

#[test]
fn pressure_is_read_and_wakes_a_waiter() {
    let kernel = Proc::new().expect("/proc");
    let Some(before_us) = kernel.cpu_pressure_us().expect("/proc") else {
        eprintln!("left out, as this kernel accounts no pressure");
        return;
    };
    let _engine = Engine::start(&["one", "two", "three"]);
    match kernel.trigger(0.05, Duration::from_millis(500)) {
        Ok(trigger) => assert!(trigger.wait(Duration::from_secs(60)).expect("a wait"), "three threads share a core"),
        Err(error) => eprintln!("triggers are left out: {error}"),
    }
    until("a growing total", || {
        let now_us = kernel.cpu_pressure_us().expect("/proc").expect("as before");
        (now_us > before_us).then_some(())
    });
}

#[test]
fn autogroups_separate_the_engines_of_two_sessions() {
    let kernel = Proc::new().expect("/proc");
    if !kernel.has_autogroups() {
        eprintln!("left out, as this kernel has no autogroups");
        return;
    }
    let engines = [true, true, false].map(|own_session| Engine::start_in(&["one"], None, own_session));
    let pids: Vec<u32> = engines.iter().map(Engine::pid).collect();
    if kernel.autogroup(pids[0]).expect("/proc").is_none() {
        eprintln!("left out, as these tests run in a cgroup with a share");
        return;
    }
    let sessions = separate_sessions(&kernel, &pids.iter().copied().collect()).expect("/proc");
    assert_eq!(sessions.len(), 3, "{sessions:?}");
    assert_eq!(separate_sessions(&kernel, &BTreeSet::from([pids[0]])).expect("/proc").len(), 0);
    let Some(home) = Home::new("autogroup") else { return };
    let engine = Engine::start_in(&["one"], Some(&home.group), true);
    assert_eq!(kernel.autogroup(engine.pid()).expect("/proc"), None, "a cgroup takes the place of the session");
}

/// Plays an osched of an ordinary user: `FOLDER PID PID`, the first of an engine of root's, the second of
/// this user's.
#[test]
fn plays_an_osched_without_privileges() {
    let Some(role) = own_role() else { return };
    let [folder, of_root, engine] = role.split(' ').collect::<Vec<_>>()[..] else { panic!("{role}") };
    become_user(NOBODY);
    assert_eq!(permission::user(), NOBODY);
    let kernel = Proc::new().expect("/proc");
    let process = |pid: &str| kernel.process(pid.parse().expect("a number")).expect("/proc").expect("a process");
    let (of_root, engine) = (process(of_root), process(engine));
    let error = permission::check_process(&of_root, true).expect_err("it belongs to root");
    assert!(error.to_string().contains("it belongs to user 0") && error.help().is_some(), "{error}");
    let abilities = Abilities::find(&kernel).expect("a trial");
    assert!(abilities.best_nice > 0 && !abilities.idle.is_yes() && !abilities.real_time.is_yes(), "{abilities:?}");
    assert!(abilities.batch.is_yes() && !abilities.v1.is_yes() && !abilities.v2.is_yes(), "{abilities:?}");
    let (mut journal, _) = Journal::create(&StateFolder::open(folder).expect("a folder"), &kernel).expect("a journal");
    let machine = Machine::of(&kernel, journal.label());
    let report = Report::new(&kernel, &machine, &abilities).to_string();
    for part in ["nice           no", "RLIMIT_NICE", "class (batch)  yes", "class (idle)   no", "real-time      no"] {
        assert!(report.contains(part), "{part}:\n{report}");
    }
    permission::check_process(&engine, false).expect("it belongs to this user");
    journal.claim(&engine).expect("a claim");
    let found = kernel.threads(engine.pid).expect("/proc").into_iter().filter(|t| ["low", "high"].contains(&&*t.name));
    let names: BTreeMap<_, _> = found.map(|thread| (thread.id, thread.name)).collect();
    let threads = names.keys().copied().collect();
    let rules = Rules { abilities, threads, other_cpusets: false, real_time: false };
    let priorities = names.iter().map(|(id, name)| (*id, if name == "low" { 1.0 } else { 2.0 }));
    let asked = Schedule { threads: priorities.collect(), ..Schedule::default() };
    for (name, permitted) in [("nice", 0), ("class", 1), ("slice", 2)] {
        let Ok(mut translator) = translator::by_name(name, &Options::default(), &machine) else { continue };
        let state = |needs| {
            let mut usages = UsageReader::default();
            anabranch_osched::kernel::State::read(&kernel, &machine, &names, needs, &mut usages, Nanos(0))
                .expect("a state")
        };
        let before = state(Needs::default());
        let sifted = rules.sift(translator.plan(&asked, Scale::Linear, &before), &before, &BTreeSet::new());
        assert_eq!(sifted.permitted.len(), permitted, "{name}: {sifted:?}");
        let outcomes = journal.apply(&sifted.permitted).expect("writes");
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done)), "{name}: {outcomes:?}");
        assert!(permitted == 0 || state(Needs::default()) != before, "{name}");
        assert!(journal.undo().expect("an undo").failed.is_empty(), "{name}");
        assert_eq!(state(Needs::default()), before, "{name}");
    }
    assert!(journal.close().expect("an undo").failed.is_empty());
    std::process::exit(PASSED);
}

#[test]
fn an_ordinary_user_writes_only_what_can_be_taken_back() {
    if permission::user() != 0 {
        eprintln!("left out, as these tests do not run as root and cannot become another user");
        return;
    }
    let (of_root, engine) = (Engine::start(&["one"]), Engine::start_as(NOBODY, &["low", "high"]));
    let folder = std::env::temp_dir().join(format!("osched-test-nobody-{}", std::process::id()));
    let words = format!("{} {} {}", folder.display(), of_root.pid(), engine.pid());
    let output = role("others::plays_an_osched_without_privileges", &words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .expect("an osched");
    drop(std::fs::remove_dir_all(&folder));
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(PASSED), "{text}");
}
