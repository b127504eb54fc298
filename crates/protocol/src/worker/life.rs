//! The tasks of a worker: it ends those of an older incarnation before it starts those of a newer one.

use crate::table::{Taken, Transition, row};

/// The machine as a table.
pub(super) const TABLE: &[Transition] = &[
    row("idle", "start", "running", "start the tasks"),
    row("idle", "cancel of an incarnation that has not started", "gone", "report that no task is there"),
    row("running", "cancel", "ending", "cancel the tasks"),
    row("running", "a message of a newer incarnation", "ending", "cancel the tasks"),
    row("running", "the lease is over", "ending", "cancel the tasks; report that they failed"),
    row("running", "every task is gone", "gone", "report it"),
    row("ending", "every task is gone", "gone", "report it, if the incarnation is the present one"),
    row("ending", "every task is gone, and a start of a newer incarnation waits", "running", "start its tasks"),
    row("gone", "start of a newer incarnation", "running", "start the tasks"),
    row("gone", "cancel of a newer incarnation that has not started", "gone", "report that no task is there"),
];

/// Whether tasks are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No incarnation has started yet.
    Idle,
    /// The tasks of an incarnation start or run.
    Running,
    /// They were cancelled, and some are still there.
    Ending,
    /// Every task is gone.
    Gone,
}

impl Phase {
    /// The name in the transition table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Running => "running",
            Phase::Ending => "ending",
            Phase::Gone => "gone",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) phase: Phase,
    pub(super) taken: Taken,
}

impl Life {
    pub(super) fn new() -> Self {
        Life { phase: Phase::Idle, taken: Taken::new(TABLE) }
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        self.taken.insert(self.phase.name(), phase.name());
        self.phase = phase;
    }
}
