//! `anabranch run`: a file's statements in their order. INSERTs are a job, which is watched until it ends;
//! the rows of a SELECT are shown.

mod job;

use std::path::Path;
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result, SystemClock};
use anabranch_server::http::{Listen, Listener};
use anabranch_server::otlp::Exporter;
use anabranch_server::{Engine, Plan, QueryStep, Settings, Step, Steps};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::arguments::{DEMO_SQL, Demo, Http, LogFormat, Run};
use crate::console::Console;
use crate::engine::{engine, engine_of_view, read, settings};
use crate::failure::Failure;
use crate::log::{self, Log};
use crate::results::Results;
use crate::shell::query::{self, Shown};
use crate::signals::{INTERRUPTED, Signals};
use crate::table::Layout;
use crate::terminal;

/// The message for a job that is started again after its end.
pub(crate) const HAD_ENDED: &str = "the job has ended before: its checkpoints cover all of its input, and nothing was done\n  \
    help: to run it again, set another 'checkpoint-directory', or remove that one";

/// How a job is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Display {
    Live,
    Lines,
    Nothing,
}

impl Display {
    fn choose(arguments: &Run) -> Self {
        match arguments {
            Run { quiet: true, .. } | Run { log_format: Some(LogFormat::Json), .. } => Display::Nothing,
            Run { plain: false, .. } if terminal::is_interactive() => Display::Live,
            _ => Display::Lines,
        }
    }
}

pub(crate) fn run(arguments: &Run) -> Result<(), Failure> {
    let sql = read(&arguments.file).map_err(Failure::request)?;
    run_text(arguments, sql)
}

pub(crate) fn demo(arguments: &Demo) -> Result<(), Failure> {
    match arguments.print_sql {
        true => Ok(Console::output().line(DEMO_SQL.trim_end())?),
        false => run_text(&arguments.as_run(), DEMO_SQL.to_owned()),
    }
}

fn run_text(arguments: &Run, sql: String) -> Result<(), Failure> {
    let display = Display::choose(arguments);
    let results = Results::default();
    let (output, progress) = (Console::output(), Console::error());
    let mut engine = match display {
        Display::Live => engine_of_view(&results),
        _ => engine(output.clone()),
    };
    arguments.workers.into_iter().for_each(|workers| engine.set_workers(Some(workers)));
    let settings = settings(&arguments.settings(), &arguments.tables);
    let Steps { steps, notes } = engine.plan_steps(&sql, &settings).map_err(|e| Failure::planning(&e, &sql))?;
    if !arguments.quiet && arguments.is_for_people() {
        notes.iter().try_for_each(|note| Console::error().line(&format!("notice: {note}")))?;
    }
    let plans: Vec<&Plan> = steps.iter().filter_map(plan_of).collect();
    if steps.is_empty() {
        return Err(Failure::request(nothing_to_run(arguments)));
    }
    let wrong = |error: Error| Failure::planning(&error, &sql);
    check_together(&steps, arguments).map_err(wrong)?;
    // Before the first job starts: an address in use must not end a running job.
    let listener = listen(&arguments.http)?;
    let (log, exporter) = match plans.first() {
        Some(first) => reports(arguments, &first.options.job_name).map_err(Failure::request)?,
        None => (None, None),
    };
    let clock = SystemClock::new();
    let deadline = arguments.duration.map(|limit| clock.now().plus(limit));
    let signals = Signals::catch(&[SIGINT, SIGTERM])?;
    Runner {
        arguments,
        engine,
        sql,
        settings,
        display,
        results,
        output,
        progress,
        listener,
        log,
        exporter,
        clock,
        deadline,
        signals,
    }
    .steps(steps)
}

/// What the steps of a file share.
struct Runner<'a> {
    arguments: &'a Run,
    engine: Engine,
    sql: String,
    settings: Settings,
    display: Display,
    /// Rows of print tables, for the live view.
    results: Results,
    output: Console,
    progress: Console,
    listener: Option<Listener>,
    log: Option<Log>,
    exporter: Option<Exporter>,
    clock: SystemClock,
    /// When the run is stopped.
    deadline: Option<Nanos>,
    signals: Signals,
}

impl Runner<'_> {
    fn steps(&mut self, steps: Vec<Step>) -> Result<(), Failure> {
        for step in steps {
            if self.output.reader_left() {
                return Ok(());
            }
            if self.signals.stop_asked() {
                let text = "interrupted: the statements that follow did not run\n".to_owned();
                return Err(Failure { text, code: INTERRUPTED });
            }
            if self.remaining() == Some(Duration::ZERO) {
                return Ok(Console::error().line("notice: the time is over: the statements that follow did not run")?);
            }
            match step {
                Step::Report(report) => self.output.line(&report)?,
                Step::Job(job) => self.job(&job.plan)?,
                Step::Query(query) => self.query(*query)?,
            }
        }
        Ok(())
    }

    /// How long the file may still run.
    fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.after(self.clock.now()))
    }

    /// Shows the rows of a SELECT.
    fn query(&mut self, step: QueryStep) -> Result<(), Failure> {
        let query = self.engine.query(step.query)?;
        if let Some(exporter) = &self.exporter {
            exporter.watch(query.job.served());
        }
        let listener = self.announced()?;
        let _server = listener.map(|listener| query.job.serve(listener)).transpose()?;
        let (format, layout, limit) = (self.arguments.format, Layout::Lines, self.remaining());
        let shown = Shown { layout, format, is_log: true, is_conversation: false, limit };
        let ended = query::select(query, &shown, &self.signals, &mut self.output)?;
        if self.display != Display::Nothing {
            self.progress.line(&ended.text)?;
            if ended.was_cut {
                self.progress.line("values were cut at the width of the terminal; --format json shows all of each")?;
            }
        }
        Ok(())
    }

    /// The listener of the file's only job, after its address was printed.
    fn announced(&mut self) -> Result<Option<Listener>> {
        let listener = self.listener.take();
        if let Some(listener) = listener.as_ref().filter(|_| self.arguments.is_for_people()) {
            // Printed even with --quiet: the system may have chosen the port.
            let what = if self.arguments.http.page { "the page is at" } else { "listening at" };
            self.progress.line(&format!("{what} {}", listener.url()))?;
        }
        Ok(listener)
    }
}

fn plan_of(step: &Step) -> Option<&Plan> {
    match step {
        Step::Report(_) => None,
        Step::Job(job) => Some(&job.plan),
        Step::Query(query) => Some(&query.query.plan),
    }
}

/// Refuses options for a single job if the file has several.
fn check_together(steps: &[Step], arguments: &Run) -> Result<()> {
    let is_job = |step: &&Step| matches!(step, Step::Job(_));
    let (all, jobs) = (steps.iter().filter_map(plan_of).count(), steps.iter().filter(is_job).count());
    let given = [
        ("--from", arguments.from.is_some(), jobs != 1),
        ("--listen", arguments.http.listen.is_some(), all > 1),
        ("--otlp", arguments.otlp.otlp.is_some(), all > 1),
    ];
    if let Some((option, ..)) = given.iter().find(|(_, given, refused)| *given && *refused) {
        return Err(Error::user(format!("{option} is about one job, and the file has {}", counted(all, jobs))).remedy(
            "give the job a file of its own: INSERT INTO statements without a SELECT between them are one job",
        ));
    }
    let mut places = std::collections::BTreeSet::new();
    let directories = steps.iter().filter_map(plan_of).filter_map(|plan| plan.options.checkpoints.as_ref());
    match directories.map(|options| &options.directory).find(|directory| !places.insert(*directory)) {
        Some(directory) => {
            Err(Error::user(format!("two jobs of the file have the same 'checkpoint-directory', {directory}"))
                .remedy("SET another one before the INSERT INTO statements that follow a SELECT"))
        }
        None => Ok(()),
    }
}

fn counted(all: usize, jobs: usize) -> String {
    match (jobs, all - jobs) {
        (0, 1) => "a SELECT alone".to_owned(),
        (jobs, 0) => format!("{jobs} jobs"),
        (jobs, queries) => format!("{jobs} jobs of INSERT INTO and {queries} of SELECT"),
    }
}

fn listen(http: &Http) -> Result<Option<Listener>, Failure> {
    let Http { listen, page, token_file, read_token_file, tls_cert, tls_key } = http.clone();
    let listen = listen.or_else(|| page.then(|| "127.0.0.1:0".to_owned()));
    let listen = listen.map(|address| Listen { address, token: None, token_file, read_token_file, tls_cert, tls_key });
    listen.map(|listen| Listener::bind(&listen)).transpose().map_err(Failure::request)
}

/// The reports of the process: its log, and the export to a collector.
fn reports(arguments: &Run, job: &str) -> Result<(Option<Log>, Option<Exporter>)> {
    let log = event_log(arguments)?;
    let instance = format!("{job} {}", std::process::id());
    let exporter = log::exporter(&arguments.otlp, "run", instance)?;
    log::start(log.as_ref(), exporter.as_ref())?;
    Ok((log, exporter))
}

fn event_log(arguments: &Run) -> Result<Option<Log>> {
    match &arguments.log_file {
        Some(path) => Log::to_file(path, &arguments.events).map(Some),
        None if arguments.is_for_people() => Ok(None),
        None => Log::of_run(&arguments.events).map(Some),
    }
}

fn nothing_to_run(arguments: &Run) -> Error {
    Error::user("there is nothing to run: the file has no SELECT and no INSERT INTO")
        .at(arguments.file.display().to_string())
        .remedy("add SELECT ... to see rows, or INSERT INTO table SELECT ... to write them")
}

fn title(file: &Path) -> String {
    file.file_name().map_or_else(|| file.display().to_string(), |name| name.to_string_lossy().into_owned())
}
