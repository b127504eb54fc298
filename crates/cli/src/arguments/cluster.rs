//! The command line of a coordinator, and of the commands that talk to one.

use std::path::PathBuf;

use clap::Args;

use super::{Log, Otlp, Settings, TableOptions};

/// Where commands look for a coordinator.
const COORDINATOR: &str = "http://127.0.0.1:8790";

#[derive(Debug, Args)]
pub(crate) struct Coordinator {
    /// Where the list of jobs and their checkpoints are: a directory that all workers see,
    /// s3://BUCKET/PREFIX, http(s)://HOST:PORT/BUCKET/PREFIX
    #[arg(long, value_name = "PLACE")]
    pub(crate) store: String,
    /// Where workers connect; an address that other machines can reach needs TLS
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8791")]
    pub(crate) listen: String,
    /// The address that workers and other coordinators reach, if that is another one: HOST:PORT
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) advertise: Option<String>,
    /// Where commands and browsers connect; an address that other machines can reach needs TLS
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8790")]
    pub(crate) http: String,
    /// File with the token of workers and commands; else the environment has it (ANABRANCH_TOKEN)
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// File with a token with which requests may read and change nothing
    #[arg(long, value_name = "FILE")]
    pub(crate) read_token_file: Option<PathBuf>,
    /// File with the coordinator's certificate, in PEM: with it, workers and commands connect over TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File with the certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// File with the certificates that another coordinator's certificate is checked with, in PEM; this one's
    /// own unless given
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// End at once, as by a crash, when standard input ends: it ends when the process that started the
    /// coordinator is gone
    #[arg(long)]
    pub(crate) end_with_parent: bool,
    #[command(flatten)]
    pub(crate) log: Log,
    #[command(flatten)]
    pub(crate) otlp: Otlp,
}

#[derive(Debug, Args)]
pub(crate) struct Certificate {
    /// Folder for cert.pem, key.pem and ca.pem
    pub(crate) folder: PathBuf,
    /// Name or IP address by which workers and commands reach the coordinator; may be repeated
    #[arg(long = "host", value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
}

/// The coordinator of a command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Client {
    /// Where coordinators answer: http://HOST:PORT, several with commas between; else the environment has it
    /// (ANABRANCH_COORDINATOR), else http://127.0.0.1:8790
    #[arg(long, value_name = "URL[,URL]")]
    coordinator: Option<String>,
    /// File with the coordinator's token; else the environment has it (ANABRANCH_TOKEN)
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// File with the certificates that are trusted for https, in PEM; else the environment names it
    /// (ANABRANCH_TLS_CA)
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
}

impl Client {
    /// Where the coordinators answer.
    pub(crate) fn urls(&self) -> Vec<String> {
        let from_environment = || std::env::var("ANABRANCH_COORDINATOR").ok().filter(|url| !url.is_empty());
        let given = self.coordinator.clone().or_else(from_environment).unwrap_or_else(|| COORDINATOR.to_owned());
        given.split(',').map(|url| url.trim().to_owned()).collect()
    }

    /// Whether the command line names a coordinator.
    pub(crate) fn is_given(&self) -> bool {
        self.coordinator.is_some()
    }

    /// The file with trusted certificates.
    pub(crate) fn authority(&self) -> Option<PathBuf> {
        let from_environment =
            || std::env::var_os("ANABRANCH_TLS_CA").filter(|path| !path.is_empty()).map(PathBuf::from);
        self.tls_ca.clone().or_else(from_environment)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Submit {
    /// File of SQL statements
    pub(crate) file: PathBuf,
    /// Name of the job; the file's name without its ending unless given
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) tables: TableOptions,
    #[command(flatten)]
    pub(crate) client: Client,
}

#[derive(Debug, Args)]
pub(crate) struct Jobs {
    #[command(flatten)]
    pub(crate) client: Client,
}

#[derive(Debug, Args)]
pub(crate) struct Job {
    /// Name of the job
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) client: Client,
}

#[derive(Debug, Args)]
pub(crate) struct End {
    /// Only send the request: do not wait until the job has ended
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) target: Job,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Also if it could resume from its newest checkpoint, which is removed with it
    #[arg(long)]
    pub(crate) discard_state: bool,
    #[command(flatten)]
    pub(crate) target: Job,
}

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Print what follows, until the job ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) target: Job,
}
