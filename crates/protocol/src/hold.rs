//! Full sinks, and whose sources wait for them.
//!
//! A sink is full when it can take no more rows before a checkpoint covers those that it holds. Until then no
//! source of the job reads: more rows would only fill the queues to the sink. The sources in the sink's own
//! process see it at once. The others learn it from the coordinator ([`Sinks`]), and each process keeps what
//! it was told ([`Held`]).
//!
//! A sink that becomes full also requests a checkpoint. So processes that wait already are told again: their
//! sources end their epochs early for each request. `docs/protocol/hold.md` shows the transitions.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use anabranch_model::Incarnation;

use crate::membership::Process;
use crate::table::{Machine, Taken, Transition, row};

const SINKS: &[Transition] = &[
    row("none full", "a sink of a process is full", "one full", "the sources of the others wait"),
    row("one full", "a sink of another process is full", "several full", "all others wait, and hear of the request"),
    row("one full", "it has room", "none full", "nobody waits"),
    row(
        "several full",
        "a sink of another process is full",
        "several full",
        "all others wait, and hear of the request",
    ),
    row("several full", "one has room, and several are full", "several full", "-"),
    row("several full", "one has room, and one is full", "one full", "the sources of that one wait only for its sink"),
];

const HELD: &[Transition] = &[
    row("free", "a sink at another process is full", "held", "sources wait, and a checkpoint is requested"),
    row("held", "a sink at another process is full", "held", "a checkpoint is requested"),
    row("held", "no sink at another process is full", "free", "sources read"),
    row("held", "another coordinator adopts the tasks", "free", "say again whether a sink here is full"),
    row("free", "another coordinator adopts the tasks", "free", "say again whether a sink here is full"),
];

/// The machines of full sinks by name, with what each is for and its transitions.
pub const MACHINES: &[Machine] = &[
    ("sinks", "the full sinks of a job, within one incarnation, at its coordinator", SINKS),
    ("held", "whether the sources of a process wait for sinks of others, over all incarnations", HELD),
];

/// The machines as a document.
#[must_use]
pub fn document() -> String {
    crate::table::document(HEAD, MACHINES)
}

const HEAD: &str = "\
# Full sinks

Generated from the transition tables in `crates/protocol/src/hold.rs`; `UPDATE_GOLDEN=1 cargo test -p
anabranch-protocol` writes it anew.

A sink is full when it can take no more rows before a checkpoint covers those that it holds. Until then no source of the
job reads. The sources in the sink's own process see it at once. The others learn it from the coordinator.

A coordinator that adopts running tasks knows of no full sink. So no process waits for the others any more, and each says
again whether it has a full one.
";

/// The full sinks of an incarnation, as its coordinator sees them.
#[derive(Clone, Debug)]
pub struct Sinks {
    incarnation: Incarnation,
    /// The processes with tasks.
    all: BTreeSet<Process>,
    /// Those with a full sink.
    full: BTreeSet<Process>,
    taken: Taken,
}

impl Sinks {
    /// No sink of the incarnation is full, which has tasks in these processes.
    #[must_use]
    pub fn new(incarnation: Incarnation, processes: impl IntoIterator<Item = Process>) -> Self {
        let (all, full) = (processes.into_iter().collect(), BTreeSet::new());
        Sinks { incarnation, all, full, taken: Taken::new(SINKS) }
    }

    /// A sink of a process is full, or none is any more. Returns which processes must learn whether their
    /// sources wait. What is said of another incarnation, or said again, means nothing.
    pub fn says(&mut self, process: Process, incarnation: Incarnation, full: bool) -> Vec<(Process, bool)> {
        let before = self.full.clone();
        let is_news = match full {
            _ if incarnation != self.incarnation => false,
            true => self.full.insert(process),
            false => self.full.remove(&process),
        };
        if !is_news {
            return Vec::new();
        }
        self.taken.insert(state(&before), state(&self.full));
        let waits = |full: &BTreeSet<Process>, of: Process| full.iter().any(|other| *other != of);
        let news = |of: &Process| {
            let (waited, waits) = (waits(&before, *of), waits(&self.full, *of));
            let hears = if full { *of != process } else { waited && !waits };
            hears.then_some((*of, waits))
        };
        self.all.iter().filter_map(news).collect()
    }

    /// The transitions taken: `(machine, from, to)`.
    pub fn taken(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.taken.iter().map(|(from, to)| ("sinks", from, to))
    }
}

fn state(full: &BTreeSet<Process>) -> &'static str {
    match full.len() {
        0 => "none full",
        1 => "one full",
        _ => "several full",
    }
}

/// What a process knows: whether its own sinks are full, and whether those of others are.
#[derive(Clone, Debug)]
pub struct Held {
    /// What the process has said last, and of which incarnation.
    said: Option<(Incarnation, bool)>,
    /// What the coordinator has said last. It may be of tasks that have not started here.
    told: Option<(Incarnation, bool)>,
    taken: Taken,
}

impl Default for Held {
    fn default() -> Self {
        Held { said: None, told: None, taken: Taken::new(HELD) }
    }
}

impl Held {
    /// A sink here is full, or none is any more: the coordinator must learn it.
    pub fn says(&mut self, incarnation: Incarnation, full: bool) {
        self.said = Some((incarnation, full));
    }

    /// Another coordinator has adopted the tasks of the incarnation. Returns what it must learn.
    pub fn adopted(&mut self, incarnation: Incarnation) -> Option<bool> {
        self.told(incarnation, false);
        self.said.filter(|(of, _)| *of == incarnation).map(|(_, full)| full)
    }

    /// The coordinator says whether a sink elsewhere is full.
    pub fn told(&mut self, incarnation: Incarnation, held: bool) {
        let name = |held| if held { "held" } else { "free" };
        self.taken.insert(name(self.holds(incarnation) == Some(true)), name(held));
        self.told = Some((incarnation, held));
    }

    /// Whether the sources of the incarnation wait for sinks elsewhere, as far as the coordinator has said
    /// that.
    #[must_use]
    pub fn holds(&self, incarnation: Incarnation) -> Option<bool> {
        self.told.filter(|(of, _)| *of == incarnation).map(|(_, held)| held)
    }

    /// The transitions taken: `(machine, from, to)`.
    pub fn taken(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.taken.iter().map(|(from, to)| ("held", from, to))
    }
}
