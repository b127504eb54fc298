//! The bytes of a connection, plain or encrypted. One thread reads and one writes, at the same time.

use std::io::{self, BufReader, ErrorKind, IoSlice, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Error, Result};
use anabranch_runtime::network::{Deadline, Limited, Session, Undecrypted};
use rustls::CertificateError;

use super::security::Encryption;

/// Bytes that are received or buffered at once.
const CHUNK_BYTES: usize = 16 << 10;

/// The socket of a connection and its encryption.
pub(super) struct Wire {
    stream: Arc<TcpStream>,
    tls: Option<Session>,
}

/// What the reading thread has. It buffers.
pub(super) type Input = BufReader<Decrypting>;

/// The decrypted bytes of a connection.
pub(super) struct Decrypting {
    wire: Arc<Wire>,
    undecrypted: Undecrypted,
    deadline: Option<Arc<Deadline>>,
}

impl Wire {
    /// Begins with TLS, if there is any.
    pub(super) fn open(
        stream: Arc<TcpStream>,
        encryption: Option<&Encryption>,
        deadline: &Arc<Deadline>,
    ) -> Result<(Arc<Wire>, Input)> {
        stream.set_nodelay(true).map_err(|error| broken(&error))?;
        let tls = encryption.map(Encryption::connection).transpose()?;
        let tls = tls.map(|tls| Session::open(tls, &stream, deadline)).transpose();
        let tls = tls.map_err(|error| broken(&error).remedy(remedy(&error)))?;
        let wire = Arc::new(Wire { stream, tls });
        let deadline = Some(Arc::clone(deadline));
        let input = Decrypting { wire: Arc::clone(&wire), undecrypted: Undecrypted::new(CHUNK_BYTES), deadline };
        Ok((wire, BufReader::with_capacity(CHUNK_BYTES, input)))
    }

    /// The first byte that the peer sends. It stays to be read. There is none if the peer sends nothing.
    pub(super) fn first_byte(stream: &TcpStream, deadline: &Deadline) -> io::Result<Option<u8>> {
        Limited { stream, deadline }.first_byte()
    }

    /// Writes all bytes. Only one thread may do so at a time. It asks `gives_up` before each step, with
    /// whether the peer has taken nothing for the write timeout of the socket.
    pub(super) fn write_all(&self, bytes: &[u8], gives_up: &dyn Fn(bool) -> bool) -> io::Result<()> {
        let Some(tls) = &self.tls else { return self.transmit(bytes, gives_up) };
        let (mut bytes, mut encrypted) = (bytes, Vec::new());
        while !bytes.is_empty() {
            let taken = tls.encrypt(&[IoSlice::new(bytes)], &mut encrypted)?;
            bytes = &bytes[taken..];
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

    pub(super) fn write_within(&self, bytes: &[u8], deadline: &Deadline) -> io::Result<()> {
        self.stream.set_write_timeout(Some(deadline.left()?))?;
        self.write_all(bytes, &|is_stuck| is_stuck)
    }

    /// From now on reading has no limit. A write is interrupted when the peer has taken nothing for
    /// `stuck_after`.
    pub(super) fn without_deadline(&self, input: &mut Input, stuck_after: Duration) -> io::Result<()> {
        input.get_mut().deadline = None;
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(Some(stuck_after))
    }

    /// The address of this end.
    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// No further bytes will be written.
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
        let (stream, deadline) = (&self.wire.stream, self.deadline.as_deref());
        match &self.wire.tls {
            Some(tls) => tls.read(&mut self.undecrypted, into, |into| Self::receive(stream, deadline, into)),
            None => Self::receive(stream, deadline, into),
        }
    }
}

/// What helps when TLS cannot begin.
fn remedy(error: &io::Error) -> &'static str {
    use CertificateError::{BadSignature, NotValidYetContext, UnknownIssuer};
    use CertificateError::{Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet};
    match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(why)) => match why {
            Expired | ExpiredContext { .. } => {
                "start the listener with a new certificate (--tls-cert, --tls-key); docs/cluster.md shows how to make one"
            }
            NotValidYet | NotValidYetContext { .. } => "compare the clocks of both machines",
            NotValidForName | NotValidForNameContext { .. } => {
                "connect to a name or an address that the listener's certificate (--tls-cert) has, or make one that has this"
            }
            BadSignature | UnknownIssuer => {
                "give --tls-ca the certificate of the authority that signed the listener's --tls-cert"
            }
            _ => "give the listener a certificate (--tls-cert) that the one of --tls-ca has signed",
        },
        Some(rustls::Error::InvalidMessage(_)) => {
            "a listener without TLS is reached without --tls-ca; with --tls-cert and --tls-key it has TLS"
        }
        Some(rustls::Error::AlertReceived(_)) => "see what the peer says about it; --tls-ca must fit --tls-cert",
        _ => "see whether the process runs that listens there, and whether it has --tls-cert and --tls-key",
    }
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
