//! What a chain asks a table outside before it takes its rows.

use anabranch_model::Result;
use anabranch_operators::{Asking, Lookup};
use arrow::array::RecordBatch;

use super::Chain;

impl Chain {
    /// The table that the first operator asks.
    pub(crate) fn take_lookup(&mut self, lookup: Box<dyn Lookup>) -> Result<()> {
        self.asking().map_or(Ok(()), |asking| asking.take_lookup(lookup))
    }

    /// Asks for what must be known of a batch that follows.
    pub(crate) fn ask(&mut self, batch: &RecordBatch) -> Result<()> {
        self.asking().map_or(Ok(()), |asking| asking.ask(batch))
    }

    /// Whether the next batch that was asked for can be taken.
    pub(crate) fn is_answered(&mut self) -> bool {
        self.asking().is_none_or(|asking| asking.is_answered())
    }

    /// Bytes of answers that are there and wait for those before them.
    pub(crate) fn answers_bytes(&mut self) -> usize {
        self.asking().map_or(0, |asking| asking.answers_bytes())
    }

    fn asking(&mut self) -> Option<&mut dyn Asking> {
        self.links.first_mut()?.operator.asking()
    }
}
