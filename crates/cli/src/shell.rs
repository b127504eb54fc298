//! `anabranch sql`: runs statements as they are typed, and shows results as they arrive. Ctrl-C stops the
//! running query, not the shell.

mod changing;
mod command;
mod complete;
mod connected;
pub(crate) mod history;
pub(crate) mod input;
mod order;
pub(crate) mod query;
mod steps;
mod typing;

use std::io::{IsTerminal, Read, stdin};

use anabranch_model::Error;
use anabranch_server::{Executed, Reply, Session, StatementText, split_statements};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::arguments::{Format, Sql, TableOptions};
use crate::console::Console;
use crate::engine::{engine, read, settings, without_byte_order_mark};
use crate::failure::Failure;
use crate::shell::command::Command;
use crate::shell::connected::Connected;
use crate::shell::query::Shown;
use crate::shell::steps::{Halted, Step, steps, steps_of};
use crate::shell::typing::Typing;
use crate::signals::{INTERRUPTED, Signals};
use crate::table::Layout;

const GREETING: &str = "Anabranch. Statements end in ';'. Type help for help, exit to leave.";
const HELP: &str = "\
CREATE TABLE t (a STRING, b BIGINT) WITH ('connector' = 'filesystem', 'path' = 'data', 'format' = 'json');
SELECT a, COUNT(*) FROM t GROUP BY a;      results as they come; Ctrl-C stops the query
INSERT INTO t SELECT ...;                  runs until its sources end, or Ctrl-C
EXPLAIN SELECT ...;  DESCRIBE t;  SHOW TABLES;  SET 'parallelism' = '2';
SHOW FUNCTIONS;  SHOW CONNECTORS;          Tab completes by place, a second Tab lists
";

const HELP_OF_JOBS: &str = "\
INSERT INTO t SELECT ...;                  a job at the coordinator, with the name that SET 'job-name' gives
SHOW JOBS;  DESCRIBE JOB j;  STOP JOB j;  CANCEL JOB j;
ALTER JOB j AS INSERT INTO ...;            goes on by another text, with the declarations of this session
ALTER JOB j RESCALE 4;  ALTER JOB j BALANCE;  ALTER JOB j SET 'name' = 'value';
ALTER JOB j MIGRATE TASK '1.0' TO w;  DRAIN WORKER w;
SHOW CHANGES FOR JOB j;  ABORT CHANGE OF JOB j;
EXPLAIN ALTER JOB ...;                     only shows what would become of each part
";

/// The reply to a word that is meant as a command, within a statement.
const UNFINISHED: &str = "the statement above is not finished: end it with ';', or drop it with Ctrl-C; \\q leaves";

/// What to do after a step.
#[derive(Debug, PartialEq, Eq)]
enum NextStep {
    Go,
    Leave,
}

struct Shell {
    session: Session,
    signals: Signals,
    output: Console,
    /// How rows are shown.
    shown: Shown,
    /// The coordinator of the jobs that statements are about.
    connected: Option<Connected>,
}

pub(crate) fn run(arguments: &Sql) -> Result<(), Failure> {
    let output = Console::output();
    let session = Session::new(engine(output.clone()), &settings(&arguments.settings, &TableOptions::default()));
    let session = session.map_err(Failure::request)?;
    // Read before signals are caught: until then there is no job to stop.
    let scripts = scripts(arguments)?;
    let (client, signals) = (&arguments.client, Signals::catch(&[SIGINT, SIGTERM])?);
    let connected = || Connected::new(client.clone(), arguments.settings.clone(), arguments.yes);
    let connected = client.is_given().then(connected);
    let shown = Shown {
        layout: Layout::Lines,
        format: arguments.format,
        is_log: false,
        is_conversation: scripts.is_empty(),
        limit: None,
    };
    let mut shell = Shell { session, signals, output, shown, connected };
    if scripts.is_empty() {
        return shell.converse();
    }
    for script in scripts {
        if shell.script(&script)? == NextStep::Leave {
            break;
        }
    }
    Ok(())
}

/// Statements that run without a conversation: those of the command line, of a file, or of standard input if
/// that is no terminal.
fn scripts(arguments: &Sql) -> Result<Vec<String>, Failure> {
    if let Some(file) = &arguments.file {
        return Ok(vec![read(file).map_err(Failure::request)?]);
    }
    if !arguments.statements.is_empty() {
        return Ok(arguments.statements.clone());
    }
    Ok(if stdin().is_terminal() { Vec::new() } else { vec![read_script()?] })
}

fn read_script() -> Result<String, Failure> {
    let mut text = String::new();
    let read = stdin().read_to_string(&mut text);
    let error = |e| Error::outside(format!("cannot read statements from standard input: {e}"));
    read.map_err(|e| Failure::request(error(e)))?;
    Ok(without_byte_order_mark(&text).to_owned())
}

impl Shell {
    /// Statements that a user types, until the user leaves.
    fn converse(&mut self) -> Result<(), Failure> {
        let failed = |e: ReadlineError| Error::outside(format!("cannot read from the terminal: {e}"));
        let config = Config::builder().completion_type(CompletionType::List).build();
        let mut editor: Editor<input::Statements, FileHistory> = Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(input::Statements::default()));
        let history = history::file();
        if let Some(file) = &history {
            // There is no history the first time.
            let _ = editor.load_history(file);
        }
        self.output.line(GREETING)?;
        let mut typing = Typing::default();
        while !self.signals.terminated() {
            self.signals.reset();
            if let Some(helper) = editor.helper_mut() {
                helper.vocabulary = self.session.vocabulary();
                helper.coordinator = self.connected.as_ref().and_then(Connected::asked_at_once);
                helper.before = typing.open().to_owned();
            }
            self.signals.set_idle(true);
            let typed = editor.readline(typing.prompt());
            self.signals.set_idle(false);
            match typed {
                Ok(lines) => {
                    let steps = steps(&mut typing, &lines);
                    for text in steps.iter().filter_map(Step::text) {
                        let _ = editor.add_history_entry(text);
                    }
                    let is_command = matches!(steps.as_slice(), [Step::Command(_)]);
                    match self.perform(steps) {
                        Ok(NextStep::Go) => {}
                        Ok(NextStep::Leave) => break,
                        Err(halted) => {
                            let open = if is_command { String::new() } else { typing.take() };
                            let left = halted.report(&open)?;
                            let _ = left.map(|text| editor.add_history_entry(text));
                        }
                    }
                }
                // The unfinished statement is dropped.
                Err(ReadlineError::Interrupted) => drop(typing.take()),
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(failed(error).into()),
            }
        }
        if let Some(file) = &history
            && let Err(error) = history::save(&mut editor, file)
        {
            Console::error().line(&format!("the history was not saved: {error}"))?;
        }
        Ok(())
    }

    /// All statements of a text, up to the first error. The last one needs no `;`.
    fn script(&mut self, text: &str) -> Result<NextStep, Failure> {
        let mut typing = Typing::of_script();
        let mut all = steps(&mut typing, text);
        all.extend(steps_of(typing.take()));
        self.perform(all).map_err(|halted| {
            let text = "interrupted: the statements that follow did not run\n".to_owned();
            halted.failure.unwrap_or(Failure { text, code: INTERRUPTED })
        })
    }

    /// Executes steps in order, up to the first that fails.
    fn perform(&mut self, steps: Vec<Step>) -> Result<NextStep, Halted> {
        let mut steps = steps.into_iter();
        while let Some(step) = steps.next() {
            if self.signals.stop_asked() {
                let left = std::iter::once(step).chain(steps).collect();
                return Err(Halted { failure: None, left });
            }
            match self.step(step) {
                Ok(NextStep::Go) if !self.output.reader_left() => {}
                Ok(_) => return Ok(NextStep::Leave),
                Err(failure) => return Err(Halted { failure: Some(failure), left: steps.collect() }),
            }
        }
        Ok(NextStep::Go)
    }

    fn step(&mut self, step: Step) -> Result<NextStep, Failure> {
        match step {
            Step::Statement { statement, piece, .. } => self.statement(&statement, &piece)?,
            Step::Command(line) => {
                let Some(command) = command::command(&line) else { return Ok(NextStep::Go) };
                return self.command(command.map_err(Failure::request)?);
            }
            Step::Misplaced(_) => Console::error().line(UNFINISHED)?,
            Step::Wrong { error, piece } => return Err(Failure::planning(&error, &piece)),
        }
        Ok(NextStep::Go)
    }

    fn command(&mut self, command: Command) -> Result<NextStep, Failure> {
        match command {
            Command::Leave => return Ok(NextStep::Leave),
            Command::Help => {
                self.output.line(HELP.trim_end())?;
                if self.connected.is_some() {
                    self.output.line(HELP_OF_JOBS.trim_end())?;
                }
                self.output.line(&command::help())?;
            }
            Command::Turn => {
                self.shown.layout = self.shown.layout.other();
                self.print(match self.shown.layout {
                    Layout::Lines => "rows are lines of a table, cut at the width of the terminal",
                    Layout::Values => "each value has its own line",
                })?;
            }
            Command::Changes => {
                self.shown.is_log = !self.shown.is_log;
                self.print(self.shown.log_text())?;
            }
            Command::Format(format) => {
                self.shown.format = format.unwrap_or(self.shown.format);
                self.print(match self.shown.format {
                    Format::Table => "rows are a table",
                    Format::Csv => "rows are CSV with a line of names",
                    Format::Json => "each row is a JSON object in a line",
                })?;
            }
            Command::Statement(text) => {
                for statement in split_statements(&text).map_err(|e| Failure::planning(&e, &text))? {
                    self.statement(&statement, &text)?;
                }
            }
        }
        Ok(NextStep::Go)
    }

    /// Prints output that is no row: beside rows for programs it goes to standard error.
    fn print(&mut self, text: &str) -> Result<(), Failure> {
        match self.shown.format {
            Format::Table => self.output.line(text)?,
            Format::Csv | Format::Json => Console::error().line(text)?,
        }
        Ok(())
    }

    /// Executes one statement of a text.
    fn statement(&mut self, statement: &StatementText, text: &str) -> Result<(), Failure> {
        let planning = |e: Error| Failure::planning(&e, text);
        if let Some(mode) = order::result_mode(statement) {
            self.shown.is_log = query::is_log(&mode).map_err(planning)?;
            return self.print(self.shown.log_text());
        }
        let requested = order::order(statement).map_err(planning)?;
        let Some(connected) = &mut self.connected else {
            if requested.is_some() {
                return Err(planning(connected::not_connected()));
            }
            let reply = self.session.execute(statement).map_err(planning)?;
            return self.reply(reply);
        };
        if let Some((order, explains)) = requested {
            return connected.carry_out(order, explains);
        }
        let function = order::replaces_function(statement);
        if function == Some(true) {
            return connected.replace_function(statement, true);
        }
        let reply = match self.session.execute_or_plan(statement).map_err(planning)? {
            Executed::Here(reply) => *reply,
            Executed::Job { declaration } => {
                let sent = connected.insert(statement, &self.session);
                let Some(declaration) = declaration else { return sent };
                connected.gather(&declaration);
                return sent.map_err(|failure| {
                    let text = format!("{}  the table is declared: write its rows with INSERT INTO\n", failure.text);
                    Failure { text, ..failure }
                });
            }
        };
        match &reply {
            Reply::Done(_) | Reply::Note(_) => {
                connected.gather(&statement.text);
                if function.is_some() {
                    connected.replace_function(statement, false)?;
                }
            }
            Reply::Query(_) => connected::notify_of_select()?,
            Reply::Report(_) | Reply::Job(_) => {}
        }
        self.reply(reply)
    }

    fn reply(&mut self, reply: Reply) -> Result<(), Failure> {
        match reply {
            Reply::Done(text) | Reply::Report(text) if text.trim().is_empty() => self.print("nothing")?,
            Reply::Done(text) => self.print(text.trim_end())?,
            Reply::Note(text) | Reply::Report(text) => self.output.line(text.trim_end())?,
            Reply::Job(job) => query::insert(job, &self.shown, &self.signals, &mut self.output)?,
            Reply::Query(query) => {
                query::select(query, &self.shown, &self.signals, &mut self.output)?
                    .print(&self.shown, &mut self.output)?;
            }
        }
        Ok(())
    }
}
