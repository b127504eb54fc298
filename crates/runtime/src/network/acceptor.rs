//! Accepts connections. Each has its own thread until the peer has introduced itself, so a silent peer delays
//! no other.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Error, Result};

use crate::task::threads::no_thread;

/// Largest number of connections whose peers have not introduced themselves: the oldest is dropped for a new
/// one.
const STRANGERS_MAX: usize = 64;
/// Time after which a failed attempt to accept is repeated.
const RETRY: Duration = Duration::from_millis(50);

/// Accepts connections until it is dropped. Connections whose peers have introduced themselves outlive it.
pub struct Acceptor {
    strangers: Arc<Strangers>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// Greets the connections of an [`Acceptor`].
pub trait Greeter: Send + Sync + 'static {
    /// The directions that are shut down when a stranger is dropped for a new one.
    const DROPPED: Shutdown;

    /// Greets a connection, on a thread of its own.
    fn greet(&self, stream: TcpStream, stranger: Stranger);

    /// A connection was closed, because it could not get a thread.
    fn note(&self, error: Error);
}

/// A connection whose peer has not introduced itself yet.
pub struct Stranger {
    strangers: Arc<Strangers>,
    number: u64,
    peer: SocketAddr,
}

#[derive(Default)]
struct Strangers {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The sockets of the strangers, by their numbers.
    sockets: BTreeMap<u64, TcpStream>,
    accepted: u64,
    closed: bool,
}

impl Acceptor {
    /// Listens at this address. Port 0 chooses a free port. The names are for the accepting thread and for
    /// the greeting threads.
    ///
    /// # Errors
    /// The address cannot be used, or no thread can be started.
    pub fn listen<G: Greeter>(
        address: SocketAddr,
        [accepts, greets]: [&'static str; 2],
        greeter: &Arc<G>,
    ) -> Result<Acceptor> {
        let place = |error: io::Error| Error::outside(format!("cannot listen: {error}")).at(address.to_string());
        let listener = TcpListener::bind(address).map_err(place)?;
        let address = listener.local_addr().map_err(place)?;
        let strangers = Arc::new(Strangers::default());
        let (accepting, greeter) = (Arc::clone(&strangers), Arc::clone(greeter));
        let accept = move || accepting.accept(&listener, &greeter, greets);
        let thread = std::thread::Builder::new().name(accepts.to_owned()).spawn(accept);
        Ok(Acceptor { strangers, address, thread: Some(thread.map_err(|error| no_thread(&error))?) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        let mut state = self.strangers.lock();
        state.closed = true;
        for socket in state.sockets.values() {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        drop(state);
        self.strangers.changed.notify_all();
        self.thread.take().into_iter().for_each(|thread| end_accepting(self.address, thread));
    }
}

/// Ends the thread that accepts at this address. The thread waits for a connection, so this makes one. If
/// that fails, the thread is left running.
fn end_accepting(mut address: SocketAddr, thread: JoinHandle<()>) {
    if address.ip().is_unspecified() {
        let is_v4 = address.is_ipv4();
        address.set_ip(if is_v4 { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) });
    }
    if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
        // A panic of the thread has ended it as well.
        let _ = thread.join();
    }
}

impl Strangers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread that accepts.
    fn accept<G: Greeter>(self: &Arc<Self>, listener: &TcpListener, greeter: &Arc<G>, greets: &str) {
        loop {
            // The same socket twice: for greeting the peer, and for cutting it off.
            let accepted = listener.accept().and_then(|(stream, peer)| Ok((stream.try_clone()?, stream, peer)));
            let mut state = self.lock();
            if state.closed {
                return;
            }
            match accepted {
                Ok((socket, stream, peer)) => {
                    state.accepted += 1;
                    let number = state.accepted;
                    state.sockets.insert(number, socket);
                    if state.sockets.len() > STRANGERS_MAX
                        && let Some((_, oldest)) = state.sockets.pop_first()
                    {
                        // Its thread finds the end of the stream.
                        let _ = oldest.shutdown(G::DROPPED);
                    }
                    drop(state);
                    let stranger = Stranger { strangers: Arc::clone(self), number, peer };
                    let greeting = Arc::clone(greeter);
                    let greet = move || greeting.greet(stream, stranger);
                    // Without a thread the connection is closed, and it is no stranger any more.
                    if let Err(error) = std::thread::Builder::new().name(greets.to_owned()).spawn(greet) {
                        greeter.note(no_thread(&error).at(peer.ip().to_string()));
                    }
                }
                // There may be too many open files for the moment.
                Err(_) => drop(self.changed.wait_timeout_while(state, RETRY, |state| !state.closed)),
            }
        }
    }
}

impl Stranger {
    /// The address of the peer.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The peer has introduced itself, so it no longer counts as a stranger. Returns whether the connection
    /// may stay: it was not dropped for another one, and the acceptor has not ended.
    #[must_use]
    pub fn leave(&self) -> bool {
        let mut state = self.strangers.lock();
        state.sockets.remove(&self.number).is_some() && !state.closed
    }

    /// Why its greeting has failed: the acceptor may have ended it.
    #[must_use]
    pub fn explain(&self, error: Error) -> Error {
        let state = self.strangers.lock();
        if state.closed {
            Error::outside("this process no longer listens")
        } else if state.sockets.contains_key(&self.number) {
            error
        } else {
            Error::outside(format!("more than {STRANGERS_MAX} peers have connected without introducing themselves"))
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.strangers.lock().sockets.remove(&self.number);
    }
}
