//! The bytes of a connection, plain or encrypted. One thread reads and one writes, at the same time.

use std::io::{self, ErrorKind, IoSlice, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anabranch_model::{Error, Result};

use super::deadline::{Deadline, Limited};
use super::hello::{broken, origin_of};
use super::keys::{Keys, PublicKey};
use super::session::{Session, Undecrypted};

/// Encrypted bytes that are received at once.
const RECEIVED_BYTES: usize = 64 << 10;
/// Time limit of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// A socket, and its encryption if it has one.
#[derive(Debug)]
pub struct Wire {
    pub(super) stream: TcpStream,
    encryption: Option<Box<Encryption>>,
}

#[derive(Debug)]
struct Encryption {
    session: Session,
    /// Received bytes that are not decrypted yet. Only the reading thread uses them.
    input: Mutex<Undecrypted>,
    /// Memory of the thread that writes.
    output: Mutex<Vec<u8>>,
}

/// Without encryption.
impl From<TcpStream> for Wire {
    fn from(stream: TcpStream) -> Wire {
        Wire { stream, encryption: None }
    }
}

impl Wire {
    /// The listening end. With keys it is encrypted.
    pub fn accept(stream: TcpStream, keys: Option<&Keys>, deadline: &Deadline) -> Result<Wire> {
        match keys {
            Some(keys) => {
                let place = origin_of(&stream);
                encrypted(stream, keys.connection()?, deadline).map_err(|error| error.at(place))
            }
            None => Ok(stream.into()),
        }
    }

    /// The connecting end, to a worker at this address. With a key of that worker it is encrypted.
    pub fn connect(stream: TcpStream, address: SocketAddr, key: Option<PublicKey>, wait: Duration) -> Result<Wire> {
        match key {
            Some(key) => encrypted(stream, key.connection(address)?, &Deadline::after(wait.min(HANDSHAKE))),
            None => Ok(stream.into()),
        }
    }

    pub(super) fn write_all(&self, mut slices: &mut [IoSlice<'_>]) -> Result<()> {
        IoSlice::advance_slices(&mut slices, 0); // leaves out empty slices, which would look like a full socket
        match &self.encryption {
            None => {
                while !slices.is_empty() {
                    match { &self.stream }.write_vectored(slices) {
                        Ok(0) => return Err(Error::outside("the connection takes no bytes")),
                        Ok(written) => IoSlice::advance_slices(&mut slices, written),
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) => return Err(broken(&error)),
                    }
                }
                Ok(())
            }
            Some(encryption) => encryption.write_all(&self.stream, slices).map_err(|error| broken(&error)),
        }
    }

    /// Fills `into`, within a deadline.
    pub(super) fn read_within(&self, mut into: &mut [u8], deadline: &Deadline) -> io::Result<()> {
        while !into.is_empty() {
            match self.read_some(into, Some(deadline)) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => into = &mut into[bytes..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads and discards up to `bytes_max` bytes that the peer still sends.
    pub(super) fn discard(&self, bytes_max: usize, deadline: &Deadline) {
        let (mut dropped, mut bytes) = (0, [0; 4096]);
        while dropped < bytes_max
            && let Ok(count @ 1..) = (Limited { stream: &self.stream, deadline }).read(&mut bytes)
        {
            dropped += count;
        }
    }

    fn read_some(&self, into: &mut [u8], deadline: Option<&Deadline>) -> io::Result<usize> {
        let receive = |into: &mut [u8]| match deadline {
            Some(deadline) => Limited { stream: &self.stream, deadline }.read(into),
            None => { &self.stream }.read(into),
        };
        match &self.encryption {
            None => receive(into),
            Some(encryption) => {
                let mut input = encryption.input.lock().unwrap_or_else(PoisonError::into_inner);
                encryption.session.read(&mut input, into, receive)
            }
        }
    }
}

/// Waits as long as the timeouts of the socket allow.
impl Read for &Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_some(into, None)
    }
}

impl Encryption {
    fn write_all(&self, mut stream: &TcpStream, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        while !slices.is_empty() {
            let taken = self.session.encrypt(slices, &mut output)?;
            if taken == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            IoSlice::advance_slices(&mut slices, taken);
            stream.write_all(&output)?;
        }
        Ok(())
    }
}

fn encrypted(stream: TcpStream, tls: rustls::Connection, deadline: &Deadline) -> Result<Wire> {
    let session = stream.set_nodelay(true).and_then(|()| Session::open(tls, &stream, deadline));
    let session = session.map_err(|error| broken(&error))?;
    let (input, output) = (Mutex::new(Undecrypted::new(RECEIVED_BYTES)), Mutex::default());
    Ok(Wire { stream, encryption: Some(Box::new(Encryption { session, input, output })) })
}
