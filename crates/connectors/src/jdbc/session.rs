//! A connection to the database, used by one thread.
//!
//! It makes progress only during calls. A call gives up when the job's tasks are cancelled, or when its time
//! limit is over. Its connection is unusable then.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos};
use anabranch_operators::Host;
use bytes::Bytes;
use futures::SinkExt;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Config, NoTls};

use super::failure::Failure;
use super::options::JdbcTable;
use super::tls::Tls;
use super::url::Encryption;

/// How often a call checks whether it must give up.
const LOOK: Duration = Duration::from_millis(100);
/// Time limit for one host to answer.
const CONNECTING: Duration = Duration::from_secs(10);
/// Silence after which the kernel probes the server. The kernel gives up after twice this time.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Rows are sent in pieces of this size.
const PIECE: usize = 256 << 10;
/// Times without a zone are UTC, and so are the times that are written.
///
/// A lost connection does not keep its locks for long. The server ends a transaction that has waited two
/// minutes for its next statement. It ends one that waits for rows of a `COPY` when the kernel finds, after
/// half a minute, that the peer is gone. It ends one during a statement where it can check the connection
/// meanwhile (PostgreSQL 14 on Linux).
const SETTINGS: &str = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'; \
     SET client_min_messages = 'warning'; SET idle_in_transaction_session_timeout = '120s'; SET standard_conforming_strings = on; \
     SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; \
     SELECT set_config(name, '10s', false) FROM pg_settings WHERE name = 'client_connection_check_interval' AND version() LIKE '%linux%'";

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    /// Of several hosts, standbys are skipped.
    Write,
}

/// Limits of a call.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'a> {
    pub(super) deadline: Nanos,
    pub(super) clock: &'a dyn Clock,
    pub(super) host: &'a dyn Host,
    /// Called repeatedly while the database does not answer, with the time since which it has not.
    pub(super) waits: &'a dyn Fn(Nanos),
}

/// For calls that do not report delays.
pub(super) fn in_silence(_since: Nanos) {}

impl Bounds<'_> {
    /// Whether the time limit is over.
    pub(super) fn are_over(&self) -> bool {
        self.clock.now() >= self.deadline || self.host.is_cancelled()
    }
}

/// A connection.
pub(super) struct Session {
    runtime: Driver,
    pub(super) client: Client,
}

/// Drives a connection. Dropping it does not wait for a name that is being looked up.
struct Driver(Option<Runtime>);

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Session {
    /// Connects. The connection has this name at the server. Without a name it has the one in the option
    /// `url`.
    pub(super) fn open(
        table: &JdbcTable,
        purpose: Purpose,
        name: Option<&str>,
        bounds: &Bounds<'_>,
    ) -> Result<Session, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::internal(format!("no runtime for a connection: {error}")))?;
        let runtime = Driver(Some(runtime));
        let config = config(table, purpose, name);
        let client = bounded(&runtime, bounds, async {
            match Tls::new(&table.url)? {
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    drop(tokio::spawn(connection));
                    Ok(client)
                }
                Some(tls) => {
                    let (client, connection) = config.connect(tls).await?;
                    drop(tokio::spawn(connection));
                    Ok(client)
                }
            }
        })?;
        let session = Session { runtime, client };
        session.execute(SETTINGS, bounds)?;
        if let Some(schema) = &table.url.schema {
            let set = "SELECT set_config('search_path', $1, false)";
            session.run(bounds, async { Ok(session.client.query(set, &[schema]).await.map(drop)?) })?;
        }
        Ok(session)
    }

    /// Waits for an answer.
    pub(super) fn run<T>(
        &self,
        bounds: &Bounds<'_>,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        bounded(&self.runtime, bounds, call)
    }

    /// Executes statements.
    pub(super) fn execute(&self, sql: &str, bounds: &Bounds<'_>) -> Result<(), Failure> {
        self.run(bounds, async { Ok(self.client.batch_execute(sql).await?) })
    }

    /// Sends rows to a statement of `COPY ... FROM STDIN`.
    pub(super) fn copy(&self, statement: &str, rows: &Bytes, bounds: &Bounds<'_>) -> Result<(), Failure> {
        // Each piece counts as an answer.
        let mut sink = Box::pin(self.run(bounds, async { Ok(self.client.copy_in::<_, Bytes>(statement).await?) })?);
        for start in (0..rows.len()).step_by(PIECE) {
            let piece = rows.slice(start..rows.len().min(start + PIECE));
            self.run(bounds, async { Ok(sink.send(piece).await?) })?;
        }
        self.run(bounds, async { Ok(sink.as_mut().finish().await.map(drop)?) })
    }
}

fn bounded<T>(
    Driver(runtime): &Driver,
    bounds: &Bounds<'_>,
    call: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime = runtime.as_ref().ok_or_else(|| Error::internal("a connection without a runtime"))?;
    let since = bounds.clock.now();
    runtime.block_on(async {
        let mut call = pin!(call);
        loop {
            match tokio::time::timeout(LOOK, call.as_mut()).await {
                Ok(outcome) => return outcome,
                Err(_) if bounds.are_over() => return Err(Failure::Passing("it does not answer".to_owned())),
                Err(_) => (bounds.waits)(since),
            }
        }
    })
}

fn config(table: &JdbcTable, purpose: Purpose, name: Option<&str>) -> Config {
    let mut config = Config::new();
    for (host, port) in &table.url.hosts {
        config.host(host).port(*port);
    }
    if let Some(name) = &table.url.database {
        config.dbname(name);
    }
    if let Some(name) = &table.username {
        config.user(name);
    }
    if let Some(password) = &table.password {
        config.password(password);
    }
    config.application_name(name.or(table.url.application.as_deref()).unwrap_or("anabranch"));
    config.connect_timeout(CONNECTING).keepalives_idle(KEEPALIVE).tcp_user_timeout(KEEPALIVE * 2);
    if purpose == Purpose::Write {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    config.ssl_mode(match table.url.encryption {
        Encryption::Disable => SslMode::Disable,
        Encryption::Prefer => SslMode::Prefer,
        Encryption::Require | Encryption::Verify => SslMode::Require,
    });
    config
}
