//! The bytes of a connection, plain or encrypted. One thread reads and one writes, at the same time.
//!
//! Both share the state of TLS under a lock, which neither holds while it waits for the socket. Only the thread that writes
//! sends what TLS has produced, so that its records keep their order.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_model::{Clock as _, Error, Nanos, Result, SystemClock};

use super::security::Encryption;

/// Bytes that are encrypted or read at once.
const CHUNK_BYTES: usize = 16 << 10;

/// The socket of a connection and its encryption.
pub(super) struct Wire {
    stream: Arc<TcpStream>,
    tls: Option<Mutex<rustls::Connection>>,
}

/// What the reading thread has. It buffers.
pub(super) type Input = BufReader<Decrypting>;

/// The decrypted bytes of a connection.
pub(super) struct Decrypting {
    wire: Arc<Wire>,
    /// Encrypted bytes that TLS has not taken.
    encrypted: Vec<u8>,
    taken: usize,
    deadline: Option<Arc<Deadline>>,
}

/// A limit for work of several steps.
pub(super) struct Deadline {
    clock: SystemClock,
    end: Nanos,
}

impl Deadline {
    pub(super) fn after(limit: Duration) -> Deadline {
        let clock = SystemClock::new();
        let end = clock.now().plus(limit);
        Deadline { clock, end }
    }

    /// What is left, or an error if nothing is.
    pub(super) fn left(&self) -> io::Result<Duration> {
        let left = self.end.after(self.clock.now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Wire {
    /// Begins with TLS, if there is any.
    pub(super) fn open(
        stream: Arc<TcpStream>,
        encryption: Option<&Encryption>,
        deadline: &Arc<Deadline>,
    ) -> Result<(Arc<Wire>, Input)> {
        stream.set_nodelay(true).map_err(|error| broken(&error))?;
        let mut tls = encryption.map(Encryption::connection).transpose()?;
        if let Some(tls) = &mut tls {
            let mut limited = Limited { stream: &stream, deadline };
            while tls.is_handshaking() {
                tls.complete_io(&mut limited).map_err(|error| broken(&error).remedy(TLS_REMEDY))?;
            }
        }
        let wire = Arc::new(Wire { stream, tls: tls.map(Mutex::new) });
        let deadline = Some(Arc::clone(deadline));
        let input = Decrypting { wire: Arc::clone(&wire), encrypted: Vec::new(), taken: 0, deadline };
        Ok((wire, BufReader::with_capacity(CHUNK_BYTES, input)))
    }

    /// The first byte that the peer sends. It stays to be read. There is none if the peer sends nothing.
    pub(super) fn first_byte(stream: &TcpStream, deadline: &Deadline) -> io::Result<Option<u8>> {
        let mut first = [0];
        stream.set_read_timeout(Some(deadline.left()?))?;
        Ok((stream.peek(&mut first)? == 1).then_some(first[0]))
    }

    /// Writes all bytes. Only one thread may do so at a time. It asks `gives_up` before each step, with whether the peer has taken nothing
    /// for the write timeout of the socket.
    pub(super) fn write_all(&self, bytes: &[u8], gives_up: &dyn Fn(bool) -> bool) -> io::Result<()> {
        let Some(tls) = &self.tls else { return self.transmit(bytes, gives_up) };
        let mut encrypted = Vec::new();
        for chunk in bytes.chunks(CHUNK_BYTES) {
            encrypted.clear();
            let mut tls = lock(tls);
            tls.writer().write_all(chunk)?;
            while tls.wants_write() {
                tls.write_tls(&mut encrypted)?;
            }
            drop(tls);
            self.transmit(&encrypted, gives_up)?;
        }
        Ok(())
    }

    fn transmit(&self, mut bytes: &[u8], gives_up: &dyn Fn(bool) -> bool) -> io::Result<()> {
        let mut is_stuck = false;
        while !bytes.is_empty() {
            if gives_up(is_stuck) {
                return Err(ErrorKind::TimedOut.into());
            }
            match { &*self.stream }.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    is_stuck = false;
                }
                Err(error) if is_timeout(&error) => is_stuck = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes within a deadline.
    pub(super) fn write_within(&self, bytes: &[u8], deadline: &Deadline) -> io::Result<()> {
        self.stream.set_write_timeout(Some(deadline.left()?))?;
        self.write_all(bytes, &|is_stuck| is_stuck)
    }

    /// From now on reading has no limit. A write is interrupted when the peer has taken nothing for `stuck_after`.
    pub(super) fn without_deadline(&self, input: &mut Input, stuck_after: Duration) -> io::Result<()> {
        input.get_mut().deadline = None;
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(Some(stuck_after))
    }

    /// Nothing more will be written.
    pub(super) fn finish(&self) {
        // The peer may have closed the socket already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends the connection for both threads at once.
    pub(super) fn stop(&self) {
        // The peer may have closed the socket already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Decrypting {
    /// Reading ends at another deadline.
    pub(super) fn set_deadline(&mut self, deadline: &Arc<Deadline>) {
        self.deadline = Some(Arc::clone(deadline));
    }

    fn receive(stream: &TcpStream, deadline: Option<&Deadline>, into: &mut [u8]) -> io::Result<usize> {
        match deadline {
            Some(deadline) => Limited { stream, deadline }.read(into),
            None => { stream }.read(into),
        }
    }
}

impl Read for Decrypting {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &self.wire.tls else {
            return Self::receive(&self.wire.stream, self.deadline.as_deref(), into);
        };
        loop {
            let mut tls = lock(tls);
            match tls.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            if self.taken < self.encrypted.len() {
                let taken = tls.read_tls(&mut &self.encrypted[self.taken..])?;
                tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
                self.taken += taken;
                if taken == 0 {
                    return Ok(0);
                }
                continue;
            }
            drop(tls);
            self.encrypted.resize(CHUNK_BYTES, 0);
            self.taken = CHUNK_BYTES;
            let bytes = Self::receive(&self.wire.stream, self.deadline.as_deref(), &mut self.encrypted)?;
            self.encrypted.truncate(bytes);
            self.taken = 0;
            if bytes == 0 {
                return Ok(0);
            }
        }
    }
}

/// A socket within a deadline.
struct Limited<'a> {
    stream: &'a TcpStream,
    deadline: &'a Deadline,
}

impl Read for Limited<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.deadline.left()?))?;
        self.stream.read(into)
    }
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.deadline.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const TLS_REMEDY: &str = "a listener with --tls-cert and --tls-key is reached with --tls-ca, whose certificate must be that of the \
                          listener's authority; the listener's certificate must name its IP address";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// An error of a socket or of TLS.
pub(super) fn broken(error: &io::Error) -> Error {
    match error.kind() {
        ErrorKind::UnexpectedEof => Error::outside("the peer has closed the connection"),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::outside("the peer does not answer"),
        ErrorKind::InvalidData => Error::outside(format!("TLS has failed: {error}")),
        _ => Error::outside(format!("the connection is broken: {error}")),
    }
}
