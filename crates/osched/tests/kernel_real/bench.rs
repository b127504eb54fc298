//! What the tests share: a journal in a temporary folder, a cgroup of their own, and what threads have before
//! and after.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{Nanos, pause};
use anabranch_osched::journal::{Journal, Outcome, StateFolder};
use anabranch_osched::kernel::{
    Change, GroupPath, Hierarchy, Machine, Needs, Proc, Scheduling, State, ThreadState, Usage, UsageReader,
};
use anabranch_osched::permission::Abilities;
use anabranch_osched::translator::{self, Options, Translator, Write};
use anabranch_schedule::{Scale, Schedule, ThreadId};

use crate::engine::Engine;

/// Processor time of all threads together in which shares are measured.
const MEASURED: Duration = Duration::from_millis(1500);

/// A journal and the machine that it changes.
pub(crate) struct Bench {
    pub(crate) kernel: Proc,
    pub(crate) machine: Machine,
    pub(crate) journal: Journal,
    pub(crate) folder: StateFolder,
    _temporary: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let kernel = Proc::new().expect("/proc");
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = StateFolder::open(temporary.path().join("state")).expect("a folder");
        let (journal, restored) = Journal::create(&folder, &kernel).expect("a journal");
        assert!(restored.is_empty());
        let machine = Machine::of(&kernel, journal.label());
        Bench { kernel, machine, journal, folder, _temporary: temporary }
    }

    pub(crate) fn claim(&mut self, engine: &Engine) {
        let process = self.kernel.process(engine.pid()).expect("/proc").expect("a process that runs");
        self.journal.claim(&process).expect("a claim");
    }

    pub(crate) fn translator(&self, name: &str, options: &Options) -> Box<dyn Translator> {
        translator::by_name(name, options, &self.machine).expect("a translator")
    }

    pub(crate) fn state(&self, engine: &Engine, needs: Needs, now: Nanos) -> State {
        let names: BTreeMap<ThreadId, String> = engine.threads.iter().map(|(name, id)| (*id, name.clone())).collect();
        let mut usages = UsageReader::default();
        State::read(&self.kernel, &self.machine, &names, needs, &mut usages, now).expect("a state")
    }

    /// Plans a schedule and carries it out; every write must succeed, and the next plan must be empty.
    pub(crate) fn carry_out(
        &mut self,
        translator: &mut dyn Translator,
        schedule: &Schedule,
        engine: &Engine,
    ) -> Vec<Write> {
        let state = self.state(engine, translator.needs(), Nanos(0));
        let writes = translator.plan(schedule, Scale::Ladder, &state);
        let outcomes = self.journal.apply(&writes).expect("a journal that takes it");
        for (write, outcome) in writes.iter().zip(&outcomes) {
            assert!(matches!(outcome, Outcome::Done), "{write}: {outcome:?}");
        }
        let state = self.state(engine, translator.needs(), Nanos(0));
        assert_eq!(texts(&translator.plan(schedule, Scale::Ladder, &state)), [""; 0], "planned twice");
        writes
    }
}

pub(crate) fn texts(writes: &[Write]) -> Vec<String> {
    writes.iter().map(Write::to_string).collect()
}

/// What threads have, and which groups are where they are.
#[derive(Debug, PartialEq)]
pub(crate) struct Snapshot {
    threads: BTreeMap<ThreadId, (Scheduling, Option<GroupPath>, Option<GroupPath>)>,
    groups: BTreeMap<GroupPath, (Vec<GroupPath>, [Option<String>; 2])>,
}

impl Snapshot {
    pub(crate) fn of(kernel: &Proc, engine: &Engine) -> Snapshot {
        let mut snapshot = Snapshot { threads: BTreeMap::new(), groups: BTreeMap::new() };
        let names: BTreeMap<ThreadId, String> = engine.threads.iter().map(|(name, id)| (*id, name.clone())).collect();
        let (machine, mut usages) = (Machine::of(kernel, "none"), UsageReader::default());
        let state = State::read(kernel, &machine, &names, Needs::default(), &mut usages, Nanos(0)).expect("a state");
        for (id, ThreadState { scheduling, .. }) in state.threads {
            let [v1, v2] = [Hierarchy::V1, Hierarchy::V2].map(|hierarchy| {
                let group = kernel.thread_group(id, hierarchy).expect("/proc");
                if let Some(group) = &group {
                    // Other tests make groups of their own beside: those of oscheds count.
                    let children = kernel.children(group).unwrap_or_default();
                    let is_own =
                        |child: &GroupPath| child.name().starts_with("osched-") && child.name().contains(".g.");
                    let own = children.into_iter().filter(is_own).collect();
                    let folder = kernel.group_folder(group).expect("a mounted cgroup");
                    // Of version 2 only: whether it is a domain, and what the groups in it have.
                    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
                    let texts = [read("cgroup.type"), read("cgroup.subtree_control")];
                    snapshot.groups.insert(group.clone(), (own, texts));
                }
                group
            });
            snapshot.threads.insert(id, (scheduling, v1, v2));
        }
        snapshot
    }
}

/// A cgroup that a test has for itself, of the version that has the cpu controller here. `None`, with a line
/// that says why, if this user cannot make one.
pub(crate) struct Home {
    kernel: Proc,
    pub(crate) group: GroupPath,
}

impl Home {
    pub(crate) fn new(name: &str) -> Option<Home> {
        let kernel = Proc::new().expect("/proc");
        let Some(hierarchy) = kernel.cgroups().with_cpu() else {
            eprintln!("left out, as this machine has no cgroups");
            return None;
        };
        let above = match hierarchy {
            Hierarchy::V1 => kernel.process_group(std::process::id(), hierarchy).expect("/proc").expect("a group"),
            // Below a group with processes there is none with a controller, except below the root.
            Hierarchy::V2 => GroupPath { hierarchy, path: "/".into() },
        };
        let group = above.child(&format!("osched-test-{}-{name}", std::process::id()));
        // Not by a change: it is a domain, as engines have it, and no threaded group.
        let made = std::fs::create_dir(kernel.group_folder(&group).expect("a mounted cgroup"));
        let home = made.is_ok().then(|| Home { kernel: kernel.clone(), group: group.clone() });
        let refusal = kernel.takes_no_groups(&group).filter(|_| home.is_some());
        if home.is_none() || refusal.is_some() {
            eprintln!("left out, as this user can make no {group}: {made:?}, {refusal:?}");
            return None;
        }
        home
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for child in self.kernel.children(&self.group).unwrap_or_default() {
            drop(self.kernel.carry_out(&Change::Remove { group: child }));
        }
        drop(self.kernel.carry_out(&Change::Remove { group: self.group.clone() }));
    }
}

/// Whether this user may set any nice value; says so if not.
pub(crate) fn may_set_nice() -> bool {
    let abilities = Abilities::find(&Proc::new().expect("/proc")).expect("a trial");
    let may = abilities.best_nice == -20 && abilities.idle.is_yes();
    if !may {
        eprintln!("left out, as this user may set nice {} at best", abilities.best_nice);
    }
    may
}

/// Whether this user may make threads real-time, which the group of this process may forbid to root as well;
/// says so if not.
pub(crate) fn may_set_real_time() -> bool {
    let may = Abilities::find(&Proc::new().expect("/proc")).expect("a trial").real_time.is_yes();
    if !may {
        eprintln!("left out, as this user may not make threads real-time");
    }
    may && may_set_nice()
}

/// The share of each thread in what all of them together use, from now on until that is enough.
pub(crate) fn measure(kernel: &Proc, threads: &[ThreadId]) -> Vec<f64> {
    Measurement::begin(kernel, threads).until(MEASURED)
}

/// Compares shares with what was asked for. A loaded machine disturbs for a while: the measurement goes on
/// until the shares are right, up to fifteen times as long.
pub(crate) fn assert_shares(kernel: &Proc, threads: &[ThreadId], weights: &[f64]) {
    let total: f64 = weights.iter().sum();
    let wanted: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
    let mut measurement = Measurement::begin(kernel, threads);
    let mut tried = Vec::new();
    for length in 1..=15 {
        let measured = measurement.until(MEASURED * length);
        if measured.iter().zip(&wanted).all(|(measured, wanted)| (measured / wanted - 1.0).abs() <= 0.1) {
            return;
        }
        tried.push(measured);
    }
    panic!("wanted {wanted:.3?}, measured {tried:.3?}");
}

struct Measurement<'a> {
    kernel: &'a Proc,
    threads: &'a [ThreadId],
    reader: UsageReader,
    before: Vec<Usage>,
}

impl<'a> Measurement<'a> {
    fn begin(kernel: &'a Proc, threads: &'a [ThreadId]) -> Self {
        let mut measurement = Measurement { kernel, threads, reader: UsageReader::default(), before: Vec::new() };
        measurement.before = measurement.read();
        measurement
    }

    fn read(&mut self) -> Vec<Usage> {
        let mut read = |id: &ThreadId| self.reader.read(self.kernel, *id).expect("/proc").expect("a thread that runs");
        self.threads.iter().map(&mut read).collect()
    }

    /// The shares since the beginning, once the threads together have used this processor time.
    fn until(&mut self, used: Duration) -> Vec<f64> {
        loop {
            pause(Duration::from_millis(50));
            let now = self.read();
            let each: Vec<u64> = now.iter().zip(&self.before).map(|(now, then)| now.since(*then).run_ns).collect();
            let total: u64 = each.iter().sum();
            if u128::from(total) >= used.as_nanos() {
                return each.iter().map(|each| *each as f64 / total as f64).collect();
            }
        }
    }
}
