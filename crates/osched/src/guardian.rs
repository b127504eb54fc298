//! A process that restores everything when osched ends without doing so: after a SIGKILL, a crash, or when
//! memory runs out.
//!
//! The guardian is a child of osched and the same program. Both hold one end of a socket. When osched ends in
//! any way, the kernel closes its end, and the guardian restores what the journal says, unless osched has
//! said farewell before. osched's end is closed on exec, so that no other child keeps it open. The guardian
//! is in a session of its own, where Ctrl-C does not reach it, and ignores the signals by which osched is
//! asked to end, since a manager sends them to all processes of a service.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anabranch_model::{Error, Result, pause};

use crate::journal::{self, Undone};
use crate::kernel::Proc;

/// Sent by the guardian once it watches.
const READY: u8 = b'r';
/// Sent by osched when it has restored everything itself.
const FAREWELL: u8 = b'.';
/// How long the guardian may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take to end after the farewell: 2 s.
const END_TRIES: usize = 200;
const END_PAUSE: Duration = Duration::from_millis(10);

/// The guardian as osched sees it. Dropping it without a farewell makes it restore.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
    socket: UnixStream,
}

/// Starts the guardian by a command line of this program, which calls [`watch`] with [`standard_input`].
/// Returns once it watches.
pub fn start(mut command: Command) -> Result<Guardian> {
    let (ours, theirs) = UnixStream::pair().map_err(|e| failed(&format!("no socket: {e}")))?;
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
    // SAFETY: between fork and exec only setsid is called, which is safe in the child of a process with
    // threads.
    unsafe {
        command.pre_exec(|| {
            // It fails only for the leader of a process group, which a new child is not.
            libc::setsid();
            Ok(())
        });
    }
    let child = command.spawn().map_err(|e| failed(&format!("cannot start it: {e}")))?;
    // The command holds the guardian's end as well: it must be closed here, so that its end shows.
    drop(command);
    let mut guardian = Guardian { child, socket: ours };
    let mut answer = [0];
    let timed = guardian.socket.set_read_timeout(Some(START_TIMEOUT));
    match timed.and_then(|()| guardian.socket.read_exact(&mut answer)) {
        Ok(()) if answer[0] == READY => Ok(guardian),
        Ok(()) => Err(guardian.abandon("it answered something else than that it watches")),
        Err(error) => Err(guardian.abandon(&format!("it does not watch: {error}"))),
    }
}

impl Guardian {
    /// Whether it still watches. If it does not, nothing restores after a SIGKILL: a new one should be
    /// started.
    pub fn is_watching(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it: there is nothing to restore.
    pub fn farewell(mut self) -> Result<()> {
        // If it has ended already, there is nobody to tell.
        drop(self.socket.write_all(&[FAREWELL]));
        drop(self.socket.shutdown(std::net::Shutdown::Both));
        for _ in 0..END_TRIES {
            match self.child.try_wait() {
                Ok(None) => pause(END_PAUSE),
                Ok(Some(_)) => return Ok(()),
                Err(error) => return Err(failed(&format!("cannot wait for its end: {error}"))),
            }
        }
        Err(self.abandon("it does not end"))
    }

    fn abandon(&mut self, why: &str) -> Error {
        // It may hang: by a kill it does no harm any more. Both calls fail only if it has ended.
        drop(self.child.kill());
        drop(self.child.wait());
        failed(why)
    }
}

/// Waits until osched ends, and restores what its journal says if it did not say farewell. Returns what was
/// restored then.
pub fn watch(mut osched: UnixStream, journal: &Path, kernel: &Proc) -> Result<Option<Undone>> {
    ignore_signals();
    osched.write_all(&[READY]).map_err(|e| failed(&format!("osched ended before it watched: {e}")))?;
    let mut bytes = [0];
    loop {
        match osched.read(&mut bytes) {
            Ok(1) if bytes[0] == FAREWELL => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(1) => {}
            // The end of osched. An error tells the same, and restoring what was restored does no harm.
            Ok(_) | Err(_) => return journal::restore(journal, kernel),
        }
    }
}

/// The socket on which a guardian was started.
pub fn standard_input() -> Result<UnixStream> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let socket = socket.and_then(|socket| socket.peer_addr().map(|_| socket));
    socket.map_err(|error| {
        Error::user(format!("standard input is not a socket of osched: {error}")).remedy(
            "osched starts its guardian itself; to restore what a killed one left, run 'anabranch osched restore'",
        )
    })
}

fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
        // SAFETY: ignoring a signal installs no handler, so no code of ours runs in one.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

fn failed(why: &str) -> Error {
    Error::outside(why).at("guardian").remedy(
        "without it nothing restores the threads after a SIGKILL until the next start or 'anabranch osched restore'",
    )
}
