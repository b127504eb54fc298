//! A worker's connection to one coordinator, made again whenever it is over.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anabranch_model::{Error, Nanos, Result};

use super::super::messages::{FromCluster, FromProcess, Leader};
use super::WorkerOptions;
use crate::control::{Connection, Event, Security, connect};
use crate::threads::spawn;

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
    coordinator: String,
    pub(super) connection: Option<Connection<FromProcess>>,
    /// Its newest word on whether it leads.
    pub(super) leads: Option<Leader>,
    /// When it said something last.
    pub(super) heard: Nanos,
    /// When this process sent the newest heartbeat that was answered by this connection.
    answered: Option<Nanos>,
    failed: bool,
}

impl Link {
    /// Connects to a coordinator on a separate thread, again and again.
    pub(super) fn dial(
        place: usize,
        coordinator: &str,
        options: &WorkerOptions,
        events: Sender<(usize, Said)>,
    ) -> Result<Link> {
        let dial = Dial { place, coordinator: coordinator.to_owned(), options: options.clone(), events };
        let run = move || {
            // Until the process ends.
            while dial.once() {
                anabranch_model::pause(AGAIN);
            }
        };
        spawn("coordinator", run)?;
        let coordinator = coordinator.to_owned();
        Ok(Link { coordinator, connection: None, leads: None, heard: Nanos(0), answered: None, failed: false })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> &str {
        &self.coordinator
    }

    /// For messages.
    pub(super) fn place(&self) -> String {
        format!("the coordinator at {}", self.coordinator)
    }

    pub(super) fn connected(&mut self, connection: Connection<FromProcess>, now: Nanos) {
        (self.connection, self.heard, self.answered) = (Some(connection), now, None);
    }

    /// The coordinator answers the heartbeat that was sent then. Returns whether the answer before is older
    /// than a lease: the tasks of its jobs count as lost.
    pub(super) fn answers(&mut self, sent: Nanos, now: Nanos, lease: Duration) -> bool {
        let before = self.answered.replace(sent);
        before.is_some_and(|before| before.plus(lease) <= now)
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

    /// Whether a coordinator that is connected has said nothing for so long.
    pub(super) fn is_silent(&self, now: Nanos, silence: Duration) -> bool {
        self.connection.is_some() && self.heard.plus(silence) < now
    }

    /// The coordinator, if it leads and was heard lately.
    pub(super) fn leads_since(&self, now: Nanos, lately: Duration) -> Option<Leader> {
        self.leads.filter(|_| self.connection.is_some() && self.heard.plus(lately) >= now)
    }
}

/// Makes the connections to one coordinator.
struct Dial {
    place: usize,
    coordinator: String,
    options: WorkerOptions,
    events: Sender<(usize, Said)>,
}

impl Dial {
    /// Connects, and waits for the end of the connection. False if nobody listens to it any more.
    fn once(&self) -> bool {
        match self.connect() {
            Ok((connection, ended)) => {
                let sent = self.events.send((self.place, Said::Connected(connection))).is_ok();
                // What the coordinator says waits for this.
                ended.announced();
                sent
            }
            Err(error) => self.events.send((self.place, Said::Closed(Some(error)))).is_ok(),
        }
    }

    fn connect(&self) -> Result<(Connection<FromProcess>, Ended)> {
        let Dial { coordinator, options: WorkerOptions { token, authority, .. }, .. } = self;
        let wrong = |why: String| {
            let error = Error::outside(why).at(format!("--coordinator {coordinator}"));
            error.remedy("give HOST:PORT, as the coordinator prints it")
        };
        let host = coordinator.rsplit_once(':').map_or(coordinator.as_str(), |(host, _)| host);
        let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned();
        let security = match authority.clone() {
            Some(authority) => Security::TlsClient { token: token.clone(), authority, name: Some(name) },
            None => Security::Plain { token: token.clone() },
        };
        // A name may lead to another machine by the next attempt.
        let addresses = coordinator.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
        let none = Err(wrong("the name has no address".to_owned()));
        addresses.fold(none, |outcome, address| outcome.or_else(|_| self.connect_at(address, &security)))
    }

    fn connect_at(&self, address: SocketAddr, security: &Security) -> Result<(Connection<FromProcess>, Ended)> {
        let (announce, announced) = channel::<()>();
        let (ends, ended) = channel::<()>();
        let (place, sender) = (self.place, self.events.clone());
        let on_event = move |event: Event<FromCluster>| {
            let _ends: &Sender<()> = &ends;
            // Nothing is ever sent: the channel closes when the connection is announced.
            let _ = announced.recv();
            let said = match event {
                Event::Message(message) => Said::Message(message),
                Event::Closed(why) => Said::Closed(why),
            };
            // The receiver is gone only when the process ends.
            let _ = sender.send((place, said));
        };
        let connection = connect(address, security, CONNECT, on_event)?;
        Ok((connection, Ended { announce, ended }))
    }
}

/// The end of a connection.
struct Ended {
    announce: Sender<()>,
    ended: Receiver<()>,
}

impl Ended {
    /// The connection is known from now on. Waits for its end.
    fn announced(self) {
        drop(self.announce);
        // Nothing is ever sent: the channel closes with the connection.
        let _ = self.ended.recv();
    }
}
