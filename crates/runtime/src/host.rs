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
