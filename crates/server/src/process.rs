//! The resources that this process has used, as Linux reports them; unknown on other systems.

use std::time::Duration;

/// Linux counts processor time for `/proc` in hundredths of a second, on every architecture.
const TICK_MS: u64 = 10;

/// Processor time of all threads since the start of the process, and of the processes that it has started and
/// that have ended.
#[must_use]
pub fn cpu_time() -> Option<Duration> {
    cpu_time_of(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// The most memory that the process has had resident, in bytes.
#[must_use]
pub fn peak_resident_bytes() -> Option<u64> {
    bytes_of("VmHWM:", &std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Memory that the process has resident, in bytes.
pub(crate) fn resident_bytes() -> Option<u64> {
    bytes_of("VmRSS:", &std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Threads of the process.
pub(crate) fn threads() -> Option<u64> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count() as u64)
}

/// Files that the process has open, sockets included.
pub(crate) fn open_files() -> Option<u64> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count() as u64)
}

fn cpu_time_of(stat: &str) -> Option<Duration> {
    // The command's name, in parentheses, may contain anything. Of the numbers after it, the 12th and 13th
    // are user and system time, and the next two are those of ended children.
    let numbers: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| numbers.get(index)?.parse::<u64>().ok();
    let all = ticks(11)? + ticks(12)? + ticks(13)? + ticks(14)?;
    Some(Duration::from_millis(all * TICK_MS))
}

fn bytes_of(name: &str, status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_linux_writes() {
        let stat = "4242 (a ) b) S 1 4242 4242 0 -1 4194304 900 0 0 0 150 25 0 0 20 0 3 0 100 1000 200";
        assert_eq!(cpu_time_of(stat), Some(Duration::from_millis(1750)));
        let status = "Name:\tx\nVmHWM:\t   61440 kB\nVmRSS:\t 1 kB\n";
        assert_eq!((bytes_of("VmHWM:", status), bytes_of("VmRSS:", status)), (Some(60 << 20), Some(1024)));
        assert_eq!((cpu_time_of("1 (x) S"), bytes_of("VmHWM:", "Name: x")), (None, None));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_used_something() {
        assert!(cpu_time().is_some());
        assert!(peak_resident_bytes().is_some_and(|bytes| bytes > 100_000));
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
        assert!(threads() > Some(0) && open_files() > Some(0));
    }
}
