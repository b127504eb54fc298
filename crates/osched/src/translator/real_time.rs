//! Real-time for the threads of the highest priorities. Such a thread runs until it waits, before all others
//! of the machine, so three bounds hold: one core is always left without real-time threads of osched, a
//! thread that uses more than a share of a core is put back for some time, and the kernel's own bound must be
//! on, which holds even while osched does not run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_model::{Error, Nanos, Result};
use anabranch_schedule::{Scale, Schedule, ThreadId};

use super::{Options, Ranked, Translator, Write, short};
use crate::kernel::{Change, Class, Machine, Needs, Policy, State, ThreadState, ThreadValue, Usage};

/// The lowest real-time priority: threads of the kernel and of audio go before.
const PRIORITY: u32 = 1;
/// How long a thread that used too much stays in the usual class.
const PENALTY: Duration = Duration::from_secs(2);
/// The share of a second that the kernel gives real-time threads by default.
const KERNEL_SHARE_MAX: f64 = 0.95;

pub(super) struct RealTime {
    threads_max: usize,
    share_max: f64,
    raised: BTreeMap<ThreadId, Raised>,
    /// Until when threads that used too much are not raised again.
    barred: BTreeMap<ThreadId, Nanos>,
}

struct Raised {
    /// The class that it had before.
    former: Class,
    /// What it had used at the last plan, and when that was.
    used: Option<(Usage, Nanos)>,
}

impl RealTime {
    pub(super) fn new(options: &Options, machine: &Machine) -> Result<RealTime> {
        let refuse =
            |message: &str, remedy: &str| Err(Error::user(message).at("translator 'real-time'").remedy(remedy));
        if !options.real_time {
            return refuse(
                "real-time threads go before everything else on this machine",
                "set real-time = true if that is wanted",
            );
        }
        if machine.cores < 2 {
            return refuse("one core must be left to all other threads, and there is only one", "use 'nice'");
        }
        // NaN: it is not known.
        if machine.real_time_share.is_nan() || machine.real_time_share > KERNEL_SHARE_MAX {
            return refuse(
                "the kernel sets no bound to real-time threads",
                "run 'sysctl kernel.sched_rt_runtime_us=950000'",
            );
        }
        let threads_max = options.real_time_threads_max.min(machine.cores - 1);
        let (raised, barred) = (BTreeMap::new(), BTreeMap::new());
        Ok(RealTime { threads_max, share_max: options.real_time_share_max, raised, barred })
    }

    /// Bars the raised threads that used more than their share since the last plan.
    fn bar(&mut self, state: &State) {
        let now = state.at;
        self.barred.retain(|_, until| *until > now);
        for (id, raised) in &mut self.raised {
            let Some(usage) = state.threads.get(id).and_then(|thread| thread.usage) else { continue };
            if let Some((before, at)) = raised.used
                && usage.since(before).run_ns as f64 > self.share_max * now.since(at) as f64
            {
                self.barred.insert(*id, now.plus(PENALTY));
            }
            raised.used = Some((usage, now));
        }
    }

    /// The threads that shall be real-time: those of the highest priorities, by number among equal ones.
    fn chosen(&self, schedule: &Schedule, state: &State) -> BTreeSet<ThreadId> {
        let mut threads: Vec<Ranked<'_>> = schedule
            .threads
            .iter()
            .filter_map(|(id, priority)| Some(Ranked { id: *id, priority: *priority, state: state.threads.get(id)? }))
            .filter(|thread| self.is_ours(thread) && !self.barred.contains_key(&thread.id))
            .filter(|thread| !thread.priority.is_nan())
            .collect();
        threads.sort_by(|a, b| b.priority.total_cmp(&a.priority).then(a.id.cmp(&b.id)));
        threads.iter().take(self.threads_max).map(|thread| thread.id).collect()
    }

    /// Whether the thread is of a usual class, or is real-time because of this translator.
    fn is_ours(&self, thread: &Ranked<'_>) -> bool {
        self.raised.contains_key(&thread.id) || !thread.state.scheduling.class.policy.is_foreign()
    }
}

impl Translator for RealTime {
    fn needs(&self) -> Needs {
        Needs { groups: false, usage: true }
    }

    fn plan(&mut self, schedule: &Schedule, _: Scale, state: &State) -> Vec<Write> {
        self.bar(state);
        let chosen = self.chosen(schedule, state);
        let mut writes = Vec::new();
        // First those that lose it, so that the bound on their number always holds.
        let barred = &self.barred;
        self.raised.retain(|id, raised| {
            let Some(thread) = state.threads.get(id) else { return false };
            if chosen.contains(id) {
                return true;
            }
            let reason = match barred.contains_key(id) {
                true => "used more than its share of a core".to_owned(),
                false => "others have higher priorities".to_owned(),
            };
            writes.push(write(*id, thread, raised.former, reason));
            false
        });
        for id in chosen {
            let Some(thread) = state.threads.get(&id) else { continue };
            let wanted = Class { policy: Policy::Fifo(PRIORITY), resets_on_fork: true };
            let present = thread.scheduling.class;
            let used = thread.usage.map(|usage| (usage, state.at));
            self.raised.entry(id).or_insert(Raised { former: present, used });
            if present != wanted {
                let priority = schedule.threads.get(&id).copied().unwrap_or(f64::NAN);
                writes.push(write(id, thread, wanted, format!("priority {}", short(priority))));
            }
        }
        writes
    }
}

fn write(id: ThreadId, thread: &ThreadState, class: Class, reason: String) -> Write {
    Write {
        change: Change::Thread { thread: id, value: ThreadValue::Class(class) },
        before: thread.scheduling.class.policy.to_string(),
        subject: thread.name.clone(),
        reason,
    }
}
