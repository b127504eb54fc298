//! A job of INSERTs: started, shown while it runs, and summed up.

use std::io::Write;
use std::time::Duration;

use anabranch_model::{Clock, Error, Result};
use anabranch_server::http::{Listener, Script};
use anabranch_server::{Engine, Job, Plan, process};
use tracing::{error, info};

use super::{Display, HAD_ENDED, Runner, title};
use crate::arguments::Run;
use crate::console::Console;
use crate::failure::Failure;
use crate::log::Log;
use crate::results::Results;
use crate::summary::{self, Summary};
use crate::view::model::JobView;
use crate::view::text::grouped;
use crate::watch::Watch;

impl Runner<'_> {
    /// Runs a job until it has ended.
    pub(super) fn job(&mut self, plan: &Plan) -> Result<(), Failure> {
        let (arguments, name) = (self.arguments, plan.options.job_name.clone());
        let (started, cpu_before) = (self.clock.now(), process::cpu_time());
        let job = match &arguments.from {
            Some(place) => {
                begin_with(&self.engine, plan, place, arguments, &mut self.progress).map_err(Failure::request)?
            }
            None => self.engine.start(plan)?,
        };
        if job.had_ended() {
            info!(job = name, "job had ended before");
            if arguments.is_for_people() {
                self.progress.line(HAD_ENDED)?;
            }
            return Ok(());
        }
        self.exporter.iter().for_each(|exporter| exporter.watch(job.served()));
        let listener = self.announced()?;
        let url = listener.as_ref().map(Listener::url);
        info!(
            job = name,
            pid = std::process::id(),
            version = env!("CARGO_PKG_VERSION"),
            listening = url,
            "job started"
        );
        let script = Script { engine: self.engine.clone(), sql: self.sql.clone(), settings: self.settings.clone() };
        let _server = listener.map(|listener| job.serve_script(listener, script)).transpose()?;
        let (limit, only_watches, signals, output) = (self.remaining(), false, &self.signals, &self.output);
        let watch = Watch { job: &job, clock: &self.clock, started, limit, signals, output, only_watches };
        let mut progress = self.progress.clone();
        let watched = match self.display {
            Display::Live => watch.live(&title(&arguments.file), &self.results),
            Display::Lines => watch.with_lines(&mut progress),
            Display::Nothing => watch.quietly(notices(arguments, &progress).as_mut()),
        };
        let (view, elapsed) = (watch.view(), watch.elapsed());
        if self.display == Display::Live {
            // The notices on the screen are gone with it.
            watch.quietly(&mut progress)?;
        }
        if watched.is_err() {
            job.stop();
        }
        let shown = (self.display == Display::Live).then_some(&self.results);
        let progress = (self.display != Display::Nothing).then_some(progress);
        let ended = Ended { name, view, elapsed, cpu_before, log: self.log.as_ref() };
        finish(job, shown, self.output.clone(), progress, ended)?;
        watched.map_err(Failure::from)
    }
}

/// The output for notices while no view shows them. A log on standard error has them already.
fn notices(arguments: &Run, progress: &Console) -> Box<dyn Write> {
    match arguments.is_for_people() {
        true => Box::new(progress.clone()),
        false => Box::new(std::io::sink()),
    }
}

/// Starts a new job from a savepoint, after printing what is kept, new and lost.
fn begin_with(engine: &Engine, plan: &Plan, place: &str, arguments: &Run, progress: &mut Console) -> Result<Job> {
    let savepoint = engine.savepoint(place)?;
    if engine.goes_on_behind(plan, &savepoint)? && arguments.is_for_people() {
        progress.line("the job has started from this savepoint before: it resumes from its own checkpoints")?;
    } else if !arguments.quiet && arguments.is_for_people() {
        for change in engine.compare(plan, &savepoint)? {
            progress.line(&change.to_string())?;
        }
    }
    let late = if arguments.allow_late { Vec::new() } else { engine.late_from(plan, &savepoint)? };
    if !late.is_empty() {
        let error = Error::user(format!("rows would be late: {}", late.join("; ")));
        return Err(error.remedy("start a new job without the savepoint, or allow that (--allow-late)"));
    }
    engine.start_from(plan, &savepoint, arguments.allow_lost_state)
}

/// Writes the lines of print tables that were shown on the screen before.
fn leave(results: &Results, output: &mut Console, progress: &mut Console) -> Result<()> {
    let gone = results.gone();
    if gone > 0 {
        let lines = grouped(gone);
        progress.line(&format!("{lines} earlier lines of print tables are gone: --plain writes each as it comes"))?;
    }
    results.lines().iter().try_for_each(|line| output.line(line))
}

/// The job at the end of its watch.
struct Ended<'a> {
    name: String,
    view: JobView,
    elapsed: Duration,
    cpu_before: Option<Duration>,
    log: Option<&'a Log>,
}

/// Waits for the job's end. `results` were shown on the screen before; `progress` receives the summary.
fn finish(
    job: Job,
    results: Option<&Results>,
    mut output: Console,
    progress: Option<Console>,
    ended: Ended<'_>,
) -> Result<(), Failure> {
    let coordination = job.coordination();
    let outcome = job.wait();
    let cpu = process::cpu_time().zip(ended.cpu_before).map(|(now, before)| now.saturating_sub(before));
    if let Some(results) = results {
        leave(results, &mut output, &mut Console::error())?;
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
