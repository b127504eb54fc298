//! The start of reading a topic, and the end of a bounded table, from their options.

use std::collections::BTreeMap;

use anabranch_model::{Error, Result};

use crate::Options;

/// A position in each partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Earliest,
    Latest,
    /// The committed positions of the group. Reading starts at the beginning of partitions without one.
    Group,
    /// The first record with a timestamp at or after this.
    Timestamp {
        ms: i64,
    },
    /// Offsets by partition.
    Specific(BTreeMap<i32, i64>),
}

/// The names of the options for the start or the end.
struct OptionNames {
    mode: &'static str,
    timestamp: &'static str,
    offsets: &'static str,
}

const STARTUP: OptionNames = OptionNames {
    mode: "scan.startup.mode",
    timestamp: "scan.startup.timestamp-millis",
    offsets: "scan.startup.specific-offsets",
};
const BOUNDED: OptionNames = OptionNames {
    mode: "scan.bounded.mode",
    timestamp: "scan.bounded.timestamp-millis",
    offsets: "scan.bounded.specific-offsets",
};

/// The start of reading.
pub(super) fn startup(options: &mut Options<'_>) -> Result<Bound> {
    let mode = options
        .choice(STARTUP.mode, &["earliest-offset", LATEST, GROUP, TIMESTAMP, SPECIFIC].map(|name| (name, name)))?;
    Ok(STARTUP.read(mode, options)?.unwrap_or(Bound::Earliest))
}

/// The end of the table; `None` if it is unbounded.
pub(super) fn end(options: &mut Options<'_>) -> Result<Option<Bound>> {
    let mode =
        options.choice(BOUNDED.mode, &["unbounded", LATEST, GROUP, TIMESTAMP, SPECIFIC].map(|name| (name, name)))?;
    BOUNDED.read(mode, options)
}

const LATEST: &str = "latest-offset";
const GROUP: &str = "group-offsets";
const TIMESTAMP: &str = "timestamp";
const SPECIFIC: &str = "specific-offsets";

impl OptionNames {
    /// The bound for a mode. `None` for the mode `earliest-offset` or `unbounded`, and if no mode is given.
    fn read(&self, mode: Option<&str>, options: &mut Options<'_>) -> Result<Option<Bound>> {
        let ms = options.number::<i64>(self.timestamp)?;
        let offsets = options.string(self.offsets).map(|text| self.offsets(text)).transpose()?;
        let unused = |option: &str, value: &str| {
            Err(Error::user(format!("'{option}' is given, but not the mode that uses it"))
                .remedy(format!("add '{}' = '{value}'", self.mode)))
        };
        match mode {
            Some(TIMESTAMP) => {}
            _ if ms.is_some() => return unused(self.timestamp, TIMESTAMP),
            _ => {}
        }
        if mode != Some(SPECIFIC) && offsets.is_some() {
            return unused(self.offsets, SPECIFIC);
        }
        let missing = |what: &str, remedy: String| {
            Err(Error::user(format!("'{}' is '{}' but no {what}", self.mode, mode.unwrap_or_default())).remedy(remedy))
        };
        Ok(match (mode, ms, offsets) {
            (Some(LATEST), ..) => Some(Bound::Latest),
            (Some(GROUP), ..) => Some(Bound::Group),
            (Some(TIMESTAMP), Some(ms), _) if ms >= 0 => Some(Bound::Timestamp { ms }),
            (Some(TIMESTAMP), ..) => {
                return missing(
                    "time is given",
                    format!("add '{}' = '...', in milliseconds since 1970", self.timestamp),
                );
            }
            (Some(SPECIFIC), _, Some(offsets)) => Some(Bound::Specific(offsets)),
            (Some(SPECIFIC), ..) => {
                return missing("offset is given", format!("add '{}' = 'partition:0,offset:42'", self.offsets));
            }
            _ => None,
        })
    }

    /// `partition:0,offset:42;partition:1,offset:300`.
    fn offsets(&self, text: &str) -> Result<BTreeMap<i32, i64>> {
        let one = |part: &str| {
            let (partition, offset) = part.trim().strip_prefix("partition:")?.split_once(",offset:")?;
            let (partition, offset) = (partition.trim().parse::<i32>().ok()?, offset.trim().parse::<i64>().ok()?);
            (partition >= 0 && offset >= 0).then_some((partition, offset))
        };
        let parts = text.split(';').filter(|part| !part.trim().is_empty());
        let offsets: Option<BTreeMap<i32, i64>> = parts.map(one).collect();
        offsets.filter(|offsets| !offsets.is_empty()).ok_or_else(|| {
            Error::user(format!("option '{}' is '{text}', which are no offsets", self.offsets))
                .remedy("write 'partition:0,offset:42;partition:1,offset:300'")
        })
    }
}
