//! What the source and the sink of a task can request from the job.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use anabranch_model::{Clock, Epoch, Incarnation, Nanos, Notice, Notices, Result};
use anabranch_operators::Host;
use anabranch_state::Log;
use tracing::info;

use crate::task::control::Control;

/// The [`Host`] of a worker's tasks. A table that stays open when the plan changes keeps its host, so one
/// host may serve several incarnations, one after the other.
pub(crate) struct TaskHost {
    life: RwLock<HostLife>,
    /// The job's name.
    job: String,
    notices: Arc<Notices>,
    clock: Arc<dyn Clock>,
    /// The lists that all tasks of the incarnation share, by key.
    agreed: Mutex<BTreeMap<String, Vec<String>>>,
    /// The systems that do not answer, by name.
    outages: Mutex<BTreeMap<String, Outage>>,
}

/// The part of a host that changes with the incarnation.
pub(crate) struct HostLife {
    pub(crate) incarnation: Incarnation,
    /// The epoch of the checkpoint that the incarnation resumes from; 0 without one.
    pub(crate) after: Epoch,
    /// The log that names the job's owner. `None`: the job takes no checkpoints.
    pub(crate) log: Option<Log>,
    /// `None` from the end of the tasks of one plan version to the start of those of the next.
    pub(crate) control: Option<Arc<Control>>,
    /// Whether the coordinator is asked for a list that tasks share, because other workers may have tasks.
    pub(crate) asks: bool,
}

/// The outage of a system.
pub(crate) struct Outage {
    /// Number of tasks that the system does not answer now.
    tasks: u32,
    /// The beginning of the outage: the earliest time that a task has reported.
    since: Nanos,
}

impl TaskHost {
    pub(crate) fn new(job: &str, life: HostLife, notices: Arc<Notices>, clock: Arc<dyn Clock>) -> TaskHost {
        let (life, agreed, outages) = (RwLock::new(life), Mutex::default(), Mutex::default());
        TaskHost { life, job: job.to_owned(), notices, clock, agreed, outages }
    }

    /// The tasks have ended, and those of the next plan version will follow. Until they start, requests for
    /// checkpoints and reports of full sinks are dropped, and lists are not shared with other workers.
    pub(crate) fn pass_on(&self) {
        self.life.write().unwrap_or_else(PoisonError::into_inner).control = None;
    }

    /// The tasks of the next plan version start, in the incarnation `life`. The lists of the former
    /// incarnation are forgotten.
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

/// Logs a notice, unless it [repeats itself](Notice::is_logged).
pub(crate) fn log_notice(job: &str, notice: &Notice) {
    if notice.is_logged() {
        let Notice { number, times, text, .. } = notice;
        info!(job, number, times, text, "notice");
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::{Group, ManualClock};
    use anabranch_protocol::coordinator::{Pace, Then};

    use super::*;
    use crate::task::mail::Unheard;

    /// Any task may be the first to report an outage, and any task the last to report its end.
    #[test]
    fn the_first_task_reports_an_outage_and_the_last_one_its_end() {
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

    /// The wait of a source for rows ends early when the job stops, when it is cancelled, when full sinks at
    /// other workers hold the sources, and when a sink here is full.
    #[test]
    fn the_wait_of_a_source_for_rows_is_interrupted() {
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
            // The first change may come before the wait has begun, so changes are repeated.
            let mut changes = (0..60_000_u32).map(|number| change(&control, number % 2 == 1));
            let has_ended = |()| {
                let pause = ended.recv_timeout(Duration::from_millis(1));
                pause == Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
            };
            assert!(changes.any(has_ended), "it still waits");
            thread.join().expect("the thread ends");
        }
    }

    /// While a sink is full, sources cut the epochs up to the next checkpoint early. If that checkpoint is
    /// aborted, they cut all granted epochs early, because the next checkpoint then releases them.
    #[test]
    fn a_full_sink_does_not_wait_for_an_aborted_checkpoint() {
        let control = Control::new(Incarnation(1), Epoch(0), Arc::new(Unheard), Vec::new(), 1);
        let group = |first, last| Group { first: Epoch(first), last: Epoch(last) };
        control.grant(group(1, 4), Pace::Steady, Then::Next, Some(Nanos(0)));
        control.set_full(true);
        control.grant(group(5, 8), Pace::Steady, Then::Next, None);
        let cuts_early = || (1..=9).filter(|epoch| control.cuts_early(Epoch(*epoch))).collect::<Vec<_>>();
        assert_eq!(cuts_early(), [1, 2, 3, 4], "the next checkpoint needs no later epochs");
        control.checkpoint_aborted(Epoch(4));
        assert_eq!(cuts_early(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(control.is_checkpoint(Epoch(4)), "a source that cuts it later cuts it as a checkpoint too");
        control.grant(group(9, 12), Pace::Steady, Then::Next, Some(Nanos(0)));
        control.set_full(false);
        assert_eq!(cuts_early(), [0; 0]);
    }
}
