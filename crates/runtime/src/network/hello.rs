//! How a connection begins: the sender says who it is, and the receiver accepts it or refuses it with a
//! reason.
//!
//! ```text
//! hello:   0  magic: 8 bytes    8  version: u32, 0: u32    answer:   0  magic: 8 bytes    8  version: u32, 0: u32
//!         16  incarnation: u64  24  from: u32, to: u32              16  bytes of the reason: u64; 0 accepts
//!         32  channels: u32, bytes of the token: u32                24  0 until 56
//!         40  job: u64, 0 until 56                                  56  checksum, then the reason
//!         56  checksum of all before, then the token
//! ```

use std::io::{ErrorKind, IoSlice};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use anabranch_model::{Error, Incarnation, Result};
use anabranch_protocol::membership::WorkerId;
use subtle::ConstantTimeEq as _;

use super::deadline::{Deadline, Limited};
use super::frame::{HEADER_BYTES, is_sealed, seal};
use super::keys::Keys;
use super::session::is_tls;
use super::wire::Wire;

const MAGIC: [u8; 8] = *b"anabrnch";
/// Version of the format of frames and of this greeting. Workers of different versions refuse each other.
const VERSION: u32 = 1;
/// A peer that has not said hello after this time is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time that a refused peer has to read the answer.
const ANSWER: Duration = Duration::from_secs(1);
/// Limit of the bytes of a refused peer that are read and dropped.
const DISCARDED_MAX: usize = 1 << 20;
/// Limit of the bytes of a reason.
const REASON_MAX: usize = 1024;
/// Limit of the bytes of a token.
const TOKEN_MAX: usize = 256;

/// What the sender says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The job.
    pub job: u64,
    /// The life of the job. The receiver refuses an older one than its own, and lets a newer one wait.
    pub incarnation: Incarnation,
    /// The sender of rows.
    pub from: WorkerId,
    /// The receiver of rows.
    pub to: WorkerId,
    /// Number of channels of the connection.
    pub channels: u32,
}

/// A connection whose sender has introduced itself, before it is accepted.
#[derive(Debug)]
pub struct Greeting {
    /// What the sender said.
    pub hello: Hello,
    token: Vec<u8>,
    pub(super) wire: Wire,
}

impl Hello {
    /// Introduces this worker to the receiver of its rows with the secret that all workers share. Waits until
    /// the receiver has accepted it: it may not have begun with the incarnation yet.
    pub(crate) fn introduce(&self, wire: &Wire, token: &[u8], wait: Duration) -> Result<()> {
        let message = self.message(token)?;
        let deadline = Deadline::after(wait);
        bounded(wire)?;
        let sent = wire.write_all(&mut [IoSlice::new(&message)]);
        // A receiver that refuses may have closed the connection before all was written: its answer says why.
        let answer = match receive(wire, &deadline) {
            Ok(answer) => answer,
            Err(error) => return Err(sent.err().unwrap_or(error)),
        };
        let bytes = reason_bytes(&answer);
        if bytes == 0 {
            return sent.and_then(|()| unbounded(wire));
        }
        let mut reason = vec![0; bytes];
        wire.read_within(&mut reason, &deadline).map_err(|error| broken(&error))?;
        Err(refused(&reason))
    }

    /// What is sent first: a header, and the token.
    pub(super) fn message(&self, token: &[u8]) -> Result<Vec<u8>> {
        if token.len() > TOKEN_MAX {
            return Err(Error::user(format!("the token of the workers has more than {TOKEN_MAX} bytes")));
        }
        let mut message = begin();
        message[16..24].copy_from_slice(&self.incarnation.0.to_le_bytes());
        message[24..28].copy_from_slice(&self.from.0.to_le_bytes());
        message[28..32].copy_from_slice(&self.to.0.to_le_bytes());
        message[32..36].copy_from_slice(&self.channels.to_le_bytes());
        message[36..40].copy_from_slice(&(token.len() as u32).to_le_bytes());
        message[40..48].copy_from_slice(&self.job.to_le_bytes());
        seal(&mut message);
        Ok([&message, token].concat())
    }

    /// The content of the first message, and the number of bytes of the token that follows.
    pub(super) fn read(message: &[u8; HEADER_BYTES]) -> Result<(Hello, usize)> {
        let token_bytes = (number(message, 32) >> 32) as usize;
        if token_bytes > TOKEN_MAX || number(message, 48) != 0 {
            return Err(Error::outside("its hello is malformed"));
        }
        let hello = Hello {
            job: number(message, 40),
            incarnation: Incarnation(number(message, 16)),
            from: WorkerId(number(message, 24) as u32),
            to: WorkerId((number(message, 24) >> 32) as u32),
            channels: number(message, 32) as u32,
        };
        Ok((hello, token_bytes))
    }
}

/// Bytes of the reason that follows an answer; 0 if the connection is accepted.
pub(super) fn reason_bytes(answer: &[u8; HEADER_BYTES]) -> usize {
    usize::try_from(number(answer, 16)).unwrap_or(usize::MAX).min(REASON_MAX)
}

/// The error of a connection that was refused.
pub(super) fn refused(reason: &[u8]) -> Error {
    Error::outside(format!("the connection was refused: {}", String::from_utf8_lossy(reason)))
}

impl Greeting {
    /// Waits for the hello on a new connection. A peer that is not a worker gets an error here.
    pub fn receive(wire: impl Into<Wire>) -> Result<Greeting> {
        Greeting::within(wire.into(), &Deadline::after(PATIENCE))
    }

    /// The same, after the handshake of TLS if the worker that listens has keys.
    pub(super) fn begin(stream: TcpStream, keys: Option<&Keys>) -> Result<Greeting> {
        let (place, deadline) = (origin_of(&stream), Deadline::after(PATIENCE));
        if keys.is_some() {
            let first = Limited { stream: &stream, deadline: &deadline }.first_byte();
            let first = first.map_err(|error| broken(&error).at(place.clone()))?;
            if !first.is_some_and(is_tls) {
                let error = Error::outside("it does not begin with TLS, and this worker needs it").at(place);
                turn_away(&stream.into(), &error);
                return Err(error.remedy("run the same release on every machine"));
            }
        }
        Greeting::within(Wire::accept(stream, keys, &deadline)?, &deadline)
    }

    fn within(wire: Wire, deadline: &Deadline) -> Result<Greeting> {
        let hello = bounded(&wire).and_then(|()| receive(&wire, deadline)).and_then(|message| {
            let (hello, token_bytes) = Hello::read(&message)?;
            let mut token = vec![0; token_bytes];
            wire.read_within(&mut token, deadline).map_err(|error| broken(&error))?;
            Ok((hello, token))
        });
        match hello {
            Ok((hello, token)) => Ok(Greeting { hello, token, wire }),
            Err(error) => {
                let place = origin_of(&wire.stream);
                turn_away(&wire, &error);
                Err(error.at(place))
            }
        }
    }

    /// Whether the sender knows the secret that all workers share.
    pub(super) fn has_token(&self, token: &[u8]) -> bool {
        self.token.ct_eq(token).into()
    }

    /// Who connects, for errors.
    pub(super) fn place(&self) -> String {
        format!("{} at {}", self.hello.from, origin_of(&self.wire.stream))
    }

    /// Refuses the connection.
    pub fn refuse(self, reason: &str) -> Result<()> {
        answer(&self.wire, reason).map_err(|error| error.at(origin_of(&self.wire.stream)))
    }

    pub(crate) fn accept(&self) -> Result<()> {
        answer(&self.wire, "").and_then(|()| unbounded(&self.wire))
    }
}

fn begin() -> [u8; HEADER_BYTES] {
    let mut message = [0; HEADER_BYTES];
    message[..8].copy_from_slice(&MAGIC);
    message[8..12].copy_from_slice(&VERSION.to_le_bytes());
    message
}

/// The message that accepts a connection if the reason is empty, and refuses it otherwise.
pub(super) fn answer_message(reason: &str) -> Vec<u8> {
    let reason = &reason.as_bytes()[..reason.floor_char_boundary(REASON_MAX)];
    let mut message = begin();
    message[16..24].copy_from_slice(&(reason.len() as u64).to_le_bytes());
    seal(&mut message);
    [&message, reason].concat()
}

fn answer(wire: &Wire, reason: &str) -> Result<()> {
    wire.write_all(&mut [IoSlice::new(&answer_message(reason))])
}

/// Tells a peer why it is refused, such as a worker of another version. The connection is of no use whether
/// or not it gets this.
fn turn_away(wire: &Wire, error: &Error) {
    let deadline = Deadline::after(ANSWER);
    if answer(wire, error.message()).is_ok() {
        let _ = wire.stream.shutdown(Shutdown::Write);
        // A socket that is closed before it has been read to its end may lose the answer.
        wire.discard(DISCARDED_MAX, &deadline);
    }
}

fn receive(wire: &Wire, deadline: &Deadline) -> Result<[u8; HEADER_BYTES]> {
    let mut message = [0; HEADER_BYTES];
    // The magic distinguishes a worker from any other peer, which might send less than a hello and wait.
    let (magic, rest) = message.split_at_mut(MAGIC.len());
    wire.read_within(magic, deadline).map_err(|error| broken(&error))?;
    if *magic != MAGIC {
        return Err(match is_tls(magic[0]) {
            true => Error::outside("it begins with TLS, and this worker's connections are not encrypted"),
            false => Error::outside("it does not speak the protocol of workers"),
        });
    }
    wire.read_within(rest, deadline).map_err(|error| broken(&error))?;
    check(&message)?;
    Ok(message)
}

/// Checks the version and the checksum of a first message.
pub(super) fn check(message: &[u8; HEADER_BYTES]) -> Result<()> {
    let version = number(message, 8);
    if version != u64::from(VERSION) {
        return Err(Error::outside(format!("it speaks version {version} of the exchange, and this worker {VERSION}"))
            .remedy("run the same release on every machine"));
    }
    match is_sealed(message) {
        true => Ok(()),
        false => Err(Error::outside("the checksum of its first message is wrong")),
    }
}

fn number(message: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| message[at + index]))
}

/// Limits the time of each write during the greeting. Reads have a deadline then.
fn bounded(wire: &Wire) -> Result<()> {
    wire.stream.set_write_timeout(Some(PATIENCE)).map_err(|error| broken(&error))
}

/// Removes the time limits of the greeting.
fn unbounded(wire: &Wire) -> Result<()> {
    let set = wire.stream.set_read_timeout(None).and_then(|()| wire.stream.set_write_timeout(None));
    set.map_err(|error| broken(&error))
}

/// The address of a peer that connects, without its port: equal errors of a peer have equal texts.
pub(super) fn origin_of(stream: &TcpStream) -> String {
    stream.peer_addr().map_or_else(|_| "a peer that is gone".into(), |address| address.ip().to_string())
}

/// The address of the peer, or that it has none any more.
pub(super) fn place_of(stream: &TcpStream) -> String {
    stream.peer_addr().map_or_else(|_| "a peer that is gone".into(), |address| address.to_string())
}

/// An error of a socket.
pub(super) fn broken(error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::UnexpectedEof => Error::outside("the peer has closed the connection"),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::outside("the peer does not answer"),
        ErrorKind::InvalidData => Error::outside(format!("TLS has failed: {}", tls(error))),
        _ => Error::outside(format!("the connection is broken: {error}")),
    }
}

fn tls(error: &std::io::Error) -> String {
    match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        // Only the check of a worker's key gives this error.
        Some(rustls::Error::InvalidCertificate(_)) => {
            "its key is not the one that the coordinator has announced".to_owned()
        }
        _ => error.to_string(),
    }
}
