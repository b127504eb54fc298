//! The tasks of a job at a worker whose coordinator is in another process, one step at a time.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use anabranch_model::{Clock, Nanos};
use anabranch_operators::Connectors;
use anabranch_protocol::worker::{Config, Term};

use super::Tasks;
use crate::network::SteppedEndpoint;
use crate::shell::contact::Contact;
use crate::shell::hosted::{Host, Message, Premises};
use crate::shell::messages::ToWorker;
use crate::shell::running::Drive;

/// A job at a worker. What it says goes to its [`Premises`]. Dropping it ends its tasks.
pub struct SteppedWorker {
    host: Host,
    messages: Sender<Message>,
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

    /// A message of the coordinator has arrived. [`SteppedWorker::work`] takes it.
    pub fn send(&self, message: ToWorker) {
        self.give(Message::Coordinator(message));
    }

    /// The process that has the job's coordinator in this term has answered the heartbeat that this process
    /// sent then.
    pub fn answered(&self, term: Term, sent: Nanos) {
        self.contact.answered(term, sent);
    }

    /// That process has answered none for as long as a lease lasts: later answers are not to extend that
    /// lease.
    pub fn silent(&self) {
        self.give(Message::Silent);
    }

    fn give(&self, message: Message) {
        self.contact.gives();
        // The receiver is the host, which lives as long as this value.
        let _ = self.messages.send(message);
    }

    /// The worker takes the next message of the coordinator or of its tasks, or handles the time. False if
    /// there was no message.
    pub fn work(&mut self) -> bool {
        self.host.step()
    }

    /// Its tasks, once it knows of any.
    pub fn tasks(&mut self) -> Option<Tasks<'_>> {
        self.host.shell.as_mut().map(Tasks)
    }

    /// Rows that were late, of its present tasks together.
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
