//! The command line of a process that takes jobs and runs them itself.

use std::path::PathBuf;

use clap::Args;

use super::{Log, Otlp};

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where the list of jobs and their checkpoints are: a directory, s3://BUCKET/PREFIX,
    /// http(s)://HOST:PORT/BUCKET/PREFIX
    #[arg(long, value_name = "PLACE", default_value = "anabranch-data")]
    pub(crate) store: String,
    /// Where browsers and commands connect; port 0 takes any free one. An address that other machines can
    /// reach needs a token and TLS
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8790")]
    pub(crate) listen: String,
    /// How many tasks of one stage a job may have; one per core unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) slots: Option<u32>,
    /// File with the token that every request needs: at least 16 characters
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// File with a token with which requests may read and change nothing
    #[arg(long, value_name = "FILE", requires = "token_file")]
    pub(crate) read_token_file: Option<PathBuf>,
    /// File with the certificate for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File with the certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// End at once, as by a crash, when standard input ends: it ends when the process that started it is gone
    #[arg(long)]
    pub(crate) end_with_parent: bool,
    #[command(flatten)]
    pub(crate) log: Log,
    #[command(flatten)]
    pub(crate) otlp: Otlp,
}
