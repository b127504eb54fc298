//! The general parser's record of values, from which a layout is learned.

use std::ops::Range;

use super::column::ColumnId;

/// The appearance of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A string.
    Text,
    /// A number without fraction and exponent.
    Integer,
    /// Anything else.
    Other,
}

/// A value that is not an object: objects are flattened.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// Where it is in the record, a string with its quotes.
    pub(super) place: Range<usize>,
    /// Its column, if a column needs it.
    pub(super) target: Option<ColumnId>,
    pub(super) shape: Shape,
    /// Number of objects around it.
    pub(super) depth: usize,
}

/// The values of a record in their order.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) leaves: Vec<Leaf>,
    /// Objects that are present.
    pub(super) present: Vec<ColumnId>,
    /// Columns of those objects that are absent.
    pub(super) absent: Vec<ColumnId>,
    /// Offset after the record's last bracket.
    pub(super) end: usize,
    /// Whether records of this layout can be read from left to right: no key appears twice.
    pub(super) repeatable: bool,
}

impl Trace {
    /// Layouts with more values are not learned: they would not stay in the processor's caches.
    const LEAVES_MAX: usize = 1_024;

    /// An empty trace.
    pub(super) fn new() -> Self {
        Trace { leaves: Vec::new(), present: Vec::new(), absent: Vec::new(), end: 0, repeatable: true }
    }

    /// Adds the next value.
    pub(super) fn note(&mut self, leaf: Leaf) {
        if self.leaves.len() < Self::LEAVES_MAX {
            self.leaves.push(leaf);
        } else {
            self.repeatable = false;
        }
    }
}
