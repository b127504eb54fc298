//! Keyed count by hand.

use anabranch_model::Result;

use super::count_table::CountTable;
use crate::contestant::RunResult;
use crate::workload::Keys;

/// Counts every key.
pub(crate) fn keyed_count(keys: &Keys) -> Result<RunResult> {
    let mut table = CountTable::new();
    for block in &keys.blocks {
        table.count(block.values());
    }
    Ok(RunResult { events: keys.count, result_hash: Some(table.answer().hash()) })
}
