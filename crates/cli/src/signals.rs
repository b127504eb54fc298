//! Ctrl-C and `kill`: the first signal stops the job at the end of an epoch, the second ends the process at
//! once. If no job runs, `kill` ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anabranch_model::{Error, Result};
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals as Incoming;

use crate::terminal;

/// Exit code of a process that was interrupted before its job could stop.
pub(crate) const INTERRUPTED: u8 = 130;

/// The requests of signals.
pub(crate) struct Signals {
    heard: Arc<Heard>,
    wake: Receiver<()>,
}

#[derive(Default)]
struct Heard {
    asked: AtomicU32,
    /// `kill`: the process must end, not only the job.
    terminated: AtomicBool,
    /// Whether a prompt waits for the user.
    idle: AtomicBool,
}

impl Signals {
    /// Catches these signals from now on.
    pub(crate) fn catch(signals: &[i32]) -> Result<Self> {
        let failed = |e: std::io::Error| Error::outside(format!("cannot catch signals: {e}"));
        let mut incoming = Incoming::new(signals).map_err(failed)?;
        let heard = Arc::new(Heard::default());
        let (bell, wake) = sync_channel(1);
        let shared = Arc::clone(&heard);
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || incoming.forever().for_each(|signal| shared.notify(signal, &bell)))
            .map_err(failed)?;
        Ok(Signals { heard, wake })
    }

    /// Whether a stop was requested.
    pub(crate) fn stop_asked(&self) -> bool {
        self.heard.asked.load(Ordering::SeqCst) > 0
    }

    /// Waits until a stop is requested.
    pub(crate) fn wait_for_stop(&self) {
        while !self.stop_asked() {
            self.wait(Duration::from_secs(1));
        }
    }

    /// Whether the process must end, not only its job.
    pub(crate) fn terminated(&self) -> bool {
        self.heard.terminated.load(Ordering::SeqCst)
    }

    /// Sets whether a prompt waits, at which `kill` ends the process.
    pub(crate) fn set_idle(&self, idle: bool) {
        self.heard.idle.store(idle, Ordering::SeqCst);
    }

    /// Waits until a signal arrives or the time is over.
    pub(crate) fn wait(&self, at_most: Duration) {
        let _ = self.wake.recv_timeout(at_most);
    }

    /// Forgets earlier requests: before the next line of a shell.
    pub(crate) fn reset(&self) {
        self.heard.asked.store(0, Ordering::SeqCst);
        while self.wake.try_recv().is_ok() {}
    }
}

impl Heard {
    fn notify(&self, signal: i32, bell: &SyncSender<()>) {
        if signal == SIGTERM {
            self.terminated.store(true, Ordering::SeqCst);
            if self.idle.load(Ordering::SeqCst) {
                terminal::leave();
                std::process::exit(0);
            }
        }
        if self.asked.fetch_add(1, Ordering::SeqCst) > 0 {
            terminal::leave();
            std::process::exit(i32::from(INTERRUPTED));
        }
        let _ = bell.try_send(());
    }
}
