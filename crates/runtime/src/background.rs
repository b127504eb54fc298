//! Threads that work beside the tasks of a worker: they write snapshots, and load state for a change of the plan.

/// The priority of such a thread, as `nice` counts: a task gets nine tenths of a core that it shares with one.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Lets the tasks go before the calling thread, and before those that it starts from now on.
pub(crate) fn lower_priority() {
    #[cfg(target_os = "linux")]
    // SAFETY: the call takes no pointers. 0 is the calling thread. If it fails, the priority is as it was.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
}
