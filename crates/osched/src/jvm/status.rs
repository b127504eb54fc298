//! What `/proc` tells about a JVM that matters for attaching to it.

use std::io::{BufRead as _, BufReader};

/// The lines of `/proc/PID/status` that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    /// Its number in its own namespace of processes.
    pub(super) inner_id: u32,
    /// Whether that namespace is inside another one, as in a container.
    pub(super) is_nested: bool,
    /// The user as whom it acts.
    pub(super) uid: u32,
    /// The group as which it acts.
    pub(super) gid: u32,
    /// A bit for each signal that it handles, the first signal lowest.
    caught: u64,
}

impl Status {
    /// `None`: the process has ended.
    pub(super) fn of(pid: u32) -> Option<Status> {
        Status::parse(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    /// `None`: the thread has ended.
    pub(super) fn of_thread(pid: u32, tid: u32) -> Option<Status> {
        Status::parse(&std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?)
    }

    fn parse(text: &str) -> Option<Status> {
        let words = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
        };
        // Real, effective, saved, and that of files.
        let effective = |name: &str| words(name)?.get(1)?.parse().ok();
        // From the reader's namespace to the process' own. Kernels without such namespaces have no such line.
        let ids = words("NSpid").or_else(|| words("Pid"))?;
        Some(Status {
            inner_id: ids.last()?.parse().ok()?,
            is_nested: ids.len() > 1,
            uid: effective("Uid")?,
            gid: effective("Gid")?,
            caught: u64::from_str_radix(words("SigCgt")?.first()?, 16).ok()?,
        })
    }

    /// Whether it handles a signal itself.
    pub(super) fn catches(&self, signal: i32) -> bool {
        self.caught >> (signal - 1) & 1 == 1
    }
}

/// Whether a process has a library of this name in memory. `false` if it has ended, or is another user's.
pub(super) fn has_library(pid: u32, name: &str) -> bool {
    let Ok(file) = std::fs::File::open(format!("/proc/{pid}/maps")) else { return false };
    let is_it = |line: &[u8]| memchr::memmem::find(line, name.as_bytes()).is_some();
    BufReader::new(file).split(b'\n').map_while(|line| line.ok()).any(|line| is_it(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Name:\tjava\nPid:\t4711\nUid:\t1000\t1001\t1000\t1000\n\
                        Gid:\t100\t101\t100\t100\nNSpid:\t4711\t7\n\
                        SigCgt:\t2000000181005ccf\n";

    #[test]
    fn a_process_of_a_container_has_its_own_number() {
        let status = Status::parse(TEXT).expect("complete");
        assert_eq!((status.inner_id, status.is_nested, status.uid, status.gid), (7, true, 1001, 101));
        assert!(status.catches(libc::SIGQUIT) && !status.catches(libc::SIGKILL) && !status.catches(libc::SIGTRAP));
        let old = Status::parse(&TEXT.replace("NSpid", "Other")).expect("complete");
        assert_eq!((old.inner_id, old.is_nested), (4711, false));
        assert_eq!(Status::parse("Name:\tx\n"), None);
    }

    #[test]
    fn this_process_is_no_jvm() {
        let own = Status::of(std::process::id()).expect("alive");
        assert_eq!(own.inner_id, std::process::id());
        assert!(has_library(std::process::id(), "libc"));
        assert!(!has_library(std::process::id(), "libjvm.so"));
    }
}
