//! Watches a running job until it has ended: shows it, and passes on the request to stop.

use std::io::Write;
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Notice, Result, TaskMetrics};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::console::Console;
use crate::results::Results;
use crate::signals::{INTERRUPTED, Signals};
use crate::terminal::{self, Screen};
use crate::view::live;
use crate::view::model::{History, JobView, Reading, view};
use crate::view::plain;

/// Interval at which the end of a job is polled.
const LOOK: Duration = Duration::from_millis(20);
const REDRAW: Duration = Duration::from_millis(250);
const LINE: Duration = Duration::from_secs(1);
/// How often the reason for missing results is repeated.
const EXPLAIN_AGAIN: Duration = Duration::from_secs(10);
const RATE_SPAN: Duration = Duration::from_secs(1);

pub(crate) trait Watched {
    /// A reading of every task.
    fn metrics(&self) -> Vec<TaskMetrics>;
    /// Requests a stop at the end of an epoch.
    fn stop(&self);
    /// Whether it has ended, with or without a failure.
    fn is_finished(&self) -> bool;
    /// Why it gives no results, or where it waits.
    fn why(&self) -> Option<String>;
    /// Its notices with a number above `number`.
    fn notices(&self, number: u64) -> Vec<Notice>;
}

pub(crate) struct Watch<'a> {
    pub(crate) job: &'a dyn Watched,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) started: Nanos,
    pub(crate) limit: Option<Duration>,
    pub(crate) signals: &'a Signals,
    /// The stream of results: when its reader has left, the job is stopped.
    pub(crate) output: &'a Console,
    /// Whether the job belongs to a coordinator: a request to stop only ends the watch.
    pub(crate) only_watches: bool,
}

impl Watch<'_> {
    pub(crate) fn view(&self) -> JobView {
        view(&self.reading(), None)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.now().after(self.started)
    }

    /// Watches until the end. Writes only notices to `out`: failures that the job survived, systems that it
    /// waits for.
    pub(crate) fn quietly(&self, out: &mut dyn Write) -> Result<()> {
        self.until_end(out, |_, _| Ok(()))
    }

    /// Like [`Watch::quietly`], and explains from time to time why there are no results.
    pub(crate) fn with_explanations(&self, out: &mut dyn Write) -> Result<()> {
        let mut explanations = Explanations::default();
        self.until_end(out, |stop, out| {
            if stop != Asked::No || !explanations.is_due(self.elapsed()) {
                return Ok(());
            }
            let view = self.view();
            explanations.write(view.stall.as_deref().filter(|_| view.results == 0), out)
        })
    }

    /// Watches until the end, with notices and a line per second to `out`.
    pub(crate) fn with_lines(&self, out: &mut dyn Write) -> Result<()> {
        let failed = |e: std::io::Error| Error::outside(format!("cannot write the progress: {e}"));
        let mut history = History::new(RATE_SPAN);
        history.push(self.reading());
        let (mut explanations, mut due) = (Explanations::default(), LINE);
        self.until_end(out, |stop, out| {
            if stop == Asked::Now && !self.only_watches {
                writeln!(out, "stopping at the end of the epoch; again to leave at once").map_err(failed)?;
            }
            let elapsed = self.elapsed();
            if elapsed >= due {
                let view = history.push(self.reading());
                writeln!(out, "{}", plain::line(elapsed, &view)).map_err(failed)?;
                if view.results == 0 && explanations.is_due(elapsed) {
                    explanations.write(view.stall.as_deref(), out)?;
                }
                due = elapsed + LINE;
            }
            Ok(())
        })
    }

    /// Writes notices and passes on the request to stop, until the job has ended. Between two looks at the
    /// job it calls `step`.
    fn until_end(&self, out: &mut dyn Write, mut step: impl FnMut(Asked, &mut dyn Write) -> Result<()>) -> Result<()> {
        let (mut stop, mut notices) = (Stop::default(), Notices::default());
        loop {
            // Read before the notices, so that the job's last notice is written too.
            let finished = self.job.is_finished();
            notices.write(self.job, out)?;
            if finished {
                return Ok(());
            }
            self.signals.wait(LOOK);
            step(stop.ask_if(self.stop_is_due(), self.job), out)?;
        }
    }

    /// Watches until the end, on the whole terminal.
    pub(crate) fn live(&self, title: &str, results: &Results) -> Result<()> {
        let failed = |e: std::io::Error| Error::outside(format!("the terminal failed: {e}")).remedy("add --plain");
        let mut screen = Screen::enter()?;
        let mut history = History::new(RATE_SPAN);
        let (mut stop, mut keys, mut due) = (Stop::default(), Keys::default(), Duration::ZERO);
        while !self.job.is_finished() {
            let mut asked = self.stop_is_due();
            if event::poll(LOOK).map_err(failed)? && asks_to_stop(&event::read().map_err(failed)?) {
                if keys.press(self.signals.stop_asked()) == Pressed::Again {
                    terminal::leave();
                    std::process::exit(i32::from(INTERRUPTED));
                }
                asked = true;
            }
            let stop = stop.ask_if(asked, self.job);
            if stop == Asked::Now || self.elapsed() >= due {
                let view = history.push(self.reading());
                let results = results.tables();
                let keys = self.keys(stop != Asked::No);
                let elapsed = self.elapsed();
                let notices = self.job.notices(0);
                let notices: Vec<String> = notices.iter().map(|notice| self.dated(notice)).collect();
                let shown = live::Screen { title, elapsed, view: &view, notices: &notices, results: &results, keys };
                screen.terminal.draw(|frame| live::draw(frame, &shown)).map_err(failed)?;
                due = elapsed + REDRAW;
            }
        }
        Ok(())
    }

    fn keys(&self, stopping: bool) -> &'static str {
        match (self.only_watches, stopping) {
            (true, _) => "q or Ctrl-C: leave this view; the job continues",
            (false, true) => "stopping at the end of the epoch; again to leave now",
            (false, false) => "q or Ctrl-C: stop",
        }
    }

    /// A notice with the time since the start at which it was reported.
    fn dated(&self, notice: &Notice) -> String {
        format!("{} {}", live::clock(notice.at.after(self.started)), text_of(notice))
    }

    fn stop_is_due(&self) -> bool {
        let unwanted = self.signals.stop_asked() || self.output.reader_left();
        unwanted || self.limit.is_some_and(|limit| self.elapsed() >= limit)
    }

    fn reading(&self) -> Reading {
        let (tasks, why) = (self.job.metrics(), self.job.why());
        Reading { at: self.clock.now(), wall_ms: self.clock.wall_ms(), tasks, why }
    }
}

/// Explains from time to time why there are no results.
pub(crate) struct Explanations {
    due: Duration,
}

impl Default for Explanations {
    fn default() -> Self {
        Explanations { due: live::EXPLAINED_AFTER }
    }
}

impl Explanations {
    /// Whether an explanation is due. The next one is due later.
    pub(crate) fn is_due(&mut self, elapsed: Duration) -> bool {
        let due = elapsed >= self.due;
        if due {
            self.due = elapsed + EXPLAIN_AGAIN;
        }
        due
    }

    /// Writes the reason, if there is one.
    pub(crate) fn write(&self, why: Option<&str>, out: &mut dyn Write) -> Result<()> {
        let Some(why) = why else { return Ok(()) };
        let written = writeln!(out, "no results yet: {why}");
        written.map_err(|e| Error::outside(format!("cannot write why there are no results: {e}")))
    }
}

/// Writes each notice of a job once, and again when it is repeated.
#[derive(Default)]
pub(crate) struct Notices {
    written: u64,
}

impl Notices {
    pub(crate) fn write(&mut self, job: &dyn Watched, out: &mut dyn Write) -> Result<()> {
        for notice in job.notices(self.written) {
            self.written = notice.number;
            let written = writeln!(out, "notice: {}", text_of(&notice));
            written.map_err(|e| Error::outside(format!("cannot write a notice: {e}")))?;
        }
        Ok(())
    }
}

/// The notice in one line, with how often it was reported.
pub(crate) fn text_of(notice: &Notice) -> String {
    let text = notice.text.replace("\n  help: ", "; ").replace('\n', " ");
    if notice.times > 1 { format!("{text} ({} times)", notice.times) } else { text }
}

/// Whether a job was asked to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    No,
    Now,
    Before,
}

/// Stops a job once.
#[derive(Default)]
struct Stop {
    asked: bool,
}

impl Stop {
    /// Stops the job if a stop is due and was not requested before.
    fn ask_if(&mut self, due: bool, job: &dyn Watched) -> Asked {
        match (due, self.asked) {
            (_, true) => Asked::Before,
            (false, false) => Asked::No,
            (true, false) => {
                self.asked = true;
                job.stop();
                Asked::Now
            }
        }
    }
}

/// The keys with which the user ends the job. A stop at the time limit does not count as the user's request.
#[derive(Default)]
pub(crate) struct Keys {
    pressed: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pressed {
    First,
    /// The user does not wait for the end of the epoch.
    Again,
}

impl Keys {
    /// Handles a key; `signalled`: whether a signal has requested the stop already.
    pub(crate) fn press(&mut self, signalled: bool) -> Pressed {
        if std::mem::replace(&mut self.pressed, true) || signalled { Pressed::Again } else { Pressed::First }
    }
}

/// In raw mode Ctrl-C is an ordinary key.
pub(crate) fn asks_to_stop(event: &Event) -> bool {
    match event {
        Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) => match code {
            KeyCode::Char('q') => modifiers.is_empty(),
            KeyCode::Char('c' | 'd') => modifiers.contains(KeyModifiers::CONTROL),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests;
