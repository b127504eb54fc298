//! Encrypted connections: what arrives, which peers they trust, and ends whose settings differ.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use anabranch_model::{Clock, Envelope, EventTime, Nanos, Result, Stamped, SystemClock};

use super::super::deadline::Deadline;
use super::super::frame::HEADER_BYTES;
use super::super::hello::{Greeting, Hello};
use super::super::{Endpoint, Incoming, Keys, Outgoing, Peer, PublicKey, Wire, is_loopback};
use super::connections::{Deliveries, accept, connect, numbers, send};
use super::greetings::{TOKEN, WAIT, in_thread, sockets};
use super::{INCARNATION, rows};
use crate::network::WorkerId;

/// Both ends of an encrypted connection. The address is that of the end that listens.
pub(super) fn wires() -> (Wire, Wire, SocketAddr) {
    let ((connected, accepted), keys) = (sockets(), Keys::generate().unwrap());
    let (address, key) = (connected.peer_addr().unwrap(), keys.public());
    let listening = in_thread(move || Wire::accept(accepted, Some(&keys), &Deadline::after(WAIT)).unwrap());
    let connected = Wire::connect(connected, address, Some(key), WAIT).unwrap();
    (connected, listening.join().unwrap(), address)
}

fn connection(limits: &'static [u64]) -> (Outgoing, Incoming, Deliveries) {
    let (connected, accepted, _) = wires();
    let receiver = in_thread(move || accept(accepted, limits).unwrap());
    let outgoing = connect(connected, limits.len() as u32).unwrap();
    let (incoming, deliveries) = receiver.join().unwrap();
    (outgoing, incoming, deliveries)
}

/// Small frames and large ones, in both directions at the same time: each envelope is answered by credit.
#[test]
fn everything_arrives_in_order_over_tls() {
    let (outgoing, incoming, deliveries) = connection(&[1 << 20, 3_000_000]);
    thread::scope(|scope| {
        for channel in 0..2 {
            let outgoing = &outgoing;
            scope.spawn(move || {
                for turn in 0..200 {
                    let rows_of_turn = [1, 480, 20_000, 100_000][(turn % 37 % 4) as usize];
                    send(outgoing, channel, &rows(&numbers(turn, rows_of_turn))).unwrap();
                    let watermark = Stamped { value: EventTime(turn), born: Nanos(0) };
                    send(outgoing, channel, &Envelope::Watermark(watermark)).unwrap();
                }
            });
        }
        // A batch may be divided: the rows before each watermark are those of its turn.
        let mut expected = [(0, 0); 2];
        for _ in 0..400 {
            let channel = loop {
                let (channel, envelope, _permit) = deliveries.recv().unwrap();
                let (turn, next) = &mut expected[channel];
                match envelope {
                    Envelope::Batch(batch) => {
                        let first = *turn + *next;
                        assert!(batch.value == numbers(first, batch.value.num_rows()), "channel {channel}");
                        *next += batch.value.num_rows() as i64;
                    }
                    Envelope::Watermark(watermark) => {
                        assert_eq!((watermark.value.0, *next > 0), (*turn, true));
                        break channel;
                    }
                    other => panic!("{other:?}"),
                }
            };
            expected[channel] = (expected[channel].0 + 1, 0);
        }
        assert_eq!(expected, [(200, 0); 2]);
    });
    outgoing.finish().unwrap();
    incoming.join().unwrap();
}

#[test]
fn a_receiver_that_stands_still_bounds_what_an_encrypted_sender_holds() {
    let limit = 45_000;
    let (outgoing, incoming, deliveries) = connection(&[45_000]);
    thread::scope(|scope| {
        let sender = scope.spawn(|| (0..100).try_for_each(|turn| send(&outgoing, 0, &rows(&numbers(turn, 1000)))));
        let held: Vec<_> = deliveries.iter().take(5).collect();
        assert!(outgoing.outstanding(0) <= limit && !sender.is_finished());
        drop(held);
        assert_eq!(deliveries.iter().take(95).count(), 95);
        sender.join().unwrap().unwrap();
    });
    outgoing.finish().unwrap();
    incoming.join().unwrap();
}

#[test]
fn an_encrypted_connection_that_is_cut_ends_both_ends_with_an_error() {
    let (connected, accepted, address) = wires();
    let cut = connected.stream.try_clone().unwrap();
    let receiver = in_thread(move || accept(accepted, &[100]).unwrap());
    let outgoing = connect(connected, 1).unwrap();
    let (incoming, deliveries) = receiver.join().unwrap();
    cut.shutdown(Shutdown::Both).unwrap();
    let error = outgoing.finish().unwrap_err().to_string();
    assert!(error.starts_with(&format!("worker 2 at {address}: ")), "{error}");
    let error = incoming.join().unwrap_err().to_string();
    assert!(error.starts_with("worker 1 at 127.0.0.1:") && error.contains("closed"), "{error}");
    assert!(deliveries.recv().is_err());
}

/// Rows and the secret of the workers cannot be read on the way.
#[test]
fn nothing_readable_travels() {
    let (keys, listener) = (Keys::generate().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (key, through) = (keys.public(), listener.local_addr().unwrap());
    let (connected, accepted) = sockets();
    // Between the two ends: records the bytes that pass.
    let between = in_thread(move || {
        let (mut near, mut far) = (listener.accept().unwrap().0, connected);
        let (mut back_from, mut back_to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        let back = in_thread(move || drop(std::io::copy(&mut back_from, &mut back_to)));
        let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = near.read(&mut bytes) {
            seen.extend_from_slice(&bytes[..count]);
            far.write_all(&bytes[..count]).unwrap();
        }
        far.shutdown(Shutdown::Write).unwrap();
        back.join().unwrap();
        seen
    });
    let receiver = in_thread(move || {
        let wire = Wire::accept(accepted, Some(&keys), &Deadline::after(WAIT)).unwrap();
        accept(wire, &[1 << 20]).unwrap()
    });
    let wire = Wire::connect(TcpStream::connect(through).unwrap(), through, Some(key), WAIT).unwrap();
    let outgoing = connect(wire, 1).unwrap();
    let (incoming, deliveries) = receiver.join().unwrap();
    send(&outgoing, 0, &rows(&numbers(0x6162_6364_6566_6768, 1000))).unwrap();
    assert!(deliveries.recv().is_ok());
    outgoing.finish().unwrap();
    incoming.join().unwrap();
    drop((outgoing, incoming));
    let seen = between.join().unwrap();
    assert!(seen.len() > 8000);
    for readable in [TOKEN, b"anabrnch", b"hgfedcba"] {
        assert!(!seen.windows(readable.len()).any(|bytes| bytes == readable));
    }
}

#[test]
fn only_the_announced_key_is_accepted() {
    let ((connected, accepted), keys, other) =
        (sockets(), Keys::generate().unwrap(), Keys::generate().unwrap().public());
    let address = connected.peer_addr().unwrap();
    let listening = in_thread(move || Wire::accept(accepted, Some(&keys), &Deadline::after(WAIT)).map(drop));
    let error = Wire::connect(connected, address, Some(other), WAIT).unwrap_err().to_string();
    assert!(
        error.contains("TLS has failed") && error.contains("not the one that the coordinator has announced"),
        "{error}"
    );
    let error = listening.join().unwrap().unwrap_err().to_string();
    assert!(error.starts_with("127.0.0.1:") && error.contains("TLS has failed"), "{error}");
}

#[test]
fn a_key_is_text_on_the_wire() {
    let key = Keys::generate().unwrap().public();
    let text = serde_json::to_string(&key).unwrap();
    assert_eq!(text, format!("\"{key}\""));
    assert_eq!((text.len(), serde_json::from_str::<PublicKey>(&text).unwrap()), (66, key));
    assert_ne!(key, Keys::generate().unwrap().public());
    for wrong in ["\"\"", "\"00\"", &format!("\"{key}0\""), &format!("\"{}g\"", &key.to_string()[1..]), "7"] {
        let error = serde_json::from_str::<PublicKey>(wrong).unwrap_err().to_string();
        assert!(error.contains("hexadecimal") || error.contains("string"), "{error}");
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn endpoint(keys: Option<Keys>) -> Endpoint {
    Endpoint::listen("127.0.0.1:0".parse().unwrap(), WorkerId(2), (TOKEN, keys), clock()).unwrap()
}

fn notice(endpoint: &Endpoint) -> String {
    loop {
        if let Some(notice) = endpoint.notices().after(0).pop() {
            return notice.text;
        }
        thread::yield_now();
    }
}

#[test]
fn ends_that_do_not_agree_about_encryption_learn_it() {
    let hello = Hello { job: 9, incarnation: INCARNATION, from: WorkerId(1), to: WorkerId(2), channels: 1 };
    let encrypted = endpoint(Some(Keys::generate().unwrap()));
    let plain = TcpStream::connect(encrypted.address()).unwrap();
    let error = hello.introduce(&plain.into(), TOKEN, WAIT).unwrap_err().to_string();
    assert_eq!(error, "the connection was refused: it does not begin with TLS, and this worker needs it");
    let seen = notice(&encrypted);
    assert!(seen.starts_with("127.0.0.1:") && seen.contains("does not begin with TLS"), "{seen}");

    let plain = endpoint(None);
    let stream = TcpStream::connect(plain.address()).unwrap();
    let key = Keys::generate().unwrap().public();
    let error = Wire::connect(stream, plain.address(), Some(key), WAIT).unwrap_err().to_string();
    assert!(error.contains("TLS has failed"), "{error}");
    let seen = notice(&plain);
    assert!(seen.contains("it begins with TLS, and this worker's connections are not encrypted"), "{seen}");
}

/// A version of the hello that this process does not know, and a wrong secret, over TLS.
#[test]
fn an_encrypted_worker_that_is_refused_learns_why() {
    for (at, token, expected) in [
        (Some(8), TOKEN, "it speaks version 2 of the exchange, and this worker 1"),
        (Some(20), TOKEN, "the checksum of its first message is wrong"),
        (None, b"another secret", "its token is not that of this worker"),
    ] {
        let keys = Keys::generate().unwrap();
        let (key, endpoint) = (keys.public(), endpoint(Some(keys)));
        let stream = TcpStream::connect(endpoint.address()).unwrap();
        let wire = Wire::connect(stream, endpoint.address(), Some(key), WAIT).unwrap();
        let mut bytes = super::greetings::hello();
        at.into_iter().for_each(|at| bytes[at] += 1);
        bytes[36..40].copy_from_slice(&(token.len() as u32).to_le_bytes());
        if at != Some(20) {
            super::super::frame::seal(&mut bytes);
        }
        wire.write_all(&mut [std::io::IoSlice::new(&bytes), std::io::IoSlice::new(token)]).unwrap();
        let mut answer = [0; HEADER_BYTES];
        { &wire }.read_exact(&mut answer).unwrap();
        let mut reason = String::new();
        // The connection may end without the end of TLS.
        let _ = { &wire }.read_to_string(&mut reason);
        assert!(reason.contains(expected), "{reason}");
        let seen = notice(&endpoint);
        assert!(seen.contains(expected), "{seen}");
    }
}

#[test]
fn nothing_is_sent_in_the_open_to_another_machine() {
    assert!(
        ["127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"]
            .iter()
            .all(|a| is_loopback(a.parse().unwrap()))
    );
    let any: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let error = Endpoint::listen(any, WorkerId(1), (&[b'x'; 16], None), clock()).err().unwrap().to_string();
    assert!(error.starts_with("0.0.0.0:0: ") && error.contains("needs keys"), "{error}");
    let keys = Keys::generate().unwrap();
    assert!(Endpoint::listen(any, WorkerId(1), (&[b'x'; 15], Some(keys.clone())), clock()).is_err());
    let open = Endpoint::listen(any, WorkerId(1), (&[b'x'; 16], Some(keys.clone())), clock()).unwrap();
    let far: SocketAddr = "192.0.2.1:7".parse().unwrap();
    let (plain, key) = (endpoint(None), Some(keys.public()));
    for (endpoint, address, key, expected) in [
        (&open, far, key, None),
        (&plain, far, key, None),
        (&plain, plain.address(), None, None),
        (&open, far, None, Some("without a key, and what leaves a machine is encrypted")),
        (&plain, far, None, Some("without a key, and what leaves a machine is encrypted")),
        (&open, plain.address(), None, Some("a loopback address, which other machines do not reach")),
    ] {
        let checked: Result<()> = endpoint.check(&Peer { address, key });
        let error = checked.err().map(|error| error.to_string());
        assert_eq!(error.is_some(), expected.is_some(), "{error:?}");
        assert!(expected.is_none_or(|text| error.as_deref().unwrap_or_default().contains(text)), "{error:?}");
    }
    assert!(open.peer().key.is_some() && plain.peer().key.is_none());
}

/// A connection that waits for its incarnation can be accepted later, over TLS as well.
#[test]
fn a_greeting_over_tls_is_that_of_a_plain_connection() {
    let (connected, accepted, _) = wires();
    let receiver = in_thread(|| {
        let greeting = Greeting::receive(accepted).unwrap();
        assert!(greeting.has_token(TOKEN));
        greeting.accept().unwrap();
        greeting
    });
    let hello = Hello { job: 9, incarnation: INCARNATION, from: WorkerId(1), to: WorkerId(2), channels: 3 };
    hello.introduce(&connected, TOKEN, WAIT).unwrap();
    assert_eq!(receiver.join().unwrap().hello, hello);
}
