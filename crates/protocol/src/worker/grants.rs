//! The order of grants: a source must not cut past an epoch without knowing what its marker requests.

use std::collections::BTreeMap;

use anabranch_model::Epoch;

use crate::coordinator::Granted;
use crate::table::{Taken, Transition, row};

/// The machine as a table.
pub(super) const TABLE: &[Transition] = &[
    row("complete", "the next group", "complete", "pass it on"),
    row("complete", "a group after the next", "gap", "keep it"),
    row("complete", "a group that was passed on before", "complete", "-"),
    row("gap", "another group after the next", "gap", "keep it"),
    row("gap", "a group that was passed on before", "gap", "-"),
    row("gap", "the next group, and another one is missing", "gap", "pass on what follows each other"),
    row("gap", "the next group, and none is missing", "complete", "pass on all in their order"),
    row("gap", "a new term adopts the tasks", "complete", "forget what was kept: that coordinator grants anew"),
];

/// Puts grants into the order of their epochs.
#[derive(Clone, Debug)]
pub(super) struct Grants {
    pub(super) granted: Epoch,
    /// Groups that have arrived before the one that they follow, by their first epochs.
    early: BTreeMap<Epoch, Granted>,
    pub(super) taken: Taken,
}

impl Grants {
    pub(super) fn new(from: Epoch) -> Self {
        Grants { granted: from, early: BTreeMap::new(), taken: Taken::new(TABLE) }
    }

    /// For the tasks of another incarnation.
    pub(super) fn renew(&mut self, from: Epoch) {
        self.granted = from;
        self.early.clear();
    }

    /// Another coordinator has adopted the tasks. It knows only the groups that were passed on, and decides
    /// what follows them.
    pub(super) fn adopted(&mut self) {
        let before = self.state();
        if before == "gap" {
            self.early.clear();
            self.taken.insert(before, self.state());
        }
    }

    fn state(&self) -> &'static str {
        if self.early.is_empty() { "complete" } else { "gap" }
    }

    /// A grant has arrived: calls `pass_on` for each grant that may be passed on now.
    pub(super) fn arrived(&mut self, grant: Granted, mut pass_on: impl FnMut(Granted)) {
        let before = self.state();
        let mut next = Some(grant);
        if grant.group.first > self.granted.next() {
            self.early.insert(grant.group.first, grant);
            next = None;
        }
        while let Some(mut granted) = next {
            if granted.group.last > self.granted {
                // A new coordinator may divide the same epochs into other groups.
                granted.group.first = self.granted.next();
                self.granted = granted.group.last;
                pass_on(granted);
            }
            let follows = self.early.first_key_value().is_some_and(|(first, _)| *first <= self.granted.next());
            next = if follows { self.early.pop_first().map(|(_, grant)| grant) } else { None };
        }
        self.taken.insert(before, self.state());
    }
}
