//! How connections begin, and connections that must be refused.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anabranch_model::Result;

use super::super::frame::{HEADER_BYTES, seal};
use super::super::hello::{Greeting, Hello};
use super::INCARNATION;
use crate::network::WorkerId;

const HELLO: Hello = Hello { job: 9, incarnation: INCARNATION, from: WorkerId(1), to: WorkerId(2), channels: 3 };

/// The secret of the workers.
pub(super) const TOKEN: &[u8] = b"secret";
/// How long a sender waits for the answer.
pub(super) const WAIT: Duration = Duration::from_secs(60);

/// Two ends of a connection: of the one that connects, and of the one that listens.
pub(super) fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (connected, listener.accept().unwrap().0)
}

/// Runs one end of a connection.
pub(super) fn in_thread<T: Send + 'static>(end: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::Builder::new().name("other end".into()).spawn(end).unwrap()
}

/// The results of both ends when the receiver runs this.
fn greet(receiver: impl FnOnce(Greeting) -> Result<()> + Send) -> (Result<()>, Result<()>) {
    let (connected, accepted) = sockets();
    thread::scope(|scope| {
        let receiver = scope.spawn(|| Greeting::receive(accepted).and_then(receiver));
        (HELLO.introduce(&connected.into(), TOKEN, WAIT), receiver.join().unwrap())
    })
}

#[test]
fn the_receiver_learns_who_connects_and_accepts() {
    let (sender, receiver) = greet(|greeting| {
        assert_eq!(greeting.hello, HELLO);
        assert!(greeting.has_token(TOKEN));
        for other in [&b""[..], b"secre", b"secreT", b"secrets", b"tecret"] {
            assert!(!greeting.has_token(other));
        }
        greeting.accept()
    });
    sender.unwrap();
    receiver.unwrap();
}

#[test]
fn a_refused_sender_learns_why() {
    let (sender, receiver) = greet(|greeting| greeting.refuse("incarnation 7 is over"));
    assert_eq!(sender.unwrap_err().to_string(), "the connection was refused: incarnation 7 is over");
    receiver.unwrap();
    let (sender, receiver) = greet(|greeting| greeting.refuse(&"é".repeat(10_000)));
    assert!(sender.unwrap_err().to_string().ends_with('é'), "a long reason is cut between letters");
    receiver.unwrap();
}

#[test]
fn a_receiver_that_is_gone_is_an_error() {
    let (sender, _) = greet(|_| Ok(()));
    assert!(sender.unwrap_err().to_string().contains("connection"));
}

/// The receiver's result for a connection that begins with these bytes, and its answer.
fn begin_with(bytes: &[u8]) -> (String, Vec<u8>) {
    let (mut connected, accepted) = sockets();
    let receiver = in_thread(|| Greeting::receive(accepted).unwrap_err().to_string());
    connected.write_all(bytes).unwrap();
    // The receiver may have refused it already.
    let _ = connected.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    // The connection is reset if the receiver has not read everything.
    let _ = connected.read_to_end(&mut answer);
    (receiver.join().unwrap(), answer)
}

/// The hello as it is on the wire.
pub(super) fn hello() -> [u8; HEADER_BYTES] {
    let (connected, mut accepted) = sockets();
    let sender = in_thread(move || HELLO.introduce(&connected.into(), TOKEN, WAIT));
    let mut hello = [0; HEADER_BYTES];
    accepted.read_exact(&mut hello).unwrap();
    drop(accepted);
    sender.join().unwrap().unwrap_err();
    hello
}

#[test]
fn a_peer_that_is_not_a_worker_is_refused() {
    let (error, answer) = begin_with(b"GET / HTTP/1.1\r\n\r\n");
    assert!(error.starts_with("127.0.0.1:") && error.ends_with("it does not speak the protocol of workers"), "{error}");
    assert!(answer.len() < 200);
    for length in [0, 1, 8, HEADER_BYTES - 1] {
        let (error, _) = begin_with(&hello()[..length]);
        assert!(error.contains("has closed the connection"), "{length}: {error}");
    }
    for at in 0..HEADER_BYTES {
        let mut bytes = hello();
        bytes[at] ^= 1;
        let (error, _) = begin_with(&bytes);
        assert!(["protocol", "version", "checksum"].iter().any(|word| error.contains(word)), "byte {at}: {error}");
    }
}

#[test]
fn a_worker_of_another_version_learns_it() {
    let mut bytes = hello();
    bytes[8] += 1;
    seal(&mut bytes);
    let (error, answer) = begin_with(&bytes);
    assert!(error.contains("it speaks version 2 of the exchange, and this worker 1"), "{error}");
    assert!(String::from_utf8_lossy(&answer).contains("it speaks version 2"));
}

#[test]
fn an_answer_with_an_endless_reason_is_cut() {
    let (connected, mut accepted) = sockets();
    let sender = in_thread(move || HELLO.introduce(&connected.into(), TOKEN, WAIT));
    let mut answer = [0; HEADER_BYTES];
    accepted.read_exact(&mut answer).unwrap();
    answer[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    seal(&mut answer);
    accepted.write_all(&answer).unwrap();
    accepted.write_all(&[b'x'; 4096]).unwrap();
    let error = sender.join().unwrap().unwrap_err().to_string();
    assert!(error.starts_with("the connection was refused: xxx") && error.len() < 1100, "{}", error.len());
}
