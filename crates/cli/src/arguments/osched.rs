//! The command line of `anabranch osched`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The address of a running scheduler, unless the file has another one.
const OSCHED: &str = "http://127.0.0.1:7070";

#[derive(Debug, Args)]
pub(crate) struct Osched {
    #[command(subcommand)]
    pub(crate) command: OschedCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OschedCommand {
    /// Schedule the threads of running queries until Ctrl-C; then all is as it was before
    Run(OschedRun),
    /// Show what this user may do here, what each engine offers, and what is missing for each policy
    Check(OschedSource),
    /// List engines, queries, operators and threads
    Targets(OschedSource),
    /// Let a policy of a running scheduler decide by something else
    Switch(OschedSwitch),
    /// Restore what a killed scheduler has left
    Restore(OschedRestore),
    /// Restore when standard input ends without a farewell: started by `run`
    #[command(hide = true)]
    Guardian(OschedGuardian),
}

/// What is scheduled.
#[derive(Debug, Args)]
pub(crate) struct OschedSource {
    /// An osched.toml, or the address of a running engine: http://HOST:PORT. Without it, `check` shows only
    /// what this user may do
    pub(crate) source: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct OschedRun {
    /// An osched.toml, or the address of a running engine: http://HOST:PORT
    pub(crate) source: String,
    /// Write nothing: print what would be written, and why
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Lines of text instead of a live view
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) plain: bool,
    /// Show nothing but errors
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Stop after this time, such as 30s
    #[arg(long, value_name = "TIME", value_parser = super::duration)]
    pub(crate) duration: Option<std::time::Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct OschedSwitch {
    /// Name of a policy of the file
    pub(crate) policy: String,
    /// What it decides by from now on: drain, queue-size, highest-rate and so on, or a SQL expression
    pub(crate) priority: String,
    /// Where the scheduler listens (`listen` in its file)
    #[arg(long, value_name = "URL", default_value = OSCHED)]
    pub(crate) url: String,
    /// File with the scheduler's token (`token-file` in its file)
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// File with the certificates that are trusted for https, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct OschedRestore {
    /// Folder of the journal, if the file of the scheduler names one
    #[arg(long, value_name = "FOLDER")]
    pub(crate) state_directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct OschedGuardian {
    pub(crate) journal: PathBuf,
}
