//! Limits the number of records that the client holds at a time.
//!
//! The client sends one request after the other for each partition, because it numbers the records
//! (`enable.idempotence`). A record that has waited for `linger.ms` behind an unanswered request keeps the
//! client's thread busy: it polls for the answer. A slow broker would cost a core per task, and one on the
//! same machine would become slower still. So a writer passes records on in windows. A window has about one
//! request per partition. The next window begins when the brokers have acknowledged the whole one.

use std::time::Duration;

use anabranch_model::Nanos;

/// Limit of the client's overhead per record.
const OVERHEAD_BYTES: u64 = 40;
/// Number of requests that the client sends to one broker before the first is answered.
const REQUESTS: u32 = 5;

/// The size of the client's requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// How long it waits for further records.
    pub(super) linger: Duration,
}

/// The records that the client holds.
pub(super) struct Window {
    records_max: u64,
    bytes_max: u64,
    /// For how long records are added: the client sends none of them earlier, unless the window is full.
    gathers: Duration,
    records: u64,
    bytes: u64,
    /// When the first record was passed on.
    since: Option<Nanos>,
}

impl Window {
    /// The window of a writer that writes to this number of partitions at a time.
    pub(super) fn new(batch: Batch, partitions: u32) -> Window {
        let requests = u64::from(partitions.clamp(1, REQUESTS));
        Window {
            records_max: batch.records.saturating_mul(requests),
            bytes_max: batch.bytes.saturating_mul(requests),
            gathers: batch.linger / 4 * 3,
            records: 0,
            bytes: 0,
            since: None,
        }
    }

    /// Whether it accepts a record. `is_acknowledged`: whether the brokers have acknowledged all records.
    pub(super) fn is_open(&mut self, now: Nanos, is_acknowledged: impl FnOnce() -> bool) -> bool {
        let gathers = self.since.is_none_or(|since| now < since.plus(self.gathers));
        if gathers && !self.is_full() {
            return true;
        }
        let is_acknowledged = is_acknowledged();
        if is_acknowledged {
            (self.records, self.bytes, self.since) = (0, 0, None);
        }
        is_acknowledged
    }

    /// Whether the client has as many records as it sends at a time.
    pub(super) fn is_full(&self) -> bool {
        self.records >= self.records_max || self.bytes >= self.bytes_max
    }

    /// Notes a record that was passed on.
    pub(super) fn add(&mut self, now: Nanos, bytes: usize) {
        self.since.get_or_insert(now);
        self.records += 1;
        self.bytes += bytes as u64 + OVERHEAD_BYTES;
    }
}
