//! Lists that all tasks of an incarnation share, such as the files of a table: each task may find another
//! list, and all use the one that reaches the coordinator first.
//!
//! The tasks of one process that ask for the same list ask together ([`Asking`]); the coordinator keeps the
//! first list ([`Lists`]). Tasks ask only while they open their tables. A coordinator adopts only tasks that
//! have opened theirs, so no question waits for a coordinator that does not know it. `docs/protocol/agree.md`
//! shows the transitions.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use anabranch_model::Incarnation;

use crate::table::{Machine, Taken, Transition, row};

const LISTS: &[Transition] = &[
    row("open", "a process has found a list", "agreed", "answer with it"),
    row("agreed", "a process has found a list", "agreed", "answer with the first one"),
];

const ASKING: &[Transition] = &[
    row("silent", "a task has found a list", "asked", "send it to the coordinator"),
    row("asked", "another task has found a list", "asked", "-"),
    row("asked", "the coordinator answers", "silent", "answer all tasks that have asked"),
    row("asked", "the tasks are cancelled", "silent", "-"),
];

/// The machines of agreed lists by name, with what each is for and its transitions.
pub const MACHINES: &[Machine] = &[
    ("lists", "one list, within one incarnation, at the coordinator of its job", LISTS),
    ("asking", "the question of a process for one list", ASKING),
];

/// The machines as a document.
#[must_use]
pub fn document() -> String {
    crate::table::document(HEAD, MACHINES)
}

const HEAD: &str = "\
# Agreed lists

Generated from the transition tables in `crates/protocol/src/agree.rs`; `UPDATE_GOLDEN=1 cargo test -p
anabranch-protocol` writes it anew.

Tasks that read one table together must see the same files or offsets. Each finds a list when it opens the table, and all
use the list that reaches the coordinator first. The tasks of one process that ask for the same list ask together.
";

/// The lists of an incarnation, at its coordinator.
#[derive(Clone, Debug)]
pub struct Lists {
    incarnation: Incarnation,
    agreed: BTreeMap<String, Vec<String>>,
    taken: Taken,
}

impl Lists {
    /// No task of the incarnation has found a list.
    #[must_use]
    pub fn new(incarnation: Incarnation) -> Self {
        Lists { incarnation, agreed: BTreeMap::new(), taken: Taken::new(LISTS) }
    }

    /// A process has found a list under a key. Returns the one that all use. `None`: the tasks are of another
    /// incarnation.
    pub fn found(&mut self, incarnation: Incarnation, key: &str, list: Vec<String>) -> Option<&[String]> {
        if incarnation != self.incarnation {
            return None;
        }
        let entry = self.agreed.entry(key.to_owned());
        let state = if matches!(entry, Entry::Vacant(_)) { "open" } else { "agreed" };
        self.taken.insert(state, "agreed");
        Some(entry.or_insert(list))
    }

    /// The transitions taken: `(machine, from, to)`.
    pub fn taken(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.taken.iter().map(|(from, to)| ("lists", from, to))
    }
}

/// The questions of a process. `A` identifies a task that asks.
#[derive(Clone, Debug)]
pub struct Asking<A> {
    tasks: BTreeMap<String, Vec<A>>,
    taken: Taken,
}

impl<A> Default for Asking<A> {
    fn default() -> Self {
        Asking { tasks: BTreeMap::new(), taken: Taken::new(ASKING) }
    }
}

impl<A> Asking<A> {
    /// A task has found a list under a key. Returns whether the coordinator must get it.
    pub fn asks(&mut self, key: &str, task: A) -> bool {
        let tasks = self.tasks.entry(key.to_owned()).or_default();
        tasks.push(task);
        let is_first = tasks.len() == 1;
        self.taken.insert(if is_first { "silent" } else { "asked" }, "asked");
        is_first
    }

    /// The coordinator has answered: returns the tasks that have asked.
    pub fn answered(&mut self, key: &str) -> Vec<A> {
        let tasks = self.tasks.remove(key).unwrap_or_default();
        if !tasks.is_empty() {
            self.taken.insert("asked", "silent");
        }
        tasks
    }

    /// The tasks were cancelled: none of them waits any more.
    pub fn cancelled(&mut self) {
        if !std::mem::take(&mut self.tasks).is_empty() {
            self.taken.insert("asked", "silent");
        }
    }

    /// The transitions taken: `(machine, from, to)`.
    pub fn taken(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.taken.iter().map(|(from, to)| ("asking", from, to))
    }
}
