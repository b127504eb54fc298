//! Transition tables of state machines. The documents in `docs/protocol` are generated from them, so a change
//! of the protocol changes a document. Most machines record the transitions that they take (`Taken`): debug
//! builds check that these are in the table.

use std::collections::BTreeSet;
use std::fmt;

/// One transition of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state that the machine leaves.
    pub state: &'static str,
    /// What happens in this state.
    pub input: &'static str,
    /// The state that the machine enters, perhaps the same.
    pub next: &'static str,
    /// What the machine then does. `-`: nothing.
    pub action: &'static str,
}

/// A machine: its name, what it is for, and its transitions. The first transition leaves the initial state.
pub(crate) type Machine = (&'static str, &'static str, &'static [Transition]);

/// A transition, as a row of a table.
pub(crate) const fn row(
    state: &'static str,
    input: &'static str,
    next: &'static str,
    action: &'static str,
) -> Transition {
    Transition { state, input, next, action }
}

/// The transitions that a machine has taken, as pairs of states. Tests compare them with its table.
#[derive(Clone)]
pub(crate) struct Taken {
    table: &'static [Transition],
    taken: BTreeSet<(&'static str, &'static str)>,
}

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(&self.taken).finish()
    }
}

impl Taken {
    pub(crate) fn new(table: &'static [Transition]) -> Taken {
        Taken { table, taken: BTreeSet::new() }
    }

    /// Adds a transition, which must be in the table.
    pub(crate) fn insert(&mut self, from: &'static str, to: &'static str) {
        debug_assert!(
            self.table.iter().any(|row| row.state == from && row.next == to),
            "not in the table: {from} to {to}"
        );
        self.taken.insert((from, to));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.taken.iter().copied()
    }
}

/// A document of the machines: after `head`, for each machine a diagram of its states and its table.
#[must_use]
pub(crate) fn document(head: &str, machines: &[Machine]) -> String {
    let mut out = String::from(head);
    for (name, purpose, transitions) in machines {
        out += &format!("\n## {name}\n\n{}.\n\n```mermaid\nstateDiagram-v2\n", capitalized(purpose));
        let mut edges: Vec<(String, String, Vec<&str>)> = Vec::new();
        for t in *transitions {
            let (from, to) = (t.state.replace(' ', "_"), t.next.replace(' ', "_"));
            match edges.iter_mut().find(|(f, n, _)| (f, n) == (&from, &to)) {
                Some((_, _, inputs)) => inputs.push(t.input),
                None => edges.push((from, to, vec![t.input])),
            }
        }
        for (from, to, inputs) in edges {
            out += &format!("    {from} --> {to}: {}\n", inputs.join(" / "));
        }
        out += "```\n\n| state | input | next | action |\n|---|---|---|---|\n";
        for t in *transitions {
            out += &format!("| {} | {} | {} | {} |\n", t.state, t.input, t.next, t.action);
        }
    }
    out
}

/// The text with its first letter in upper case.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}
