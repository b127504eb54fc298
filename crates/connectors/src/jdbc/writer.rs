//! Writes rows to the database, and retries after transient failures.

use anabranch_dataflow::SinkSpec;
use anabranch_model::{Epoch, Result};
use anabranch_operators::{Delivery, Former, TaskContext};

use super::attempts::Attempts;
use super::content::HeldRows;
use super::failure::Failure;
use super::identity::Identity;
use super::options::JdbcTable;
use super::session::{Bounds, Purpose, Session};
use super::target::{Target, TargetTable};
use crate::guarantee::{Guarantee, has_later_results};

const HAS_COMMITS: &str = "SELECT to_regclass($1::text) IS NOT NULL";
/// A commit that the server acknowledges is on its disk, even if its default differs.
///
/// The transaction first writes its own row in the table of commits. Only a former owner of the job can hold
/// a lock on that row. If the lock is held for longer than `lock_timeout`, the attempt fails. The next
/// attempt ends the connections of former owners again.
const BEGIN_COMMIT: &str = "BEGIN; SET LOCAL lock_timeout = '5s'; SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'";
/// The remedy for refused values in rows that are written as they arrive.
const FILTER: &str = "filter such rows out in the query, or change the columns of the database's table";
/// The remedy for refused values in rows that are part of a checkpoint: another query would not change them.
const CHANGE_TABLE: &str = "the row is part of the checkpoint, so change the table in the database (its constraints, or the types of its columns), \
     then start the job again";

/// The writer of one task.
pub(super) struct Writer {
    pub(super) attempts: Attempts,
    pub(super) table: JdbcTable,
    pub(super) layout: TargetTable,
    scope: String,
    former: Former,
    connection: Connection,
}

/// The connection for writing.
struct Connection {
    table: JdbcTable,
    /// The name of the table in the job.
    name: String,
    /// Exactly once: the identity of the writer, by which a later incarnation finds its connections.
    writer: Option<Identity>,
    open: Option<(Session, Target)>,
}

/// Identifies the rows that a transaction commits.
struct CommitMark {
    scope: String,
    task: i32,
    epoch: i64,
}

impl Writer {
    /// Connects, and looks the table up.
    pub(super) fn open(table: JdbcTable, spec: &SinkSpec, context: &TaskContext) -> Result<Writer> {
        let columns = spec.schema.fields().iter().map(|field| field.name().clone()).collect();
        let (scope, former) = match &context.delivery {
            Delivery::ExactlyOnce { scope, former } => (scope.clone(), former.clone()),
            Delivery::AtLeastOnce => (String::new(), Former::default()),
        };
        let is_exact = !scope.is_empty() && table.guarantee != Some(Guarantee::AtLeastOnce);
        let identity = is_exact.then(|| Identity::new(&table, &scope, &former, context));
        let mut writer = Writer {
            attempts: Attempts::new(&table, context),
            layout: TargetTable { table: table.table.clone(), columns, key: spec.key.clone() },
            scope,
            former,
            connection: Connection { table: table.clone(), name: spec.table.clone(), writer: identity, open: None },
            table,
        };
        let after = context.host.resumed_after().map_or(i64::MAX, |epoch| as_i64(epoch.0));
        let Writer { attempts, connection, layout, scope, .. } = &mut writer;
        let connecting = connection.table.connecting;
        attempts.repeat(connecting, "cannot be reached", "connection.max-retry-timeout", |bounds| {
            connection.attempt(|connection| {
                connection.connect(layout, bounds)?;
                if is_exact { connection.check_commits(scope, after, bounds) } else { Ok(()) }
            })
        })?;
        Ok(writer)
    }

    pub(super) fn write(&mut self, content: &HeldRows) -> Result<()> {
        self.write_in_time(content, None)
    }

    /// Writes the rows of a committable, unless they were written before. Restored committables belong to the
    /// scope under which they were prepared.
    pub(super) fn commit(&mut self, content: &HeldRows, (task, epoch): (u32, Epoch), is_restored: bool) -> Result<()> {
        let scope = self.former.scopes.first().filter(|_| is_restored).unwrap_or(&self.scope).clone();
        let mark = CommitMark { scope, task: i32::try_from(task).unwrap_or(i32::MAX), epoch: as_i64(epoch.0) };
        let written = self.write_in_time(content, Some(&mark));
        written.map_err(|error| error.at(format!("epoch {} of sink task {task}", epoch.0)))
    }

    fn write_in_time(&mut self, content: &HeldRows, mark: Option<&CommitMark>) -> Result<()> {
        let Writer { attempts, connection, table, .. } = self;
        let remedy = if mark.is_some() { CHANGE_TABLE } else { FILTER };
        attempts.repeat(table.delivery_timeout, "does not take the rows", "sink.delivery.timeout", |bounds| {
            let written = connection.attempt(|connection| {
                connection.connect(&content.layout, bounds)?;
                connection.transact(content, mark, bounds)
            });
            written.map_err(|failure| failure.of_values(remedy))
        })
    }
}

impl Connection {
    /// After a failure the outcome of a transaction is unknown, and its connection is unusable.
    fn attempt(&mut self, act: impl FnOnce(&mut Connection) -> Result<(), Failure>) -> Result<(), Failure> {
        let acted = act(self);
        if acted.is_err() {
            self.open = None;
        }
        acted
    }

    /// Connects, unless there is a connection for rows of this layout.
    fn connect(&mut self, layout: &TargetTable, bounds: &Bounds<'_>) -> Result<(), Failure> {
        if self.open.as_ref().is_some_and(|(_, target)| target.layout() == layout) {
            return Ok(());
        }
        let name = self.writer.as_ref().map(Identity::session_name);
        let session = Session::open(&self.table, Purpose::Write, name, bounds)?;
        if let Some(writer) = &self.writer {
            writer.end_former(&session, bounds)?;
        }
        let target = Target::open(&session, layout, bounds)?;
        self.open = Some((session, target));
        Ok(())
    }

    /// Creates the table of commits, and fails if it has epochs that the job does not know.
    fn check_commits(&self, scope: &str, after: i64, bounds: &Bounds<'_>) -> Result<(), Failure> {
        let Some((session, target)) = &self.open else { return Ok(()) };
        let (client, commits) = (&session.client, target.commits());
        let has_commits =
            session.run(bounds, async { Ok(client.query_one(HAS_COMMITS, &[&commits]).await?.get::<_, bool>(0)) })?;
        if !has_commits {
            session.execute(&create(&commits), bounds)?;
        }
        let last = format!("SELECT max(epoch) FROM {commits} WHERE scope = $1 AND sink = $2");
        let last = session.run(bounds, async { Ok(client.query_one(&last, &[&scope, &self.name]).await?) })?;
        let last: Option<i64> = last.get(0);
        match last.filter(|last| *last > after) {
            None => Ok(()),
            Some(last) => {
                let written = format!("the table '{}'", self.table.table);
                Err(has_later_results(&written, last.unsigned_abs(), Epoch(after.unsigned_abs())).into())
            }
        }
    }

    /// Writes rows in one transaction.
    fn transact(&self, content: &HeldRows, mark: Option<&CommitMark>, bounds: &Bounds<'_>) -> Result<(), Failure> {
        let Some((session, target)) = &self.open else { return Ok(()) };
        session.execute(if mark.is_some() { BEGIN_COMMIT } else { "BEGIN" }, bounds)?;
        if let Some(CommitMark { scope, task, epoch }) = mark {
            let (client, note) = (&session.client, record_epoch(&target.commits()));
            let marked =
                session.run(bounds, async { Ok(client.execute(&note, &[scope, &self.name, task, epoch]).await?) })?;
            if marked == 0 {
                return session.execute("ROLLBACK", bounds);
            }
            session.execute("SET LOCAL lock_timeout = 0", bounds)?;
        }
        session.copy(&target.copy(), &content.rows, bounds)?;
        if !content.layout.key.is_empty() {
            if content.has_gone {
                session.execute(&target.delete(), bounds)?;
            }
            session.execute(&target.upsert(), bounds)?;
        }
        session.execute("COMMIT", bounds)
    }
}

/// Creates the table of committed epochs: one row for each task of a job's writer.
fn create(commits: &str) -> String {
    format!(
        "BEGIN; SELECT pg_advisory_xact_lock(4702111234474983745); \
         CREATE TABLE IF NOT EXISTS {commits} (scope text, sink text, task int, epoch bigint NOT NULL, \
         committed_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (scope, sink, task)); COMMIT"
    )
}

/// Records that an epoch is done, unless it or a later one is recorded.
fn record_epoch(commits: &str) -> String {
    format!(
        "INSERT INTO {commits} AS c (scope, sink, task, epoch) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (scope, sink, task) DO UPDATE SET epoch = EXCLUDED.epoch, committed_at = now() WHERE c.epoch < EXCLUDED.epoch"
    )
}

fn as_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
