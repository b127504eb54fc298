//! `anabranch sql`: statements as they are typed, results as they come. Ctrl-C stops the running query, not the shell.

pub(crate) mod history;
pub(crate) mod input;
mod query;
mod table;

use std::io::{IsTerminal, stdin};

use anabranch_model::{Error, Result};
use anabranch_server::{Reply, Session, split_statements};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use signal_hook::consts::SIGINT;

use crate::arguments::{Sql, TableOptions};
use crate::engine::{engine, settings};
use crate::failure::Failure;
use crate::report::render;
use crate::signals::Signals;

const GREETING: &str = "Anabranch. Statements end in ';'. help; for help, \\q to leave.";
const HELP: &str = "\
CREATE TABLE t (a STRING, b BIGINT) WITH ('connector' = 'filesystem', 'path' = 'data', 'format' = 'json');
SELECT a, COUNT(*) FROM t GROUP BY a;      results as they come; Ctrl-C stops the query
INSERT INTO t SELECT ...;                  runs until its sources end, or Ctrl-C
EXPLAIN SELECT ...;  DESCRIBE t;  SHOW TABLES;  SET 'parallelism' = '2';
\\q, exit; or Ctrl-D                        leaves
";

/// What to do after a statement.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Go,
    Leave,
}

struct Shell {
    session: Session,
    signals: Signals,
}

/// Runs the command.
pub(crate) fn run(arguments: &Sql) -> Result<(), Failure> {
    let failed = |e: ReadlineError| Error::outside(format!("cannot read from the terminal: {e}"));
    let interactive = stdin().is_terminal();
    let session = Session::new(engine(None), &settings(&arguments.settings, &TableOptions::default()));
    let session = session.map_err(|e| Failure::planning(&e, ""))?;
    let mut shell = Shell { session, signals: Signals::catch(&[SIGINT])? };
    let config = Config::builder().auto_add_history(interactive).build();
    let mut editor: Editor<input::Statements, FileHistory> = Editor::with_config(config).map_err(failed)?;
    editor.set_helper(Some(input::Statements));
    let history = interactive.then(history::file).flatten();
    if let Some(file) = &history {
        // The first time there is none.
        let _ = editor.load_history(file);
    }
    if interactive {
        println!("{GREETING}");
    }
    let mut last = Ok(());
    loop {
        match editor.readline(if interactive { "sql> " } else { "" }) {
            Ok(text) => match shell.perform(&text) {
                Ok(Next::Go) => last = Ok(()),
                Ok(Next::Leave) => break,
                Err(failure) if interactive => eprint!("{}", failure.text),
                // A script on standard input ends at its first error.
                Err(failure) => {
                    last = Err(failure);
                    break;
                }
            },
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error).into()),
        }
    }
    if let Some(file) = &history
        && let Err(error) = history::save(&mut editor, file)
    {
        eprintln!("the history was not saved: {error}");
    }
    last
}

impl Shell {
    fn perform(&mut self, text: &str) -> Result<Next, Failure> {
        match command(text) {
            Some("q" | "quit" | "exit") => return Ok(Next::Leave),
            Some("help" | "h" | "?") => {
                print!("{HELP}");
                return Ok(Next::Go);
            }
            Some(other) => {
                let error = Error::user(format!("there is no command '\\{other}'")).remedy("help; shows what there is");
                return Err(Failure { text: render(&error, ""), code: 2 });
            }
            None => {}
        }
        let planning = |e: Error| Failure::planning(&e, text);
        for statement in split_statements(text).map_err(planning)? {
            self.signals.reset();
            match self.session.execute(&statement).map_err(planning)? {
                Reply::Done(text) | Reply::Report(text) if text.trim().is_empty() => println!("nothing"),
                Reply::Done(text) | Reply::Report(text) => println!("{}", text.trim_end()),
                Reply::Job(job) => query::insert(job, &self.signals)?,
                Reply::Query(query) => query::select(query, &self.signals)?,
            }
        }
        Ok(Next::Go)
    }
}

/// The shell's own commands: `\q`, and `help;`, `exit;`, `quit;` as statements.
fn command(text: &str) -> Option<&str> {
    let text = text.trim();
    if let Some(command) = text.strip_prefix('\\') {
        return Some(command.trim().trim_end_matches(';'));
    }
    let word = text.strip_suffix(';')?.trim();
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
        assert_eq!(command("help"), None);
    }
}
