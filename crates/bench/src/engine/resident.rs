//! Resident memory of a job.

use std::time::Duration;

use anabranch_model::{Error, Result};

use super::{Query, Table, register};

/// Memory of this process.
const OWN: &str = "/proc/self/statm";

/// Resident memory that a job needs in addition to that of the process, in bytes: the largest of readings
/// every 2 ms. Memory that earlier work of this process has left to its allocator, and that the allocator
/// keeps, is not counted.
pub(super) fn growth(query: &Query, tables: Vec<Table>) -> Result<u64> {
    let mut engine = query.engine.clone();
    register(&mut engine, tables);
    // SAFETY: the call only returns unused memory.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
    let before = resident_bytes(OWN)?;
    let job = engine.start(&query.plan)?;
    let mut most = before;
    while !job.wait_timeout(Duration::from_millis(2)) {
        most = most.max(resident_bytes(OWN)?);
    }
    job.wait()?;
    Ok(most - before)
}

/// Resident memory of a process, as this file of the system tells.
pub(crate) fn resident_bytes(path: &str) -> Result<u64> {
    let failed = |error: String| Error::outside(error).at(path);
    let statm = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    // SAFETY: the call takes and returns a number.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page_bytes = u64::try_from(page_bytes).map_err(|error| failed(error.to_string()))?;
    Ok(pages.ok_or_else(|| failed(format!("not understood: {statm}")))? * page_bytes)
}
