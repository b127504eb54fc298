//! How long threads ran and how long they waited for a core, as the scheduler accounts it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use anabranch_model::Result;
use anabranch_schedule::ThreadId;

use super::{Proc, if_there, unreadable};

/// Files that a reader keeps open at most. A process may usually open 1,024.
const OPEN_FILES_MAX: usize = 512;
/// Two numbers of at most 20 digits and one of 10, with spaces.
const LINE_BYTES_MAX: usize = 64;

/// Both values are counters from the start of the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time.
    pub run_ns: u64,
    /// Time for which it was runnable and another thread had the core.
    pub wait_ns: u64,
}

impl Usage {
    /// What was added since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            run_ns: self.run_ns.saturating_sub(earlier.run_ns),
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
        }
    }
}

/// Reads the usage of threads again and again. It keeps their files open: a reading then costs one system
/// call, and an open file belongs to its very thread even if the number is used again.
#[derive(Debug, Default)]
pub struct UsageReader {
    open: BTreeMap<ThreadId, File>,
}

impl UsageReader {
    /// The usage of a thread, `None` once it has ended.
    pub fn read(&mut self, kernel: &Proc, thread: ThreadId) -> Result<Option<Usage>> {
        if let Some(file) = self.open.get(&thread) {
            let usage = read_line(file);
            if usage.is_none() {
                self.open.remove(&thread);
            }
            return Ok(usage);
        }
        let path = kernel.path(&format!("{}/task/{}/schedstat", thread.pid, thread.tid));
        let file = if_there(File::open(&path)).map_err(|error| unreadable(&path, &error))?;
        let Some(file) = file else { return Ok(None) };
        // The file is open before the times are compared, so that it is the file of this thread.
        if !kernel.is_alive(thread)? {
            return Ok(None);
        }
        let usage = read_line(&file);
        if usage.is_some() && self.open.len() < OPEN_FILES_MAX {
            self.open.insert(thread, file);
        }
        Ok(usage)
    }

    /// Closes the files of all threads that `keep` does not accept.
    pub fn retain(&mut self, keep: impl Fn(ThreadId) -> bool) {
        self.open.retain(|thread, _| keep(*thread));
    }
}

impl Proc {
    /// The usage of one thread, `None` once it has ended.
    pub fn usage(&self, thread: ThreadId) -> Result<Option<Usage>> {
        UsageReader::default().read(self, thread)
    }
}

fn read_line(file: &File) -> Option<Usage> {
    let mut bytes = [0; LINE_BYTES_MAX];
    let length = file.read_at(&mut bytes, 0).ok()?;
    parse(std::str::from_utf8(&bytes[..length]).ok()?)
}

fn parse(line: &str) -> Option<Usage> {
    let mut numbers = line.split_ascii_whitespace();
    let mut next = || numbers.next()?.parse().ok();
    Some(Usage { run_ns: next()?, wait_ns: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_numbers_count() {
        assert_eq!(parse("123 456 7\n"), Some(Usage { run_ns: 123, wait_ns: 456 }));
        assert_eq!((parse(""), parse("12"), parse("a b c")), (None, None, None));
        let (late, early) = (Usage { run_ns: 9, wait_ns: 5 }, Usage { run_ns: 4, wait_ns: 5 });
        assert_eq!(late.since(early), Usage { run_ns: 5, wait_ns: 0 });
        assert_eq!(early.since(late), Usage::default());
    }
}
