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

/// What `WITH (...)` says.
#[derive(Clone)]
pub(super) struct JdbcTable {
    pub(super) url: Url,
    /// As SQL writes it, with or without a schema.
    pub(super) table: String,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    /// At least once: rows of one statement, and how long they wait for it.
    pub(super) flush_rows: usize,
    pub(super) flush_interval: Duration,
    /// How long to try to connect at the start.
    pub(super) connecting: Duration,
    /// How long to try to write rows.
    pub(super) delivery_timeout: Duration,
    pub(super) guarantee: Option<Guarantee>,
    pub(super) buffer_bytes: u64,
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
        };
        // How long it is tried says `sink.delivery.timeout`.
        options.ignore(&["sink.max-retries"]);
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
