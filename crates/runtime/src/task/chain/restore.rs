//! Restores the state of a chain's operators.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Error, KeyGroupRange, KeyGroups, Result};
use anabranch_operators::{State, StateShape, rows_of_groups};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::Chain;
use crate::task::job_state::RestoredOperator;

/// The state that the operators of a task restore.
pub(crate) struct Restore {
    /// The state of each operator, by its index in the chain.
    pub(crate) operators: BTreeMap<usize, RestoredOperator>,
    /// Indices of operators whose snapshots continue from the files that they were restored from.
    pub(crate) go_on: BTreeSet<usize>,
    /// Whether this is the first task of its stage: it gets state without keys, whichever task had it before.
    pub(crate) is_first: bool,
    /// The key groups of the task, and their total number.
    pub(crate) own: KeyGroupRange,
    pub(crate) groups: KeyGroups,
}

impl Chain {
    /// Restores the operators: this task takes the rows of its own key groups. Calls `wanted` after each
    /// piece, and stops when `wanted` returns false.
    pub(crate) fn restore(&mut self, restore: &Restore, mut wanted: impl FnMut() -> bool) -> Result<()> {
        let Restore { operators, go_on, is_first, own, groups } = restore;
        for (place, link) in self.links.iter_mut().enumerate() {
            let (Some(own_state), Some(state)) = (link.operator.state(), operators.get(&place)) else { continue };
            let own = match own_state.tables().first().is_none_or(|first| first.keys.is_empty()) {
                true if *is_first => groups.all(),
                true => KeyGroupRange::EMPTY,
                false => *own,
            };
            if !fill(own_state, state, own, *groups, &mut wanted)? {
                return Ok(());
            }
            if go_on.contains(&place) {
                own_state.goes_on();
            }
            link.reached = state.watermark;
        }
        Ok(())
    }
}

/// Gives the state of an operator the rows of its key groups. Calls `wanted` after each piece. When `wanted`
/// returns false, stops and returns false.
pub(crate) fn fill(
    own_state: &mut dyn State,
    state: &RestoredOperator,
    own: KeyGroupRange,
    groups: KeyGroups,
    wanted: &mut dyn FnMut() -> bool,
) -> Result<bool> {
    let tables = own_state.tables();
    let mut room = Vec::new();
    for (file, share) in state.files(own) {
        let Some(table) = tables.iter().position(|shape| shape.table == file.table) else {
            return Err(Error::internal(format!("an operator has no table '{}'", file.table)));
        };
        // Whether all rows of the file belong to this task.
        let is_own = file.others.is_none() && file.key_groups == share;
        let content = state.content(file, room)?;
        for rows in state.rows(file, content.clone()) {
            let own = own_rows(rows?, &tables[table], (share, is_own), groups)?;
            if own.num_rows() > 0 {
                own_state.restore(table, own)?;
            }
            if !wanted() {
                return Ok(false);
            }
        }
        // If an operator has kept a part of the content, it keeps the memory.
        room = content.try_into_mut().map(Vec::from).unwrap_or_default();
    }
    own_state.restored(state.watermark).map(|()| true)
}

/// The rows of state in a task's key groups; all rows if the state has no keys, or if all are known to belong
/// to the task.
fn own_rows(
    rows: RecordBatch,
    shape: &StateShape,
    (own, are_all_own): (KeyGroupRange, bool),
    groups: KeyGroups,
) -> Result<RecordBatch> {
    let types = |schema: &SchemaRef| -> Vec<String> {
        schema.fields().iter().take(shape.keys.end).map(|field| field.data_type().to_string()).collect()
    };
    let (was, is) = (types(rows.schema_ref()), types(&shape.schema));
    if was != is {
        let (was, is) = (was.join(", "), is.join(", "));
        return Err(Error::user(format!(
            "the state of the checkpoint begins with columns [{was}], the query's with [{is}]"
        ))
        .remedy("use the query that wrote the checkpoint, or start without the checkpoint"));
    }
    match shape.keys.is_empty() || are_all_own {
        true => Ok(rows),
        false => rows_of_groups(&rows, shape.keys.clone(), own, groups),
    }
}
