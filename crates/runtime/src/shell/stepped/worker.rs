//! The tasks of a job at a worker whose coordinator is in another process, one step at a time.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use anabranch_model::{Clock, Nanos};
use anabranch_operators::Connectors;
use anabranch_protocol::worker::{Config, Term};

use super::Tasks;
use crate::network::SteppedEndpoint;
use crate::shell::contact::Contact;
use crate::shell::hosted::{Host, HostedMessage, Premises};
use crate::shell::messages::ToWorker;
use crate::shell::running::Drive;

/// A job at a worker. Its messages go to its [`Premises`]. Dropping it ends its tasks.
pub struct SteppedWorker {
    host: Host,
    messages: Sender<HostedMessage>,
    contact: Arc<Contact>,
}

impl SteppedWorker {
    /// A worker without tasks.
    #[must_use]
    pub fn new(
        job: u64,
        config: Config,
        connectors: Connectors,
        (endpoint, clock): (Arc<SteppedEndpoint>, Arc<dyn Clock>),
        premises: Arc<dyn Premises>,
    ) -> SteppedWorker {
        let (host, messages) = Host::new(job, config, connectors, (endpoint, clock), premises, Drive::Steps);
        let contact = Arc::clone(&host.contact);
        SteppedWorker { host, messages, contact }
    }

    /// Queues a message of the coordinator, which [`SteppedWorker::work`] handles.
    pub fn send(&self, message: ToWorker) {
        self.give(HostedMessage::Coordinator(message));
    }

    /// The process of the job's coordinator in this term has answered the heartbeat that this process sent at
    /// this time.
    pub fn answered(&self, term: Term, sent: Nanos) {
        self.contact.answered(term, sent);
    }

    /// The coordinator's process has not answered a heartbeat for the time of a lease: later answers must not
    /// extend that lease.
    pub fn silent(&self) {
        self.give(HostedMessage::Silent);
    }

    fn give(&self, message: HostedMessage) {
        self.contact.count_message();
        // The receiver is the host, which lives as long as this value.
        let _ = self.messages.send(message);
    }

    /// Handles the next message of the coordinator or of the tasks, or the time. Returns false if there was
    /// no message.
    pub fn work(&mut self) -> bool {
        self.host.step()
    }

    /// Its tasks, once it knows of any.
    pub fn tasks(&mut self) -> Option<Tasks<'_>> {
        self.host.shell.as_mut().map(Tasks)
    }

    /// Late rows of its present tasks.
    #[must_use]
    pub fn late_rows(&self) -> u64 {
        self.host.late_rows()
    }
}

impl Drop for SteppedWorker {
    fn drop(&mut self) {
        self.host.end();
    }
}
