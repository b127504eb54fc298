//! Writes rows to the database, and tries again after what passes.

use anabranch_dataflow::SinkSpec;
use anabranch_model::{Epoch, Error, Result};
use anabranch_operators::{Delivery, Former, TaskContext};

use super::attempts::Attempts;
use super::content::Content;
use super::failure::Failure;
use super::options::JdbcTable;
use super::session::{Bounds, Session};
use super::target::{Layout, Target};
use crate::guarantee::Guarantee;

/// Which epochs are done: one row for each task of a job's writer.
const CREATE_COMMITS: &str = "BEGIN; SELECT pg_advisory_xact_lock(4702111234474983745); \
     CREATE TABLE IF NOT EXISTS anabranch_commits (scope text, sink text, task int, epoch bigint NOT NULL, \
     committed_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (scope, sink, task)); COMMIT";
const HAS_COMMITS: &str = "SELECT to_regclass('anabranch_commits') IS NOT NULL";
const MARK: &str = "INSERT INTO anabranch_commits AS c (scope, sink, task, epoch) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (scope, sink, task) DO UPDATE SET epoch = EXCLUDED.epoch, committed_at = now() WHERE c.epoch < EXCLUDED.epoch";
const LAST: &str = "SELECT max(epoch) FROM anabranch_commits WHERE scope = $1 AND sink = $2";

/// The writer of one task.
pub(super) struct Writer {
    pub(super) attempts: Attempts,
    pub(super) table: JdbcTable,
    pub(super) layout: Layout,
    scope: String,
    former: Former,
    connection: Connection,
}

/// What writes at present.
struct Connection {
    table: JdbcTable,
    /// Of the table.
    name: String,
    open: Option<(Session, Target)>,
}

/// Names what a transaction commits.
struct Mark {
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
        let mut writer = Writer {
            attempts: Attempts::new(&table, context),
            layout: Layout { table: table.table.clone(), columns, key: spec.key.clone() },
            scope,
            former,
            connection: Connection { table: table.clone(), name: spec.table.clone(), open: None },
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

    /// Writes rows.
    pub(super) fn write(&mut self, content: &Content) -> Result<()> {
        self.write_in_time(content, None)
    }

    /// Writes the rows of a committable, unless they have been. Those that were restored are of the scope under which they were prepared.
    pub(super) fn commit(&mut self, content: &Content, (task, epoch): (u32, Epoch), is_restored: bool) -> Result<()> {
        let scope = self.former.scopes.first().filter(|_| is_restored).unwrap_or(&self.scope).clone();
        let mark = Mark { scope, task: i32::try_from(task).unwrap_or(i32::MAX), epoch: as_i64(epoch.0) };
        let written = self.write_in_time(content, Some(&mark));
        written.map_err(|error| error.at(format!("epoch {} of sink task {task}", epoch.0)))
    }

    fn write_in_time(&mut self, content: &Content, mark: Option<&Mark>) -> Result<()> {
        let Writer { attempts, connection, table, .. } = self;
        attempts.repeat(table.delivery_timeout, "does not take the rows", "sink.delivery.timeout", |bounds| {
            connection.attempt(|connection| {
                connection.connect(&content.layout, bounds)?;
                connection.transact(content, mark, bounds)
            })
        })
    }
}

impl Connection {
    /// After a failure it is unknown what has become of a transaction: its connection is of no use.
    fn attempt(&mut self, act: impl FnOnce(&mut Connection) -> Result<(), Failure>) -> Result<(), Failure> {
        let acted = act(self);
        if acted.is_err() {
            self.open = None;
        }
        acted
    }

    /// Connects, unless there is a connection for rows of this layout.
    fn connect(&mut self, layout: &Layout, bounds: &Bounds<'_>) -> Result<(), Failure> {
        if self.open.as_ref().is_some_and(|(_, target)| target.layout() == layout) {
            return Ok(());
        }
        let session = Session::open(&self.table, bounds)?;
        let target = Target::open(&session, layout, bounds)?;
        self.open = Some((session, target));
        Ok(())
    }

    /// Creates the table of commits, and fails if it has epochs that the job does not know.
    fn check_commits(&self, scope: &str, after: i64, bounds: &Bounds<'_>) -> Result<(), Failure> {
        let Some((session, _)) = &self.open else { return Ok(()) };
        let client = &session.client;
        let has_commits =
            session.run(bounds, async { Ok(client.query_one(HAS_COMMITS, &[]).await?.get::<_, bool>(0)) })?;
        if !has_commits {
            session.execute(CREATE_COMMITS, bounds)?;
        }
        let last = session.run(bounds, async { Ok(client.query_one(LAST, &[&scope, &self.name]).await?) })?;
        let last: Option<i64> = last.get(0);
        match last.filter(|last| *last > after) {
            None => Ok(()),
            Some(last) => Err(Error::user(format!(
                "the table '{}' has results up to epoch {last}, but the job resumes after epoch {after}",
                self.table.table
            ))
            .remedy("resume the job from its newest checkpoint; results of later epochs would be written twice")
            .into()),
        }
    }

    /// Writes rows in one transaction.
    fn transact(&self, content: &Content, mark: Option<&Mark>, bounds: &Bounds<'_>) -> Result<(), Failure> {
        let Some((session, target)) = &self.open else { return Ok(()) };
        session.execute("BEGIN", bounds)?;
        if let Some(Mark { scope, task, epoch }) = mark {
            let client = &session.client;
            let marked =
                session.run(bounds, async { Ok(client.execute(MARK, &[scope, &self.name, task, epoch]).await?) })?;
            if marked == 0 {
                return session.execute("ROLLBACK", bounds);
            }
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

fn as_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
