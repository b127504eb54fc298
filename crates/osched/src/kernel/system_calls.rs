//! The system calls of the scheduler, which the standard library does not have.

#[cfg(target_os = "linux")]
pub(crate) use linux::{effective_user, may_write, nice, scheduling, set_nice, set_scheduling, wait_for_pressure};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{effective_user, may_write, nice, scheduling, set_nice, set_scheduling, wait_for_pressure};

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::CString;
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::time::Duration;

    use crate::kernel::{Class, Policy, Scheduling};

    /// What the kernel adds to a nice value so that no result of the call is below zero.
    const NICE_OFFSET: i64 = 20;
    const DEADLINE: u32 = 6;

    fn answer(result: libc::c_long) -> io::Result<i64> {
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }

    /// The nice value of a thread; 0 is the calling one.
    pub(crate) fn nice(tid: u32) -> io::Result<i32> {
        // The raw call answers 20 less the value, so that errors differ from values.
        // SAFETY: the call takes no pointers.
        let value = answer(unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, tid) })?;
        Ok((NICE_OFFSET - value) as i32)
    }

    /// Sets the nice value of a thread.
    pub(crate) fn set_nice(tid: u32, nice: i32) -> io::Result<()> {
        // SAFETY: the call takes no pointers.
        answer(unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, tid, nice) })?;
        Ok(())
    }

    /// Class, nice value and slice of a thread; 0 is the calling one.
    pub(crate) fn scheduling(tid: u32) -> io::Result<Scheduling> {
        let mut attributes = empty();
        // SAFETY: the structure is ours, and its size is given; the kernel writes no more than that.
        answer(unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attributes, attributes.size, 0) })?;
        let priority = attributes.sched_priority;
        let policy = match attributes.sched_policy as i32 {
            libc::SCHED_OTHER => Policy::Other,
            libc::SCHED_BATCH => Policy::Batch,
            libc::SCHED_IDLE => Policy::Idle,
            libc::SCHED_FIFO => Policy::Fifo(priority),
            libc::SCHED_RR => Policy::RoundRobin(priority),
            number if number as u32 == DEADLINE => Policy::Deadline,
            number => Policy::Unknown(number as u32),
        };
        Ok(Scheduling {
            class: Class {
                policy,
                resets_on_fork: attributes.sched_flags & libc::SCHED_FLAG_RESET_ON_FORK as u64 != 0,
            },
            // The structure has it for the usual class only.
            nice: nice(tid)?,
            slice_ns: (!policy.is_foreign() && attributes.sched_runtime > 0).then_some(attributes.sched_runtime),
        })
    }

    /// Sets class, nice value and slice of a thread. Without a slice it gets the default one.
    pub(crate) fn set_scheduling(tid: u32, scheduling: Scheduling) -> io::Result<()> {
        let mut attributes = empty();
        let (policy, priority) = match scheduling.class.policy {
            Policy::Other => (libc::SCHED_OTHER, 0),
            Policy::Batch => (libc::SCHED_BATCH, 0),
            Policy::Idle => (libc::SCHED_IDLE, 0),
            Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
            Policy::RoundRobin(priority) => (libc::SCHED_RR, priority),
            Policy::Deadline | Policy::Unknown(_) => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        attributes.sched_policy = policy as u32;
        attributes.sched_priority = priority;
        attributes.sched_nice = scheduling.nice;
        attributes.sched_runtime = scheduling.slice_ns.unwrap_or(0);
        if scheduling.class.resets_on_fork {
            attributes.sched_flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
        }
        // SAFETY: the structure lives until the call returns, and tells its own size.
        answer(unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw mut attributes, 0) })?;
        Ok(())
    }

    fn empty() -> libc::sched_attr {
        libc::sched_attr {
            size: size_of::<libc::sched_attr>() as u32,
            sched_policy: 0,
            sched_flags: 0,
            sched_nice: 0,
            sched_priority: 0,
            sched_runtime: 0,
            sched_deadline: 0,
            sched_period: 0,
        }
    }

    /// The user as whom this process acts.
    pub(crate) fn effective_user() -> u32 {
        // SAFETY: the call takes nothing and cannot fail.
        unsafe { libc::geteuid() }
    }

    /// Whether this process may make files in a folder.
    pub(crate) fn may_write(folder: &Path) -> bool {
        let Ok(path) = CString::new(folder.as_os_str().as_bytes()) else { return false };
        // SAFETY: the path is a string that ends with zero and lives until the call returns.
        unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) == 0 }
    }

    /// Waits until the trigger that was written to a file of pressure fires. False if it did not within the
    /// time.
    pub(crate) fn wait_for_pressure(file: &File, at_most: Duration) -> io::Result<bool> {
        let mut waited = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLPRI, revents: 0 };
        let timeout_ms = i32::try_from(at_most.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one structure, which is ours, as the count says.
        let ready = unsafe { libc::poll(&raw mut waited, 1, timeout_ms) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
        }
        if waited.revents & libc::POLLERR != 0 {
            return Err(io::Error::other("the cgroup of the pressure was removed"));
        }
        Ok(waited.revents & libc::POLLPRI != 0)
    }
}

/// What other systems answer. [`Proc::new`](super::Proc::new) says why before any of these is reached.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::fs::File;
    use std::io;
    use std::path::Path;
    use std::time::Duration;

    use crate::kernel::Scheduling;

    fn unsupported<T>() -> io::Result<T> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(crate) fn nice(_: u32) -> io::Result<i32> {
        unsupported()
    }

    pub(crate) fn set_nice(_: u32, _: i32) -> io::Result<()> {
        unsupported()
    }

    pub(crate) fn scheduling(_: u32) -> io::Result<Scheduling> {
        unsupported()
    }

    pub(crate) fn set_scheduling(_: u32, _: Scheduling) -> io::Result<()> {
        unsupported()
    }

    pub(crate) fn effective_user() -> u32 {
        u32::MAX
    }

    pub(crate) fn may_write(_: &Path) -> bool {
        false
    }

    pub(crate) fn wait_for_pressure(_: &File, _: Duration) -> io::Result<bool> {
        unsupported()
    }
}
