//! A worker's connection to one coordinator, made again whenever it is over.

use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anabranch_model::{Error, Nanos, Result};

use super::super::messages::{FromCluster, FromProcess, Leader};
use crate::control::{Connection, Event, Security, connect};

/// Time to connect to a coordinator.
const CONNECT: Duration = Duration::from_secs(10);
/// Pause before another attempt to connect.
const AGAIN: Duration = Duration::from_millis(500);

/// What happens at a connection to a coordinator.
pub(super) enum Said {
    Connected(Connection<FromProcess>),
    Message(FromCluster),
    /// It is over, or could not be made.
    Closed(Option<Error>),
}

/// A coordinator as the worker reaches it.
pub(super) struct Link {
    address: SocketAddr,
    pub(super) connection: Option<Connection<FromProcess>>,
    /// When it said last that it leads.
    pub(super) leads: Option<(Leader, Nanos)>,
    failed: bool,
}

impl Link {
    /// Connects to a coordinator on a separate thread, again and again.
    pub(super) fn dial(
        place: usize,
        address: SocketAddr,
        security: &Security,
        events: Sender<(usize, Said)>,
    ) -> Result<Link> {
        let security = security.clone();
        let dial = move || {
            // Until the process ends.
            while once(place, address, &security, &events) {
                std::thread::park_timeout(AGAIN);
            }
        };
        let thread = std::thread::Builder::new().name("coordinator".into()).spawn(dial);
        thread.map_err(|error| Error::outside(format!("cannot start a thread: {error}")))?;
        Ok(Link { address, connection: None, leads: None, failed: false })
    }

    /// For messages.
    pub(super) fn place(&self) -> String {
        format!("the coordinator at {}", self.address)
    }

    /// The connection is over. Returns whether it was there.
    pub(super) fn closed(&mut self) -> bool {
        (self.leads, self.failed) = (None, true);
        self.connection.take().is_some()
    }

    /// Whether no connection could be made yet.
    pub(super) fn has_failed(&self) -> bool {
        self.failed && self.connection.is_none()
    }

    /// The coordinator, if it has said lately that it leads.
    pub(super) fn leads_since(&self, now: Nanos, lately: Duration) -> Option<Leader> {
        self.leads.filter(|(_, said)| said.plus(lately) >= now).map(|(leader, _)| leader)
    }
}

/// Connects, and waits for the end of the connection. False if nobody listens to it any more.
fn once(place: usize, address: SocketAddr, security: &Security, events: &Sender<(usize, Said)>) -> bool {
    let (connected, begins) = channel::<()>();
    let (sender, (ends, ended)) = (events.clone(), channel::<()>());
    let mut ends = Some(ends);
    let on_event = move |event: Event<FromCluster>| {
        // What is said before the connection is announced waits for that.
        let _ = begins.recv();
        let said = match event {
            Event::Message(message) => Said::Message(message),
            Event::Closed(why) => {
                ends = None;
                Said::Closed(why)
            }
        };
        // The receiver is gone only when the process ends.
        let _ = sender.send((place, said));
    };
    match connect(address, security, CONNECT, on_event) {
        Ok(connection) => {
            let sent = events.send((place, Said::Connected(connection))).is_ok();
            drop(connected);
            // Nothing is ever sent: the channel closes with the connection.
            let _ = ended.recv();
            sent
        }
        Err(error) => events.send((place, Said::Closed(Some(error)))).is_ok(),
    }
}
