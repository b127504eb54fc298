//! What the general parser notes of a record, so that its layout can be learned.

use std::ops::Range;

use super::column::ColumnId;

/// How a value looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A string.
    Text,
    /// A number without fraction and exponent.
    Integer,
    /// Anything else.
    Other,
}

/// A value that is not an object: objects are taken apart.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// Where it is in the record, a string with its quotes.
    pub(super) place: Range<usize>,
    /// The column that it goes to, if any needs it.
    pub(super) target: Option<ColumnId>,
    pub(super) shape: Shape,
    /// How many objects it is in.
    pub(super) depth: usize,
}

/// The values of a record in their order.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) leaves: Vec<Leaf>,
    /// Objects that are there.
    pub(super) present: Vec<ColumnId>,
    /// Columns of those objects that are not.
    pub(super) absent: Vec<ColumnId>,
    /// Offset after the record's last bracket.
    pub(super) end: usize,
    /// Whether records of this layout can be read from left to right: no key comes twice.
    pub(super) repeatable: bool,
}

impl Trace {
    /// Layouts of more values are not learned: they would hardly stay in the processor's caches.
    const LEAVES_MAX: usize = 1_024;

    /// Nothing noted yet.
    pub(super) fn new() -> Self {
        Trace { leaves: Vec::new(), present: Vec::new(), absent: Vec::new(), end: 0, repeatable: true }
    }

    /// Notes the next value.
    pub(super) fn note(&mut self, leaf: Leaf) {
        if self.leaves.len() < Self::LEAVES_MAX {
            self.leaves.push(leaf);
        } else {
            self.repeatable = false;
        }
    }
}
