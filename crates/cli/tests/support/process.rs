//! A process that ends with the test, and what it says.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;

/// Longer than anything here takes, even on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A process that does not outlive the test.
pub(crate) struct Process {
    child: Child,
    /// Lines of its standard error, read by a thread: waiting for one has a limit, and the process can always
    /// write.
    stderr: Receiver<String>,
    said: RefCell<String>,
}

impl Process {
    /// Starts a command whose standard output nobody reads.
    pub(crate) fn start(mut command: Command) -> Process {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
        let (sender, stderr) = channel();
        let stream = BufReader::new(child.stderr.take().expect("piped"));
        let read = move || {
            // The test may have heard enough.
            stream.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        };
        std::thread::Builder::new().name("lines".into()).spawn(read).expect("thread");
        Process { child, stderr, said: RefCell::default() }
    }

    fn hear(&self, line: &str) {
        self.said.borrow_mut().push_str(&format!("{line}\n"));
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        self.stderr.try_iter().for_each(|line| self.hear(&line));
        self.said.borrow().clone()
    }

    /// The last part of it.
    pub(crate) fn said_last(&self) -> String {
        let said = self.said();
        said[said.floor_char_boundary(said.len().saturating_sub(1000))..].to_owned()
    }

    /// Waits until it says a line that begins so.
    pub(crate) fn wait_for(&self, begin: &str) {
        loop {
            let line = self.stderr.recv_timeout(LIMIT);
            let line = line.unwrap_or_else(|_| panic!("it does not say '{begin}': {}", self.said()));
            self.hear(&line);
            if line.starts_with(begin) {
                return;
            }
        }
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn close_input(&mut self) {
        self.child.stdin = None;
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status().expect("kill");
        assert!(sent.success());
    }

    /// Kills it, and sees its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("killed");
    }

    /// Whether its standard error is closed, as at its end.
    pub(crate) fn has_ended(&self) -> bool {
        loop {
            match self.stderr.try_recv() {
                Ok(line) => self.hear(&line),
                Err(error) => return error == TryRecvError::Disconnected,
            }
        }
    }

    /// Waits for its end. Returns its code, or nothing if a signal ended it.
    pub(crate) fn end(self) -> Option<i32> {
        self.end_with_said().0
    }

    /// The same, with what it has said.
    pub(crate) fn end_with_said(mut self) -> (Option<i32>, String) {
        loop {
            match self.stderr.recv_timeout(LIMIT) {
                Ok(line) => self.hear(&line),
                // Its standard error is closed: it ends.
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it hangs after: {}", self.said()),
            }
        }
        let code = self.child.wait().expect("it ends").code();
        (code, self.said())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
