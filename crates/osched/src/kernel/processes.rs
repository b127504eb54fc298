//! Processes of this machine and their threads.

use anabranch_model::Result;
use anabranch_schedule::ThreadId;

use super::stat::Stat;
use super::{Proc, if_there, unreadable};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks after the boot.
    pub start: u64,
    /// The name of its program, at most 15 bytes.
    pub name: String,
    /// Its arguments with a space between them. Empty for kernel threads.
    pub command: String,
    /// The user as whom it runs.
    pub uid: u32,
    /// Whether it is a thread of the kernel.
    pub is_kernel_thread: bool,
}

/// A thread with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedThread {
    /// Which one.
    pub id: ThreadId,
    /// As the kernel has it: at most 15 bytes.
    pub name: String,
}

impl Proc {
    /// The processes that `matches` accepts, in the order of their numbers, without this one. Those that end
    /// meanwhile are left out.
    pub fn find(&self, matches: impl Fn(&Process) -> bool) -> Result<Vec<Process>> {
        let own = std::process::id();
        let mut found = Vec::new();
        for pid in self.numbers("")? {
            if pid == own {
                continue;
            }
            found.extend(self.process(pid)?.filter(&matches));
        }
        Ok(found)
    }

    /// One process, `None` if it has ended.
    pub fn process(&self, pid: u32) -> Result<Option<Process>> {
        let Some(stat) = self.stat(&format!("{pid}/stat"))?.filter(|stat| !stat.has_ended) else { return Ok(None) };
        let Some(status) = self.text_if_alive(&format!("{pid}/status"))? else { return Ok(None) };
        let Some(command) = self.text_if_alive(&format!("{pid}/cmdline"))? else { return Ok(None) };
        Ok(Some(Process {
            pid,
            start: stat.start,
            name: stat.name,
            command: command.trim_end_matches('\0').replace('\0', " "),
            // The effective user, which the kernel compares when another process changes this one.
            uid: effective_uid(&status).unwrap_or(u32::MAX),
            is_kernel_thread: stat.is_kernel_thread,
        }))
    }

    /// The threads of a process in the order of their numbers. None if it has ended.
    pub fn threads(&self, pid: u32) -> Result<Vec<NamedThread>> {
        let Some(process) = self.stat(&format!("{pid}/stat"))? else { return Ok(Vec::new()) };
        let mut threads = Vec::new();
        for tid in self.numbers(&format!("{pid}/task"))? {
            let Some(stat) = self.stat(&format!("{pid}/task/{tid}/stat"))?.filter(|s| !s.has_ended) else { continue };
            let id = ThreadId { pid, process_start: process.start, tid, start: stat.start };
            threads.push(NamedThread { id, name: stat.name });
        }
        // The number may have gone to another process while its threads were listed.
        let same = self.stat(&format!("{pid}/stat"))?.is_some_and(|now| now.start == process.start);
        Ok(if same { threads } else { Vec::new() })
    }

    /// Whether this very thread, not a later one with its number, is there.
    pub fn is_alive(&self, thread: ThreadId) -> Result<bool> {
        let ThreadId { pid, process_start, tid, start } = thread;
        let is = |stat: Option<Stat>, start: u64| stat.is_some_and(|stat| stat.start == start && !stat.has_ended);
        Ok(is(self.stat(&format!("{pid}/task/{tid}/stat"))?, start) && self.is_process_alive(pid, process_start)?)
    }

    /// Whether this very process is there. A process whose first thread has ended still has the others.
    pub fn is_process_alive(&self, pid: u32, start: u64) -> Result<bool> {
        Ok(self.stat(&format!("{pid}/stat"))?.is_some_and(|stat| stat.start == start))
    }

    fn stat(&self, relative: &str) -> Result<Option<Stat>> {
        Ok(self.text_if_alive(relative)?.and_then(|line| Stat::parse(&line)))
    }

    /// The entries of a folder that are numbers. None if the folder is gone.
    fn numbers(&self, relative: &str) -> Result<Vec<u32>> {
        let path = self.path(relative);
        let entries = if_there(std::fs::read_dir(&path)).map_err(|error| unreadable(&path, &error))?;
        let entries = entries.into_iter().flatten();
        // Reading on fails when the process ends meanwhile: what was read until then stands.
        let mut numbers: Vec<u32> =
            entries.map_while(|e| e.ok()).filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

fn effective_uid(status: &str) -> Option<u32> {
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    uids.split_ascii_whitespace().nth(1)?.parse().ok()
}
