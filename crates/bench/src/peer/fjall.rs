//! Counters per key in a general key-value store on a local disk: a batch of keys is read, changed and
//! written.

use std::collections::BTreeMap;

use anabranch_model::{Error, Result};
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use tempfile::TempDir;

use crate::contestant::RunResult;
use crate::workload::Keys;

/// A store with a counter for every key.
pub(crate) struct Counters {
    database: Database,
    counters: Keyspace,
    _folder: TempDir,
}

impl Counters {
    /// Keys below `keys`, each at 0, in a store with about `bytes` of memory: half for blocks, half for new
    /// data.
    pub(crate) fn new(keys: u64, bytes: u64) -> Result<Counters> {
        let folder = crate::folder()?;
        let database = Database::builder(folder.path()).cache_size(bytes / 2).open().map_err(failed)?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(bytes / 2);
        let counters = database.keyspace("counters", options).map_err(failed)?;
        let mut ingestion = counters.start_ingestion().map_err(failed)?;
        (0..keys).try_for_each(|key| ingestion.write(key.to_be_bytes(), [0; 8])).map_err(failed)?;
        ingestion.finish().map_err(failed)?;
        Ok(Counters { database, counters, _folder: folder })
    }

    /// Counts the first `blocks` blocks of keys.
    pub(crate) fn count(&self, keys: &Keys, blocks: usize) -> Result<RunResult> {
        let mut events = 0;
        for block in keys.blocks.iter().take(blocks) {
            let mut more: BTreeMap<i64, u64> = BTreeMap::new();
            block.values().iter().for_each(|key| *more.entry(*key).or_default() += 1);
            events += block.values().len() as u64;
            let mut batch = self.database.batch();
            for (key, more) in more {
                let key = key.to_be_bytes();
                let count = number(self.counters.get(key).map_err(failed)?.as_deref());
                batch.insert(&self.counters, key, (count + more).to_le_bytes());
            }
            batch.commit().map_err(failed)?;
        }
        Ok(RunResult { events, result_hash: None })
    }
}

fn number(value: Option<&[u8]>) -> u64 {
    value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err wants")]
fn failed(error: fjall::Error) -> Error {
    Error::outside(format!("fjall: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_counted() {
        let keys = Keys::generate(30_000, 100, 1);
        let store = Counters::new(100, 1 << 20).unwrap();
        assert_eq!(store.count(&keys, usize::MAX).unwrap().events, 30_000);
        let counts = (0..100_u64).map(|key| number(store.counters.get(key.to_be_bytes()).unwrap().as_deref()));
        assert_eq!(counts.sum::<u64>(), 30_000);
    }
}
