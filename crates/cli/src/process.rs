//! The limits of this process, and its end when the process that started it is gone.

use std::io::{Read, stdin};

use anabranch_model::{Error, Result};

use crate::signals::INTERRUPTED;

/// Raises the limit of open files as far as allowed: state on disk has one for each run. A failure does no
/// harm: the limit stays as it is.
pub(crate) fn raise_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls only read or write the structure that they are given.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// When standard input ends, this process ends at once. The process that started this one holds the other end
/// of the pipe: its end closes the pipe, however it ends. The content of standard input is ignored. An
/// orderly end would take time, while the next coordinator waits.
pub(crate) fn end_with_input() -> Result<()> {
    let failed = |error| Error::outside(format!("cannot start a thread: {error}"));
    let wait = || {
        let mut ignored = [0; 1024];
        while !matches!(stdin().lock().read(&mut ignored), Ok(0) | Err(_)) {}
        std::process::exit(i32::from(INTERRUPTED));
    };
    std::thread::Builder::new().name("stdin".into()).spawn(wait).map(drop).map_err(failed)
}

/// The kernel kills this process with the thread that started it, even if this process is stopped and cannot
/// read its input.
pub(crate) fn die_with_parent() {
    #[cfg(target_os = "linux")]
    // SAFETY: the call has no effect but that on the kernel's record of this process.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}
