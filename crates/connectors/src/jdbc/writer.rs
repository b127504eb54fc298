//! Writes rows to the database, and tries again after what passes.

use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::SinkSpec;
use anabranch_model::{Clock, Epoch, Error, Nanos, Result};
use anabranch_operators::{Delivery, Former, Host, TaskContext};

use super::content::Content;
use super::failure::Failure;
use super::options::JdbcTable;
use super::session::{Bounds, Session};
use super::target::{Layout, Target};
use crate::guarantee::Guarantee;

const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);
/// How long attempts fail before the user is notified.
const NOTICE_AFTER: Duration = Duration::from_secs(3);

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
    pub(super) table: JdbcTable,
    /// Of the table.
    name: String,
    pub(super) layout: Layout,
    scope: String,
    former: Former,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) host: Arc<dyn Host>,
    open: Option<(Session, Target)>,
    outage: Option<Nanos>,
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
        let mut writer = Writer {
            layout: Layout { table: table.table.clone(), columns, key: spec.key.clone() },
            name: spec.table.clone(),
            scope,
            former,
            clock: Arc::clone(&context.clock),
            host: Arc::clone(&context.host),
            open: None,
            outage: None,
            table,
        };
        let connecting = writer.table.connecting;
        let is_exact = !writer.scope.is_empty() && writer.table.guarantee != Some(Guarantee::AtLeastOnce);
        let what = "cannot be reached";
        writer.repeat(connecting, what, "connection.max-retry-timeout", |writer, bounds| {
            writer.connect(&writer.layout.clone(), bounds)?;
            if is_exact { writer.check_commits(bounds) } else { Ok(()) }
        })?;
        Ok(writer)
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
    fn check_commits(&self, bounds: &Bounds<'_>) -> Result<(), Failure> {
        let Some((session, _)) = &self.open else { return Ok(()) };
        let client = &session.client;
        let has_commits =
            session.run(bounds, async { Ok(client.query_one(HAS_COMMITS, &[]).await?.get::<_, bool>(0)) })?;
        if !has_commits {
            session.execute(CREATE_COMMITS, bounds)?;
        }
        let last = session.run(bounds, async { Ok(client.query_one(LAST, &[&self.scope, &self.name]).await?) })?;
        let last: Option<i64> = last.get(0);
        let after = self.host.resumed_after().map_or(i64::MAX, |epoch| as_i64(epoch.0));
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
        let timeout = self.table.delivery_timeout;
        self.repeat(timeout, "does not take the rows", "sink.delivery.timeout", |writer, bounds| {
            writer.connect(&content.layout, bounds)?;
            writer.transact(content, mark, bounds)
        })
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

    /// Tries until something succeeds, fails for good, or its time is over.
    fn repeat(
        &mut self,
        timeout: Duration,
        what: &str,
        option: &str,
        attempt: impl Fn(&mut Writer, &Bounds<'_>) -> Result<(), Failure>,
    ) -> Result<()> {
        let (clock, host) = (Arc::clone(&self.clock), Arc::clone(&self.host));
        let begun = clock.now();
        let bounds = Bounds { deadline: begun.plus(timeout), clock: clock.as_ref(), host: host.as_ref() };
        let place = format!("the database at {}", self.table.url);
        let mut pause = PAUSE;
        loop {
            let reason = match attempt(self, &bounds) {
                Ok(()) => {
                    self.outage_ends();
                    return Ok(());
                }
                Err(failure) => {
                    // What has become of the transaction is unknown: its connection is of no use.
                    self.open = None;
                    match failure {
                        Failure::Final(error) => return Err(error.at(place)),
                        Failure::Passing(reason) => reason,
                    }
                }
            };
            if host.is_cancelled() {
                return Err(Error::outside(format!("{what}: the job's tasks are being ended")).at(place));
            }
            if bounds.are_over() {
                let seconds = timeout.as_secs_f32();
                return Err(Error::outside(format!("{what} within {seconds} s: {reason}"))
                    .at(place)
                    .remedy(format!("see whether the database runs; '{option}' says how long to try")));
            }
            if clock.now() >= begun.plus(NOTICE_AFTER) {
                self.outage_begins(
                    begun,
                    &format!("{place} {what} ({reason}); the job tries again for up to {timeout:?}"),
                );
            }
            let until = clock.now().plus(pause).min(bounds.deadline);
            while clock.now() < until && !host.is_cancelled() {
                std::thread::park_timeout(LOOK.min(until.after(clock.now())));
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn outage_begins(&mut self, since: Nanos, text: &str) {
        if self.outage.is_none() {
            self.outage = Some(since);
            if self.host.outage_begins(&self.system(), since) {
                self.host.notify(text.to_owned());
            }
        }
    }

    fn outage_ends(&mut self) {
        if let Some(since) = self.outage.take()
            && let Some(since) = self.host.outage_ends(&self.system(), since)
        {
            let seconds = self.clock.now().since(since) / 1_000_000_000;
            self.host.notify(format!("the database at {} takes rows again, after {seconds} s", self.table.url));
        }
    }

    fn system(&self) -> String {
        format!("table {} at {}", self.table.table, self.table.url)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(since) = self.outage {
            self.host.outage_ends(&self.system(), since);
        }
    }
}

fn as_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
