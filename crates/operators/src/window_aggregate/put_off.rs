//! What a snapshot puts off. A snapshot takes the states out of a pane's tables, without copying them: they
//! are written while the task continues. The tables get them back afterwards in pieces, between batches, so
//! that no row waits for all of them.
//!
//! Until a table has all of its states back, rows are grouped beside it: an accumulator treats each group for
//! which it has room as one that has had rows.

use std::collections::VecDeque;

use anabranch_model::Result;

use super::groups::{Grouped, Groups};

/// Rows of a piece whose indices in the table are known. Tests have several pieces of few rows.
const PLACED_ROWS: usize = if cfg!(test) { 16 } else { 1 << 15 };
/// Rows of a piece whose keys are looked up.
const KEYED_ROWS: usize = if cfg!(test) { 8 } else { 1 << 12 };

/// States that a snapshot took out, and that are not in the table of groups yet.
#[derive(Default)]
pub(super) struct PutOff {
    parts: VecDeque<Part>,
}

struct Part {
    states: Grouped,
    origin: Origin,
    /// Rows before this are in the table.
    next: usize,
}

/// Where states were taken from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// From the table itself: it has their keys, in this order.
    Groups,
    /// From the table of changes.
    Changes,
}

impl PutOff {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether the table of groups lacks some of its own states.
    pub(super) fn has_states_of_groups(&self) -> bool {
        self.parts.front().is_some_and(|part| part.origin == Origin::Groups)
    }

    /// Adds states that are to be merged.
    pub(super) fn push(&mut self, states: Grouped, origin: Origin) {
        if states.len > 0 {
            self.parts.push_back(Part { states, origin, next: 0 });
        }
    }

    /// Merges the next piece.
    pub(super) fn merge_piece(&mut self, groups: &mut Groups) -> Result<()> {
        let Some(Part { states, origin, next }) = self.parts.front_mut() else { return Ok(()) };
        let rows_max = match origin {
            // A slice of lists or texts keeps the whole array, which the function would count and keep for
            // each piece.
            _ if groups.varies() => states.len,
            Origin::Groups => PLACED_ROWS,
            Origin::Changes => KEYED_ROWS,
        };
        let rows = *next..states.len.min(*next + rows_max);
        let piece = states.slice(rows.clone());
        match origin {
            Origin::Groups => groups.take_back(&piece, rows.clone())?,
            Origin::Changes => groups.merge(&piece)?,
        }
        *next = rows.end;
        if rows.end == states.len {
            self.parts.pop_front();
        }
        Ok(())
    }

    /// Merges all pieces.
    pub(super) fn merge_all(&mut self, groups: &mut Groups) -> Result<()> {
        while !self.is_empty() {
            self.merge_piece(groups)?;
        }
        Ok(())
    }

    /// Approximate memory that the table will need for the states, beyond what it has.
    pub(super) fn size_bytes(&self, groups: &Groups) -> usize {
        let needed = |Part { states, origin, next }: &Part| {
            let (bytes, there) = match origin {
                Origin::Groups => (states.values_bytes(), groups.room().max(*next)),
                Origin::Changes => (states.size_bytes(), *next),
            };
            bytes / states.len * states.len.saturating_sub(there)
        };
        self.parts.iter().map(needed).sum()
    }
}
