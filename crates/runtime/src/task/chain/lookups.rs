//! What a chain asks a table outside before it takes its rows.

use anabranch_model::Result;
use anabranch_operators::Lookup;
use arrow::array::RecordBatch;

use super::Chain;

impl Chain {
    /// The table that the first operator asks.
    pub(crate) fn take_lookup(&mut self, lookup: Box<dyn Lookup>) -> Result<()> {
        self.links.first_mut().map_or(Ok(()), |link| link.operator.take_lookup(lookup))
    }

    /// Asks for what must be known of a batch that follows.
    pub(crate) fn ask(&mut self, batch: &RecordBatch) -> Result<()> {
        self.links.first_mut().map_or(Ok(()), |link| link.operator.ask(batch))
    }

    /// Whether the next batch that was asked for can be taken.
    pub(crate) fn is_answered(&self) -> bool {
        self.links.first().is_none_or(|link| link.operator.is_answered())
    }

    /// Bytes of answers that are there and wait for those before them.
    pub(crate) fn answers_bytes(&self) -> usize {
        self.links.first().map_or(0, |link| link.operator.answers_bytes())
    }
}
