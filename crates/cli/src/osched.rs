//! `anabranch osched`: the operating system's scheduler serves running queries.

mod control;
mod formulas;
mod view;

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result, SystemClock};
use anabranch_osched::config::Config;
use anabranch_osched::control::{Asked, Order};
use anabranch_osched::driver;
use anabranch_osched::guardian;
use anabranch_osched::journal::StateFolder;
use anabranch_osched::kernel::{Machine, Proc};
use anabranch_osched::permission::{Abilities, Report};
use anabranch_osched::run::{Environment, Osched, state_directory};
use anabranch_osched::status::Status;
use anabranch_server::http::{Called, Client};
use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use self::control::Control;
use crate::arguments;
use crate::arguments::{OschedCommand, OschedRun, OschedSwitch};
use crate::client::token;
use crate::console::Console;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::terminal::{Screen, is_interactive};

/// Time between two lines about the state, without a live view.
const PLAIN: Duration = Duration::from_secs(5);
/// Time between two frames of the live view.
const FRAME: Duration = Duration::from_millis(250);
/// Time limit for a running scheduler to answer.
const ANSWER: Duration = Duration::from_secs(15);

pub(crate) fn osched(arguments: &arguments::Osched) -> Result<(), Failure> {
    match &arguments.command {
        OschedCommand::Run(run) => schedule(run),
        OschedCommand::Check(source) => check(source.source.as_deref()).map_err(Failure::request),
        OschedCommand::Targets(source) => targets(source.source.as_deref()).map_err(Failure::request),
        OschedCommand::Switch(arguments) => switch(arguments),
        OschedCommand::Restore(restore) => {
            let folder = restore.state_directory.clone().unwrap_or_else(state_directory);
            let kernel = Proc::new().map_err(Failure::request)?;
            let left =
                StateFolder::open(folder).and_then(|folder| folder.restore_left(&kernel)).map_err(Failure::request)?;
            let mut output = Console::output();
            if left.is_empty() {
                output.line("there is nothing to restore")?;
            }
            for (path, undone) in left {
                output.line(&format!("{}: {undone}", path.display()))?;
                undone.failed.iter().try_for_each(|error| output.line(&format!("  {error}")))?;
            }
            Ok(())
        }
        OschedCommand::Guardian(guardian) => {
            let watched = guardian::standard_input().and_then(|socket| {
                let kernel = Proc::new()?;
                guardian::watch(socket, &guardian.journal, &kernel)
            });
            watched.map(drop).map_err(Failure::request)
        }
    }
}

fn switch(arguments: &OschedSwitch) -> Result<(), Failure> {
    // The environment has the token of a coordinator, which is another process.
    let token = arguments.token_file.as_deref().map(|path| token(Some(path))).transpose();
    let client = Client {
        urls: vec![arguments.url.clone()],
        token: token.map_err(Failure::request)?.flatten(),
        authority: arguments.tls_ca.clone(),
        wait: ANSWER,
        server: Called::Osched,
    };
    let OschedSwitch { policy, priority, .. } = arguments;
    client.post("/api/v1/osched/switch", &json!({"policy": policy, "priority": priority}))?;
    Ok(Console::error().line(&format!("policy '{policy}' decides by {priority}"))?)
}

/// The configuration in a file, or for the engine at an address.
fn configuration(source: &str) -> Result<Config> {
    if !source.contains("://") {
        return Config::read(Path::new(source));
    }
    Config::of_address(driver::recognize(source)?, source)
}

fn schedule(arguments: &OschedRun) -> Result<(), Failure> {
    let config = configuration(&arguments.source).map_err(Failure::request)?;
    let listener = control::listener(&config).map_err(Failure::request)?;
    let signals = Signals::catch(&[SIGINT, SIGTERM])?;
    let (kernel, clock): (_, Arc<dyn Clock>) = (Proc::new().map_err(Failure::request)?, Arc::new(SystemClock::new()));
    let drivers = config.targets.iter().map(driver::of).collect::<Result<Vec<_>>>().map_err(Failure::request)?;
    let environment = Environment {
        clock: Arc::clone(&clock),
        kernel,
        formulas: formulas::compile,
        guardian: guardian_of,
        drivers,
        dry_run: arguments.dry_run,
    };
    let osched = Osched::start(config, environment).map_err(Failure::request)?;
    let mut progress = Console::error();
    if let Some(listener) = listener.as_ref().filter(|_| !arguments.quiet) {
        progress.line(&format!("status and control: {}", listener.url()))?;
    }
    let control = Control { status: osched.status(), orders: osched.orders() };
    let server =
        listener.map(|listener| listener.serve_paths(Arc::new(control))).transpose().map_err(Failure::request)?;
    let shown = is_interactive() && !arguments.plain && !arguments.quiet && !arguments.dry_run;
    let mut session = Session { osched, signals: &signals, clock: clock.as_ref(), arguments };
    let ended = if shown { session.live() } else { session.plain() };
    // Whatever has ended it: values that were written are restored first.
    let undone = session.osched.end();
    drop(server);
    let undone = undone?;
    ended?;
    if !arguments.quiet && !arguments.dry_run {
        progress.line(&format!("all is as it was before: {undone}"))?;
    }
    match undone.failed.into_iter().next() {
        None => Ok(()),
        Some(error) => {
            Err(Failure::from(error.remedy("run 'anabranch osched restore' again when the cause is mended")))
        }
    }
}

/// A scheduler that runs until the user ends it.
struct Session<'a> {
    osched: Osched,
    signals: &'a Signals,
    clock: &'a dyn Clock,
    arguments: &'a OschedRun,
}

impl Session<'_> {
    fn is_over(&self, started: Nanos) -> bool {
        let limit = self.arguments.duration;
        self.signals.stop_asked() || limit.is_some_and(|limit| self.clock.now().after(started) >= limit)
    }

    /// Lines of text: the values in a dry run, notices, and the state from time to time.
    fn plain(&mut self) -> Result<(), Failure> {
        let (mut output, mut progress) = (Console::output(), Console::error());
        let started = self.clock.now();
        let (mut notices, mut next) = (0, started);
        while !self.is_over(started) {
            let step = self.osched.step()?;
            step.rehearsed.iter().try_for_each(|line| output.line(line))?;
            let status = status(&self.osched.status());
            let new = usize::try_from(status.notices_total - notices).unwrap_or(0).min(status.notices.len());
            notices = status.notices_total;
            if !self.arguments.quiet {
                status.notices[status.notices.len() - new..].iter().try_for_each(|notice| progress.line(notice))?;
                if self.clock.now() >= next && !self.arguments.dry_run {
                    progress.line(view::lines(&status).trim_end())?;
                    next = self.clock.now().plus(PLAIN);
                }
            }
            self.signals.wait(step.wait.min(FRAME));
        }
        Ok(())
    }

    fn live(&mut self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Error::outside(format!("cannot read the terminal: {error}"));
        let mut screen = Screen::enter()?;
        let started = self.clock.now();
        let mut next_frame = started;
        while !self.is_over(started) {
            let mut wait = self.osched.step()?.wait;
            if self.clock.now() >= next_frame {
                let status = status(&self.osched.status());
                let title = &self.arguments.source;
                screen.terminal.draw(|frame| view::draw(frame, title, &status)).map_err(failed)?;
                next_frame = self.clock.now().plus(FRAME);
            }
            wait = wait.min(next_frame.after(self.clock.now()));
            if !poll(wait).map_err(failed)? {
                continue;
            }
            let Event::Key(key) = read().map_err(failed)? else { continue };
            let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                _ if key.kind == KeyEventKind::Release => {}
                KeyCode::Char('q') | KeyCode::Esc => break,
                _ if is_interrupt => break,
                KeyCode::Char('p') => {
                    let paused = status(&self.osched.status()).paused;
                    // The next step carries it out, and the view shows the result.
                    let (answer, _) = channel();
                    let _ = self.osched.orders().send(Asked { order: Order::Pause(!paused), answer });
                    next_frame = self.clock.now();
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn status(shared: &Mutex<Status>) -> Status {
    shared.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// This program as the guardian of a journal.
fn guardian_of(journal: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["osched", "guardian"]).arg(journal);
    command
}

fn check(source: Option<&str>) -> Result<()> {
    let mut output = Console::output();
    let kernel = Proc::new()?;
    let report = Report::new(&kernel, &Machine::of(&kernel, "osched"), &Abilities::find(&kernel)?);
    output.line(report.to_string().trim_end())?;
    let Some(source) = source else { return Ok(()) };
    let config = configuration(source)?;
    let drivers = config.targets.iter().map(driver::of).collect::<Result<Vec<_>>>()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let checked = anabranch_osched::run::check(&config, drivers, formulas::compile, &kernel, &clock)?;
    output.line("")?;
    checked.iter().try_for_each(|line| output.line(line))
}

fn targets(source: Option<&str>) -> Result<()> {
    let source = source.ok_or_else(|| {
        Error::user("there is no target").remedy("give an osched.toml, or the address of an engine: http://HOST:PORT")
    })?;
    let mut output = Console::output();
    for target in &configuration(source)?.targets {
        output.line(&format!("target {} ({})", target.name, target.engine.name()))?;
        let mut driver = driver::of(target)?;
        let graph = driver.look()?;
        let lines = anabranch_osched::run::list(&graph).into_iter().chain(driver.left_alone());
        lines.into_iter().try_for_each(|line| output.line(&format!("  {line}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_file_or_an_address() {
        let missing = configuration("/does/not/exist.toml").expect_err("refused").to_string();
        assert!(missing.contains("give the path of an osched.toml"), "{missing}");
        let nobody = configuration("http://127.0.0.1:1").expect_err("refused").to_string();
        assert!(nobody.contains("http://127.0.0.1:1"), "{nobody}");
    }
}
