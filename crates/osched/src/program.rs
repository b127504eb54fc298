//! A policy that is a program of the user's: each period it gets a line of JSON with all metrics of all
//! nodes, and answers with a line of priorities when it can. What it answered last holds for a few periods;
//! then all nodes matter alike until it answers again.
//!
//! ```text
//! > {"nodes": {"query/task": {"queue_rows": 12, "in_rate": 980.5}}}
//! < {"priorities": {"query/task": 3.5}}
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_model::{Error, Result};
use anabranch_schedule::{Given, Level, Metric, Metrics, Nodes, Policy};
use serde::Deserialize;

#[cfg(test)]
mod tests;

/// Bytes of a line that the program may write.
const LINE_MAX: u64 = 4 << 20;
/// Periods until a program that has ended is started again.
const RESTART_PERIODS: u32 = 8;
/// What the program is told of each node, where it is known.
const TOLD: [Metric; 10] = [
    Metric::QueueRows,
    Metric::QueueShare,
    Metric::InRate,
    Metric::OutRate,
    Metric::CpuShare,
    Metric::WaitShare,
    Metric::AgeMs,
    Metric::UntilWindowMs,
    Metric::EpochsBehind,
    Metric::LatencyMs,
];

/// The policy.
pub struct Program {
    name: String,
    command: Vec<String>,
    level: Level,
    given: Given,
    running: Option<Running>,
    /// Periods since it has ended.
    ended_periods: u32,
}

/// A program that runs.
struct Running {
    child: Child,
    input: ChildStdin,
    /// The rest of a line for which there was no room in the pipe.
    rest: Vec<u8>,
    said: Arc<Mutex<Said>>,
}

/// What the program has written since it was asked last.
#[derive(Default)]
struct Said {
    answer: Option<BTreeMap<String, f64>>,
    failure: Option<Error>,
    has_ended: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    priorities: BTreeMap<String, f64>,
}

impl Program {
    /// A policy that starts this command, the program and its arguments, when it is first asked.
    #[must_use]
    pub fn new(command: &[String], level: Level) -> Self {
        let (name, command, given) = (command.join(" "), command.to_vec(), Given::default());
        Program { name, command, level, given, running: None, ended_periods: RESTART_PERIODS }
    }

    fn place(&self) -> String {
        format!("command {:?}", self.command)
    }

    /// Starts the program if it does not run, but not in each period if it ends again and again.
    fn ensure(&mut self) -> Result<()> {
        if self.running.as_ref().is_some_and(Running::has_ended) {
            (self.running, self.ended_periods) = (None, 0);
            return Err(Error::user("the program has ended")
                .at(self.place())
                .remedy("let it read lines until its input ends"));
        }
        if self.running.is_some() {
            return Ok(());
        }
        self.ended_periods += 1;
        if self.ended_periods <= RESTART_PERIODS {
            return Ok(());
        }
        self.ended_periods = 0;
        self.running = Some(Running::start(&self.command).map_err(|error| error.at(self.place()))?);
        Ok(())
    }
}

impl Policy for Program {
    fn name(&self) -> &str {
        &self.name
    }

    fn level(&self) -> Level {
        self.level
    }

    fn priorities(&mut self, nodes: &Nodes, metrics: &Metrics) -> Result<Vec<f64>> {
        let started = self.ensure();
        let mut failure = None;
        if let Some(running) = &mut self.running {
            let mut said = running.said.lock().unwrap_or_else(PoisonError::into_inner);
            said.answer.take().into_iter().for_each(|answer| self.given.set(answer));
            failure = said.failure.take();
            drop(said);
            running.tell(nodes, metrics);
        }
        let priorities = self.given.priorities(nodes);
        match failure {
            // What it said before still holds; the failure is shown once that is too old.
            Some(error) if self.given.is_stale() => Err(error.at(self.place())),
            _ if self.given.is_stale() => started.map(|()| priorities),
            _ => Ok(priorities),
        }
    }
}

impl Running {
    fn start(command: &[String]) -> Result<Running> {
        let (program, arguments) = command.split_first().ok_or_else(|| Error::user("the command is empty"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // With what it starts itself, it is ended as one.
            .process_group(0)
            .spawn()
            .map_err(|error| Error::user(format!("cannot start the program: {error}")).remedy("give its path"))?;
        let no_pipe = || Error::internal("a child process without pipes");
        let input = child.stdin.take().ok_or_else(no_pipe)?;
        let output = child.stdout.take().ok_or_else(no_pipe)?;
        // A program that does not read must not hold up the loop: what does not fit into the pipe is not
        // sent.
        set_nonblocking(&input);
        let said = Arc::<Mutex<Said>>::default();
        let hears = Arc::clone(&said);
        let listen = move || listen(BufReader::new(output), &hears);
        // It ends when the program's output is closed, which a process that the program has left behind may
        // delay: nobody waits for it.
        std::thread::Builder::new().name("program".into()).spawn(listen).map_err(|error| {
            Error::outside(format!("cannot start a thread: {error}")).remedy("raise the limit of threads (ulimit -u)")
        })?;
        Ok(Running { child, input, rest: Vec::new(), said })
    }

    fn has_ended(&self) -> bool {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).has_ended
    }

    /// Sends the metrics, unless the program has not read those before yet.
    fn tell(&mut self, nodes: &Nodes, metrics: &Metrics) {
        self.send();
        if !self.rest.is_empty() {
            return;
        }
        let of_node = |index: usize| -> BTreeMap<&'static str, f64> {
            let all = TOLD.iter().map(|metric| (metric.name(), metrics.value(*metric, index)));
            all.filter(|(_, value)| value.is_finite()).collect()
        };
        let told: BTreeMap<&str, _> =
            nodes.all().iter().enumerate().map(|(index, node)| (node.name.as_str(), of_node(index))).collect();
        self.rest = (serde_json::json!({"nodes": told}).to_string() + "\n").into_bytes();
        self.send();
    }

    /// Writes what fits into the pipe. A program that is gone is noticed by its output.
    fn send(&mut self) {
        while !self.rest.is_empty() {
            match self.input.write(&self.rest) {
                Ok(written @ 1..) => drop(self.rest.drain(..written)),
                _ => return,
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(group) = libc::pid_t::try_from(self.child.id()) {
            // SAFETY: the call takes no pointers. The group is that of the child, which has not been waited
            // for: its number is not used again.
            unsafe {
                libc::kill(-group, libc::SIGKILL);
            }
        }
        // It has ended already, or it ends now.
        let _ = self.child.wait();
    }
}

/// Takes answers until the program closes its output.
fn listen(mut output: impl std::io::BufRead, said: &Mutex<Said>) {
    let lock = || said.lock().unwrap_or_else(PoisonError::into_inner);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = output.by_ref().take(LINE_MAX).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) || !line.ends_with(b"\n") {
            lock().has_ended = true;
            return;
        }
        match serde_json::from_slice::<Answer>(&line) {
            Ok(answer) => lock().answer = Some(answer.priorities),
            Err(error) => {
                let beginning = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
                let error =
                    Error::user(format!("the program's answer is no line of priorities: {error}: {beginning:?}"));
                lock().failure = Some(error.remedy("write for example {\"priorities\": {\"query/task\": 1.5}}"));
            }
        }
    }
}

fn set_nonblocking(pipe: &ChildStdin) {
    let file = pipe.as_raw_fd();
    // SAFETY: the file is open, and both calls take integers only. If they fail, writes may wait for the
    // program.
    unsafe {
        let flags = libc::fcntl(file, libc::F_GETFL);
        libc::fcntl(file, libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
}
