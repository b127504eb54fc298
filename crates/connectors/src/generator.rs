//! Generators: tables with generated rows, for demonstrations, tests and measurements.
//!
//! Row `i` of partition `p` is a function of the seed, `p` and `i` alone: it depends neither on the number of
//! tasks nor on the time at which it is polled. Only event times follow the wall clock, unless a start time
//! is given.

mod ad_events;
mod datagen;
mod faker;
mod load;
mod nexmark;
mod paced;

pub use ad_events::{AdCampaignsConnector, AdEventsConnector};
pub use datagen::DatagenConnector;
pub use faker::FakerConnector;
pub use nexmark::NexmarkConnector;

use anabranch_model::Result;
use anabranch_operators::Rows;

use load::Timeline;

/// Makes the rows of a generator.
trait Generate: Send {
    /// Rows `first..first + count` of a partition.
    fn generate(&mut self, request: &Request) -> Result<Rows>;

    /// Number of the event of row `row`, which determines its time. Rows are events unless the table has only
    /// some of them.
    fn event_of_row(&self, row: u64) -> u64 {
        row
    }

    /// The number of rows of the table among the first `events` events.
    fn rows_within(&self, events: u64) -> u64 {
        events
    }
}

/// A number from `min` to `max`, by random bits.
fn between(bits: u64, min: i64, max: i64) -> i64 {
    let span = u128::from(max.abs_diff(min)) + 1;
    min.wrapping_add_unsigned(((u128::from(bits) * span) >> 64) as u64)
}

/// A number from 0 up to, but without, 1, by random bits.
fn fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Rows to generate.
struct Request {
    partition: u32,
    /// Number of partitions: row `i` of partition `p` is row `i * partitions + p` of the table.
    partitions: u32,
    first: u64,
    count: usize,
    timeline: Timeline,
}

impl Request {
    /// Numbers of the rows within the table.
    fn rows(&self) -> impl Iterator<Item = u64> + use<> {
        let (partition, partitions) = (u64::from(self.partition), u64::from(self.partitions));
        (self.first..self.first + self.count as u64).map(move |index| index * partitions + partition)
    }
}
