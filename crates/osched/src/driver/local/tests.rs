//! A machine as it was recorded: processes, threads by dumps of JVMs, ports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use anabranch_model::Result;
use anabranch_schedule::ThreadId;

use super::{Local, ProcessThreads};
use crate::kernel::{NamedThread, Process};

/// What a test may change while a driver has it.
#[derive(Default)]
pub(crate) struct Recording {
    pub(crate) processes: Vec<Recorded>,
    /// By thread, in milliseconds.
    pub(crate) started: BTreeMap<u32, i64>,
    pub(crate) is_incomplete: bool,
}

pub(crate) struct Recorded {
    pub(crate) process: Process,
    pub(crate) threads: ProcessThreads,
    pub(crate) ports: BTreeSet<u16>,
}

/// A machine that the test and a driver share.
#[derive(Clone, Default)]
pub(crate) struct Machine(pub(crate) Arc<Mutex<Recording>>);

impl Machine {
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Recording) -> T) -> T {
        change(&mut self.0.lock().expect("no panic"))
    }

    /// Adds a process with the threads of a recorded dump, which was made at `dumped_ms`.
    pub(crate) fn add_dump(&self, pid: u32, command: &str, dump: &str, dumped_ms: i64) {
        let mut threads = Vec::new();
        let mut started = Vec::new();
        for line in dump.lines().filter(|line| line.starts_with('"')) {
            let (before, after) = line.rsplit_once(" nid=0x").expect("a thread");
            let tid = u32::from_str_radix(after.split(' ').next().expect("a number"), 16).expect("a number");
            let name = before[1..].rsplit_once('"').expect("a name").0.to_owned();
            let elapsed = before.split_once(" elapsed=").expect("a time").1.split_once('s').expect("seconds").0;
            let start_ms = dumped_ms - (elapsed.parse::<f64>().expect("seconds") * 1e3) as i64;
            threads.push(NamedThread { id: id(pid, tid, u64::try_from(start_ms / 10).expect("positive")), name });
            started.push((tid, start_ms));
        }
        self.add(pid, command, threads);
        self.change(|recording| recording.started.extend(started));
    }

    pub(crate) fn add(&self, pid: u32, command: &str, threads: Vec<NamedThread>) {
        let process = Process {
            pid,
            start: 7,
            name: "java".to_owned(),
            command: command.to_owned(),
            uid: 0,
            is_kernel_thread: false,
        };
        let threads = ProcessThreads { threads, are_cut: false };
        self.change(|recording| recording.processes.push(Recorded { process, threads, ports: BTreeSet::new() }));
    }
}

/// A thread's identity.
pub(crate) fn id(pid: u32, tid: u32, start: u64) -> ThreadId {
    ThreadId { pid, process_start: 7, tid, start }
}

/// A recorded file.
pub(crate) fn fixture(name: &str) -> String {
    std::fs::read_to_string(format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).expect(name)
}

impl Local for Machine {
    fn find(&mut self, matches: &dyn Fn(&Process) -> bool) -> Result<Vec<Process>> {
        let all =
            self.change(|recording| recording.processes.iter().map(|found| found.process.clone()).collect::<Vec<_>>());
        Ok(all.into_iter().filter(matches).collect())
    }

    fn is_jvm(&mut self, process: &Process) -> bool {
        process.command.contains("java")
    }

    fn threads(&mut self, process: &Process) -> Result<ProcessThreads> {
        Ok(self.change(|recording| {
            let found = recording.processes.iter().find(|found| found.process == *process);
            found.map_or_else(ProcessThreads::default, |found| found.threads.clone())
        }))
    }

    fn ports(&mut self, process: &Process) -> BTreeSet<u16> {
        self.change(|recording| {
            let found = recording.processes.iter().find(|found| found.process == *process);
            found.map_or_else(BTreeSet::new, |found| found.ports.clone())
        })
    }

    fn started_ms(&self, thread: &NamedThread) -> Result<i64> {
        Ok(self.change(|recording| recording.started.get(&thread.id.tid).copied().unwrap_or(0)))
    }

    fn is_incomplete(&self) -> bool {
        self.change(|recording| recording.is_incomplete)
    }

    fn notices(&self) -> Vec<String> {
        Vec::new()
    }
}
