//! Pressure stall information: for which share of the time some thread waited for a core, and a file that
//! wakes its reader when that exceeds a bound (`Documentation/accounting/psi.rst` of Linux).

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use anabranch_model::{Error, Result};

use super::{GroupPath, Hierarchy, Proc, system_calls, unreadable};

/// The window of a trigger must be a multiple of this for processes without `CAP_SYS_RESOURCE`.
const UNPRIVILEGED_WINDOW: Duration = Duration::from_secs(2);

/// The pressure on the processor, of the machine or of one cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Share of the last 10 seconds for which at least one thread waited for a core: 0 to 1.
    pub share_10s: f64,
    /// All time for which at least one thread waited, since the boot or since the cgroup was made.
    pub total_us: u64,
}

impl Pressure {
    fn parse(text: &str) -> Option<Pressure> {
        let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
        let field = |name: &str| some.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        Some(Pressure {
            share_10s: field("avg10")?.parse::<f64>().ok()? / 100.0,
            total_us: field("total")?.trim().parse().ok()?,
        })
    }
}

/// An open file that reports when threads have waited for too long within a window. Dropping it ends the
/// trigger.
#[derive(Debug)]
pub struct Trigger {
    file: File,
    window: Duration,
}

impl Trigger {
    /// Waits until the bound is exceeded, but no longer than `at_most`. Returns whether it was. Fires at most
    /// once per window.
    pub fn wait(&self, at_most: Duration) -> Result<bool> {
        system_calls::wait_for_pressure(&self.file, at_most).map_err(|error| {
            Error::outside(format!("cannot wait for pressure: {error}")).remedy("read cpu.pressure each period instead")
        })
    }

    /// The window that the kernel accepted.
    pub fn window(&self) -> Duration {
        self.window
    }
}

impl Proc {
    /// The pressure of the machine, or of a cgroup of version 2. `None` where the kernel does not account it.
    pub fn pressure(&self, group: Option<&GroupPath>) -> Result<Option<Pressure>> {
        let path = self.pressure_file(group)?;
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Pressure::parse(&text)),
            // Kernels that account it only when asked at boot answer so.
            Err(error) if super::is_gone(&error) || error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    /// A trigger that fires when some thread waited for a core for more than `share` (above 0, at most 1) of
    /// `window` (0.5 to 10 s). A process without `CAP_SYS_RESOURCE` gets a window of a multiple of two
    /// seconds.
    pub fn trigger(&self, group: Option<&GroupPath>, share: f64, window: Duration) -> Result<Trigger> {
        let path = self.pressure_file(group)?;
        let place = path.display().to_string();
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
            .at(place)
            .remedy("osched reads cpu.pressure each period instead; boot with psi=1 if that is missing too"))
    }

    fn pressure_file(&self, group: Option<&GroupPath>) -> Result<PathBuf> {
        match group {
            None => Ok(self.path("pressure/cpu")),
            Some(group) if group.hierarchy == Hierarchy::V2 => Ok(self.group_folder(group)?.join("cpu.pressure")),
            Some(group) => Err(Error::user(format!("{group} is a cgroup of version 1, which accounts no pressure"))
                .remedy("use the pressure of the machine")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_kernel_is_read() {
        let text = "some avg10=13.25 avg60=6.28 avg300=10.70 total=15439440301\nfull avg10=0.00 avg60=0.00 total=0\n";
        assert_eq!(Pressure::parse(text), Some(Pressure { share_10s: 0.1325, total_us: 15_439_440_301 }));
        assert_eq!((Pressure::parse(""), Pressure::parse("some avg10=x total=1")), (None, None));
    }
}
