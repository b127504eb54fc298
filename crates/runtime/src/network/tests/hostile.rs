//! Random and mutated bytes from peers, plain and encrypted: they end their own connection with an error, and
//! affect nothing else.

use std::io::{IoSlice, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Rng, SystemClock};

use super::super::deadline::Deadline;
use super::super::frame::{FrameKind, HEADER_BYTES, encode, seal};
use super::super::{Endpoint, Incoming, Keys, Wire};
use super::connections::{Deliveries, accept, connect, frame, hello, numbers, send};
use super::greetings::{TOKEN, WAIT, in_thread, sockets};
use super::tls::wires;
use super::{INCARNATION, bytes_of_frame, rows};
use crate::network::WorkerId;

fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let base = std::env::var("ANABRANCH_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    (base..base + count).inspect(|seed| println!("seed {seed}"))
}

fn random(rng: &mut Rng, bytes_max: u64) -> Vec<u8> {
    (0..rng.below(bytes_max)).map(|_| rng.below(256) as u8).collect()
}

/// Changes, cuts or extends the bytes. The header of one frame may get a right checksum again: then its
/// content is wrong.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.below(3) {
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(4) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.extend(random(rng, 200)),
            _ => bytes[at] = rng.below(256) as u8,
        }
    }
    let frames = bytes.len() / HEADER_BYTES;
    if frames > 0 && rng.below(2) == 0 {
        let at = rng.below(frames.min(3) as u64) as usize * HEADER_BYTES;
        let header: &mut [u8; HEADER_BYTES] = (&mut bytes[at..at + HEADER_BYTES]).try_into().unwrap();
        seal(header);
    }
}

/// What a sender might send, before it is mutated.
fn from_a_sender(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for turn in 0..rng.below(4) as i64 {
        let mut frames = encode(&rows(&numbers(turn, rng.below(100) as usize)), 0, INCARNATION, usize::MAX).unwrap();
        bytes.extend(bytes_of_frame(&mut frames[0], anabranch_model::Nanos(0)));
        bytes.extend(frame(0, FrameKind::Idle));
        bytes.extend(frame(0, FrameKind::Question { sent: 3 }));
    }
    bytes.extend(frame(0, FrameKind::Beat));
    bytes
}

/// An accepted connection, and the peer's end, which the test controls.
fn accepted(is_encrypted: bool) -> (Wire, Incoming, Deliveries) {
    let (connected, accepted) = match is_encrypted {
        true => {
            let (connected, accepted, _) = wires();
            (connected, accepted)
        }
        false => {
            let (connected, accepted) = sockets();
            (connected.into(), accepted.into())
        }
    };
    let receiver = in_thread(|| accept(accepted, &[100_000]).unwrap());
    hello(1).introduce(&connected, TOKEN, WAIT).unwrap();
    let (incoming, deliveries) = receiver.join().unwrap();
    (connected, incoming, deliveries)
}

#[test]
fn hostile_senders_of_rows_end_their_connections() {
    for seed in seeds(60) {
        let mut rng = Rng::new(seed);
        let (connected, incoming, deliveries) = accepted(seed % 2 == 0);
        let mut bytes = if rng.below(4) == 0 { random(&mut rng, 5000) } else { from_a_sender(&mut rng) };
        if !bytes.is_empty() {
            mutate(&mut rng, &mut bytes);
        }
        // The receiver may have closed the connection already.
        let _ = connected.write_all(&mut [IoSlice::new(&bytes)]);
        let _ = connected.stream.shutdown(Shutdown::Write);
        let outcome = incoming.join();
        // It cannot end well: the end of the channel is not among what was sent.
        assert!(outcome.is_err() || bytes.len() >= HEADER_BYTES, "seed {seed}");
        drop(deliveries);
    }
}

#[test]
fn hostile_receivers_of_rows_end_their_connections() {
    for seed in seeds(40) {
        let mut rng = Rng::new(seed);
        let (connected, accepted) = sockets();
        let sender = in_thread(|| connect(connected, 1).unwrap());
        let greeting = super::super::hello::Greeting::receive(accepted).unwrap();
        greeting.accept().unwrap();
        let outgoing = sender.join().unwrap();
        let mut bytes = [
            frame(0, FrameKind::Limit { bytes: 100_000 }),
            frame(0, FrameKind::Credit { bytes: 100 }),
            frame(0, FrameKind::Beat),
        ]
        .concat();
        mutate(&mut rng, &mut bytes);
        let _ = greeting.wire.write_all(&mut [IoSlice::new(&bytes)]);
        let _ = greeting.wire.stream.shutdown(Shutdown::Write);
        // Until the connection has failed.
        while send(&outgoing, 0, &rows(&numbers(0, 100))).is_ok() {}
        assert!(outgoing.finish().is_err(), "seed {seed}");
    }
}

/// Strangers at a worker's address, before and after the TLS handshake. A legitimate worker is served
/// meanwhile.
#[test]
fn strangers_at_an_endpoint_cost_nothing() {
    let keys = Keys::generate().unwrap();
    let key = keys.public();
    let clock = Arc::new(SystemClock::new());
    let any = "127.0.0.1:0".parse().unwrap();
    let endpoint = Endpoint::listen(any, WorkerId(2), (TOKEN, Some(keys)), clock).unwrap();
    let address = endpoint.address();
    // More silent connections than may be greeted at a time.
    let silent: Vec<_> = (0..80).map(|_| TcpStream::connect(address).unwrap()).collect();
    for seed in seeds(40) {
        let mut rng = Rng::new(seed);
        let mut stranger = TcpStream::connect(address).unwrap();
        stranger.set_read_timeout(Some(WAIT)).unwrap();
        let mut bytes = match rng.below(3) {
            0 => random(&mut rng, 5000),
            1 => super::greetings::hello().to_vec(),
            // The beginning of TLS.
            _ => [&[22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3][..], &random(&mut rng, 300)].concat(),
        };
        bytes.push(0);
        mutate(&mut rng, &mut bytes);
        // The worker may have closed the connection already.
        let _ = stranger.write_all(&bytes);
        let _ = stranger.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        assert!(answer.len() < 2000, "seed {seed}");

        let wire = Wire::connect(TcpStream::connect(address).unwrap(), address, Some(key), WAIT).unwrap();
        let mut bytes = [&super::greetings::hello()[..], TOKEN].concat();
        mutate(&mut rng, &mut bytes);
        let _ = wire.write_all(&mut [IoSlice::new(&bytes)]);
        let _ = wire.stream.shutdown(Shutdown::Write);
    }
    drop(silent);
    let wire = Wire::connect(TcpStream::connect(address).unwrap(), address, Some(key), WAIT).unwrap();
    let error = hello(1).introduce(&wire, b"wrong", WAIT).unwrap_err().to_string();
    assert!(error.ends_with("its token is not that of this worker"), "{error}");
}

/// One byte after the other, each in time: the whole hello has a limit.
#[test]
fn a_slow_hello_is_given_up() {
    let (mut connected, accepted) = sockets();
    let keys = Keys::generate().unwrap();
    let listening =
        in_thread(move || Wire::accept(accepted, Some(&keys), &Deadline::after(Duration::from_millis(200))).map(drop));
    let mut handshake = [22, 3, 1, 1, 0, 1].iter().cycle();
    while !listening.is_finished() {
        // Fails once the other end has given up.
        let _ = connected.write_all(&[*handshake.next().unwrap()]);
        anabranch_model::pause(Duration::from_millis(10));
    }
    assert!(listening.join().unwrap().is_err());
}
