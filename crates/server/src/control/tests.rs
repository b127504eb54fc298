//! Over real sockets. No wait is without a limit.

mod connections;
mod frames;
mod greetings;
mod tls;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anabranch_model::Error;
use serde::{Deserialize, Serialize};

use super::{Connection, Event, Incoming, Listener, Security, connect, hello};

/// No test waits longer for anything.
const LIMIT: Duration = Duration::from_secs(60);
const TOKEN: &[u8] = b"the secret of a cluster";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    number: u64,
    text: String,
}

fn note(number: u64) -> Note {
    Note { number, text: format!("note {number}\n\u{1f980}") }
}

/// An end of a connection, and what happens at it.
struct End {
    connection: Connection<Note>,
    events: Receiver<Event<Note>>,
}

impl End {
    fn next(&self) -> Event<Note> {
        self.events.recv_timeout(LIMIT).unwrap()
    }

    fn message(&self) -> Note {
        match self.next() {
            Event::Message(message) => message,
            Event::Closed(outcome) => panic!("closed: {outcome:?}"),
        }
    }

    /// Drops messages until the end, which must be the last event.
    fn outcome(&self) -> Option<Error> {
        loop {
            if let Event::Closed(outcome) = self.next() {
                // The handler is gone.
                assert!(self.events.recv_timeout(LIMIT).is_err());
                return outcome;
            }
        }
    }

    fn error(&self) -> String {
        self.outcome().unwrap().to_string()
    }
}

fn plain() -> Security {
    Security::Plain { token: TOKEN.to_vec() }
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A listener, and the connections that it has accepted.
fn listen(security: Security, greeting: Duration) -> (Listener, Receiver<Incoming>) {
    let (sender, incoming) = channel();
    let on_connection = move |connection| drop(sender.send(connection));
    (Listener::bind_with(loopback(), security, greeting, Box::new(on_connection)).unwrap(), incoming)
}

fn start(incoming: &Receiver<Incoming>) -> End {
    let (sender, events) = channel();
    let connection = incoming.recv_timeout(LIMIT).unwrap().start(move |event| drop(sender.send(event)));
    End { connection, events }
}

fn open(address: SocketAddr, security: &Security) -> Result<End, Error> {
    let (sender, events) = channel();
    let connection = connect(address, security, LIMIT, move |event| drop(sender.send(event)))?;
    Ok(End { connection, events })
}

/// Both ends of a connection: of the client and of the listener.
fn pair(server: Security, client: &Security) -> (End, End) {
    let (listener, incoming) = listen(server, LIMIT);
    let client = open(listener.address(), client).unwrap();
    (client, start(&incoming))
}

/// A peer that sends what it wants.
fn raw(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, LIMIT).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// The hello of such a peer.
fn hello_bytes(version: u32, token: &[u8]) -> Vec<u8> {
    [&hello::MAGIC[..], &version.to_le_bytes(), &(token.len() as u32).to_le_bytes(), token].concat()
}

/// A peer that has been accepted, and the other end.
fn raw_pair() -> (TcpStream, End) {
    let (listener, incoming) = listen(plain(), LIMIT);
    let mut stream = raw(listener.address());
    stream.write_all(&hello_bytes(hello::VERSION, TOKEN)).unwrap();
    let mut answer = [0; 16];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *hello_bytes(hello::VERSION, b""));
    (stream, start(&incoming))
}

/// What still comes until the end of the stream.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}
