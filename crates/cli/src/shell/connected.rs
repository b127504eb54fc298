//! The part of the shell that sends requests to a coordinator. Declarations and `SET` are collected, and sent
//! with each INSERT and each `ALTER JOB ... AS`. An INSERT becomes a job of the coordinator. A SELECT runs in
//! the shell's process. Statements about jobs send the same requests as the other commands of the program.

use std::io::{IsTerminal as _, stdin};
use std::time::Duration;

use anabranch_model::Error;
use anabranch_server::http::ReconfigureOrder;
use anabranch_server::{Session, StatementText, http};

use super::order::Order;
use crate::arguments::{Balance, Changes, Client, Drain, End, Job, Jobs, Migrate, Rescale, Settings};
use crate::console::Console;
use crate::failure::Failure;
use crate::reconfigure::{Target, client_of};
use crate::{balance, client, ending, functions, jobs, reconfigure, show, submit};

/// A coordinator, and what is sent to it with each job.
pub(super) struct Connected {
    client: Client,
    /// The settings of the command line.
    settings: Settings,
    /// Whether functions of running jobs are replaced without a question.
    yes: bool,
    /// The declarations and `SET` statements of the session, in their order.
    gathered: String,
}

impl Connected {
    pub(super) fn new(client: Client, settings: Settings, yes: bool) -> Connected {
        Connected { client, settings, yes, gathered: String::new() }
    }

    /// A client for completion. It waits for an answer of the coordinator for at most a second.
    pub(super) fn asked_at_once(&self) -> Option<http::Client> {
        client::client(&self.client).ok().map(|client| http::Client { wait: Duration::from_secs(1), ..client })
    }

    /// Adds a statement that has changed the session to those that are sent with each job.
    pub(super) fn gather(&mut self, statement: &str) {
        self.gathered.push_str(statement);
        self.gathered.push_str(";\n");
    }

    /// The text of a job: the collected statements, and then these.
    fn text(&self, statements: &str) -> String {
        format!("{}{statements};\n", self.gathered)
    }

    /// Submits a statement that writes rows, such as INSERT, as a job.
    pub(super) fn insert(&self, statement: &StatementText, session: &Session) -> Result<(), Failure> {
        let (name, sql) = (session.job_name(), self.text(&statement.text));
        submit::send(&self.client, name, &sql, &self.settings, Vec::new()).map_err(|failure| {
            let text = format!(
                "{}  the job's name is {name}; SET 'job-name' = '...' changes the name of the next job\n",
                failure.text
            );
            Failure { text, ..failure }
        })
    }

    /// Replaces a function in the running jobs that use it. With `dry_run`, only shows the outcome: the
    /// statement begins with EXPLAIN.
    pub(super) fn replace_function(&self, statement: &StatementText, dry_run: bool) -> Result<(), Failure> {
        let text = statement.text.trim_start();
        let text = if dry_run { text["EXPLAIN".len()..].trim_start() } else { text };
        let asks = functions::Asks { yes: self.yes, dry_run, is_quiet: !dry_run };
        functions::replace_text(&self.client, format!("{text};\n"), false, &asks)
    }

    /// Executes a statement about jobs. With `dry_run`, only shows the outcome.
    pub(super) fn carry_out(&self, order: Order, dry_run: bool) -> Result<(), Failure> {
        let client = || self.client.clone();
        let target = |job| Job { job, client: client() };
        let alter = |name: &str, order: ReconfigureOrder| {
            Target { name, client: client_of(&self.client)? }.alter(&order, dry_run)
        };
        match order {
            Order::Jobs if !dry_run => jobs::jobs(&Jobs { client: client() }),
            Order::Describe(job) if !dry_run => show::show(&target(job)),
            Order::Stop(job) if !dry_run => {
                ending::end(&End { no_wait: false, target: target(job) }, ending::Request::Stop)
            }
            Order::Cancel(job) if !dry_run => {
                ending::end(&End { no_wait: false, target: target(job) }, ending::Request::Cancel)
            }
            Order::Changes(job) if !dry_run => reconfigure::changes(&Changes { abort: false, target: target(job) }),
            Order::Abort(job) if !dry_run => reconfigure::changes(&Changes { abort: true, target: target(job) }),
            Order::Drain(worker) => match dry_run {
                true => reconfigure::rehearse_drain(&worker, &self.client),
                false => reconfigure::drain(&Drain { worker, undo: false, client: client() }),
            },
            Order::Rescale { job, tasks, stage } => {
                reconfigure::rescale(&Rescale { job, tasks, stage, dry_run, client: client() })
            }
            Order::Balance { job, stage, seconds } => {
                let over = Duration::from_secs(u64::from(seconds));
                balance::balance(&Balance { stage, over, dry_run, target: target(job) })
            }
            Order::Migrate { job, tasks, to } => {
                reconfigure::migrate(&Migrate { tasks, to, dry_run, target: target(job) })
            }
            Order::Set { job, settings } => {
                let settings = settings.into_iter().map(|(name, value)| (name, Some(value))).collect();
                alter(&job, ReconfigureOrder { settings, ..ReconfigureOrder::default() })
            }
            Order::Alter { job, script } => {
                alter(&job, ReconfigureOrder { sql: Some(self.text(&script)), ..ReconfigureOrder::default() })
            }
            Order::Refused(why, remedy) => Err(Failure::request(Error::user(why).remedy(remedy))),
            _ => {
                let error = Error::user("EXPLAIN shows what a statement would change: this one has nothing to show");
                Err(Failure::request(error.remedy("omit EXPLAIN")))
            }
        }
    }
}

/// The error for a statement about jobs in a shell without a coordinator.
pub(super) fn not_connected() -> Error {
    Error::user("the shell is not connected to a coordinator, so there are no jobs")
        .remedy("start it with anabranch sql --coordinator URL")
}

/// Tells the user of a terminal that a SELECT runs in the shell's process.
pub(super) fn notify_of_select() -> Result<(), Failure> {
    if stdin().is_terminal() {
        Console::error().line("this SELECT runs in the shell's process, and not on the coordinator's workers")?;
    }
    Ok(())
}
