//! Counters per key in a general key-value store on a local disk: a batch of keys is read, changed and written.

use std::collections::HashMap;

use anabranch_model::{Error, Result};
use fjall::{Database, KeyspaceCreateOptions};

use crate::contestant::RunResult;
use crate::workload::Keys;

/// Counts the first `blocks` blocks of keys with `cache_bytes` of cache, in a fresh folder.
pub(crate) fn counters(keys: &Keys, blocks: usize, cache_bytes: u64) -> Result<RunResult> {
    let failed = |error: fjall::Error| Error::outside(format!("fjall: {error}"));
    let folder = tempfile::tempdir().map_err(|error| Error::outside(error.to_string()))?;
    let database = Database::builder(folder.path()).cache_size(cache_bytes).open().map_err(failed)?;
    let counters = database.keyspace("counters", KeyspaceCreateOptions::default).map_err(failed)?;
    let mut events = 0;
    let mut changed: HashMap<i64, u64> = HashMap::new();
    for block in &keys.blocks[..blocks.min(keys.blocks.len())] {
        for key in block.values() {
            *changed.entry(*key).or_default() += 1;
        }
        events += block.values().len() as u64;
        let mut batch = database.batch();
        for (key, more) in changed.drain() {
            let key = key.to_be_bytes();
            let found = counters.get(key).map_err(failed)?;
            let before = found.and_then(|value| value.as_ref().try_into().ok()).map_or(0, u64::from_le_bytes);
            batch.insert(&counters, key, (before + more).to_le_bytes());
        }
        batch.commit().map_err(failed)?;
    }
    Ok(RunResult { events, result_hash: None })
}
