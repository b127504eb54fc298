//! The common parts of both ends of a connection: how it ends, the socket, and its two threads.

use std::fmt::Debug;
use std::io::Read;
use std::net::Shutdown;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Error, Result};

use super::frame::HEADER_BYTES;
use anabranch_protocol::membership::WorkerId;

use super::hello::{broken, place_of};
use super::wire::Wire;
use crate::task::threads::no_thread;

/// Time limits between workers.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// An end that has sent nothing for this time sends a beat.
    pub beat: Duration,
    /// A peer that was silent for this time is given up: its process stands still, or the link is cut.
    pub silence_max: Duration,
    /// Time limit for the connections of an incarnation.
    pub connect_max: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let [beat, silence_max, connect_max] = [2, 5, 30].map(Duration::from_secs);
        Patience { beat, silence_max, connect_max }
    }
}

/// The carrier of a connection's bytes, which can be shut down.
pub(crate) trait Socket: Debug + Send + Sync {
    /// Stops both directions. It may be closed already.
    fn shutdown(&self);
}

impl Socket for Wire {
    fn shutdown(&self) {
        // An error means that it is closed.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// A connection: its socket, its peer, and what ended it.
#[derive(Debug)]
pub(super) struct Link {
    socket: Arc<dyn Socket>,
    place: String,
    end: Mutex<Option<End>>,
    /// This end sends nothing more.
    pub(super) has_finished: AtomicBool,
}

#[derive(Debug)]
enum End {
    /// This end no longer needs it.
    Closed,
    Failed(String),
}

impl Link {
    pub(super) fn new(wire: &Arc<Wire>, peer: WorkerId, patience: Patience) -> Result<Arc<Link>> {
        let stream = &wire.stream;
        let place = format!("{peer} at {}", place_of(stream));
        // Exchanges buffer rows for as long as the user wants: the system must not buffer them too.
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(patience.silence_max)));
        set.map_err(|error| broken(&error).at(place.clone()))?;
        Ok(Link::over(Arc::<Wire>::clone(wire), place))
    }

    /// A connection over this socket, to a peer at this place.
    pub(super) fn over(socket: Arc<dyn Socket>, place: String) -> Arc<Link> {
        Arc::new(Link { socket, place, end: Mutex::new(None), has_finished: AtomicBool::new(false) })
    }

    /// Records the first failure, which ends the connection for all threads. Later ones are consequences of
    /// it.
    pub(super) fn fail(&self, error: &Error) {
        self.set_end(End::Failed(error.to_string()));
    }

    /// Ends the connection without a failure, at this end.
    pub(super) fn close(&self) {
        self.set_end(End::Closed);
    }

    fn set_end(&self, end: End) {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(end);
        self.socket.shutdown();
    }

    /// How the connection ended.
    pub(super) fn outcome(&self) -> Result<()> {
        match &*self.end.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(End::Closed) => Err(Error::cancelled()),
            Some(End::Failed(message)) => Err(Error::outside(message.clone()).at(self.place.clone())),
        }
    }

    /// Starts a thread. `end` is called after it in any case; an error or a panic ends the connection.
    pub(super) fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&Link) -> Result<()> + Send + 'static,
        end: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>> {
        let link = Arc::clone(self);
        let run = move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&link)));
            match outcome {
                Ok(Ok(())) => {}
                Ok(Err(error)) => link.fail(&error),
                Err(_) => link.fail(&Error::internal("a thread of the connection has panicked")),
            }
            end();
        };
        std::thread::Builder::new().name(name.into()).spawn(run).map_err(|error| no_thread(&error))
    }
}

/// The threads of one end.
#[derive(Debug, Default)]
pub(super) struct Threads(Mutex<Vec<JoinHandle<()>>>);

impl Threads {
    pub(super) fn add(&self, thread: JoinHandle<()>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }

    /// Waits until the threads have ended. A panic of a thread has become an error of the connection.
    pub(super) fn join(&self) {
        let threads = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

pub(super) fn read_header(input: &mut impl Read) -> Result<[u8; HEADER_BYTES]> {
    let mut header = [0; HEADER_BYTES];
    input.read_exact(&mut header).map_err(|error| broken(&error))?;
    Ok(header)
}
