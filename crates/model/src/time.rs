//! Event time: when things happened, as the records tell it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point of event time in milliseconds since the Unix epoch. As a watermark `t` it promises that no record
/// with event time at or below `t` is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventTime(pub i64);

impl EventTime {
    /// Before any record: no promise yet.
    pub const MIN: EventTime = EventTime(i64::MIN);
    /// After every record: the stream has ended.
    pub const MAX: EventTime = EventTime(i64::MAX);
}

/// No promise yet.
impl Default for EventTime {
    fn default() -> Self {
        EventTime::MIN
    }
}

impl fmt::Display for EventTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EventTime::MIN => f.write_str("-inf"),
            EventTime::MAX => f.write_str("+inf"),
            EventTime(ms) => write!(f, "{ms} ms"),
        }
    }
}
