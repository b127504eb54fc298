//! The terminal as a screen: entered for the live view, and restored whichever way the process ends.

use std::io::{IsTerminal, Stdout, stderr, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_model::{Error, Result};
use crossterm::cursor::Show;
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

/// Whether this process has taken the screen: it must be restored once, by any thread.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// The screen, which is restored when dropped.
pub(crate) struct Screen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// Whether the program is used at a terminal that can show the live view.
pub(crate) fn is_interactive() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    stdin().is_terminal() && stdout().is_terminal() && stderr().is_terminal() && !dumb
}

/// Columns of the terminal that standard output is; `None` if it is none.
pub(crate) fn width() -> Option<usize> {
    let size = stdout().is_terminal().then(crossterm::terminal::size)?.ok()?;
    Some(usize::from(size.0)).filter(|width| *width > 0)
}

impl Screen {
    pub(crate) fn enter() -> Result<Self> {
        let failed = |e: std::io::Error| {
            Error::outside(format!("cannot draw on this terminal: {e}")).remedy("add --plain for lines of text")
        };
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).map_err(failed)?;
        // A panic's message must be on the screen that the user sees afterwards.
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            report(panic);
        }));
        ENTERED.store(true, Ordering::SeqCst);
        let screen = Screen { terminal };
        enable_raw_mode().map_err(failed)?;
        execute!(stdout(), EnterAlternateScreen).map_err(failed)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Restores the screen if it was taken.
pub(crate) fn leave() {
    if ENTERED.swap(false, Ordering::SeqCst) {
        // If this fails, there is no other place to report it.
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    }
}
