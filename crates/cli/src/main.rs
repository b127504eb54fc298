//! The binary `anabranch`: the embedded engine for people at a terminal.
//!
//! Results go to standard output; progress, summary and errors go to standard error. Exit codes: 0 the job ended or was
//! stopped, 1 it failed, 2 the SQL or the command line is wrong, 130 it was interrupted before it could stop.

mod arguments;
mod engine;
mod explain;
mod failure;
mod process;
mod report;
mod results;
mod run;
mod shell;
mod signals;
mod summary;
mod terminal;
mod view;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(run) => run::run(&run),
        Command::Explain(explain) => explain::explain(&explain),
        Command::Sql(sql) => shell::run(&sql),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("{}", failure.text);
            ExitCode::from(failure.code)
        }
    }
}
