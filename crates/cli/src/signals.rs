//! Ctrl-C and `kill`: the first asks the job to stop at the end of an epoch, the second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anabranch_model::{Error, Result};
use signal_hook::iterator::Signals as Incoming;

use crate::terminal;

/// Exit code of a process that was interrupted before it could stop in order.
pub(crate) const INTERRUPTED: u8 = 130;

/// What has been asked by signals.
pub(crate) struct Signals {
    asked: Arc<AtomicU32>,
    wake: Receiver<()>,
}

impl Signals {
    /// Catches these signals from now on.
    pub(crate) fn catch(signals: &[i32]) -> Result<Self> {
        let failed = |e: std::io::Error| Error::outside(format!("cannot catch signals: {e}"));
        let mut incoming = Incoming::new(signals).map_err(failed)?;
        let asked = Arc::new(AtomicU32::new(0));
        let (bell, wake) = sync_channel(1);
        let counter = Arc::clone(&asked);
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || incoming.forever().for_each(|_| ask(&counter, &bell)))
            .map_err(failed)?;
        Ok(Signals { asked, wake })
    }

    /// Whether a stop has been asked for.
    pub(crate) fn stop_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst) > 0
    }

    /// Waits until a signal comes or the time is over.
    pub(crate) fn wait(&self, at_most: Duration) {
        let _ = self.wake.recv_timeout(at_most);
    }

    /// Forgets what was asked: before the next job of a shell.
    pub(crate) fn reset(&self) {
        self.asked.store(0, Ordering::SeqCst);
        while self.wake.try_recv().is_ok() {}
    }
}

fn ask(counter: &AtomicU32, bell: &SyncSender<()>) {
    if counter.fetch_add(1, Ordering::SeqCst) > 0 {
        terminal::leave();
        std::process::exit(i32::from(INTERRUPTED));
    }
    let _ = bell.try_send(());
}
