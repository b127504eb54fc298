//! The job for a task's source and sink.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use anabranch_model::{Clock, Epoch, Incarnation, Nanos, Notice, Notices, Result};
use anabranch_operators::Host;
use anabranch_state::Log;
use tracing::info;

use crate::task::control::Control;

/// The [`Host`] of the tasks of an incarnation, and of later incarnations with the same open tables.
pub(crate) struct TaskHost {
    life: RwLock<HostLife>,
    /// The job's name.
    job: String,
    notices: Arc<Notices>,
    clock: Arc<dyn Clock>,
    agreed: Mutex<BTreeMap<String, Vec<String>>>,
    /// Systems that do not answer.
    outages: Mutex<BTreeMap<String, Outage>>,
}

/// The incarnation that tasks belong to.
pub(crate) struct HostLife {
    pub(crate) incarnation: Incarnation,
    /// The epoch after which the incarnation resumes.
    pub(crate) after: Epoch,
    /// For a job with checkpoints.
    pub(crate) log: Option<Log>,
    /// `None` between two plan versions.
    pub(crate) control: Option<Arc<Control>>,
    /// Whether other workers have tasks: then the coordinator knows which list was found first.
    pub(crate) asks: bool,
}

/// A system that does not answer.
pub(crate) struct Outage {
    /// Number of tasks that have found it.
    tasks: u32,
    /// When the first of them found it.
    since: Nanos,
}

impl TaskHost {
    pub(crate) fn new(job: &str, life: HostLife, notices: Arc<Notices>, clock: Arc<dyn Clock>) -> TaskHost {
        let (life, agreed, outages) = (RwLock::new(life), Mutex::default(), Mutex::default());
        TaskHost { life, job: job.to_owned(), notices, clock, agreed, outages }
    }

    /// The tasks have ended, and those of the next plan version follow.
    pub(crate) fn pass_on(&self) {
        self.life.write().unwrap_or_else(PoisonError::into_inner).control = None;
    }

    /// The tasks of the next plan version have begun.
    pub(crate) fn go_on(&self, life: HostLife) {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.life.write().unwrap_or_else(PoisonError::into_inner) = life;
    }

    fn life(&self) -> RwLockReadGuard<'_, HostLife> {
        self.life.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn control(&self) -> Option<Arc<Control>> {
        self.life().control.clone()
    }
}

impl Host for TaskHost {
    fn incarnation(&self) -> Incarnation {
        self.life().incarnation
    }

    fn resumed_after(&self) -> Option<Epoch> {
        Some(self.life().after)
    }

    fn is_owner(&self) -> Result<bool> {
        let (log, incarnation) = {
            let life = self.life();
            (life.log.clone(), life.incarnation)
        };
        log.map_or(Ok(true), |log| log.is_owned_by(incarnation))
    }

    fn is_cancelled(&self) -> bool {
        self.life().control.as_ref().is_some_and(|control| control.is_cancelled())
    }

    fn agreed(&self, key: &str, list: &mut dyn FnMut() -> Result<Vec<String>>) -> Result<Vec<String>> {
        let mut agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = agreed.get(key) {
            return Ok(list.clone());
        }
        let mut list = list()?;
        let asked = self.control().filter(|_| self.life().asks);
        if let Some(control) = asked {
            list = control.agree(key, list)?;
        }
        agreed.insert(key.to_owned(), list.clone());
        Ok(list)
    }

    fn outage_begins(&self, system: &str, since: Nanos) -> bool {
        let mut outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
        let outage = outages.entry(system.to_owned()).or_insert(Outage { tasks: 0, since });
        outage.tasks += 1;
        outage.since = outage.since.min(since);
        outage.tasks == 1
    }

    fn outage_ends(&self, system: &str, _since: Nanos) -> Option<Nanos> {
        let mut outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
        let outage = outages.get_mut(system)?;
        outage.tasks -= 1;
        if outage.tasks > 0 {
            return None;
        }
        outages.remove(system).map(|outage| outage.since)
    }

    fn request_checkpoint(&self) {
        self.control().into_iter().for_each(|control| control.request_checkpoint());
    }

    fn wait(&self, time: Duration) -> bool {
        let control = self.control();
        control.iter().for_each(|control| control.wait_for_rows(time));
        control.is_some()
    }

    fn set_full(&self, full: bool) {
        self.control().into_iter().for_each(|control| control.set_full(full));
    }

    fn notify(&self, text: String) {
        log_notice(&self.job, &self.notices.report(self.clock.now(), text));
    }
}

/// A repeated notice is logged when it is reported for the 1st, 2nd, 4th, 8th, ... time.
pub(crate) fn log_notice(job: &str, Notice { number, times, text, .. }: &Notice) {
    if times.is_power_of_two() {
        info!(job, number, times, text, "notice");
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::{Group, ManualClock};
    use anabranch_protocol::coordinator::{Pace, Then};

    use super::*;
    use crate::task::mail::Unheard;

    /// Any task may be the first to find an outage, and any the last to see its end.
    #[test]
    fn an_outage_is_told_by_the_first_task_that_finds_it_and_its_end_by_the_last() {
        let clock = Arc::new(ManualClock::default());
        let control = Some(Control::new(Incarnation(1), Epoch(0), Arc::new(Unheard), Vec::new(), 1));
        let life = HostLife { incarnation: Incarnation(1), after: Epoch(0), log: None, control, asks: false };
        let host = TaskHost::new("", life, Arc::default(), clock);
        for _ in 0..2 {
            let found = [("a", 20), ("a", 10), ("b", 30), ("a", 40)];
            let begun = found.map(|(system, since)| host.outage_begins(system, Nanos(since)));
            assert_eq!(begun, [true, false, true, false]);
            let ended = ["a", "b", "a", "a"].map(|system| host.outage_ends(system, Nanos(50)));
            assert_eq!(ended, [None, Some(Nanos(30)), None, Some(Nanos(10))]);
        }
    }

    /// A source that waits for rows much longer than the test may take ends its wait when the job stops, is
    /// cancelled, or holds it.
    #[test]
    fn a_source_that_waits_for_rows_is_interrupted() {
        let changes: [fn(&Control, bool); 4] = [
            |control, _| control.grant(Group { first: Epoch(1), last: Epoch(3) }, Pace::Steady, Then::Stop, None),
            |control, _| control.cancel(),
            |control, again| control.hold(!again),
            |control, again| control.set_full(!again),
        ];
        for change in changes {
            let control = Control::new(Incarnation(1), Epoch(0), Arc::new(Unheard), Vec::new(), 1);
            let (waiting, (ends, ended)) = (Arc::clone(&control), std::sync::mpsc::channel::<()>());
            let wait = move || {
                waiting.wait_for_rows(Duration::from_secs(3600));
                drop(ends);
            };
            let thread = std::thread::Builder::new().name("source".into()).spawn(wait).expect("a thread");
            // The first change may come before the wait has begun.
            let mut changes = (0..60_000_u32).map(|number| change(&control, number % 2 == 1));
            let has_ended = |()| {
                let pause = ended.recv_timeout(Duration::from_millis(1));
                pause == Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
            };
            assert!(changes.any(has_ended), "it still waits");
            thread.join().expect("the thread ends");
        }
    }

    /// Sources wait for the sink, so they cut the epochs up to the next checkpoint at once.
    #[test]
    fn a_full_sink_does_not_wait_for_a_checkpoint_that_was_given_up() {
        let control = Control::new(Incarnation(1), Epoch(0), Arc::new(Unheard), Vec::new(), 1);
        let group = |first, last| Group { first: Epoch(first), last: Epoch(last) };
        control.grant(group(1, 4), Pace::Steady, Then::Next, Some(Nanos(0)));
        control.set_full(true);
        control.grant(group(5, 8), Pace::Steady, Then::Next, None);
        let cuts_early = || (1..=9).filter(|epoch| control.cuts_early(Epoch(*epoch))).collect::<Vec<_>>();
        assert_eq!(cuts_early(), [1, 2, 3, 4], "the next checkpoint comes without more epochs");
        control.checkpoint_aborted(Epoch(4));
        assert_eq!(cuts_early(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(control.is_checkpoint(Epoch(4)), "sources that have not cut it yet cut it alike");
        control.grant(group(9, 12), Pace::Steady, Then::Next, Some(Nanos(0)));
        control.set_full(false);
        assert_eq!(cuts_early(), [0; 0]);
    }
}
