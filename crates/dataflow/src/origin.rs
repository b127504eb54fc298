//! The places in the SQL text that the parts of a plan come from. People read them; nothing that runs does.
//! So they are no part of what a plan is: plans that differ in them alone are equal, and neither the
//! serialized form nor the debug text has them.

use std::fmt;
use std::sync::Arc;

/// A place in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
}

/// Where the parts of a stage come from: each place is within an expression or a name that the part was made
/// of. A part without places comes from no place in particular.
#[derive(Clone, Default)]
pub struct StageOrigin {
    /// Of the source.
    pub source: Vec<Place>,
    /// Of the operators, in their order.
    pub operators: Vec<Vec<Place>>,
    /// Of the sink.
    pub sink: Vec<Place>,
}

impl StageOrigin {
    /// Adds the places of a stage with the same operators.
    pub(crate) fn add(&mut self, other: &StageOrigin) {
        add_places(&mut self.source, &other.source);
        add_places(&mut self.sink, &other.sink);
        for (own, other) in self.operators.iter_mut().zip(&other.operators) {
            add_places(own, other);
        }
    }
}

/// Adds places, each of which is there once, in the order of the text.
pub fn add_places(places: &mut Vec<Place>, others: &[Place]) {
    places.extend_from_slice(others);
    places.sort_unstable();
    places.dedup();
}

impl PartialEq for StageOrigin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for StageOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// The text that a plan was made of, if it is one text. It has the secrets of its tables.
#[derive(Clone, Default)]
pub struct PlannedText(pub Option<Arc<str>>);

impl PartialEq for PlannedText {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for PlannedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}
