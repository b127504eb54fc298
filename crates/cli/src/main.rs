//! The binary `anabranch`: the embedded engine for use at a terminal.
//!
//! Results go to standard output; progress, summary and errors go to standard error. Exit codes: 0 the job
//! ended or was stopped; 1 it failed; 2 the SQL or the command line is wrong; 130 the job was interrupted
//! before it could stop, or a script before its last statement.

mod arguments;
mod autoscale;
mod balance;
mod certificate;
mod client;
mod console;
mod coordinator;
mod ending;
mod engine;
mod explain;
mod failure;
mod functions;
mod jobs;
mod log;
mod logs;
mod osched;
mod process;
mod reconfigure;
mod records;
mod results;
mod run;
mod savepoint;
mod serve;
mod shell;
mod show;
mod signals;
mod state;
mod submit;
mod summary;
mod table;
mod terminal;
mod top;
mod view;
mod watch;
mod why;
mod worker;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};
use crate::console::Console;

fn main() -> ExitCode {
    process::raise_open_files();
    let outcome = match Arguments::parse().command {
        Command::Demo(demo) => run::demo(&demo),
        Command::Run(run) => run::run(&run),
        Command::Explain(explain) => explain::explain(&explain),
        Command::Sql(sql) => shell::run(&sql),
        Command::State(arguments) => state::state(&arguments),
        Command::Savepoint(arguments) => savepoint::savepoint(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Worker(arguments) => worker::worker(&arguments),
        Command::Coordinator(arguments) => coordinator::coordinator(&arguments),
        Command::Certificate(arguments) => certificate::certificate(&arguments),
        Command::Submit(arguments) => submit::submit(&arguments),
        Command::Jobs(arguments) => jobs::jobs(&arguments),
        Command::Show(arguments) => show::show(&arguments),
        Command::Why(arguments) => why::why(&arguments),
        Command::Stop(arguments) => ending::end(&arguments, ending::Request::Stop),
        Command::Cancel(arguments) => ending::end(&arguments, ending::Request::Cancel),
        Command::Remove(arguments) => ending::remove(&arguments),
        Command::Alter(arguments) => reconfigure::alter(&arguments),
        Command::Rescale(arguments) => reconfigure::rescale(&arguments),
        Command::Balance(arguments) => balance::balance(&arguments),
        Command::Migrate(arguments) => reconfigure::migrate(&arguments),
        Command::Drain(arguments) => reconfigure::drain(&arguments),
        Command::Autoscale(arguments) => autoscale::autoscale(&arguments),
        Command::Changes(arguments) => reconfigure::changes(&arguments),
        Command::Logs(arguments) => logs::logs(&arguments),
        Command::Top(arguments) => top::top(&arguments),
        Command::Osched(arguments) => osched::osched(&arguments),
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
