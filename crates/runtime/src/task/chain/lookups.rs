//! Lookups in an outside table, requested before the chain takes the rows.

use anabranch_model::Result;
use anabranch_operators::{Asking, Lookup};
use arrow::array::RecordBatch;

use super::Chain;

impl Chain {
    /// Gives the first operator its outside table.
    pub(crate) fn take_lookup(&mut self, lookup: Box<dyn Lookup>) -> Result<()> {
        self.asking().map_or(Ok(()), |asking| asking.take_lookup(lookup))
    }

    /// Requests the lookups for a batch that follows.
    pub(crate) fn ask(&mut self, batch: &RecordBatch) -> Result<()> {
        self.asking().map_or(Ok(()), |asking| asking.ask(batch))
    }

    /// Whether the answers for the next batch have arrived.
    pub(crate) fn is_answered(&mut self) -> bool {
        self.asking().is_none_or(|asking| asking.is_answered())
    }

    /// Bytes of answers that have arrived and wait for earlier ones.
    pub(crate) fn answers_bytes(&mut self) -> usize {
        self.asking().map_or(0, |asking| asking.answers_bytes())
    }

    fn asking(&mut self) -> Option<&mut dyn Asking> {
        self.links.first_mut()?.operator.asking()
    }
}
