//! osched is killed at every step of its writes: its guardian restores everything, and so does the next
//! osched.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anabranch_model::{Clock, Nanos, SystemClock};
use anabranch_osched::guardian;
use anabranch_osched::journal::{Journal, StateFolder};
use anabranch_osched::kernel::{Machine, Needs, Proc, State, UsageReader};
use anabranch_osched::translator::{self, Options};
use anabranch_schedule::{Group, Scale, Schedule, ThreadId};

use crate::bench::{Home, Snapshot, may_set_nice};
use crate::engine::{Engine, own_role, role, until};

/// The guardian must restore within this time of a SIGKILL; more here, since the machine of the tests may be
/// loaded.
const RESTORED_WITHIN: Duration = Duration::from_secs(1);
const LOADED_FACTOR: u32 = 10;
const FINISHED: i32 = 17;

/// The command of this program's guardian.
fn guardian_of(journal: &Path) -> Command {
    role("killed::plays_a_guardian", &journal.display().to_string())
}

#[test]
fn plays_a_guardian() {
    let Some(journal) = own_role() else { return };
    let kernel = Proc::new().expect("/proc");
    let osched = guardian::standard_input().expect("a socket");
    guardian::watch(osched, Path::new(&journal), &kernel).expect("an undo");
    std::process::exit(0);
}

/// Plays an osched: `FOLDER PID STEP GUARDED`. It kills itself at the given step, and ends with a code if
/// there are fewer.
#[test]
fn plays_an_osched() {
    let Some(role) = own_role() else { return };
    let [folder, pid, step, guarded] = role.split(' ').collect::<Vec<_>>()[..] else { panic!("{role}") };
    let kernel = Proc::new().expect("/proc");
    let pid: u32 = pid.parse().expect("a number");
    let (mut journal, _) = Journal::create(&StateFolder::open(folder).expect("a folder"), &kernel).expect("a journal");
    let _guardian = (guarded == "guarded").then(|| guardian::start(guardian_of(journal.path())).expect("a guardian"));
    let (count, at) = (AtomicUsize::new(0), step.parse::<usize>().expect("a number"));
    journal.on_step(Box::new(move |_| {
        if count.fetch_add(1, Ordering::SeqCst) == at {
            // SAFETY: the call takes no pointers.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    }));
    journal.claim(&kernel.process(pid).expect("/proc").expect("an engine")).expect("a claim");
    let threads: BTreeMap<ThreadId, String> = kernel
        .threads(pid)
        .expect("/proc")
        .into_iter()
        .filter(|thread| thread.name.starts_with("task"))
        .map(|thread| (thread.id, thread.name))
        .collect();
    let machine = Machine::of(&kernel, journal.label());
    for round in 0..2 {
        let schedule = schedule(&threads, round);
        for name in ["both", "class", "slice", "quota"] {
            // Kernels without slices have no such translator.
            let options = Options { idle: true, mark: name.into(), ..Options::default() };
            let Ok(mut translator) = translator::by_name(name, &options, &machine) else { continue };
            let (needs, mut usages) = (Needs { groups: true, usage: false }, UsageReader::default());
            let state = State::read(&kernel, &machine, &threads, needs, &mut usages, Nanos(0)).expect("a state");
            journal.apply(&translator.plan(&schedule, Scale::Linear, &state)).expect("writes");
        }
    }
    std::process::exit(FINISHED);
}

/// In the second round one group has ended, and the order is reversed.
fn schedule(threads: &BTreeMap<ThreadId, String>, round: usize) -> Schedule {
    let mut schedule = Schedule::default();
    for (index, id) in threads.keys().enumerate() {
        schedule.threads.insert(*id, if round == 0 { index as f64 } else { -(index as f64) });
        let group = if round == 0 && index % 2 == 0 { "even" } else { "other" };
        let group = schedule.groups.entry(group.into()).or_insert_with(Group::default);
        group.priority += 1.0 + index as f64;
        group.threads.insert(*id);
    }
    schedule
}

#[test]
fn a_kill_at_any_step_leaves_nothing_behind() {
    let Some(home) = Home::new("killed") else { return };
    if !may_set_nice() {
        return;
    }
    let kernel = Proc::new().expect("/proc");
    let engine = Engine::start_in(&["task-0", "task-1", "task-2"], Some(&home.group), false);
    let before = Snapshot::of(&kernel, &engine);
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = StateFolder::open(temporary.path().join("state")).expect("a folder");
    let (clock, mut changed, mut longest) = (SystemClock::new(), 0, Duration::ZERO);
    for step in 0.. {
        let guarded = step % 2 == 0;
        let word = if guarded { "guarded" } else { "alone" };
        let osched = format!("{} {} {step} {}", folder.path().display(), engine.pid(), word);
        let status = role("killed::plays_an_osched", &osched).stdin(Stdio::null()).status().expect("an osched");
        let killed_at = clock.now();
        assert!(status.signal() == Some(libc::SIGKILL) || status.code() == Some(FINISHED), "step {step}: {status}");
        if guarded {
            until(&format!("step {step}: the guardian has restored"), || {
                folder.journals().expect("a folder").is_empty().then_some(())
            });
            let took = Duration::from_nanos(clock.now().since(killed_at));
            longest = longest.max(took);
            assert!(took < RESTORED_WITHIN * LOADED_FACTOR, "step {step}: the guardian took {took:?}");
        } else {
            changed += usize::from(Snapshot::of(&kernel, &engine) != before);
            for (path, undone) in folder.restore_left(&kernel).expect("an undo") {
                assert!(undone.failed.is_empty(), "step {step}: {}: {undone:?}", path.display());
            }
        }
        assert_eq!(Snapshot::of(&kernel, &engine), before, "step {step}");
        assert_eq!(kernel.children(&home.group).expect("a cgroup"), [], "step {step}");
        if status.code() == Some(FINISHED) {
            eprintln!("{step} steps; the guardian took {longest:?} at most");
            assert!(step > 40 && changed > 15, "{step} steps, {changed} of them with something to restore");
            return;
        }
    }
}

#[test]
fn a_farewell_leaves_everything_as_osched_has_left_it() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let journal = temporary.path().join("x.journal");
    std::fs::write(&journal, "").expect("a file");
    let mut watching = guardian::start(guardian_of(&journal)).expect("a guardian");
    assert!(watching.is_watching());
    watching.farewell().expect("its end");
    assert!(journal.exists(), "a guardian that was told farewell restores nothing");
    // Without a farewell it restores the journal, which is empty, and removes it.
    drop(guardian::start(guardian_of(&journal)).expect("a guardian"));
    until("the guardian has restored", || (!journal.exists()).then_some(()));
}

#[test]
fn a_guardian_that_was_killed_or_does_not_watch_is_noticed() {
    let journal = Path::new("/nonexistent/x.journal");
    let mut watching = guardian::start(guardian_of(journal)).expect("a guardian");
    // The signals that end osched do not end it.
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGKILL] {
        assert!(watching.is_watching(), "before signal {signal}");
        // SAFETY: the call takes no pointers, and the process is a child of this one that was not waited for.
        unsafe { libc::kill(watching.pid() as i32, signal) };
    }
    until("the guardian has ended", || (!watching.is_watching()).then_some(()));
    let error = guardian::start(Command::new("true")).expect_err("it is no guardian");
    assert!(error.to_string().contains("does not watch"), "{error}");
    let error = guardian::start(Command::new("/nonexistent/program")).expect_err("it is no program");
    assert!(error.to_string().contains("cannot start it"), "{error}");
}
