//! The binary `anabranch`: the embedded engine for use at a terminal.
//!
//! Results go to standard output; progress, summary and errors go to standard error. Exit codes: 0 the job ended or was
//! stopped, 1 it failed, 2 the SQL or the command line is wrong, 130 it was interrupted before it could stop, or a script
//! before its last statement.

mod arguments;
mod console;
mod engine;
mod explain;
mod failure;
mod log;
mod process;
mod report;
mod results;
mod run;
mod savepoint;
mod shell;
mod signals;
mod state;
mod summary;
mod terminal;
mod view;
mod watch;
mod worker;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};
use crate::console::Console;

fn main() -> ExitCode {
    process::raise_open_files();
    let outcome = match Arguments::parse().command {
        Command::Run(run) => run::run(&run),
        Command::Explain(explain) => explain::explain(&explain),
        Command::Sql(sql) => shell::run(&sql),
        Command::State(arguments) => state::state(&arguments),
        Command::Savepoint(arguments) => savepoint::savepoint(&arguments),
        Command::Worker(arguments) => worker::worker(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // If this fails, there is no other place to report it.
            let _ = Console::error().write_all(failure.text.as_bytes());
            ExitCode::from(failure.code)
        }
    }
}
