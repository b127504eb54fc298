//! Slices: how long a thread may run before another is considered. Under EEVDF a shorter one gets the core
//! sooner after waking, and the shares stay as they are (`sched_setattr`, Linux 6.12 and later). Works
//! without privileges, and can always be taken back.

use anabranch_model::{Error, Result};
use anabranch_schedule::{Scale, Schedule};

use super::spread::{differs, spread};
use super::{Options, Translator, Write, priorities, ranked, write};
use crate::kernel::{Machine, State, ThreadValue};

pub(super) struct Slice {
    range_ms: (f64, f64),
}

impl Slice {
    pub(super) fn new(options: &Options, machine: &Machine) -> Result<Slice> {
        if machine.default_slice_ns.is_none() {
            return Err(Error::outside("this kernel has no slices per thread")
                .at("translator 'slice'")
                .remedy("use Linux 6.12 or later, or the translator 'nice'"));
        }
        Ok(Slice { range_ms: options.slice_ms })
    }
}

impl Translator for Slice {
    fn plan(&mut self, schedule: &Schedule, scale: Scale, state: &State) -> Vec<Write> {
        let threads = ranked(schedule, state);
        let slices = spread(&priorities(&threads), self.range_ms, scale);
        let mut writes = Vec::new();
        for (thread, slice_ms) in threads.iter().zip(slices) {
            let Some(present) = thread.state.scheduling.slice_ns else { continue };
            let wanted = (slice_ms * 1e6) as u64;
            if differs(present as f64, wanted as f64) {
                writes.push(write(thread, &ThreadValue::SliceNs(present), ThreadValue::SliceNs(wanted)));
            }
        }
        writes
    }
}
