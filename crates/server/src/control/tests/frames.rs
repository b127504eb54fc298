//! What a peer may send after its greeting, and what it may not.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use anabranch_model::{ErrorKind, Rng};
use serde::Serialize;

use super::super::frame::{self, Fault, Frame, HEADER_BYTES};
use super::super::{Event, hello};
use super::{LIMIT, Note, TOKEN, hello_bytes, listen, note, open, plain, raw, raw_pair, rest, start};

/// A frame of any kind with a right checksum.
fn sealed(length: u32, kind: u32, body: &[u8]) -> Vec<u8> {
    let head = [length.to_le_bytes(), kind.to_le_bytes()].concat();
    let checksum = crc32fast::hash(&[&head, body].concat());
    [&head, &checksum.to_le_bytes()[..], body].concat()
}

fn json(text: &str) -> Vec<u8> {
    sealed(text.len() as u32, 0, text.as_bytes())
}

#[test]
fn a_frame_that_is_not_allowed_ends_the_connection_and_the_peer_is_told() {
    let mut damaged = json(r#"{"number":1,"text":"a"}"#);
    damaged[HEADER_BYTES + 3] ^= 1;
    let mut other_kind = sealed(0, 1, b"");
    other_kind[4] = 2;
    let cases: [(&str, Vec<u8>, &str); 13] = [
        ("no JSON", json("hello"), "it has sent a malformed message: "),
        ("empty", json(""), "it has sent a malformed message: "),
        ("cut", json(r#"{"number":1,"#), "it has sent a malformed message: "),
        ("no UTF-8", sealed(1, 0, b"\xff"), "it has sent a malformed message: "),
        ("deep", json(&"[".repeat(1 << 20)), "it has sent a malformed message: "),
        ("unknown field", json(r#"{"number":1,"text":"a","more":2}"#), "unknown field `more`"),
        ("missing field", json(r#"{"number":1}"#), "missing field `text`"),
        ("a type", json(r#"{"number":"1","text":"a"}"#), "invalid type"),
        ("more", json(r#"{"number":1,"text":"a"}{}"#), "trailing characters"),
        ("damaged", damaged, "it has sent a frame with a wrong checksum"),
        ("another kind", other_kind, "it has sent a frame with a wrong checksum"),
        ("unknown kind", sealed(0, 3, b""), "it has sent a frame of the unknown kind 3"),
        ("a long farewell", sealed(1, 1, b"x"), "it has sent a frame of 1 bytes, and 0 are allowed"),
    ];
    for (name, bytes, expected) in cases {
        let (mut stream, server) = raw_pair();
        stream.write_all(&json(r#"{"number":1,"text":"first"}"#)).unwrap();
        stream.write_all(&bytes).unwrap();
        // What follows is not read.
        stream.write_all(&json(r#"{"number":2,"text":"second"}"#)).unwrap();
        assert_eq!(server.message().text, "first");
        let Event::Closed(Some(error)) = server.next() else { panic!("{name}") };
        assert_eq!(error.kind(), ErrorKind::Outside, "{name}");
        let place = stream.local_addr().unwrap().to_string();
        assert!(error.to_string().starts_with(&place) && error.message().contains(expected), "{name}: {error}");
        let told = rest(&mut stream);
        assert!(told.contains(expected) && told.as_bytes()[4] == 2, "{name}: {told:?}");
    }
}

#[test]
fn a_length_is_refused_before_its_bytes_come() {
    for (length, most) in [((64 << 20) + 1, "67108864"), (u32::MAX, "67108864")] {
        let (mut stream, server) = raw_pair();
        stream.write_all(&sealed(length, 0, b"")).unwrap();
        assert!(server.error().contains(&format!("a frame of {length} bytes, and {most} are allowed")));
    }
    let (mut stream, server) = raw_pair();
    stream.write_all(&sealed(1025, 2, b"")).unwrap();
    assert!(server.error().contains("a frame of 1025 bytes, and 1024 are allowed"));
}

#[test]
fn a_peer_gives_its_reason() {
    let (mut stream, server) = raw_pair();
    stream.write_all(&frame::failure("the disk is full\x1b[m")).unwrap();
    assert!(server.error().contains("it has ended the connection: the disk is full\\u{1b}[m"));
    let long = frame::failure(&"\u{1f980}".repeat(1000));
    assert!(matches!(frame::read(&mut &long[..]), Ok(Frame::Failure(reason)) if reason.len() == 1024));
}

#[test]
fn a_message_that_cannot_be_written_is_an_error() {
    struct Unwritable;
    impl Serialize for Unwritable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("it is unwritable"))
        }
    }
    let error = frame::message(&Unwritable).unwrap_err();
    assert!(error.kind() == ErrorKind::Internal && error.message().contains("it is unwritable"));
}

/// The seed is that of the environment, or another one each time.
fn seed() -> u64 {
    use anabranch_model::Clock as _;
    let given = std::env::var("ANABRANCH_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| anabranch_model::SystemClock::new().wall_ms() as u64);
    println!("ANABRANCH_SEED={seed}");
    seed
}

fn random_bytes(rng: &mut Rng, most: u64) -> Vec<u8> {
    (0..rng.below(most)).map(|_| rng.next_u64() as u8).collect()
}

#[test]
fn random_bytes_are_never_a_frame() {
    let mut rng = Rng::new(seed());
    for _ in 0..20_000 {
        let mut bytes = random_bytes(&mut rng, 64);
        // Half of them have a kind and a length that are allowed.
        if rng.below(2) == 0 && bytes.len() >= HEADER_BYTES {
            bytes[1..8].copy_from_slice(&[0, 0, 0, rng.below(3) as u8, 0, 0, 0]);
        }
        let read = frame::read(&mut &bytes[..]);
        assert!(matches!(read, Err(Fault::Broken(_) | Fault::Malformed(_))), "{bytes:?}: {read:?}");
    }
}

#[test]
fn a_damaged_stream_never_delivers_what_was_not_sent() {
    let mut rng = Rng::new(seed());
    let sent: Vec<Vec<u8>> = (0..5).map(|number| frame::message(&note(number)).unwrap()).collect();
    for _ in 0..300 {
        let mut bytes = [sent.concat(), frame::farewell()].concat();
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(4) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes.truncate(at),
            2 => drop(bytes.remove(at)),
            _ => bytes.insert(at, rng.next_u64() as u8),
        }
        let (mut stream, server) = raw_pair();
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut received = 0;
        let outcome = loop {
            match server.next() {
                Event::Message(message) => assert_eq!(message, note(received)),
                Event::Closed(outcome) => break outcome,
            }
            received += 1;
        };
        match outcome {
            Some(error) => assert_eq!(error.kind(), ErrorKind::Outside),
            // A byte after the farewell is not read.
            None => assert!(received == 5 && bytes.starts_with(&[sent.concat(), frame::farewell()].concat())),
        }
        assert!(server.events.recv_timeout(LIMIT).is_err());
    }
}

#[test]
fn strangers_who_send_anything_leave_the_listener_as_it_was() {
    let mut rng = Rng::new(seed());
    let (listener, incoming) = listen(plain(), LIMIT);
    for _ in 0..200 {
        let mut stream = raw(listener.address());
        let mut bytes = hello_bytes(hello::VERSION, TOKEN);
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(3) {
            0 => bytes = random_bytes(&mut rng, 200),
            1 => bytes[at] = bytes[at].wrapping_add(1 + rng.below(255) as u8),
            _ => bytes.truncate(at),
        }
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.len() > 16, "{bytes:?} was answered by {answer:?}");
    }
    let client = open(listener.address(), &plain()).unwrap();
    let server = start(&incoming);
    client.connection.send(&Note { number: 1, text: String::new() });
    assert_eq!(server.message().number, 1);
    assert!(incoming.try_recv().is_err());
}
