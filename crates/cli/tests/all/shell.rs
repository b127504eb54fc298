//! The shell on a real terminal: a person pastes, types ahead, completes names, and leaves.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The shell behind a pseudo-terminal.
struct Terminal {
    child: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    _home: tempfile::TempDir,
}

impl Terminal {
    fn open(columns: u16) -> Terminal {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the pointers are to locals, or null where the call allows it.
        let opened = unsafe {
            libc::openpty(&raw mut master, &raw mut slave, std::ptr::null_mut(), std::ptr::null(), &raw const size)
        };
        assert_eq!(opened, 0, "no pseudo-terminal");
        // SAFETY: the call above has just opened both, and nothing else uses them.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let home = tempfile::tempdir().expect("home");
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.arg("sql").env("TERM", "xterm").env("XDG_STATE_HOME", home.path());
        command.stdin(slave.try_clone().expect("terminal")).stdout(slave.try_clone().expect("terminal")).stderr(slave);
        // SAFETY: both calls may be made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().expect("the shell starts");
        // The command holds the terminal's other end: without it, reading ends with the shell.
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

    fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
    }

    /// Waits until the text is on the screen.
    #[expect(clippy::disallowed_methods, reason = "the limit of a test")]
    fn wait_for(&mut self, text: &str) {
        let end = Instant::now() + LIMIT;
        while !self.seen.contains(text) {
            match self.screen.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(why) => panic!("{text:?} did not appear ({why}):\n{}", self.seen),
            }
        }
    }

    /// Waits until the shell has ended by itself.
    fn wait_for_end(mut self) -> String {
        loop {
            match self.screen.recv_timeout(LIMIT) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the shell did not end:\n{}", self.seen),
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

#[test]
fn every_pasted_statement_runs() {
    let mut terminal = Terminal::open(80);
    terminal.wait_for("sql> ");
    let tables = (1..=8).map(|n| format!("CREATE TABLE pasted{n} WITH ('connector' = 'ad_campaigns');\n"));
    terminal.type_keys(&(tables.collect::<String>() + "SHOW TABLES;\nexit\n"));
    let seen = terminal.wait_for_end();
    for n in 1..=8 {
        assert!(seen.contains(&format!("pasted{n} (table)")), "pasted{n} is missing:\n{seen}");
    }
}

#[test]
fn tab_completes_names_and_a_bare_word_leaves() {
    let mut terminal = Terminal::open(80);
    terminal.wait_for("sql> ");
    terminal.type_keys("CREATE TABLE campaigns_of_today WITH ('connector' = 'ad_campaigns');\n");
    terminal.wait_for("table campaigns_of_today created");
    terminal.type_keys("DESCRI\t campaigns_of\t;\n");
    terminal.wait_for("campaign_id");
    terminal.type_keys("quit\n");
    terminal.wait_for_end();
}

#[test]
fn a_row_that_is_wider_than_the_terminal_is_cut_and_may_be_shown_by_value() {
    let mut terminal = Terminal::open(50);
    terminal.wait_for("sql> ");
    terminal.type_keys(
        "CREATE TABLE events WITH ('connector' = 'ad_events', 'number-of-rows' = '2');\nSELECT * FROM events;\n",
    );
    terminal.wait_for("rows were cut");
    terminal.type_keys("\\x\nSELECT * FROM events;\n");
    terminal.wait_for("event_time  1");
    terminal.type_keys("exit\n");
    terminal.wait_for_end();
}
