//! The program on a real terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The program behind a pseudo-terminal.
pub(crate) struct Terminal {
    child: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    _home: tempfile::TempDir,
}

impl Terminal {
    /// The shell on a terminal of so many columns.
    pub(crate) fn open(columns: u16) -> Terminal {
        Terminal::of(&["sql"], columns, 24)
    }

    /// The program with these arguments.
    pub(crate) fn of(arguments: &[&str], columns: u16, rows: u16) -> Terminal {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the pointers are to locals, or null where the call allows it.
        let opened = unsafe {
            libc::openpty(&raw mut master, &raw mut slave, std::ptr::null_mut(), std::ptr::null(), &raw const size)
        };
        assert_eq!(opened, 0, "no pseudo-terminal");
        // SAFETY: the call above has just opened both, and nothing else uses them.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let home = tempfile::tempdir().expect("home");
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.args(arguments).env("TERM", "xterm").env("XDG_STATE_HOME", home.path());
        command.stdin(slave.try_clone().expect("terminal")).stdout(slave.try_clone().expect("terminal")).stderr(slave);
        // SAFETY: both calls may be made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().expect("the program starts");
        // The command holds the terminal's other end: without it, reading ends with the program.
        drop(command);
        let (sender, screen) = channel();
        let mut output = master.try_clone().expect("terminal");
        let read = move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("screen".into()).spawn(read).expect("thread");
        Terminal { child, keys: master, screen, seen: String::new(), _home: home }
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
    }

    /// Waits until the text is on the screen.
    #[expect(clippy::disallowed_methods, reason = "the limit of a test")]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let end = Instant::now() + LIMIT;
        while !self.seen.contains(text) {
            match self.screen.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(why) => panic!("{text:?} did not appear ({why}):\n{}", self.seen),
            }
        }
    }

    /// Forgets what was on the screen up to a text, once it is there.
    pub(crate) fn pass(&mut self, text: &str) {
        self.wait_for(text);
        let end = self.seen.find(text).map_or(0, |at| at + text.len());
        self.seen.drain(..end);
    }

    /// Waits until the program has ended by itself. Returns what was on the screen.
    pub(crate) fn wait_for_end(mut self) -> String {
        loop {
            match self.screen.recv_timeout(LIMIT) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the program did not end:\n{}", self.seen),
            }
        }
        assert!(self.child.wait().expect("ended").success(), "{}", self.seen);
        std::mem::take(&mut self.seen)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
