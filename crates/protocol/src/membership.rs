//! Which workers there are, as a value. Inputs are heartbeats, leaves and requests to drain, and the time;
//! outputs are events and the next deadline.
//!
//! A worker is known by its name, and each process under that name is another life of it: what a process that
//! restarted says about itself does not count for the one before. A heartbeat contains all that a coordinator
//! must know of a process, so the first one joins it, also at a coordinator that has just started.
//!
//! A driver creates a [`Membership`], calls [`Membership::handle`] for everything that arrives and at
//! [`Membership::next_deadline`], and after each call takes all events of [`Membership::poll`]. It answers
//! each heartbeat with [`Membership::heard`] in the messages of its jobs to the worker: see
//! `docs/protocol/worker.md` on the lease. `docs/protocol/membership.md` shows the transitions.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::table::{Machine, Taken, Transition, row};

const TABLE: &[Transition] = &[
    row("absent", "a heartbeat", "present", "joined"),
    row("absent", "a heartbeat that is not newer than the last one, of an earlier life, or after leave", "absent", "-"),
    row("present", "a heartbeat", "present", "the silence begins again"),
    row("present", "a heartbeat of a later life", "present", "lost; joined"),
    row("present", "silence for too long", "absent", "lost"),
    row("present", "leave", "absent", "lost"),
    row("present", "drain", "draining", "drained: it gets no further task"),
    row("draining", "undrain", "present", "joined"),
    row("draining", "a heartbeat", "draining", "the silence begins again"),
    row("draining", "a heartbeat of a later life", "present", "lost; joined"),
    row("draining", "silence for too long", "absent", "lost"),
    row("draining", "leave", "absent", "lost"),
];

/// The machines of the membership by name, with what each is for and its transitions.
pub const MACHINES: &[Machine] = &[("member", "one worker by its name, over all its lives", TABLE)];

/// The machines as a document.
#[must_use]
pub fn document() -> String {
    crate::table::document(HEAD, MACHINES)
}

const HEAD: &str = "\
# Membership and placement

Generated from the transition table in `crates/protocol/src/membership.rs`; `UPDATE_GOLDEN=1 cargo test -p
anabranch-protocol` writes it anew.

A worker joins with its first heartbeat, which contains its slots and labels like all later ones. Each process under a worker's name is
another life of it. A later life replaces the earlier one, whose tasks are lost. A worker is lost when none of its heartbeats
has arrived for the configured time. A worker that was lost may join again with a newer heartbeat. After some more time its
name is forgotten.

A drained worker keeps the tasks that it has, and gets no further one. It is drained until that is undone, or its process ends.

`crates/protocol/src/placement.rs` decides which worker has which task. A slot has room for one task of each stage, so a job needs as
many slots as its widest stage has tasks. A task stays with the process that has it. Otherwise it goes to a worker that has its
state on a local disk, else to a later process of the worker that had it. Other tasks go to the worker whose slots are used least. If
slots are missing, the answer is how many, for which stage, and with which label.
";

/// A worker by its name, as a number that the driver has given to the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId(pub u32);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.0)
    }
}

/// One life of a worker: a process that restarts under the same name is another one, with a higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Process {
    /// The worker.
    pub worker: WorkerId,
    /// Which of its lives.
    pub life: u64,
}

/// A worker's process and what it offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The process.
    pub process: Process,
    /// How many tasks of one stage it may have.
    pub slots: u32,
    /// What distinguishes it, for stages that need it.
    pub labels: Arc<BTreeSet<String>>,
}

/// Settings of a membership.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long a worker may be silent. At least the lease of workers.
    pub silence: Duration,
    /// How long after a worker was lost its name is forgotten. Longer than any message is under way.
    pub forget_after: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config { silence: Duration::from_secs(5), forget_after: Duration::from_secs(600) }
    }
}

/// What the driver reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A heartbeat has arrived.
    Heartbeat {
        /// What the process says about itself.
        member: Member,
        /// When it was sent, by the clock of the process.
        sent: Nanos,
    },
    /// A process ends in order.
    Leave(Process),
    /// A worker is to get no further task.
    Drain(WorkerId),
    /// A drained worker is to get tasks again.
    Undrain(WorkerId),
    /// Only time has passed.
    Tick,
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Tasks can be placed at the process.
    Joined(Process),
    /// The process is silent, has left, or was replaced: its tasks have failed.
    Lost(Process),
    /// The process gets no further task. Those that it has can be moved.
    Drained(Process),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Present,
    Draining,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Absent => "absent",
            State::Present => "present",
            State::Draining => "draining",
        }
    }
}

#[derive(Clone, Debug)]
struct Known {
    state: State,
    member: Member,
    left: bool,
    /// When the newest heartbeat was sent, by the clock of the process.
    sent: Nanos,
    /// When it arrived, or when the worker was lost.
    since: Nanos,
}

/// The workers that a coordinator knows.
#[derive(Clone, Debug)]
pub struct Membership {
    config: Config,
    workers: BTreeMap<WorkerId, Known>,
    events: VecDeque<Event>,
    taken: Taken,
}

impl Membership {
    /// Without any worker.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Membership { config, workers: BTreeMap::new(), events: VecDeque::new(), taken: Taken::new(TABLE) }
    }

    /// Handles an input. [`Membership::poll`] then returns the resulting events.
    pub fn handle(&mut self, now: Nanos, input: Input) {
        self.elapse(now);
        match input {
            Input::Heartbeat { member, sent } => self.heartbeat(now, member, sent),
            Input::Leave(process) => {
                if self.is_member(process) {
                    self.lose(now, process.worker);
                }
                if let Some(known) = self.workers.get_mut(&process.worker) {
                    known.left |= known.member.process == process;
                }
            }
            Input::Drain(worker) => {
                let present = self.workers.get_mut(&worker).filter(|known| known.state == State::Present);
                if let Some(known) = present {
                    self.taken.insert(known.state.name(), State::Draining.name());
                    known.state = State::Draining;
                    self.events.push_back(Event::Drained(known.member.process));
                }
            }
            Input::Undrain(worker) => {
                let draining = self.workers.get_mut(&worker).filter(|known| known.state == State::Draining);
                if let Some(known) = draining {
                    self.taken.insert(known.state.name(), State::Present.name());
                    known.state = State::Present;
                    self.events.push_back(Event::Joined(known.member.process));
                }
            }
            Input::Tick => {}
        }
    }

    /// The next event, if any.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When the driver must call [`Membership::handle`] at the latest, with [`Input::Tick`] if there is no
    /// other input.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.workers.values().map(|known| self.deadline(known)).min()
    }

    /// The processes at which tasks can be placed, in the order of their workers.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.workers.values().filter(|known| known.state == State::Present).map(|known| &known.member)
    }

    /// When the process sent its newest heartbeat that has arrived, by its own clock; `None` if it is not a
    /// member.
    #[must_use]
    pub fn heard(&self, process: Process) -> Option<Nanos> {
        self.workers.get(&process.worker).filter(|_| self.is_member(process)).map(|known| known.sent)
    }

    /// Whether the process is present or draining.
    #[must_use]
    pub fn is_member(&self, process: Process) -> bool {
        let known = self.workers.get(&process.worker);
        known.is_some_and(|known| known.member.process == process && known.state != State::Absent)
    }

    /// The transitions taken: `(machine, from, to)`.
    pub fn taken(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.taken.iter().map(|(from, to)| ("member", from, to))
    }

    fn heartbeat(&mut self, now: Nanos, member: Member, sent: Nanos) {
        let Process { worker, life } = member.process;
        let Some(known) = self.workers.get_mut(&worker) else {
            self.join(now, member, sent);
            return;
        };
        if life > known.member.process.life {
            if known.state != State::Absent {
                // The name stays: from here on it is the later life.
                self.events.push_back(Event::Lost(known.member.process));
            }
            self.join(now, member, sent);
            return;
        }
        let is_news = life == known.member.process.life && sent > known.sent && !known.left;
        match known.state {
            State::Absent if is_news => self.join(now, member, sent),
            State::Present | State::Draining if is_news => {
                self.taken.insert(known.state.name(), known.state.name());
                (known.member, known.sent, known.since) = (member, sent, now);
            }
            State::Absent => self.taken.insert("absent", "absent"),
            State::Present | State::Draining => {}
        }
    }

    fn join(&mut self, now: Nanos, member: Member, sent: Nanos) {
        let process = member.process;
        let known = Known { state: State::Present, member, left: false, sent, since: now };
        let before = self.workers.insert(process.worker, known).map_or(State::Absent, |before| before.state);
        self.taken.insert(before.name(), State::Present.name());
        self.events.push_back(Event::Joined(process));
    }

    fn lose(&mut self, now: Nanos, worker: WorkerId) {
        if let Some(known) = self.workers.get_mut(&worker) {
            self.taken.insert(known.state.name(), State::Absent.name());
            (known.state, known.since) = (State::Absent, now);
            self.events.push_back(Event::Lost(known.member.process));
        }
    }

    fn deadline(&self, known: &Known) -> Nanos {
        known.since.plus(match known.state {
            State::Absent => self.config.forget_after,
            State::Present | State::Draining => self.config.silence,
        })
    }

    fn elapse(&mut self, now: Nanos) {
        let due =
            |(worker, known): (&WorkerId, &Known)| (self.deadline(known) <= now).then_some((*worker, known.state));
        let due: Vec<(WorkerId, State)> = self.workers.iter().filter_map(due).collect();
        for (worker, state) in due {
            match state {
                State::Absent => drop(self.workers.remove(&worker)),
                State::Present | State::Draining => self.lose(now, worker),
            }
        }
    }
}
