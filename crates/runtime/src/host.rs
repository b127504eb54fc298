//! What a task's source and sink reach of their job.

use std::sync::Arc;
use std::sync::mpsc::channel;

use anabranch_model::{Clock, Incarnation, Notices};
use anabranch_operators::Host;

use crate::control::Control;
use crate::driver::Message;
use crate::mailbox::Mailbox;

/// The [`Host`] of the tasks of one incarnation.
pub(crate) struct TaskHost {
    pub(crate) incarnation: Incarnation,
    pub(crate) control: Arc<Control>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) notices: Arc<Notices>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Host for TaskHost {
    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    fn is_cancelled(&self) -> bool {
        self.control.is_cancelled()
    }

    fn request_checkpoint(&self) {
        // Nobody waits for the answer: the sink sees its commit.
        let (told, _) = channel();
        self.mailbox.send(Message::Checkpoint(told));
    }

    fn notify(&self, text: String) {
        self.notices.report(self.clock.now(), text);
    }
}
