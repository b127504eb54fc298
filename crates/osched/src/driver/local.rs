//! What drivers ask about this machine: which processes there are, their threads with full names, and the
//! ports at which they listen.

mod sockets;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_model::{Clock, Result};

use crate::jvm::{Jvm, is_jvm};
use crate::kernel::{NamedThread, Proc, Process};

/// The threads of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessThreads {
    /// With names that are as long as they are known.
    pub threads: Vec<NamedThread>,
    /// Whether names are cut to 15 characters, since the process does not tell more.
    pub are_cut: bool,
}

/// A machine that engines run on: this one, or what was recorded of one.
pub trait Local: Send {
    /// Processes whose command lines or programs `matches` accepts.
    fn find(&mut self, matches: &dyn Fn(&Process) -> bool) -> Result<Vec<Process>>;

    /// Whether a process runs a JVM.
    fn is_jvm(&mut self, process: &Process) -> bool;

    /// The threads of a process. None if it has ended.
    fn threads(&mut self, process: &Process) -> Result<ProcessThreads>;

    /// The TCP ports at which a process listens.
    fn ports(&mut self, process: &Process) -> BTreeSet<u16>;

    /// When a thread started, in milliseconds since the Unix epoch, exact to 20 ms.
    fn started_ms(&self, thread: &NamedThread) -> Result<i64>;

    /// Whether names are missing that a later call of [`Local::threads`] gets.
    fn is_incomplete(&self) -> bool;

    /// Why names are cut, and what to do about it.
    fn notices(&self) -> Vec<String>;
}

/// The machine on which this process runs.
pub struct ThisMachine {
    proc: Proc,
    clock: Arc<dyn Clock>,
    /// By process and its start: a JVM, or none.
    known: BTreeMap<(u32, u64), Option<Jvm>>,
}

impl ThisMachine {
    /// With the time of `clock`.
    #[must_use]
    pub fn new(proc: Proc, clock: Arc<dyn Clock>) -> ThisMachine {
        ThisMachine { proc, clock, known: BTreeMap::new() }
    }

    fn known(&mut self, process: &Process) -> Option<&mut Jvm> {
        let jvm = || is_jvm(process.pid).then(|| Jvm::new(process.clone()));
        self.known.entry((process.pid, process.start)).or_insert_with(jvm).as_mut()
    }
}

impl Local for ThisMachine {
    fn find(&mut self, matches: &dyn Fn(&Process) -> bool) -> Result<Vec<Process>> {
        let all = self.proc.find(|process| !process.is_kernel_thread)?;
        self.known.retain(|known, _| all.iter().any(|process| (process.pid, process.start) == *known));
        Ok(all.into_iter().filter(matches).collect())
    }

    fn is_jvm(&mut self, process: &Process) -> bool {
        self.known(process).is_some()
    }

    fn threads(&mut self, process: &Process) -> Result<ProcessThreads> {
        let mut threads = self.proc.threads(process.pid)?;
        // Another process may have its number by now.
        threads.retain(|thread| thread.id.process_start == process.start);
        let (proc, clock) = (self.proc.clone(), Arc::clone(&self.clock));
        let Some(jvm) = self.known(process) else { return Ok(ProcessThreads { threads, are_cut: false }) };
        let names = jvm.names(&proc, &threads, &*clock);
        for (thread, name) in threads.iter_mut().zip(names) {
            thread.name = name;
        }
        Ok(ProcessThreads { threads, are_cut: jvm.obstacle().is_some() })
    }

    fn ports(&mut self, process: &Process) -> BTreeSet<u16> {
        sockets::listening(process.pid)
    }

    fn started_ms(&self, thread: &NamedThread) -> Result<i64> {
        let ago = self.proc.ticks()?.saturating_sub(thread.id.start);
        Ok(self.clock.wall_ms() - i64::try_from(ago).unwrap_or(i64::MAX / 10) * 10)
    }

    fn is_incomplete(&self) -> bool {
        self.known.values().flatten().any(|jvm| !jvm.is_complete())
    }

    fn notices(&self) -> Vec<String> {
        self.known.values().flatten().filter_map(|jvm| jvm.obstacle().map(str::to_owned)).collect()
    }
}
