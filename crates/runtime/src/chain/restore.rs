//! Restores the state of a chain's operators.

use std::collections::BTreeMap;

use anabranch_model::{Error, KeyGroupRange, KeyGroups, Result};
use anabranch_operators::{StateShape, hash_keys};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;

use super::Chain;
use crate::job_state::RestoredOperator;

/// What the operators of a task resume from.
pub(crate) struct Restore {
    /// By their places in the chain.
    pub(crate) operators: BTreeMap<usize, RestoredOperator>,
    /// State without keys belongs to the first task of the stage, whichever task had it.
    pub(crate) is_first: bool,
    /// The key groups that the task owns, of so many.
    pub(crate) own: KeyGroupRange,
    pub(crate) groups: KeyGroups,
}

impl Chain {
    /// Restores the operators: this task takes the rows of its own key groups. Calls `wanted` after each piece, and
    /// returns early once that is false.
    pub(crate) fn restore(&mut self, restore: &Restore, mut wanted: impl FnMut() -> bool) -> Result<()> {
        let Restore { operators, is_first, own, groups } = restore;
        for (place, link) in self.links.iter_mut().enumerate() {
            let (Some(shape), Some(state)) = (link.operator.state_shape(), operators.get(&place)) else { continue };
            let own = match shape.keys.is_empty() {
                true if *is_first => groups.all(),
                true => KeyGroupRange::EMPTY,
                false => *own,
            };
            for rows in state.rows(own) {
                let own = own_rows(&rows?, &shape, own, *groups)?;
                if own.num_rows() > 0 {
                    link.operator.restore(own)?;
                }
                if !wanted() {
                    return Ok(());
                }
            }
            link.operator.restored(state.watermark)?;
            link.restored = state.watermark;
        }
        Ok(())
    }
}

/// The rows of state whose key groups a task owns; all rows if the state has no keys. The columns after the keys may have the
/// form of an earlier version, which the operator converts.
fn own_rows(rows: &RecordBatch, shape: &StateShape, own: KeyGroupRange, groups: KeyGroups) -> Result<RecordBatch> {
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
    if shape.keys.is_empty() {
        return Ok(rows.clone());
    }
    let mut hashes = Vec::new();
    hash_keys(&rows.columns()[shape.keys.clone()], rows.num_rows(), &mut hashes)?;
    let own: BooleanArray = hashes.iter().map(|hash| Some(own.contains(groups.of(*hash)))).collect();
    Ok(filter_record_batch(rows, &own)?)
}
