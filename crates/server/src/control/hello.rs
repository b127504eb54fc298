//! How a connection begins: the client sends its version, and proves that it belongs to the cluster. The
//! listener accepts it or refuses it with a reason.
//!
//! ```text
//! hello:  0  magic: 8 bytes   8  version: u32, little-endian   12  bytes of the token: u32    16  token
//! answer: 0  magic: 8 bytes   8  version: u32                  12  bytes of the reason: u32   16  reason; none accepts
//! ```

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Error, Result};
use anabranch_runtime::network::{Deadline, is_tls};
use subtle::ConstantTimeEq as _;

use super::security::TOKEN_MAX;
use super::wire::{Input, Wire, broken};

pub(super) const MAGIC: [u8; 8] = *b"anabctrl";
/// Of the greeting and of frames. Processes of different versions refuse each other.
pub(super) const VERSION: u32 = 1;
/// Time in which a refused peer must take the answer.
const ANSWER: Duration = Duration::from_secs(1);
const HEAD_BYTES: usize = 16;
/// Bytes of a reason, at most.
const REASON_MAX: usize = 1024;
/// Bytes of a refused peer that are read and dropped, at most.
const DISCARDED_MAX: u64 = 1 << 20;
/// How the requests of browsers and of tools begin.
const HTTP: [&[u8]; 6] = [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"OPTIONS ", b"DELETE "];
const HTTP_ANSWER: &str = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
                           This address has Anabranch's control protocol, not HTTP.\n";

/// A hello with its token, or an answer with its reason. An answer without a reason accepts.
fn message(text: &[u8]) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    [&MAGIC[..], &VERSION.to_le_bytes(), &length.to_le_bytes(), text].concat()
}

/// Waits for the hello. The peer learns why it is refused; `explain` knows a better reason than what came.
pub(super) fn receive(input: &mut Input, wire: &Wire, token: &[u8], explain: impl Fn(Error) -> Error) -> Result<()> {
    check(input, token).map_err(|wrong| explained(input, wire, wrong, explain))
}

/// Refuses a peer, and returns why. `explain` may know a better reason than what is wrong with its hello.
fn explained(input: &mut Input, wire: &Wire, (error, answer): Wrong, explain: impl Fn(Error) -> Error) -> Error {
    let error = explain(error);
    refuse(input, wire, &answer.map_or_else(|| refusal(&reason(&error)), Vec::from));
    error
}

/// Answers a peer that is refused. The connection is of no use whether or not it gets this.
fn refuse(input: &mut Input, wire: &Wire, answer: &[u8]) {
    // The time for the greeting may be over.
    let deadline = Arc::new(Deadline::after(ANSWER));
    if wire.write_within(answer, &deadline).is_ok() {
        wire.finish();
        // A socket that is closed before it has been read to its end may lose the answer.
        input.get_mut().set_deadline(&deadline);
        let _ = io::copy(&mut input.take(DISCARDED_MAX), &mut io::sink());
    }
}

pub(super) fn accept(wire: &Wire, deadline: &Deadline) -> Result<()> {
    wire.write_within(&message(b""), deadline).map_err(|error| broken(&error))
}

/// Refuses a peer for a reason that is not in its hello.
pub(super) fn reject(input: &mut Input, wire: &Wire, reason: &str) {
    refuse(input, wire, &refusal(reason));
}

/// The reason for a refused peer.
fn reason(error: &Error) -> String {
    let help = error.help().map(|help| format!("; {help}")).unwrap_or_default();
    format!("{}{help}", error.message())
}

fn refusal(reason: &str) -> Vec<u8> {
    message(&reason.as_bytes()[..reason.floor_char_boundary(REASON_MAX)])
}

/// Refuses a peer that does not begin with TLS where it must.
pub(super) fn refuse_without_tls(input: &mut Input, wire: &Wire, explain: impl Fn(Error) -> Error) -> Error {
    let mut magic = [0; MAGIC.len()];
    let without = || Error::outside("it does not begin with TLS, and this address needs it").remedy("give --tls-ca");
    let wrong = read_magic(input, &mut magic).err().unwrap_or_else(|| (without(), None));
    explained(input, wire, wrong, explain)
}

/// What is wrong with a hello, and an answer in plain bytes for a peer that does not speak this protocol.
type Wrong = (Error, Option<&'static str>);

fn check(input: &mut Input, token: &[u8]) -> Result<(), Wrong> {
    let mut magic = [0; MAGIC.len()];
    read_magic(input, &mut magic)?;
    if is_tls(magic[0]) {
        let error = Error::outside("it begins with TLS, and this address has none");
        return Err((error.remedy("give --tls-cert and --tls-key here, or leave --tls-ca out there"), None));
    }
    if magic != MAGIC {
        return Err((Error::outside("it does not speak the control protocol"), None));
    }
    check_token(input, token).map_err(|error| (error, None))
}

fn read_magic(input: &mut Input, magic: &mut [u8; MAGIC.len()]) -> Result<(), Wrong> {
    input.read_exact(magic).map_err(|error| (unfinished(&error), None))?;
    if HTTP.iter().any(|method| magic.starts_with(method)) {
        let error = "it speaks HTTP, and this address has Anabranch's control protocol";
        return Err((Error::outside(error), Some(HTTP_ANSWER)));
    }
    Ok(())
}

fn check_token(input: &mut Input, token: &[u8]) -> Result<()> {
    let [version, length] = rest_of_head(input).map_err(|error| unfinished(&error))?;
    if version != VERSION {
        return Err(other_version(version));
    }
    if length as usize > TOKEN_MAX {
        return Err(Error::outside(format!("its token has {length} bytes, and {TOKEN_MAX} are allowed")));
    }
    let mut given = vec![0; length as usize];
    input.read_exact(&mut given).map_err(|error| unfinished(&error))?;
    if !bool::from(given.ct_eq(token)) {
        let error = Error::outside("its token is not that of this process");
        return Err(error.remedy("give the same --token-file to every process"));
    }
    Ok(())
}

/// Says hello and waits for the answer.
pub(super) fn introduce(input: &mut Input, wire: &Wire, token: &[u8], deadline: &Deadline) -> Result<()> {
    let sent = wire.write_within(&message(token), deadline);
    // A listener that refuses may have closed the connection before all was written: its answer says why.
    let mut magic = [0; MAGIC.len()];
    input.read_exact(&mut magic).map_err(|error| broken(sent.as_ref().err().unwrap_or(&error)))?;
    if magic != MAGIC {
        return Err(Error::outside("it does not speak the control protocol").remedy("check the address"));
    }
    let [version, length] = rest_of_head(input).map_err(|error| broken(&error))?;
    if version != VERSION {
        return Err(other_version(version));
    }
    if length == 0 {
        return sent.map_err(|error| broken(&error));
    }
    let mut reason = vec![0; (length as usize).min(REASON_MAX)];
    input.read_exact(&mut reason).map_err(|error| broken(&error))?;
    Err(Error::outside(format!("the connection was refused: {}", String::from_utf8_lossy(&reason))))
}

fn rest_of_head(input: &mut Input) -> io::Result<[u32; 2]> {
    let mut rest = [[0; 4]; (HEAD_BYTES - MAGIC.len()) / 4];
    input.read_exact(rest.as_flattened_mut())?;
    Ok(rest.map(u32::from_le_bytes))
}

pub(super) fn unfinished(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::outside("it has closed the connection before the end of its hello"),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::outside("it has not sent its hello in time"),
        _ => broken(error),
    }
}

fn other_version(version: u32) -> Error {
    Error::outside(format!("it speaks version {version} of the control protocol, and this process {VERSION}"))
        .remedy("run the same release everywhere")
}
