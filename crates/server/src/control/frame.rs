//! What follows the greeting, both ways.
//!
//! ```text
//! 0  bytes of the body: u32, little-endian   4  kind: u32   8  CRC-32 of all other bytes: u32   12  body
//! ```
//!
//! The body of a message (kind 0) is its JSON. A farewell (kind 1) has none. A failure (kind 2) has its
//! reason as text.

use std::io::{self, Read};

use anabranch_model::{Error, Result};
use serde::Serialize;

use super::wire::broken;

/// Bytes of a body, at most.
pub(super) const BODY_BYTES_MAX: usize = 64 << 20;
pub(super) const HEADER_BYTES: usize = 12;
const MESSAGE: u32 = 0;
const FAREWELL: u32 = 1;
const FAILURE: u32 = 2;
/// Bytes of a reason, at most.
const REASON_MAX: usize = 1024;
/// Memory that a body gets before its bytes arrive, at most.
const RESERVED_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) enum Frame {
    Message(Vec<u8>),
    /// The farewell of the peer.
    Farewell,
    /// The peer ends the connection for this reason.
    Failure(String),
}

/// Why no frame arrived.
#[derive(Debug)]
pub(super) enum Fault {
    /// The connection itself has failed.
    Broken(Error),
    /// The peer has violated the protocol.
    Malformed(Error),
}

/// A message as it is sent.
pub(super) fn message(message: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; HEADER_BYTES];
    serde_json::to_writer(&mut bytes, message)
        .map_err(|error| Error::internal(format!("a message cannot be written as JSON: {error}")))?;
    let length = bytes.len() - HEADER_BYTES;
    if length > BODY_BYTES_MAX {
        return Err(Error::internal(format!("a message has {length} bytes, and {BODY_BYTES_MAX} are allowed")));
    }
    Ok(sealed(MESSAGE, bytes))
}

pub(super) fn farewell() -> Vec<u8> {
    sealed(FAREWELL, vec![0; HEADER_BYTES])
}

pub(super) fn failure(reason: &str) -> Vec<u8> {
    let reason = &reason.as_bytes()[..reason.floor_char_boundary(REASON_MAX)];
    sealed(FAILURE, [&[0; HEADER_BYTES], reason].concat())
}

/// Fills in the header.
fn sealed(kind: u32, mut bytes: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(bytes.len() - HEADER_BYTES).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..8].copy_from_slice(&kind.to_le_bytes());
    let checksum = checksum(&bytes[..8], &bytes[HEADER_BYTES..]);
    bytes[8..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(body);
    hasher.finalize()
}

/// Reads a frame. Memory grows with the bytes that arrive.
pub(super) fn read(input: &mut impl Read) -> Result<Frame, Fault> {
    let mut header = [[0; 4]; HEADER_BYTES / 4];
    read_header(input, header.as_flattened_mut())?;
    let [length, kind, expected] = header.map(u32::from_le_bytes);
    let most = match kind {
        MESSAGE => BODY_BYTES_MAX,
        FAREWELL => 0,
        FAILURE => REASON_MAX,
        _ => return malformed(format!("it has sent a frame of the unknown kind {kind}")),
    };
    let bytes = length as usize;
    if bytes > most {
        return malformed(format!("it has sent a frame of {length} bytes, and {most} are allowed"));
    }
    let mut body = Vec::with_capacity(bytes.min(RESERVED_BYTES));
    input.take(u64::from(length)).read_to_end(&mut body).map_err(|error| Fault::Broken(broken(&error)))?;
    if body.len() < bytes {
        return Err(Fault::Broken(Error::outside("the connection has ended within a frame")));
    }
    if checksum(&header.as_flattened()[..8], &body) != expected {
        return malformed("it has sent a frame with a wrong checksum".into());
    }
    Ok(match kind {
        MESSAGE => Frame::Message(body),
        FAREWELL => Frame::Farewell,
        _ => Frame::Failure(String::from_utf8_lossy(&body).into_owned()),
    })
}

fn read_header(input: &mut impl Read, header: &mut [u8]) -> Result<(), Fault> {
    let mut filled = 0;
    while filled < header.len() {
        match input.read(&mut header[filled..]) {
            Ok(0) if filled > 0 => {
                return Err(Fault::Broken(Error::outside("the connection has ended within a frame")));
            }
            Ok(0) => {
                let error = Error::outside("the connection has ended without a farewell");
                return Err(Fault::Broken(error.remedy("see whether the peer's process has ended, and why")));
            }
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Fault::Broken(broken(&error))),
        }
    }
    Ok(())
}

fn malformed<T>(message: String) -> Result<T, Fault> {
    Err(Fault::Malformed(Error::outside(message)))
}
