//! The words every other crate speaks: identifiers, epochs, event time, key groups, the envelope that travels
//! on channels, the clock that shells own, counters and errors. No I/O, no threads, no policy.

mod clock;
mod counters;
mod display;
mod envelope;
mod error;
mod hash;
mod ids;
mod key_group;
mod key_group_rows;
mod latch;
mod lookup_counters;
mod nearest;
mod notices;
mod quantities;
mod rng;
mod secrets;
mod stall;
mod time;

pub use clock::{Clock, ManualClock, Nanos, SystemClock};
pub use counters::{Latencies, LatencySummary, TaskCounters, TaskMetrics};
pub use display::{shortened, visible};
pub use envelope::{Envelope, Marker, MarkerKind, Stamped, batch_bytes};
pub use error::{Error, ErrorKind, Result};
pub use hash::{HASH_SEED, hash_bytes, hash_u64};
pub use ids::{Epoch, Group, Incarnation, OperatorId, OperatorKind, PartitionId, PlanVersion, StageId, TaskId};
pub use key_group::{KeyGroup, KeyGroupRange, KeyGroups};
pub use key_group_rows::{KeyGroupReading, KeyGroupRows, Sampler};
pub use latch::{Latch, pause};
pub use lookup_counters::{LookupCounters, LookupReading};
pub use nearest::{by_likeness, nearest};
pub use notices::{Notice, Notices};
pub use quantities::{bytes_text, duration_text, parse_bytes, parse_duration};
pub use rng::Rng;
pub use secrets::{MarkedText, Secrets, Shown, is_secret, shown_value};
pub use stall::{HELD_BACK_AFTER, HeldBack, Moment, PartitionProgress, SourceProgress, Span, held_back};
pub use time::EventTime;
