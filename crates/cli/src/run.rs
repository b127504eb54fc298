//! `anabranch run`: a file's inserts as one job, watched until it ends.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anabranch_model::{Clock, Error, Result, SystemClock};
use anabranch_server::http::{Listen, Listener, Script};
use anabranch_server::otlp::Exporter;
use anabranch_server::{Engine, Job, Plan, Planned, process};
use signal_hook::consts::{SIGINT, SIGTERM};
use tracing::{error, info};

use crate::arguments::{Http, LogFormat, Run};
use crate::console::Console;
use crate::engine::{engine, read, settings};
use crate::failure::Failure;
use crate::log::{self, Log};
use crate::results::Results;
use crate::signals::Signals;
use crate::summary::{self, Summary};
use crate::terminal;
use crate::view::model::JobView;
use crate::watch::Watch;

/// Results that stay on the screen after the live view is gone.
const LEFT_LINES: usize = 10;

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

/// Runs the command.
pub(crate) fn run(arguments: &Run) -> Result<(), Failure> {
    let sql = read(&arguments.file).map_err(|e| Failure::planning(&e, ""))?;
    let display = Display::choose(arguments);
    let results = Results::default();
    let (mut output, mut progress) = (Console::output(), Console::error());
    let mut engine = match display {
        Display::Live => engine(results.clone()),
        _ => engine(output.clone()),
    };
    arguments.workers.into_iter().for_each(|workers| engine.set_workers(workers));
    let settings = settings(&arguments.settings(), &arguments.tables);
    let planned = engine.plan(&sql, &settings).map_err(|e| Failure::planning(&e, &sql))?;
    say(&planned, arguments, &mut output, &mut progress)?;
    let Some(plan) = planned.plan else {
        // Statements like SHOW TABLES have answered already.
        return if planned.reports.is_empty() {
            Err(Failure::planning(&nothing_to_run(arguments), ""))
        } else {
            Ok(())
        };
    };
    // Before the job starts: an address that is in use must not end it.
    let listener = listen(&arguments.http)?;
    let name = plan.options.job_name.clone();
    let (log, exporter) = reports(arguments, &name)?;
    let signals = Signals::catch(&[SIGINT, SIGTERM])?;
    let clock = SystemClock::new();
    let (started, cpu_before) = (clock.now(), process::cpu_time());
    let job = match &arguments.from {
        Some(place) => begin_with(&engine, &plan, place, arguments, &mut progress)?,
        None => engine.start(&plan)?,
    };
    if job.had_ended() {
        info!(job = name, "job had ended before");
        if arguments.is_for_people() {
            progress.line(HAD_ENDED)?;
        }
        return Ok(());
    }
    exporter.iter().for_each(|exporter| exporter.watch(job.served()));
    let url = listener.as_ref().map(Listener::url);
    if let Some(url) = url.as_ref().filter(|_| arguments.is_for_people()) {
        // Even with --quiet: the system may have chosen the port.
        progress.line(&format!("listening at {url}"))?;
    }
    info!(job = name, pid = std::process::id(), version = env!("CARGO_PKG_VERSION"), listening = url, "job started");
    let script = Script { engine, sql, settings };
    let _server = listener.map(|listener| job.serve_script(listener, script)).transpose()?;
    let (limit, only_watches) = (arguments.duration, false);
    let watch = Watch { job: &job, clock: &clock, started, limit, signals: &signals, output: &output, only_watches };
    let watched = match display {
        Display::Live => watch.live(&title(&arguments.file), &results),
        Display::Lines => watch.with_lines(&mut progress),
        Display::Nothing => watch.quietly(notices(arguments, &progress).as_mut()),
    };
    let (view, elapsed) = (watch.view(), watch.elapsed());
    if display == Display::Live {
        // They are gone with the screen.
        watch.quietly(&mut progress)?;
    }
    if watched.is_err() {
        job.stop();
    }
    let shown = (display == Display::Live).then_some(&results);
    let progress = (display != Display::Nothing).then_some(progress);
    finish(job, shown, output.clone(), progress, Ended { name, view, elapsed, cpu_before, log })?;
    watched.map_err(Failure::from)
}

/// What statements answer, and what the user should know of others.
fn say(planned: &Planned, arguments: &Run, output: &mut Console, progress: &mut Console) -> Result<()> {
    planned.reports.iter().try_for_each(|report| output.line(report))?;
    if !arguments.quiet && arguments.is_for_people() {
        planned.notes.iter().try_for_each(|note| progress.line(&format!("notice: {note}")))?;
    }
    Ok(())
}

fn listen(http: &Http) -> Result<Option<Listener>, Failure> {
    let Http { listen, token_file, tls_cert, tls_key } = http.clone();
    let listen = listen.map(|address| Listen { address, token: None, token_file, tls_cert, tls_key });
    listen.map(|listen| Listener::bind(&listen)).transpose().map_err(|error| Failure::planning(&error, ""))
}

/// What the process reports of itself to others: its log, and the export to a collector.
fn reports(arguments: &Run, job: &str) -> Result<(Option<Log>, Option<Exporter>), Failure> {
    let log = event_log(arguments)?;
    let wrong = |error: Error| Failure::planning(&error, "");
    let instance = format!("{job} {}", std::process::id());
    let exporter = log::exporter(&arguments.otlp, "run", instance).map_err(wrong)?;
    log::start(log.as_ref(), exporter.as_ref()).map_err(wrong)?;
    Ok((log, exporter))
}

/// Where notices go while nothing else is shown. A log on standard error has them already.
fn notices(arguments: &Run, progress: &Console) -> Box<dyn Write> {
    match arguments.is_for_people() {
        true => Box::new(progress.clone()),
        false => Box::new(std::io::sink()),
    }
}

fn event_log(arguments: &Run) -> Result<Option<Log>, Failure> {
    let log = match &arguments.log_file {
        Some(path) => Log::to_file(path, &arguments.events).map(Some),
        None if arguments.is_for_people() => Ok(None),
        None => Log::of_run(&arguments.events).map(Some),
    };
    log.map_err(|error| Failure::planning(&error, ""))
}

/// Starts a new job from a savepoint, after printing what is kept, new and lost.
fn begin_with(
    engine: &Engine,
    plan: &Plan,
    place: &str,
    arguments: &Run,
    progress: &mut Console,
) -> Result<Job, Failure> {
    let wrong = |error: Error| Failure::planning(&error, "");
    let savepoint = engine.savepoint(place).map_err(wrong)?;
    if engine.goes_on_behind(plan, &savepoint).map_err(wrong)? && arguments.is_for_people() {
        progress.line("the job has started from this savepoint before: it resumes from its own checkpoints")?;
    } else if !arguments.quiet && arguments.is_for_people() {
        for change in savepoint.compare(plan).map_err(wrong)? {
            progress.line(&change.to_string())?;
        }
    }
    engine.start_from(plan, &savepoint, arguments.allow_lost_state).map_err(wrong)
}

fn nothing_to_run(arguments: &Run) -> Error {
    Error::user("there is nothing to run: the file has no INSERT INTO statement")
        .at(arguments.file.display().to_string())
        .remedy("add INSERT INTO table SELECT ..., for example into a table WITH ('connector' = 'print')")
}

fn title(file: &Path) -> String {
    file.file_name().map_or_else(|| file.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The job at the end of its watch.
struct Ended {
    name: String,
    view: JobView,
    elapsed: Duration,
    cpu_before: Option<Duration>,
    log: Option<Log>,
}

/// Waits for the job's end. `results` were shown on a screen that is gone now; `progress` takes the summary.
fn finish(
    job: Job,
    results: Option<&Results>,
    mut output: Console,
    progress: Option<Console>,
    ended: Ended,
) -> Result<(), Failure> {
    let coordination = job.coordination();
    let outcome = job.wait();
    let cpu = process::cpu_time().zip(ended.cpu_before).map(|(now, before)| now.saturating_sub(before));
    for line in results.map(|results| results.latest(LEFT_LINES)).unwrap_or_default() {
        output.line(&line)?;
    }
    let Ended { name, view, elapsed, log, .. } = ended;
    match &outcome {
        Ok(_) => info!(job = name, "job ended"),
        Err(error) => {
            let (message, place, remedy) = (error.message(), error.place(), error.help());
            error!(job = name, error = message, place, remedy, "job failed");
        }
    }
    if let Some(error) = log.and_then(|log| log.failure()) {
        Console::error().line(&format!("notice: {error}"))?;
    }
    if let Some(mut progress) = progress {
        let summary = Summary { view: &view, elapsed, cpu, peak_bytes: process::peak_resident_bytes() };
        for line in summary::lines(&summary) {
            progress.line(&line)?;
        }
        if let Some(line) = summary::coordination(&coordination, elapsed) {
            progress.line(&line)?;
        }
    }
    outcome.map(|_| ()).map_err(Failure::from)
}
