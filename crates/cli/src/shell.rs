//! `anabranch sql`: runs statements as they are typed, and shows results as they arrive. Ctrl-C stops the running query,
//! not the shell.

mod complete;
mod connected;
pub(crate) mod history;
pub(crate) mod input;
mod order;
pub(crate) mod query;
pub(crate) mod table;

use std::io::{IsTerminal, Read, stdin};

use anabranch_model::Error;
use anabranch_server::{Executed, Reply, Session, StatementText, split_statements};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::arguments::{Format, Sql, TableOptions};
use crate::console::Console;
use crate::engine::{engine, settings, without_byte_order_mark};
use crate::failure::Failure;
use crate::shell::connected::Connected;
use crate::shell::query::Shown;
use crate::shell::table::Layout;
use crate::signals::{INTERRUPTED, Signals};
use anabranch_server::render;

const GREETING: &str = "Anabranch. Statements end in ';'. Type help for help, exit to leave.";
const HELP: &str = "\
CREATE TABLE t (a STRING, b BIGINT) WITH ('connector' = 'filesystem', 'path' = 'data', 'format' = 'json');
SELECT a, COUNT(*) FROM t GROUP BY a;      results as they come; Ctrl-C stops the query
INSERT INTO t SELECT ...;                  runs until its sources end, or Ctrl-C
EXPLAIN SELECT ...;  DESCRIBE t;  SHOW TABLES;  SET 'parallelism' = '2';
SHOW FUNCTIONS;                            Tab completes keywords, tables, columns and functions
\\x                                         one line per value for wide rows, or back
exit, \\q or Ctrl-D                         leaves
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

/// What to do after a statement.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Go,
    Leave,
    /// A signal came, and the remaining statements were not started.
    Stopped,
}

struct Shell {
    session: Session,
    signals: Signals,
    output: Console,
    /// How rows are shown.
    layout: Layout,
    /// The coordinator whose jobs statements are about.
    connected: Option<Connected>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Sql) -> Result<(), Failure> {
    let output = Console::output();
    let session = Session::new(engine(output.clone()), &settings(&arguments.settings, &TableOptions::default()));
    let session = session.map_err(|e| Failure::planning(&e, ""))?;
    // Read before signals are caught: until then there is no job to stop.
    let script = if stdin().is_terminal() { None } else { Some(read_script()?) };
    let (client, signals) = (&arguments.client, Signals::catch(&[SIGINT, SIGTERM])?);
    let connected = || Connected::new(client.clone(), arguments.settings.clone(), arguments.yes);
    let connected = client.is_given().then(connected);
    let mut shell = Shell { session, signals, output, layout: Layout::Lines, connected };
    match script {
        Some(text) => shell.script(&text),
        None => shell.converse(),
    }
}

fn read_script() -> Result<String, Failure> {
    let mut text = String::new();
    let read = stdin().read_to_string(&mut text);
    let error = |e| Error::outside(format!("cannot read statements from standard input: {e}"));
    read.map_err(|e| Failure::planning(&error(e), ""))?;
    Ok(without_byte_order_mark(&text).to_owned())
}

impl Shell {
    /// Statements that a user types, until the user leaves.
    fn converse(&mut self) -> Result<(), Failure> {
        let failed = |e: ReadlineError| Error::outside(format!("cannot read from the terminal: {e}"));
        let config = Config::builder().auto_add_history(true).build();
        let mut editor: Editor<input::Statements, FileHistory> = Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(input::Statements::default()));
        let history = history::file();
        if let Some(file) = &history {
            // There is no history the first time.
            let _ = editor.load_history(file);
        }
        self.output.line(GREETING)?;
        while !self.signals.terminated() {
            self.signals.reset();
            if let Some(helper) = editor.helper_mut() {
                helper.vocabulary = self.session.vocabulary();
            }
            self.signals.set_idle(true);
            let typed = editor.readline("sql> ");
            self.signals.set_idle(false);
            match typed {
                Ok(text) => match self.perform(&text) {
                    Ok(Next::Go) => {}
                    Ok(Next::Leave) => break,
                    Ok(Next::Stopped) => Console::error().line("the statements that follow did not run")?,
                    Err(failure) => Console::error().line(failure.text.trim_end())?,
                },
                Err(ReadlineError::Interrupted) => {}
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
    fn script(&mut self, text: &str) -> Result<(), Failure> {
        for piece in pieces(text) {
            let next = if self.signals.stop_asked() { Next::Stopped } else { self.perform(&piece)? };
            match next {
                Next::Go => {}
                Next::Leave => break,
                Next::Stopped => {
                    let text = "interrupted: the statements that follow did not run\n".to_owned();
                    return Err(Failure { text, code: INTERRUPTED });
                }
            }
        }
        Ok(())
    }

    fn perform(&mut self, text: &str) -> Result<Next, Failure> {
        match command(text) {
            Some("q" | "quit" | "exit") => return Ok(Next::Leave),
            Some("help" | "h" | "?") => {
                self.output.line(HELP.trim_end())?;
                if self.connected.is_some() {
                    self.output.line(HELP_OF_JOBS.trim_end())?;
                }
                return Ok(Next::Go);
            }
            Some("x") => {
                self.layout = self.layout.other();
                self.output.line(match self.layout {
                    Layout::Lines => "rows are lines of a table, cut at the width of the terminal",
                    Layout::Values => "each value has its own line",
                })?;
                return Ok(Next::Go);
            }
            Some(other) => {
                let error = Error::user(format!("there is no command '\\{other}'")).remedy("use \\q, \\x or \\help");
                return Err(Failure { text: render(&error, ""), code: 2 });
            }
            None => {}
        }
        let planning = |e: Error| Failure::planning(&e, text);
        for (index, statement) in split_statements(text).map_err(planning)?.iter().enumerate() {
            if index > 0 && self.signals.stop_asked() {
                return Ok(Next::Stopped);
            }
            self.statement(statement, text)?;
            if self.output.reader_left() {
                return Ok(Next::Leave);
            }
        }
        Ok(Next::Go)
    }
}

impl Shell {
    /// Carries out one statement of a text.
    fn statement(&mut self, statement: &StatementText, text: &str) -> Result<(), Failure> {
        let planning = |e: Error| Failure::planning(&e, text);
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
            Reply::Done(_) => {
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
            Reply::Done(text) | Reply::Report(text) if text.trim().is_empty() => self.output.line("nothing")?,
            Reply::Done(text) | Reply::Report(text) => self.output.line(text.trim_end())?,
            Reply::Job(job) => query::insert(job, &self.signals, &mut self.output)?,
            Reply::Query(query) => {
                let shown = Shown { format: Format::Table, layout: self.layout, limit: None, signals: &self.signals };
                let ended = query::select(query, &shown, &mut self.output)?;
                self.output.line(&ended.text)?;
                if ended.was_cut {
                    let text = "rows were cut at the width of the terminal; \\x shows each value on its own line";
                    self.output.line(text)?;
                }
            }
        }
        Ok(())
    }
}

/// Divides a script as a user would type it: lines up to one at which the statements are complete. Empty lines before each
/// part keep the places of errors those of the script.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if piece.is_empty() {
            piece = "\n".repeat(index);
        }
        piece.push_str(line);
        if input::is_complete(&piece) {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    pieces.push(piece);
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces
}

/// The shell's own commands: `\q`, and `help`, `exit`, `quit` with or without `;`.
fn command(text: &str) -> Option<&str> {
    let text = text.trim();
    if let Some(command) = text.strip_prefix('\\') {
        return Some(command.trim().trim_end_matches(';'));
    }
    let word = text.strip_suffix(';').unwrap_or(text).trim();
    ["help", "exit", "quit"].into_iter().find(|known| word.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_statements() {
        assert_eq!(command("\\q"), Some("q"));
        assert_eq!(command(" HELP ;\n"), Some("help"));
        assert_eq!(command("exit;"), Some("exit"));
        assert_eq!(command("\\nonsense;"), Some("nonsense"));
        assert_eq!(command("SELECT help;"), None);
        assert_eq!(command("help"), Some("help"));
        assert_eq!(command("help me"), None);
    }

    #[test]
    fn a_script_is_cut_where_its_statements_are_complete() {
        let script = "SET 'a' = 'b'; SELECT\n1;\n-- no statement\n\\q\n\nSELECT 2";
        let expected = ["SET 'a' = 'b'; SELECT\n1;\n", "\n\n-- no statement\n", "\n\n\n\\q\n", "\n\n\n\n\nSELECT 2"];
        assert_eq!(pieces(script), expected);
    }
}
