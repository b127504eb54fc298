//! The job as a task's source and sink see it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_model::{Clock, Epoch, Incarnation, Notices, Result};
use anabranch_operators::Host;
use anabranch_state::Log;

use crate::control::Control;

/// The [`Host`] of the tasks of one incarnation.
pub(crate) struct TaskHost {
    pub(crate) incarnation: Incarnation,
    /// The epoch after which the incarnation resumes.
    pub(crate) after: Epoch,
    /// Of a job with checkpoints.
    pub(crate) log: Option<Log>,
    pub(crate) control: Arc<Control>,
    pub(crate) notices: Arc<Notices>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) agreed: Mutex<BTreeMap<String, Vec<String>>>,
    /// Systems that do not answer, each with the number of tasks that have found it.
    pub(crate) outages: Mutex<BTreeMap<String, u32>>,
}

impl Host for TaskHost {
    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    fn resumed_after(&self) -> Option<Epoch> {
        Some(self.after)
    }

    fn is_owner(&self) -> Result<bool> {
        let Some(log) = &self.log else { return Ok(true) };
        log.is_owned_by(self.incarnation)
    }

    fn is_cancelled(&self) -> bool {
        self.control.is_cancelled()
    }

    fn agreed(&self, key: &str, list: &mut dyn FnMut() -> Result<Vec<String>>) -> Result<Vec<String>> {
        let mut agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = agreed.get(key) {
            return Ok(list.clone());
        }
        let list = list()?;
        agreed.insert(key.to_owned(), list.clone());
        Ok(list)
    }

    fn outage_begins(&self, system: &str) -> bool {
        let mut outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
        let tasks = outages.entry(system.to_owned()).or_insert(0);
        *tasks += 1;
        *tasks == 1
    }

    fn outage_ends(&self, system: &str) -> bool {
        let mut outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(tasks) = outages.get_mut(system) else { return false };
        *tasks -= 1;
        let was_last = *tasks == 0;
        if was_last {
            outages.remove(system);
        }
        was_last
    }

    fn request_checkpoint(&self) {
        self.control.request_checkpoint();
    }

    fn set_full(&self, full: bool) {
        self.control.set_full(full);
    }

    fn notify(&self, text: String) {
        self.notices.report(self.clock.now(), text);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use anabranch_model::{Group, ManualClock};

    use super::*;
    use crate::job::Shared;
    use crate::mailbox::Mailbox;

    /// Any task may be the first to find an outage, and any the last to see its end.
    #[test]
    fn an_outage_is_told_by_the_first_task_that_finds_it_and_its_end_by_the_last() {
        let (sender, _messages) = channel();
        let clock = Arc::new(ManualClock::default());
        let mailbox = Mailbox::new(sender, Shared::new(Arc::<ManualClock>::clone(&clock)));
        let host = TaskHost {
            incarnation: Incarnation(1),
            after: Epoch(0),
            log: None,
            notices: mailbox.notices(),
            control: Control::new(Incarnation(1), Epoch(0), mailbox, Vec::new()),
            clock,
            agreed: Mutex::default(),
            outages: Mutex::default(),
        };
        for _ in 0..2 {
            assert_eq!(["a", "a", "b"].map(|system| host.outage_begins(system)), [true, false, true]);
            assert_eq!(["a", "b", "a"].map(|system| host.outage_ends(system)), [false, true, true]);
        }
    }

    /// Sources wait for the sink, so they cut the epochs up to the next checkpoint at once.
    #[test]
    fn a_full_sink_does_not_wait_for_a_checkpoint_that_was_given_up() {
        let (sender, _messages) = channel();
        let mailbox = Mailbox::new(sender, Shared::new(Arc::new(ManualClock::default())));
        let control = Control::new(Incarnation(1), Epoch(0), mailbox, Vec::new());
        let group = |first, last| Group { first: Epoch(first), last: Epoch(last) };
        control.grant(group(1, 4), true);
        control.set_full(true);
        control.grant(group(5, 8), false);
        let cuts_early = || (1..=9).filter(|epoch| control.cuts_early(Epoch(*epoch))).collect::<Vec<_>>();
        assert_eq!(cuts_early(), [1, 2, 3, 4], "the next checkpoint comes without more epochs");
        control.checkpoint_aborted(Epoch(4));
        assert_eq!(cuts_early(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(control.is_checkpoint(Epoch(4)), "sources that have not cut it yet cut it alike");
        control.grant(group(9, 12), true);
        control.set_full(false);
        assert_eq!(cuts_early(), [0; 0]);
    }
}
