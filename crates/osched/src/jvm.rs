//! Names of the threads of a JVM. The kernel has only their first 15 characters, so the JVM itself is asked,
//! by the protocol that the tools of a JDK use ([`attach`]), without a JDK.
//!
//! An answer takes 5 to 70 ms, in which all threads of the JVM stand still for a moment. So the JVM is asked
//! only when it has threads without a known name, and not more often than once in a second.

mod attach;
mod dump;
mod status;

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{Clock, Nanos};

use crate::kernel::{NamedThread, Proc, Process};

#[cfg(test)]
mod tests;

/// Time for one answer.
const DEADLINE: Duration = Duration::from_secs(3);
/// Least time between two answers.
const PAUSE: Duration = Duration::from_secs(1);
/// Time after a JVM did not answer, until it is asked again; twice as long after each further failure.
const PAUSE_FAILED: Duration = Duration::from_secs(5);
/// Failures after which the pause grows no more: five minutes.
const FAILURES_MAX: u32 = 6;
/// How the kernel names threads that only the JVM itself needs. They come and go by themselves; nobody is
/// asked about them.
const INTERNAL: [&str; 12] = [
    "GC Thread#",
    "G1 ",
    "Shenandoah",
    "ZWorker",
    "ZDriver",
    "XWorker",
    "ParGC",
    "C1 CompilerThre",
    "C2 CompilerThre",
    "JVMCI ",
    "VM ",
    "Attach Listener",
];

/// Whether a process runs a JVM: it has its library in memory. Other people's processes do not tell unless
/// one is root; they are none.
#[must_use]
pub fn is_jvm(pid: u32) -> bool {
    status::has_library(pid, "libjvm.so")
}

/// One JVM, with the names of its threads as far as they are known.
pub struct Jvm {
    process: Process,
    /// By thread and its start: what the kernel called it when the JVM was asked, and what the JVM did. A
    /// thread may be renamed.
    names: BTreeMap<(u32, u64), (String, String)>,
    /// Why names are cut to 15 characters.
    obstacle: Option<String>,
    failures: u32,
    ask_again: Nanos,
    is_complete: bool,
}

impl Jvm {
    /// For a process that [`is_jvm`].
    #[must_use]
    pub fn new(process: Process) -> Jvm {
        Jvm {
            process,
            names: BTreeMap::new(),
            obstacle: None,
            failures: 0,
            ask_again: Nanos::default(),
            is_complete: true,
        }
    }

    /// The full names of `threads`, in their order. Those that the JVM does not tell have the name that the
    /// kernel knows.
    pub fn names(&mut self, proc: &Proc, threads: &[NamedThread], clock: &dyn Clock) -> Vec<String> {
        self.names.retain(|known, _| threads.iter().any(|thread| (thread.id.tid, thread.id.start) == *known));
        let is_unknown = |names: &BTreeMap<_, (String, String)>, thread: &NamedThread| {
            let known = names.get(&(thread.id.tid, thread.id.start));
            known.is_none_or(|(kernel, _)| *kernel != thread.name) && !is_internal(&thread.name)
        };
        if threads.iter().any(|thread| is_unknown(&self.names, thread)) && clock.now() >= self.ask_again {
            self.ask(proc, threads, clock);
        }
        self.is_complete = self.obstacle.is_some() || !threads.iter().any(|thread| is_unknown(&self.names, thread));
        let name = |thread: &NamedThread| {
            let known = self.names.get(&(thread.id.tid, thread.id.start));
            known.map_or(&thread.name, |(_, name)| name).clone()
        };
        threads.iter().map(name).collect()
    }

    /// Whether [`Jvm::names`] had all names. If not, it asks when it is called again a second later.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Why names are cut to 15 characters, with what to do about it.
    #[must_use]
    pub fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }

    fn ask(&mut self, proc: &Proc, threads: &[NamedThread], clock: &dyn Clock) {
        match attach::thread_names(proc, &self.process, DEADLINE, clock) {
            Ok(told) => {
                for thread in threads {
                    let name = told.get(&thread.id.tid).unwrap_or(&thread.name);
                    self.names.insert((thread.id.tid, thread.id.start), (thread.name.clone(), name.clone()));
                }
                (self.obstacle, self.failures) = (None, 0);
                self.ask_again = clock.now().plus(PAUSE);
            }
            Err(error) => {
                self.obstacle = Some(error.to_string());
                self.ask_again = clock.now().plus(PAUSE_FAILED * 2_u32.pow(self.failures));
                self.failures = (self.failures + 1).min(FAILURES_MAX);
            }
        }
    }
}

fn is_internal(name: &str) -> bool {
    INTERNAL.iter().any(|prefix| name.starts_with(prefix))
}
