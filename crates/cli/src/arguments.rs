//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anabranch_model::parse_duration;
use anabranch_server::TableOption;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::changes::{Alter, Autoscale, Balance, Changes, Drain, Migrate, Rescale};
pub(crate) use self::cluster::{Certificate, Client, Coordinator, End, Job, Jobs, Logs, Remove, Submit};
pub(crate) use self::demo::{DEMO_SQL, Demo};
use self::log::REPORTS;
pub(crate) use self::log::{Events, Log, LogFormat, Otlp};
pub(crate) use self::osched::{Osched, OschedCommand, OschedRun, OschedSwitch};
pub(crate) use self::serve::Serve;

mod changes;
mod cluster;
mod demo;
mod log;
mod osched;
mod serve;

/// Where a user begins who sees the list of commands for the first time.
const BEGIN: &str = "Begin with anabranch demo, then anabranch sql. docs/first-hour.md continues from there.";
/// The shell does not connect to a coordinator by default.
const SHELL_COORDINATOR: &str = "Connect to the coordinator at http://HOST:PORT, several with commas between: INSERT submits jobs, and \
    statements such as SHOW JOBS and ALTER JOB reach them. Without it, INSERT runs in the shell's process";

/// SQL over streams that do not end.
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, about, arg_required_else_help = true, after_help = BEGIN)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what the program does: count generated advertisement events per campaign, live, until Ctrl-C
    Demo(Demo),
    /// Run the statements of a file in their order: show the rows of SELECT, write those of INSERT INTO
    Run(Run),
    /// Show the plan of a file: stages, operators, exchanges
    Explain(Explain),
    /// Type statements and see results as they come
    #[command(mut_arg("coordinator", |arg| arg.help(SHELL_COORDINATOR)))]
    Sql(Sql),
    /// Show a job's checkpoints, or a savepoint: sizes, positions, and state as tables
    State(State),
    /// Copy the state of a running job to a separate place, from which other jobs can start
    Savepoint(Savepoint),
    /// Take jobs and run them in this process, with a page for browsers, until it is stopped
    Serve(Serve),
    /// Run tasks for a coordinator in another process, until that ends
    Worker(Worker),
    /// Take jobs and run them at workers, until it is stopped
    Coordinator(Coordinator),
    /// Make a certificate for a coordinator that other machines reach, and the authority that workers and
    /// commands check it with
    Certificate(Certificate),
    /// Send the INSERT INTO statements of a file to a coordinator, as one job
    Submit(Submit),
    /// List the jobs and the workers of a coordinator
    Jobs(Jobs),
    /// Show a job: its stages, tasks, workers, checkpoints and failures
    Show(Job),
    /// Say why a job gives no results, or where it waits, and what to do
    Why(Job),
    /// Stop a job at the end of an epoch, and wait until it has stopped
    Stop(End),
    /// End a job at once, as a crash would, and wait for that
    Cancel(End),
    /// Remove a job that is over from the list, with its checkpoints: its name is free then
    Remove(Remove),
    /// Change a running job to the statements of a file
    Alter(Alter),
    /// Give a running job another number of tasks per stage
    Rescale(Rescale),
    /// Measure the load of a running job's keys, and let it follow: keys of hot tasks go to others of their
    /// stage
    Balance(Balance),
    /// Move tasks of a running job to another worker
    Migrate(Migrate),
    /// Move the tasks of all jobs away from a worker, which gets no further ones
    Drain(Drain),
    /// List the changes of a running job, or abort the one that is being prepared
    Changes(Changes),
    /// Show the decisions on a job's number of tasks, or rehearse them with other options
    Autoscale(Autoscale),
    /// Print what a job notified its user of
    Logs(Logs),
    /// Watch a job on the whole terminal
    Top(Job),
    /// Let the operating system's scheduler serve running queries, of this engine and of others
    Osched(Osched),
}

#[derive(Debug, Default, Args)]
pub(crate) struct Run {
    /// File of SQL statements
    pub(crate) file: PathBuf,
    /// How to write the rows of SELECT
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) tables: TableOptions,
    /// Emit final rows only, once, where all tables end: the same as --set execution.runtime-mode=batch
    #[arg(long = "final")]
    pub(crate) final_rows: bool,
    /// Start a new job from this savepoint, a directory or a place in an object store; given again, the job
    /// resumes from its own checkpoints
    #[arg(long, value_name = "PATH")]
    pub(crate) from: Option<String>,
    /// Start even if the query has no place for parts of the savepoint
    #[arg(long, requires = "from")]
    pub(crate) allow_lost_state: bool,
    /// Start even if rows of a new source, or by another event time, may be late: windows of the savepoint
    /// have fired
    #[arg(long, requires = "from")]
    pub(crate) allow_late: bool,
    /// Run the tasks in this number of further processes of this machine; tables of this process, such as
    /// print tables, stay here
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_WORKERS))]
    pub(crate) workers: Option<u32>,
    /// Stop after this time: 30s, 5min, 500ms; without a unit, seconds
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Print a line per second instead of the live view
    #[arg(long)]
    pub(crate) plain: bool,
    /// Print only results and errors
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Append the job's events to this file: one JSON object in each line
    #[arg(long, help_heading = REPORTS, value_name = "FILE", conflicts_with = "log_format")]
    pub(crate) log_file: Option<PathBuf>,
    /// What standard error has while the job runs: lines for people, or the job's events as JSON
    #[arg(long, help_heading = REPORTS, value_enum, value_name = "FORMAT", conflicts_with = "plain")]
    pub(crate) log_format: Option<LogFormat>,
    #[command(flatten)]
    pub(crate) events: Events,
    #[command(flatten)]
    pub(crate) otlp: Otlp,
    #[command(flatten)]
    pub(crate) http: Http,
}

impl Run {
    /// The options of the job, including the option that `--final` sets.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = self.settings.clone();
        settings.set.extend(self.final_rows.then(|| ("execution.runtime-mode".to_owned(), "batch".to_owned())));
        settings
    }

    /// Whether standard error has lines for people.
    pub(crate) fn is_for_people(&self) -> bool {
        self.log_format != Some(LogFormat::Json)
    }
}

/// The heading of the options of the HTTP interface.
const HTTP: &str = "HTTP interface";

/// The HTTP interface of a running job.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Http {
    /// Serve metrics and the REST API at HOST:PORT while the job runs; port 0 takes any free one. An address
    /// that other machines can reach needs a token and TLS
    #[arg(long, help_heading = HTTP, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// Serve the page for browsers, and the API, at a free port of this machine: the same as --listen
    /// 127.0.0.1:0
    #[arg(long, help_heading = HTTP, conflicts_with = "listen")]
    pub(crate) page: bool,
    /// File with the token that every request needs: at least 16 characters
    #[arg(long, help_heading = HTTP, value_name = "FILE", requires = "listen")]
    pub(crate) token_file: Option<PathBuf>,
    /// File with a token with which requests may read and change nothing
    #[arg(long, help_heading = HTTP, value_name = "FILE", requires = "token_file")]
    pub(crate) read_token_file: Option<PathBuf>,
    /// File with the certificate for TLS, in PEM
    #[arg(long, help_heading = HTTP, value_name = "FILE", requires = "listen")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File with the certificate's private key, in PEM
    #[arg(long, help_heading = HTTP, value_name = "FILE", requires = "listen")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// More processes on one machine only cost memory.
const MAX_WORKERS: i64 = 256;

#[derive(Debug, Args)]
pub(crate) struct Worker {
    /// Where the coordinator listens: HOST:PORT; several with commas between, of which one leads and the
    /// others stand by
    #[arg(long = "coordinator", value_name = "HOST:PORT[,HOST:PORT]", value_delimiter = ',', required = true)]
    pub(crate) coordinators: Vec<String>,
    /// How many tasks of one stage the worker may have; one per core unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) slots: Option<u32>,
    /// The worker's name, which no other worker of the coordinator has; the machine's name unless given
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// What distinguishes the worker, such as zone=a; may be repeated
    #[arg(long = "label", value_name = "LABEL")]
    pub(crate) labels: Vec<String>,
    /// The address of this machine at which other workers reach it, ADDRESS or ADDRESS:PORT; the one at which
    /// it reaches the coordinator unless given. Only what a loopback address gets is not encrypted
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// The address to announce to other workers, if it differs from --listen: ADDRESS or ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) advertise: Option<SocketAddr>,
    /// File with the certificates that the coordinator's certificate is checked with, in PEM; a coordinator
    /// at another machine needs it
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// File with the coordinator's token; else the environment has it (ANABRANCH_TOKEN)
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The coordinator's store: the worker ends with an error unless this machine reaches it
    #[arg(long, value_name = "PLACE")]
    pub(crate) store: Option<String>,
    /// A directory of this machine for copies of state files in object stores: a later worker's process finds
    /// them there. Several workers may share it
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// How long to wait at the start for a coordinator that is not there yet: 30s, 5min; 0 ends at once
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    pub(crate) wait: Duration,
    /// End with the connection to the coordinator, instead of connecting again
    #[arg(long)]
    pub(crate) once: bool,
    /// End at once when standard input ends: it ends when the process that started the worker is gone; on
    /// Linux also with the thread that started it
    #[arg(long)]
    pub(crate) end_with_parent: bool,
    #[command(flatten)]
    pub(crate) log: Log,
    #[command(flatten)]
    pub(crate) otlp: Otlp,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// File of SQL statements
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) tables: TableOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Sql {
    /// Run the statements of this file up to the first error; without a file, those of standard input
    #[arg(conflicts_with = "statements")]
    pub(crate) file: Option<PathBuf>,
    /// Run these statements instead of asking for some; may be repeated
    #[arg(long = "command", short = 'c', value_name = "SQL")]
    pub(crate) statements: Vec<String>,
    /// How to write rows
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Change the functions of running jobs without a question
    #[arg(long, requires = "coordinator")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) client: Client,
}

#[derive(Debug, Args)]
pub(crate) struct State {
    /// Location of a job's checkpoints or of a savepoint: a directory, s3://BUCKET/PREFIX,
    /// http(s)://HOST:PORT/BUCKET/PREFIX
    pub(crate) place: String,
    /// Show the state of this operator, by its number in the overview
    #[arg(long, value_name = "N")]
    pub(crate) operator: Option<u32>,
    /// Only rows with this value in a column; may be repeated
    #[arg(long = "key", value_name = "COLUMN=VALUE", value_parser = column_value, requires = "operator")]
    pub(crate) keys: Vec<(String, String)>,
    /// Show at most this number of rows
    #[arg(long, value_name = "N", default_value_t = 100, requires = "operator")]
    pub(crate) limit: usize,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Readable tables
    #[default]
    Table,
    /// For programs; one line per row
    Json,
    /// Rows for spreadsheets
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct Savepoint {
    /// A job of a coordinator by its name, or the location of a job's checkpoints: a path with a slash, or a
    /// URL
    pub(crate) job: String,
    /// Location of the new savepoint: an empty or new directory, or such a place in an object store
    pub(crate) path: String,
    /// If no job runs there, take its newest checkpoint
    #[arg(long)]
    pub(crate) last: bool,
    /// Longest time to wait for the job's checkpoint; without a unit, seconds
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10min")]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) client: Client,
}

/// Options that change a plan without changing its text.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Settings {
    /// Tasks per stage; overrides SET 'parallelism'
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) parallelism: Option<u32>,
    /// Option of the job; goes before SET in a file; in the shell, SET changes it; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
}

impl Settings {
    /// All of them as options of a job.
    pub(crate) fn options(&self) -> impl Iterator<Item = (String, String)> {
        let parallelism = self.parallelism.map(|tasks| ("parallelism".to_owned(), tasks.to_string()));
        self.set.iter().cloned().chain(parallelism)
    }
}

/// Options that change the tables of a file.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TableOptions {
    /// Option of a table; overrides its WITH clause; may be repeated
    #[arg(long = "option", value_name = "TABLE.OPTION=VALUE", value_parser = table_option)]
    pub(crate) options: Vec<TableOption>,
}

/// An address, with port 0 unless it has one.
fn address(text: &str) -> Result<SocketAddr, String> {
    let without_port = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 0));
    text.parse()
        .or_else(|_| without_port())
        .map_err(|_| "give an address such as 10.0.0.2, [fd00::2]:8792 or 0.0.0.0:8792".into())
}

/// `name=value`.
fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("give NAME=VALUE, such as buffer-timeout='10 ms'".into()),
    }
}

/// `column=value`; the value may be empty, and is not trimmed.
fn column_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("give COLUMN=VALUE, such as campaign_id=7".into()),
    }
}

/// `table.option=value`: the table ends at the first point, the option at the first equals sign.
fn table_option(text: &str) -> Result<TableOption, String> {
    let parts = text.split_once('=').and_then(|(name, value)| Some((name.trim().split_once('.')?, value)));
    match parts {
        Some(((table, name), value)) if !table.is_empty() && !name.is_empty() => {
            Ok(TableOption { table: table.to_owned(), name: name.to_owned(), value: value.trim().to_owned() })
        }
        _ => Err("give TABLE.OPTION=VALUE, such as events.rows-per-second=50000".into()),
    }
}

/// A time, which may be zero.
fn time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text, Some(Duration::from_secs(1)));
    time.ok_or_else(|| "give a time, such as 0, 30s, 500ms, 5min, 1h".into())
}

/// A time above zero.
fn duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text, Some(Duration::from_secs(1))).filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| "give a time above zero, such as 30s, 500ms, 5min, 1h".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_declaration_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_readme_names_each_command() {
        let readme = include_str!("../../../README.md");
        for command in Arguments::command().get_subcommands() {
            let name = command.get_name();
            let is_named = [format!("`{name}`"), format!("`anabranch {name}`"), format!("`anabranch {name} ")];
            assert!(is_named.iter().any(|words| readme.contains(words)), "{name}");
        }
    }

    #[test]
    fn a_full_command_line_is_understood() {
        let line = "anabranch run a.sql --parallelism 2 --duration 30s --set job-name=ads \
                    --option events.properties.bootstrap.servers=h:1=2 --option e.x=1 --plain --quiet";
        let Command::Run(run) = Arguments::try_parse_from(line.split_whitespace()).expect("parses").command else {
            panic!("run");
        };
        assert_eq!((run.settings.parallelism, run.duration), (Some(2), Some(Duration::from_secs(30))));
        assert_eq!(run.settings.set, [("job-name".to_owned(), "ads".to_owned())]);
        let servers = &run.tables.options[0];
        assert_eq!((servers.table.as_str(), servers.name.as_str()), ("events", "properties.bootstrap.servers"));
        assert_eq!((servers.value.as_str(), run.tables.options.len()), ("h:1=2", 2));
        assert!(run.plain && run.quiet);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for line in [
            "anabranch run",
            "anabranch run a.sql --parallelism 0",
            "anabranch run a.sql --duration 0s",
            "anabranch run a.sql --duration 3fortnights",
            "anabranch run a.sql --duration -1s",
            "anabranch run a.sql --set name",
            "anabranch run a.sql --option rate=5",
            "anabranch run a.sql --option .rate=5",
            "anabranch run a.sql --allow-lost-state",
            "anabranch run a.sql --token-file t",
            "anabranch run a.sql --log-level loud",
            "anabranch run a.sql --otlp-interval 1s",
            "anabranch state",
            "anabranch state d --key a=1",
            "anabranch state d --operator 0 --key a",
            "anabranch state d --format yaml",
            "anabranch savepoint d",
            "anabranch fly",
        ] {
            assert!(Arguments::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
    }

    #[test]
    fn addresses() {
        for (given, expected) in [
            ("10.0.0.2", "10.0.0.2:0"),
            ("0.0.0.0:8792", "0.0.0.0:8792"),
            ("::1", "[::1]:0"),
            ("[fd00::2]:7", "[fd00::2]:7"),
        ] {
            assert_eq!(address(given).map(|address| address.to_string()), Ok(expected.to_owned()));
        }
        for wrong in ["", "host", "host:7", "10.0.0.2:", "10.0.0.2:70000", "[::1]"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations() {
        for (text, ms) in [("30s", 30_000), ("500ms", 500), ("1.5 min", 90_000), ("2h", 7_200_000), ("7", 7_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!((time("0"), time("0s"), time("2s")), (Ok(Duration::ZERO), Ok(Duration::ZERO), duration("2s")));
        assert!(duration("0s").is_err());
    }
}
