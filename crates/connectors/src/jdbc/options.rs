//! The options of a table.

use std::time::Duration;

use anabranch_dataflow::ConnectorSpec;
use anabranch_model::{Error, Result};

use super::url::Url;
use crate::Options;
use crate::guarantee::Guarantee;

const FLUSH_ROWS: usize = 5000;
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
const CONNECTING: Duration = Duration::from_secs(60);
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(120);
const BUFFER_BYTES: u64 = 256 << 20;
const PARTITIONS_MAX: u32 = 10_000;

/// The options in `WITH (...)`.
#[derive(Clone)]
pub(super) struct JdbcTable {
    pub(super) url: Url,
    /// The table's name in the syntax of SQL, with or without a schema.
    pub(super) table: String,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    /// At least once: limit of the rows of one statement, and of their waiting time.
    pub(super) flush_rows: usize,
    pub(super) flush_interval: Duration,
    /// Time limit for connecting at the start.
    pub(super) connecting: Duration,
    /// Time limit for writing rows.
    pub(super) delivery_timeout: Duration,
    pub(super) guarantee: Option<Guarantee>,
    pub(super) buffer_bytes: u64,
    /// The ranges that are read in parallel.
    pub(super) ranges: Option<Ranges>,
}

/// The ranges of a table that are read by one statement each: `scan.partition.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ranges {
    pub(super) column: String,
    /// Inclusive bounds.
    pub(super) bounds: Vec<(i64, i64)>,
}

impl Ranges {
    fn read(options: &mut Options<'_>) -> Result<Option<Ranges>> {
        let column = options.string("scan.partition.column").map(str::to_owned);
        let count: Option<u32> = options.number("scan.partition.num")?;
        let least: Option<i64> = options.number("scan.partition.lower-bound")?;
        let most: Option<i64> = options.number("scan.partition.upper-bound")?;
        match (column, count, least, most) {
            (None, None, None, None) => Ok(None),
            (Some(column), Some(count), Some(least), Some(most)) => {
                if least > most {
                    return Err(Error::user(format!("'scan.partition.lower-bound' is {least}, above the upper one, {most}"))
                        .remedy("exchange them"));
                }
                if !(1..=PARTITIONS_MAX).contains(&count) {
                    return Err(Error::user(format!("option 'scan.partition.num' is {count}"))
                        .remedy(format!("give a number from 1 to {PARTITIONS_MAX}")));
                }
                Ok(Some(Ranges { column, bounds: divided(least, most, count) }))
            }
            _ => Err(Error::user("the table has some of the options 'scan.partition.*', but not all")
                .remedy("give 'scan.partition.column', 'scan.partition.num', 'scan.partition.lower-bound' and 'scan.partition.upper-bound', or none")),
        }
    }
}

/// Ranges of equal size, except for the remainder: the first ones have one value more.
fn divided(least: i64, most: i64, count: u32) -> Vec<(i64, i64)> {
    let values = i128::from(most) - i128::from(least) + 1;
    let count = i128::from(count).min(values);
    let (size, larger) = (values / count, values % count);
    let begin = |index: i128| i128::from(least) + index * size + index.min(larger);
    // All are within the bounds.
    (0..count).map(|index| (begin(index) as i64, (begin(index + 1) - 1) as i64)).collect()
}

impl JdbcTable {
    /// Reads all options.
    pub(super) fn read(spec: &ConnectorSpec) -> Result<JdbcTable> {
        let mut options = Options::new(spec);
        let url = Url::parse(options.required("url")?)?;
        let driver = options.string("driver");
        let table = JdbcTable {
            url,
            table: options.required("table-name")?.to_owned(),
            username: options.string("username").map(str::to_owned),
            password: options.string("password").map(str::to_owned),
            flush_rows: options.number("sink.buffer-flush.max-rows")?.unwrap_or(FLUSH_ROWS),
            flush_interval: options.duration("sink.buffer-flush.interval")?.unwrap_or(FLUSH_INTERVAL),
            connecting: options.duration("connection.max-retry-timeout")?.unwrap_or(CONNECTING),
            delivery_timeout: options.duration("sink.delivery.timeout")?.unwrap_or(DELIVERY_TIMEOUT),
            guarantee: Guarantee::read(&mut options)?,
            buffer_bytes: options.bytes("sink.buffer-bytes")?.unwrap_or(BUFFER_BYTES),
            ranges: Ranges::read(&mut options)?,
        };
        // `sink.delivery.timeout` limits the retries.
        options.ignore(&["sink.max-retries", "scan.fetch-size", "scan.auto-commit"]);
        options.finish()?;
        if let Some(driver) = driver.filter(|driver| *driver != "org.postgresql.Driver") {
            return Err(Error::user(format!("option 'driver' is '{driver}'"))
                .remedy("omit the option: the client of PostgreSQL is built in, and there is no other"));
        }
        if table.password.is_some() && table.username.is_none() {
            return Err(Error::user("the table has a 'password', but no 'username'").remedy("add 'username' = '...'"));
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_every_value_once() {
        assert_eq!(divided(0, 9, 3), [(0, 3), (4, 6), (7, 9)]);
        assert_eq!(divided(-5, 5, 1), [(-5, 5)]);
        assert_eq!(divided(1, 3, 10), [(1, 1), (2, 2), (3, 3)]);
        let all = divided(i64::MIN, i64::MAX, 7);
        assert_eq!((all[0].0, all[6].1), (i64::MIN, i64::MAX));
        assert!(all.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
    }
}
