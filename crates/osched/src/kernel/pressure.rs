//! Pressure stall information: for which share of the time some thread waited for a core, and a file that
//! wakes its reader when that exceeds a bound (`Documentation/accounting/psi.rst` of Linux).

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use anabranch_model::{Error, Result};

use super::{Proc, system_calls, unreadable};

/// Below the folder of [`Proc`].
const PRESSURE: &str = "pressure/cpu";
/// The window of a trigger must be a multiple of this for processes without `CAP_SYS_RESOURCE`.
const UNPRIVILEGED_WINDOW: Duration = Duration::from_secs(2);

/// An open file that reports when threads have waited for too long within a window. Dropping it ends the
/// trigger.
#[derive(Debug)]
pub struct Trigger {
    file: File,
    /// The window that the kernel accepted.
    pub(crate) window: Duration,
}

impl Trigger {
    /// Waits until the bound is exceeded, but no longer than `at_most`. Returns whether it was. Fires at most
    /// once per window.
    pub fn wait(&self, at_most: Duration) -> Result<bool> {
        system_calls::wait_for_pressure(&self.file, at_most).map_err(|error| {
            Error::outside(format!("cannot wait for pressure: {error}")).remedy("read cpu.pressure each period instead")
        })
    }
}

impl Proc {
    /// All time for which at least one thread waited for a core, since the boot. `None` where the kernel does
    /// not account it.
    pub fn cpu_pressure_us(&self) -> Result<Option<u64>> {
        let path = self.path(PRESSURE);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(total_us(&text)),
            // Kernels that account it only when asked at boot answer so.
            Err(error) if super::is_gone(&error) || error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    /// A trigger that fires when some thread waited for a core for more than `share` (above 0, at most 1) of
    /// `window` (0.5 to 10 s). A process without `CAP_SYS_RESOURCE` gets a window of a multiple of two
    /// seconds.
    pub fn trigger(&self, share: f64, window: Duration) -> Result<Trigger> {
        let path = self.path(PRESSURE);
        let wide = UNPRIVILEGED_WINDOW * (window.as_secs().div_ceil(UNPRIVILEGED_WINDOW.as_secs()).max(1) as u32);
        let mut refusal = None;
        for window in [window, wide] {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
            let stall_us = (window.as_micros() as f64 * share.clamp(0.0, 1.0)).max(1.0) as u64;
            let line = format!("some {stall_us} {}\0", window.as_micros());
            let set = options.open(&path).and_then(|mut file| file.write_all(line.as_bytes()).map(|()| file));
            match set {
                Ok(file) => return Ok(Trigger { file, window }),
                Err(error) => refusal = Some(error),
            }
        }
        let refusal = refusal.map_or_else(String::new, |error| error.to_string());
        Err(Error::outside(format!("the kernel sets no trigger on pressure: {refusal}"))
            .at(path.display().to_string())
            .remedy("osched reads cpu.pressure each period instead; boot with psi=1 if that is missing too"))
    }
}

/// The total of a line `some avg10=13.25 avg60=6.28 avg300=10.70 total=15439440301`.
fn total_us(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ').find_map(|field| field.strip_prefix("total="))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_kernel_is_read() {
        let text = "some avg10=13.25 avg60=6.28 avg300=10.70 total=15439440301\nfull avg10=0.00 avg60=0.00 total=0\n";
        assert_eq!(total_us(text), Some(15_439_440_301));
        assert_eq!((total_us(""), total_us("some avg10=1 total=x")), (None, None));
    }
}
