//! How a connection begins: the sender says who it is, and the receiver accepts it or refuses it with a reason.
//!
//! ```text
//! hello:   0  magic: 8 bytes    8  version: u32, 0: u32    answer:   0  magic: 8 bytes    8  version: u32, 0: u32
//!         16  incarnation: u64  24  from: u32, to: u32              16  bytes of the reason: u64; 0 accepts
//!         32  channels: u32, bytes of the token: u32                24  0 until 56
//!         40  job: u64, 0 until 56                                  56  checksum, then the reason
//!         56  checksum of all before, then the token
//! ```

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anabranch_model::{Error, Incarnation, Result};
use anabranch_protocol::membership::WorkerId;

use super::frame::{HEADER_BYTES, is_sealed, seal};

const MAGIC: [u8; 8] = *b"anabrnch";
/// Of the format of frames and of this greeting. Workers of different versions refuse each other.
const VERSION: u32 = 2;
/// A peer that is silent for so long during the greeting is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a reason, at most.
const REASON_MAX: usize = 1024;
/// Bytes of a token, at most.
const TOKEN_MAX: usize = 256;

/// What the sender says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The job.
    pub job: u64,
    /// The life of the job: the receiver refuses another one than its own.
    pub incarnation: Incarnation,
    /// The sender of rows.
    pub from: WorkerId,
    /// The receiver of rows.
    pub to: WorkerId,
    /// Number of channels of the connection.
    pub channels: u32,
}

/// A connection whose sender has said who it is, before it is accepted.
#[derive(Debug)]
pub struct Greeting {
    /// What the sender said.
    pub hello: Hello,
    token: Vec<u8>,
    pub(super) stream: TcpStream,
}

impl Hello {
    /// Introduces this worker to the receiver of its rows with the secret that all workers share. Waits until the receiver
    /// has accepted it: it may not have begun with the incarnation yet.
    pub(crate) fn introduce(&self, stream: &TcpStream, token: &[u8], wait: Duration) -> Result<()> {
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
        patience(stream, Some(wait))?;
        { stream }.write_all(&[&message, token].concat()).map_err(|error| broken(&error))?;
        let answer = receive(stream)?;
        let bytes = usize::try_from(number(&answer, 16)).unwrap_or(usize::MAX);
        if bytes == 0 {
            return unbounded(stream);
        }
        let mut reason = vec![0; bytes.min(REASON_MAX)];
        { stream }.read_exact(&mut reason).map_err(|error| broken(&error))?;
        Err(Error::outside(format!("the connection was refused: {}", String::from_utf8_lossy(&reason))))
    }
}

impl Greeting {
    /// Waits for the hello on a new connection. A peer that is not a worker gets an error here.
    pub fn receive(stream: TcpStream) -> Result<Greeting> {
        let place = place_of(&stream);
        let hello = bounded(&stream).and_then(|()| receive(&stream)).and_then(|message| {
            let token_bytes = (number(&message, 32) >> 32) as usize;
            if token_bytes > TOKEN_MAX || number(&message, 48) != 0 {
                return Err(Error::outside("its hello is malformed"));
            }
            let mut token = vec![0; token_bytes];
            { &stream }.read_exact(&mut token).map_err(|error| broken(&error))?;
            let hello = Hello {
                job: number(&message, 40),
                incarnation: Incarnation(number(&message, 16)),
                from: WorkerId(number(&message, 24) as u32),
                to: WorkerId((number(&message, 24) >> 32) as u32),
                channels: number(&message, 32) as u32,
            };
            Ok((hello, token))
        });
        match hello {
            Ok((hello, token)) => Ok(Greeting { hello, token, stream }),
            Err(error) => {
                // A worker of another version learns why. The connection is of no use whether or not it gets this.
                let _ = answer(&stream, error.message());
                Err(error.at(place))
            }
        }
    }

    /// Whether the sender knows the secret that all workers share.
    pub(super) fn has_token(&self, token: &[u8]) -> bool {
        // Takes the same time wherever the first difference is.
        let differences = self.token.iter().zip(token).fold(0, |all, (a, b)| all | std::hint::black_box(a ^ b));
        self.token.len() == token.len() && differences == 0
    }

    /// Who connects, for errors.
    pub(super) fn place(&self) -> String {
        format!("{} at {}", self.hello.from, place_of(&self.stream))
    }

    /// Refuses the connection.
    pub fn refuse(self, reason: &str) -> Result<()> {
        answer(&self.stream, reason).map_err(|error| error.at(place_of(&self.stream)))
    }

    pub(crate) fn accept(&self) -> Result<()> {
        answer(&self.stream, "").and_then(|()| unbounded(&self.stream))
    }
}

fn begin() -> [u8; HEADER_BYTES] {
    let mut message = [0; HEADER_BYTES];
    message[..8].copy_from_slice(&MAGIC);
    message[8..12].copy_from_slice(&VERSION.to_le_bytes());
    message
}

fn answer(stream: &TcpStream, reason: &str) -> Result<()> {
    let reason = &reason.as_bytes()[..reason.floor_char_boundary(REASON_MAX)];
    let mut message = begin();
    message[16..24].copy_from_slice(&(reason.len() as u64).to_le_bytes());
    seal(&mut message);
    let written = { stream }.write_all(&message).and_then(|()| { stream }.write_all(reason));
    written.map_err(|error| broken(&error))
}

fn receive(mut stream: &TcpStream) -> Result<[u8; HEADER_BYTES]> {
    let mut message = [0; HEADER_BYTES];
    // Enough to tell a worker from anything else, which might send less than a hello and wait.
    stream.read_exact(&mut message[..MAGIC.len()]).map_err(|error| broken(&error))?;
    if message[..MAGIC.len()] != MAGIC {
        return Err(Error::outside("it does not speak the protocol of workers"));
    }
    stream.read_exact(&mut message[MAGIC.len()..]).map_err(|error| broken(&error))?;
    let version = number(&message, 8);
    if version != u64::from(VERSION) {
        return Err(Error::outside(format!("it speaks version {version} of the exchange, and this worker {VERSION}"))
            .remedy("run the same release on every machine"));
    }
    if !is_sealed(&message) {
        return Err(Error::outside("the checksum of its first message is wrong"));
    }
    Ok(message)
}

fn number(message: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| message[at + index]))
}

fn bounded(stream: &TcpStream) -> Result<()> {
    patience(stream, Some(PATIENCE))
}

fn unbounded(stream: &TcpStream) -> Result<()> {
    patience(stream, None)
}

fn patience(stream: &TcpStream, patience: Option<Duration>) -> Result<()> {
    let set = stream.set_read_timeout(patience).and_then(|()| stream.set_write_timeout(patience));
    set.map_err(|error| broken(&error))
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
        _ => Error::outside(format!("the connection is broken: {error}")),
    }
}
