//! The shell of a coordinator: statements that declare something are gathered in the session, and others go
//! to the jobs. It sends the same requests as the commands of the program.

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

/// A coordinator, and the statements for the jobs that it gets.
pub(super) struct Connected {
    client: Client,
    /// Options of the command line.
    settings: Settings,
    /// Whether functions of running jobs are replaced without a question.
    yes: bool,
    /// Statements that declare something or set an option, in their order.
    gathered: String,
}

impl Connected {
    pub(super) fn new(client: Client, settings: Settings, yes: bool) -> Connected {
        Connected { client, settings, yes, gathered: String::new() }
    }

    /// A client for completion, which waits for the coordinator only a moment.
    pub(super) fn asked_at_once(&self) -> Option<http::Client> {
        client::client(&self.client).ok().map(|client| http::Client { wait: Duration::from_secs(1), ..client })
    }

    /// A statement has changed the session.
    pub(super) fn gather(&mut self, statement: &str) {
        self.gathered.push_str(statement);
        self.gathered.push_str(";\n");
    }

    /// The text of a job with these statements.
    fn text(&self, statements: &str) -> String {
        format!("{}{statements};\n", self.gathered)
    }

    /// Submits an INSERT as a job.
    pub(super) fn insert(&self, statement: &StatementText, session: &Session) -> Result<(), Failure> {
        let (name, sql) = (session.job_name(), self.text(&statement.text));
        submit::send(&self.client, name, &sql, &self.settings, Vec::new()).map_err(|failure| {
            let text = format!(
                "{}  the job's name is {name}; SET 'job-name' = '...' gives the next one another\n",
                failure.text
            );
            Failure { text, ..failure }
        })
    }

    /// Replaces a function that running jobs may use. The session has it already, unless it is only to be
    /// shown.
    pub(super) fn replace_function(&self, statement: &StatementText, explains: bool) -> Result<(), Failure> {
        let text = statement.text.trim_start();
        let text = if explains { text["EXPLAIN".len()..].trim_start() } else { text };
        let asks = functions::Asks { yes: self.yes, dry_run: explains, is_quiet: !explains };
        functions::replace_text(&self.client, format!("{text};\n"), false, &asks)
    }

    /// Executes an order for jobs. With `dry_run`, only shows its outcome.
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

/// A statement about jobs, in a shell that knows none.
pub(super) fn not_connected() -> Error {
    Error::user("the shell is not connected to a coordinator, so there are no jobs")
        .remedy("start it with anabranch sql --coordinator URL")
}

/// Tells the user that a SELECT runs here.
pub(super) fn notify_of_select() -> Result<(), Failure> {
    if stdin().is_terminal() {
        Console::error().line("this SELECT runs in the shell's process, and not at the coordinator's workers")?;
    }
    Ok(())
}
