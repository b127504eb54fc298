//! The threads of tasks in the kernel: their processor times, nice values and slices.

/// Time of a thread on the processor, in nanoseconds since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessorTime {
    /// Time for which it ran.
    pub(crate) cpu_ns: u64,
    /// Time for which it was runnable and waited for a core.
    pub(crate) core_wait_ns: u64,
}

/// Processor time of a thread of this process. `None` if there is no such thread, or the system does not
/// report it.
pub(crate) fn processor_time(thread: u32) -> Option<ProcessorTime> {
    parse(&std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?)
}

fn parse(schedstat: &str) -> Option<ProcessorTime> {
    let mut numbers = schedstat.split_ascii_whitespace().map_while(|number| number.parse().ok());
    Some(ProcessorTime { cpu_ns: numbers.next()?, core_wait_ns: numbers.next()? })
}

/// The nice value of a thread of this process.
#[cfg(target_os = "linux")]
pub(crate) fn nice(thread: u32) -> i32 {
    // SAFETY: the call takes no pointers. If there is no such thread, -1 is returned, which is a nice value
    // too.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, thread) }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn nice(_thread: u32) -> i32 {
    0
}

/// Sets the nice value of a thread of this process; 0 is the calling one. Returns whether the system has
/// accepted it.
#[cfg(target_os = "linux")]
pub(crate) fn set_nice(thread: u32, nice: i32) -> bool {
    // SAFETY: the call takes no pointers.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, nice) == 0 }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn set_nice(_thread: u32, _nice: i32) -> bool {
    false
}

/// `struct sched_attr` of the kernel, in its first version.
#[cfg(target_os = "linux")]
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Sets how long a thread of this process may run before another one (Linux 6.12). Returns whether the system
/// has accepted it.
#[cfg(target_os = "linux")]
pub(crate) fn set_slice(thread: u32, slice_ns: u64) -> bool {
    let size = u32::try_from(size_of::<SchedulingAttributes>()).unwrap_or(0);
    let attributes =
        SchedulingAttributes { size, nice: nice(thread), runtime_ns: slice_ns, ..SchedulingAttributes::default() };
    // SAFETY: the kernel reads `size` bytes from the pointer, which is valid during the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) == 0 }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn set_slice(_thread: u32, _slice_ns: u64) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_two_numbers() {
        assert_eq!(parse("12 34 5\n"), Some(ProcessorTime { cpu_ns: 12, core_wait_ns: 34 }));
        assert_eq!(parse("12 \n"), None);
        assert_eq!(parse(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_takes_values_of_the_calling_thread() {
        let own = std::fs::read_link("/proc/thread-self").expect("Linux");
        let own: u32 = own.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
        assert!(processor_time(own).is_some());
        assert!(set_nice(own, 3), "a thread may always become less urgent");
        assert_eq!(nice(own), 3);
    }
}
