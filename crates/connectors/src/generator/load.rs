//! How many rows a generator makes, at which rate, and with which event times.

use anabranch_dataflow::{ConnectorSpec, TableTraits};
use anabranch_model::{Error, HASH_SEED, Result, hash_bytes};
use arrow::datatypes::SchemaRef;
use chrono::{DateTime, NaiveDate, NaiveDateTime};

use crate::Options;

/// If the rate of a table is unlimited, a second of event time has this many events.
pub(super) const NOMINAL_RATE: u64 = 100_000;
/// 2024-01-01 00:00:00 UTC: the default start of event time if the table must be repeatable.
pub(super) const DEFAULT_START_MS: i64 = 1_704_067_200_000;

/// Precedes the hash of the fields' options in positions.
const FIELDS: &str = " fields ";
/// The default of 'rows-per-second' for tables with options `fields.*`, as in Flink.
pub(super) const ROWS_PER_SECOND: u64 = 10_000;

/// Options that all generators share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Events per second over all partitions; `None`: as fast as they are polled.
    pub(super) rate: Option<u64>,
    /// Total number of events; `None`: unlimited.
    pub(super) events: Option<u64>,
    pub(super) seed: u64,
    pub(super) partitions: u32,
    /// Event time of event 0; `None`: event time is the wall clock.
    pub(super) start_ms: Option<i64>,
    /// Events per second of event time, of a table whose rate is unlimited.
    pub(super) time_rate: u64,
    /// Further options that determine the rows, as they are written in positions.
    pub(super) variant: String,
}

impl Load {
    pub(super) fn read(options: &mut Options<'_>) -> Result<Self> {
        let rate = match options.string("rows-per-second") {
            Some("unlimited") => None,
            _ => Some(options.number("rows-per-second")?.unwrap_or(NOMINAL_RATE)),
        };
        let events = options.number("number-of-rows")?;
        let seed = options.number("seed")?;
        let partitions = options.number("partitions")?.unwrap_or(4);
        let start_ms = options.string("start-time").map(start_time).transpose()?;
        if rate == Some(0) || partitions == 0 {
            let name = if partitions == 0 { "partitions" } else { "rows-per-second" };
            return Err(Error::user(format!("option '{name}' is 0")).remedy("give at least 1"));
        }
        let repeatable = events.is_some() && seed.is_some();
        let start_ms = start_ms.or_else(|| repeatable.then_some(DEFAULT_START_MS));
        let (time_rate, variant) = (NOMINAL_RATE, String::new());
        Ok(Load { rate, events, seed: seed.unwrap_or(1), partitions, start_ms, time_rate, variant })
    }

    /// Reads the load of a table whose rows are determined by the options `fields.*`. Returns these options
    /// too. Any further option is an error.
    pub(super) fn of_fields(spec: &ConnectorSpec) -> Result<(Self, Vec<(&str, &str)>)> {
        let mut options = Options::new(spec);
        let mut load = Load::read(&mut options)?;
        if options.string("rows-per-second").is_none() {
            load.rate = Some(ROWS_PER_SECOND);
        }
        let of_fields = options.prefixed("fields.");
        load.variant = format!("{FIELDS}{:016x}", hash(&of_fields));
        options.finish()?;
        Ok((load, of_fields))
    }

    /// The traits of a table with this load.
    pub(super) fn traits(&self, schema: SchemaRef) -> TableTraits {
        TableTraits {
            bounded: self.events.is_some(),
            readable: true,
            writable: false,
            max_readers: Some(self.partitions),
            schema: Some(schema),
            ..TableTraits::default()
        }
    }

    /// The options that determine the row of a number, as they are written in positions.
    pub(super) fn identity(&self) -> String {
        let rate = self.rate.map_or_else(|| "unlimited".to_owned(), |rate| rate.to_string());
        let start = self.start_ms.map(|start| format!(" start-time {start}")).unwrap_or_default();
        format!("seed {} rows-per-second {rate}{start}{}", self.seed, self.variant)
    }

    /// Fails if the options in a position, `stored`, determine other rows than the present options.
    pub(super) fn check_identity(&self, stored: &str) -> Result<()> {
        let now = self.identity();
        let (now_load, now_fields) = now.split_once(FIELDS).unwrap_or((&now, ""));
        let (stored_load, stored_fields) = stored.split_once(FIELDS).unwrap_or((stored, ""));
        let remedy =
            "declare the table as it was when the checkpoint was made, or start the job without the checkpoint";
        if stored_load != now_load {
            let what = format!("the checkpoint is of a table with {stored_load}, the table now has {now_load}");
            return Err(Error::user(what).remedy(remedy));
        }
        if stored_fields != now_fields {
            let what =
                "the checkpoint is of a table with other options 'fields.*', by which the columns had other values";
            return Err(Error::user(what).remedy(remedy));
        }
        Ok(())
    }

    /// Whether the rows' times count from the time at which the table was first read.
    pub(super) fn follows_clock(&self) -> bool {
        self.start_ms.is_none() && self.rate.is_some()
    }

    /// Event times of a partition that began when the wall clock showed `opened_ms`.
    pub(super) fn timeline(&self, opened_ms: i64, now_ms: i64) -> Timeline {
        match (self.start_ms, self.rate) {
            (Some(start_ms), rate) => Timeline::Scheduled { start_ms, rate: rate.unwrap_or(self.time_rate) },
            (None, Some(rate)) => Timeline::Scheduled { start_ms: opened_ms, rate },
            (None, None) => Timeline::At(now_ms),
        }
    }
}

/// A hash of the options that determine the values of rows. The end of a sequence only determines the end of
/// the table.
fn hash(of_fields: &[(&str, &str)]) -> u64 {
    let mut relevant: Vec<_> = of_fields.iter().filter(|(name, _)| !name.ends_with(".end")).collect();
    relevant.sort_unstable();
    relevant
        .iter()
        .fold(HASH_SEED, |hash, (name, value)| hash_bytes(hash_bytes(hash, name.as_bytes()), value.trim().as_bytes()))
}

/// Event times of events.
#[derive(Clone, Copy, Debug)]
pub(super) enum Timeline {
    /// Evenly spread.
    Scheduled { start_ms: i64, rate: u64 },
    /// All at once.
    At(i64),
}

impl Timeline {
    /// Event time of the event with this number, in milliseconds.
    #[inline]
    pub(super) fn time_ms(self, event: u64) -> i64 {
        match self {
            Timeline::Scheduled { start_ms, rate } => {
                start_ms.saturating_add((event.saturating_mul(1000) / rate) as i64)
            }
            Timeline::At(ms) => ms,
        }
    }
}

fn start_time(text: &str) -> Result<i64> {
    let naive = |format| NaiveDateTime::parse_from_str(text, format).ok().map(|t| t.and_utc().timestamp_millis());
    let date = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
    let ms = text.parse().ok();
    let ms = ms.or_else(|| DateTime::parse_from_rfc3339(text).ok().map(|t| t.timestamp_millis()));
    let ms = ms.or_else(|| naive("%Y-%m-%d %H:%M:%S%.f")).or_else(|| naive("%Y-%m-%dT%H:%M:%S%.f"));
    ms.or_else(|| date().map(|t| t.and_utc().timestamp_millis())).ok_or_else(|| {
        Error::user(format!("option 'start-time' is '{text}', which cannot be read"))
            .remedy("give milliseconds since 1970 or a UTC time such as '2024-01-01 00:00:00'")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_times() {
        for text in ["1704164645000", "2024-01-02 03:04:05", "2024-01-02T03:04:05Z", "2024-01-02T04:04:05+01:00"] {
            assert_eq!(start_time(text).unwrap(), 1_704_164_645_000, "{text}");
        }
        assert_eq!(start_time("2024-01-01").unwrap(), DEFAULT_START_MS);
        assert!(start_time("yesterday").unwrap_err().to_string().contains("'start-time' is 'yesterday'"));
    }
}
