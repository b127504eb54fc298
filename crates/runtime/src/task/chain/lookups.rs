//! Lookups in an outside table, requested before the chain takes the rows.

use anabranch_model::Result;
use anabranch_operators::{Lookup, LookupRequests};
use arrow::array::RecordBatch;

use super::Chain;

impl Chain {
    /// Gives the first operator its outside table.
    pub(crate) fn take_lookup(&mut self, lookup: Box<dyn Lookup>) -> Result<()> {
        self.lookup_requests().map_or(Ok(()), |requests| requests.take_lookup(lookup))
    }

    /// Requests the lookups for a batch that follows.
    pub(crate) fn request_lookups(&mut self, batch: &RecordBatch) -> Result<()> {
        self.lookup_requests().map_or(Ok(()), |requests| requests.request(batch))
    }

    /// Whether the answers for the next batch have arrived.
    pub(crate) fn is_answered(&mut self) -> bool {
        self.lookup_requests().is_none_or(|requests| requests.is_answered())
    }

    /// Bytes of answers that have arrived and wait for earlier ones.
    pub(crate) fn answers_bytes(&mut self) -> usize {
        self.lookup_requests().map_or(0, |requests| requests.answers_bytes())
    }

    fn lookup_requests(&mut self) -> Option<&mut dyn LookupRequests> {
        self.links.first_mut()?.operator.lookup_requests()
    }
}
