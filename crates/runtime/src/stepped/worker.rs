//! The tasks of a job at a worker whose coordinator is in another process, one step at a time.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use anabranch_model::Clock;
use anabranch_operators::Connectors;
use anabranch_protocol::worker::Config;

use super::Tasks;
use crate::hosted::{Host, Message, Premises};
use crate::messages::ToWorker;
use crate::network::SteppedEndpoint;
use crate::running::Drive;

/// A job at a worker. What it says goes to its [`Premises`]. Dropping it ends its tasks.
pub struct SteppedWorker {
    host: Host,
    messages: Sender<Message>,
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
        SteppedWorker { host, messages }
    }

    /// A message of the coordinator has arrived. [`SteppedWorker::work`] takes it.
    pub fn send(&self, message: ToWorker) {
        // The receiver is the host, which lives as long as this value.
        let _ = self.messages.send(Message::Coordinator(message));
    }

    /// The worker takes the next message of the coordinator or of its tasks, or handles the time. False if there was no message.
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
