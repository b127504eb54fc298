//! A TLS connection with one thread that reads and one that writes, at the same time.
//!
//! Both share its state under a lock, which neither holds while it waits for the socket. Only the thread that
//! writes sends what TLS has produced, so its records keep their order.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::deadline::{Deadline, Limited};

/// The first byte of a peer that uses TLS.
const TLS_HELLO: u8 = 22;
/// Slices that are encrypted at once.
const SLICES_MAX: usize = 1024;

/// A TLS connection after its handshake.
pub struct Session(Mutex<rustls::Connection>);

/// Encrypted bytes that were received and not decrypted yet. They belong to the reading thread.
#[derive(Debug)]
pub struct Undecrypted {
    bytes: Vec<u8>,
    taken: usize,
    /// Number of bytes to receive at once.
    capacity: usize,
}

impl Undecrypted {
    /// An empty buffer that receives this number of bytes at once.
    #[must_use]
    pub fn new(capacity: usize) -> Undecrypted {
        Undecrypted { bytes: Vec::new(), taken: 0, capacity }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session")
    }
}

/// Whether a connection that begins with this byte uses TLS.
#[must_use]
pub fn is_tls(first: u8) -> bool {
    first == TLS_HELLO
}

impl Session {
    /// Does the handshake.
    pub fn open(mut tls: rustls::Connection, stream: &TcpStream, deadline: &Deadline) -> io::Result<Session> {
        let mut limited = Limited { stream, deadline };
        let mut outcome = Ok(());
        while tls.is_handshaking() && outcome.is_ok() {
            outcome = tls.complete_io(&mut limited).map(drop);
        }
        // Also after an error: the peer learns the reason.
        while tls.wants_write() {
            if let Err(error) = tls.write_tls(&mut limited) {
                return outcome.and(Err(error));
            }
        }
        outcome.map(|()| Session(Mutex::new(tls)))
    }

    /// A panic of the other thread ends the connection.
    fn lock(&self) -> MutexGuard<'_, rustls::Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encrypts as much of the slices as TLS takes at once. Returns the number of bytes that were encrypted
    /// into `encrypted`, whose former content is removed. Only one thread may call this, and it must send the
    /// bytes before the next call.
    pub fn encrypt(&self, slices: &[IoSlice<'_>], encrypted: &mut Vec<u8>) -> io::Result<usize> {
        encrypted.clear();
        let mut tls = self.lock();
        let taken = tls.writer().write_vectored(&slices[..slices.len().min(SLICES_MAX)])?;
        while tls.wants_write() {
            tls.write_tls(encrypted)?;
        }
        Ok(taken)
    }

    /// Reads decrypted bytes. `receive` waits for more encrypted ones. Only one thread may call this.
    pub fn read(
        &self,
        input: &mut Undecrypted,
        into: &mut [u8],
        mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let mut tls = self.lock();
            match tls.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            if input.taken < input.bytes.len() {
                let taken = tls.read_tls(&mut &input.bytes[input.taken..])?;
                tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
                input.taken += taken;
                if taken == 0 {
                    return Ok(0);
                }
                continue;
            }
            drop(tls);
            input.bytes.resize(input.capacity, 0);
            // After an error, nothing was received.
            input.taken = input.capacity;
            let bytes = receive(&mut input.bytes)?;
            input.bytes.truncate(bytes);
            input.taken = 0;
            if bytes == 0 {
                return Ok(0);
            }
        }
    }
}
