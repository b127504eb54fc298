//! A port that engines push metrics to, in the plaintext protocol of Graphite: a line `PATH VALUE TIME` for
//! each value.
//!
//! One thread serves all connections. Memory is bounded: so many connections, so many bytes of a line that
//! has not ended. The receiver of the lines bounds what it keeps of them.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use anabranch_model::{Error, Result};
use memchr::memchr;
use rustix::event::{PollFd, PollFlags, poll};

#[cfg(test)]
mod tests;

/// Connections at a time. When one more comes, the one that has been silent for longest is closed.
const CONNECTIONS_MAX: usize = 128;
/// Bytes of a line. Storm's names have 100 to 200.
const LINE_BYTES_MAX: usize = 4096;
/// Bytes that are read of one connection before the next one gets its turn.
const READ_BYTES: usize = 64 << 10;

/// Takes the path and the value of a line. Returns whether it wanted them.
pub type Take = Box<dyn FnMut(&str, f64) -> bool + Send>;

/// What has come in since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Connections that were accepted.
    pub connections: u64,
    /// Lines that were taken.
    pub taken: u64,
    /// Lines that nobody wants.
    pub unwanted: u64,
    /// Lines that cannot be read, or are too long.
    pub rubbish: u64,
}

/// A port that listens until it is dropped.
pub struct Graphite {
    address: SocketAddr,
    counters: Arc<Counters>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Counters {
    connections: AtomicU64,
    taken: AtomicU64,
    unwanted: AtomicU64,
    rubbish: AtomicU64,
}

impl Graphite {
    /// Listens at an address of this machine alone; port 0 takes a free one. `take` gets each line in the
    /// listener's thread. `Err`: the address is reachable from outside, or in use.
    pub fn listen(address: SocketAddr, take: Take) -> Result<Graphite> {
        let place = || format!("graphite = \"{address}\"");
        if !address.ip().is_loopback() {
            let error =
                Error::user("this address is reachable from other machines, and the protocol knows no passwords")
                    .at(place());
            return Err(error.remedy("use 127.0.0.1: each machine has its own osched"));
        }
        let failed = |error: std::io::Error| {
            let remedy = match error.kind() {
                ErrorKind::AddrInUse => {
                    "another program listens there, perhaps another osched: end it, or use another port"
                }
                ErrorKind::PermissionDenied => "ports below 1024 are for root: use another port",
                _ => "use 127.0.0.1 and a free port",
            };
            Error::outside(format!("cannot listen: {error}")).at(place()).remedy(remedy)
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (wake, woken) = UnixStream::pair().map_err(failed)?;
        let counters = Arc::new(Counters::default());
        let mut intake =
            Intake { listener, woken, counters: Arc::clone(&counters), take, connections: Vec::new(), turn: 0 };
        let thread = std::thread::Builder::new().name("graphite".to_owned());
        let thread = thread.spawn(move || intake.run()).map_err(failed)?;
        Ok(Graphite { address, counters, wake, thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has come in.
    #[must_use]
    pub fn received(&self) -> Received {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { connections, taken, unwanted, rubbish } = &*self.counters;
        Received { connections: of(connections), taken: of(taken), unwanted: of(unwanted), rubbish: of(rubbish) }
    }
}

impl Drop for Graphite {
    fn drop(&mut self) {
        // The thread ends when it reads this. If it is gone already, there is nobody to tell.
        let _ = self.wake.write_all(b"x");
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// The beginning of a line.
    half: Vec<u8>,
    /// The line in `half` was too long: all up to its end is dropped.
    is_too_long: bool,
    /// The last turn in which it sent something.
    turn: u64,
}

/// The listener's thread.
struct Intake {
    listener: TcpListener,
    woken: UnixStream,
    counters: Arc<Counters>,
    take: Take,
    connections: Vec<Connection>,
    turn: u64,
}

impl Intake {
    fn run(&mut self) {
        let mut buffer = vec![0; READ_BYTES];
        while let Some((may_accept, ready)) = self.wait() {
            self.turn += 1;
            // From the last to the first: closing one does not move those before it.
            for index in (0..ready.len()).rev().filter(|index| ready[*index]) {
                if !self.receive(index, &mut buffer) {
                    self.connections.swap_remove(index);
                }
            }
            if may_accept {
                self.accept();
            }
        }
    }

    /// Waits for something to do: whether a connection waits, and which connections have bytes. `None`: it is
    /// time to end.
    fn wait(&self) -> Option<(bool, Vec<bool>)> {
        let mut polled = vec![PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
        polled.extend(self.connections.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN)));
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
        let is_ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        (!is_ready[0]).then(|| (is_ready[1], is_ready[2..].to_vec()))
    }

    fn accept(&mut self) {
        // One for each turn: an error of one, such as a lack of descriptors, must not become a loop.
        let Ok((stream, _)) = self.listener.accept() else { return };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        if self.connections.len() >= CONNECTIONS_MAX {
            let silent = (0..self.connections.len()).min_by_key(|index| self.connections[*index].turn);
            silent.map(|index| self.connections.swap_remove(index));
        }
        self.connections.push(Connection { stream, half: Vec::new(), is_too_long: false, turn: self.turn });
    }

    /// Reads what has come, but not all of one that never stops. Returns whether the connection goes on.
    fn receive(&mut self, index: usize, buffer: &mut [u8]) -> bool {
        let connection = &mut self.connections[index];
        connection.turn = self.turn;
        match connection.stream.read(buffer) {
            Ok(0) => {
                // A last line may have no end.
                if !connection.half.is_empty() {
                    count(&self.counters, &mut self.take, &connection.half);
                }
                false
            }
            Ok(bytes) => {
                connection.add(&buffer[..bytes], &self.counters, &mut self.take);
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}

impl Connection {
    fn add(&mut self, mut bytes: &[u8], counters: &Counters, take: &mut Take) {
        while let Some(end) = memchr(b'\n', bytes) {
            let line = &bytes[..end];
            bytes = &bytes[end + 1..];
            if self.is_too_long {
                // It was counted when it became too long.
                self.is_too_long = false;
            } else if self.half.is_empty() {
                count(counters, take, line);
            } else {
                self.half.extend_from_slice(line);
                count(counters, take, &self.half);
            }
            self.half.clear();
        }
        if !self.is_too_long && self.half.len() + bytes.len() > LINE_BYTES_MAX {
            counters.rubbish.fetch_add(1, Ordering::Relaxed);
            self.is_too_long = true;
            self.half = Vec::new();
        }
        if !self.is_too_long {
            self.half.extend_from_slice(bytes);
        }
    }
}

/// Takes a line, and counts what became of it.
fn count(counters: &Counters, take: &mut Take, line: &[u8]) {
    let line = line.trim_ascii();
    if line.is_empty() {
        return;
    }
    let counter = match std::str::from_utf8(line).ok().filter(|line| line.len() <= LINE_BYTES_MAX).and_then(parse) {
        None => &counters.rubbish,
        Some((path, value)) if take(path, value) => &counters.taken,
        Some(_) => &counters.unwanted,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Splits `PATH VALUE TIME`. The time is the sender's and has seconds only: the receiver's clock is used in
/// its place. A path may hold spaces, as names of operators do.
fn parse(line: &str) -> Option<(&str, f64)> {
    let (rest, time) = line.rsplit_once([' ', '\t'])?;
    let (path, value) = rest.trim_end().rsplit_once([' ', '\t'])?;
    let (path, value) = (path.trim(), value.parse().ok()?);
    (time.parse::<f64>().is_ok() && !path.is_empty()).then_some((path, value))
}
