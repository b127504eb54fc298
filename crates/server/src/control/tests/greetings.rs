//! How connections begin, and how those end that should not.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use anabranch_model::{Clock as _, ErrorKind, SystemClock};

use super::super::hello::VERSION;
use super::super::{Connection, Event, Listener, Security, connect};
use super::{LIMIT, Note, TOKEN, hello_bytes, listen, loopback, note, open, plain, raw, rest, start};

/// Waits until the listener has said what it thinks of a connection.
fn notice(listener: &Listener) -> String {
    let clock = SystemClock::new();
    let limit = clock.now().plus(LIMIT);
    let (_open, tick) = channel::<()>();
    loop {
        if let Some(notice) = listener.notices().after(0).pop() {
            return notice.text;
        }
        assert!(clock.now() < limit, "no notice");
        let _ = tick.recv_timeout(Duration::from_millis(5));
    }
}

#[test]
fn the_formats_are_frozen() {
    assert_eq!(hello_bytes(1, b"ab"), *b"anabctrl\x01\0\0\0\x02\0\0\0ab");
    let listener = TcpListener::bind(loopback()).unwrap();
    let address = listener.local_addr().unwrap();
    let client = thread::Builder::new().spawn(move || open(address, &plain())).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut hello = vec![0; 16 + TOKEN.len()];
    stream.read_exact(&mut hello).unwrap();
    assert_eq!(hello, hello_bytes(1, TOKEN));
    stream.write_all(&hello_bytes(1, b"")).unwrap();
    let client = client.join().unwrap().unwrap();
    client.connection.send(&Note { number: 7, text: "x".into() });
    client.connection.close();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let mut expected = b"\x17\0\0\0\0\0\0\0\x77\xb6\x18\x5a{\"number\":7,\"text\":\"x\"}".to_vec();
    expected.extend(b"\0\0\0\0\x01\0\0\0\x0c\xb8\x9e\xdd");
    assert_eq!(bytes, expected, "{:02x?}", bytes);
}

#[test]
fn whatever_is_not_a_hello_is_refused_with_a_reason() {
    let mut too_long = hello_bytes(VERSION, b"");
    too_long[12..].copy_from_slice(&u32::MAX.to_le_bytes());
    let wrong_token = [&TOKEN[..TOKEN.len() - 1], b"!"].concat();
    let cases: [(&str, Vec<u8>, &str); 10] = [
        ("HTTP", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), "HTTP"),
        ("TLS", [&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[7; 500]].concat(), "it begins with TLS"),
        ("anything", vec![7; 100_000], "it does not speak the control protocol"),
        ("an exchange", b"anabrnch\x02\0\0\0".to_vec(), "it does not speak the control protocol"),
        (
            "a version",
            hello_bytes(VERSION + 1, TOKEN),
            "it speaks version 2 of the control protocol, and this process 1",
        ),
        ("a long token", too_long, "its token has 4294967295 bytes, and 256 are allowed"),
        ("a wrong token", hello_bytes(VERSION, &wrong_token), "its token is not that of this process"),
        ("a short token", hello_bytes(VERSION, &TOKEN[..5]), "its token is not that of this process"),
        ("a part", hello_bytes(VERSION, TOKEN)[..20].to_vec(), "before the end of its hello"),
        ("nothing", Vec::new(), "before the end of its hello"),
    ];
    for (name, bytes, expected) in cases {
        let (listener, incoming) = listen(plain(), LIMIT);
        let mut stream = raw(listener.address());
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let answer = rest(&mut stream);
        assert!(answer.contains(expected), "{name}: {answer:?}");
        assert_eq!(answer.starts_with("HTTP/1.0 400 "), name == "HTTP", "{answer:?}");
        let text = notice(&listener);
        let place = stream.local_addr().unwrap().to_string();
        assert!(text.starts_with("127.0.0.1: ") && text.contains(expected), "{name}: {text}");
        // The listener still works, and nobody was let in.
        let _other = open(listener.address(), &plain()).unwrap();
        let end = start(&incoming);
        assert_ne!(end.connection.peer().to_string(), place);
    }
}

#[test]
fn a_silent_stranger_and_a_slow_one_are_dropped_in_the_end() {
    let (listener, _incoming) = listen(plain(), Duration::from_millis(200));
    let mut silent = raw(listener.address());
    assert!(rest(&mut silent).contains("it has not sent its hello in time"));
    assert!(notice(&listener).contains("it has not sent its hello in time"));

    let mut slow = raw(listener.address());
    let mut reading = slow.try_clone().unwrap();
    let answer = thread::Builder::new().spawn(move || rest(&mut reading)).unwrap();
    let (_open, tick) = channel::<()>();
    // Each byte alone comes soon enough.
    for byte in hello_bytes(VERSION, &[1; 256]) {
        if answer.is_finished() || slow.write_all(&[byte]).is_err() {
            break;
        }
        let _ = tick.recv_timeout(Duration::from_millis(20));
    }
    assert!(answer.is_finished(), "4 KiB at 50 bytes per second were taken");
    assert!(answer.join().unwrap().contains("it has not sent its hello in time"));
}

#[test]
fn the_oldest_of_too_many_strangers_gives_way() {
    let (listener, incoming) = listen(plain(), LIMIT * 10);
    let mut strangers: Vec<TcpStream> = (0..64).map(|_| raw(listener.address())).collect();
    let client = open(listener.address(), &plain()).unwrap();
    let server = start(&incoming);
    client.connection.send(&note(1));
    assert_eq!(server.message(), note(1));
    let reason = "more than 64 peers have connected without introducing themselves";
    assert!(rest(&mut strangers[0]).contains(reason));
    assert!(notice(&listener).contains(reason));
    // The others are still awaited.
    strangers[1].write_all(&hello_bytes(VERSION, TOKEN)).unwrap();
    let end = start(&incoming);
    assert_eq!(end.connection.peer(), strangers[1].local_addr().unwrap());
    // A listener that ends does not wait for them.
    drop(listener);
    assert_eq!(strangers[2].read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn a_connection_callback_that_waits_delays_nobody() {
    let (sender, incoming) = channel();
    let ((release, wait), (began, has_begun)) = (channel::<()>(), channel());
    let wait = std::sync::Mutex::new(Some(wait));
    let on_connection = move |connection| {
        let first = wait.lock().unwrap().take();
        if let Some(wait) = first {
            began.send(()).unwrap();
            let _ = wait.recv_timeout(LIMIT * 10);
        }
        sender.send(connection).unwrap();
    };
    let listener = Listener::bind(loopback(), plain(), on_connection).unwrap();
    let first = open(listener.address(), &plain()).unwrap();
    has_begun.recv_timeout(LIMIT).unwrap();
    let second = open(listener.address(), &plain()).unwrap();
    let end = start(&incoming);
    second.connection.send(&note(2));
    assert_eq!(end.message(), note(2));
    release.send(()).unwrap();
    let end = start(&incoming);
    first.connection.send(&note(1));
    assert_eq!(end.message(), note(1));
}

/// Connects to a peer that answers like this, then closes.
fn answered(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind(loopback()).unwrap();
    let address = listener.local_addr().unwrap();
    let answering = thread::Builder::new().spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut vec![0; 16 + TOKEN.len()]).unwrap();
        stream.write_all(answer).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    });
    let answering = answering.unwrap();
    let error = refusal(address, &plain(), LIMIT);
    answering.join().unwrap();
    error
}

fn refusal(address: SocketAddr, security: &Security, limit: Duration) -> String {
    let connected: Result<Connection<Note>, _> = connect(address, security, limit, |_: Event<Note>| {});
    let error = connected.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Outside);
    assert!(error.to_string().starts_with(&address.to_string()), "{error}");
    error.to_string()
}

#[test]
fn a_client_says_what_is_wrong_with_a_listener() {
    let cases: [(&[u8], &str); 7] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it does not speak the control protocol"),
        (b"anabctrl\x07\0\0\0\0\0\0\0", "it speaks version 7 of the control protocol, and this process 1"),
        (b"anabctrl\x01\0\0\0\x05\0\0\0no\x1b[m", "the connection was refused: no\\u{1b}[m"),
        (b"anabctrl\x01\0\0\0\xff\xff\xff\xff", "the peer has closed the connection"),
        (b"anab", "the peer has closed the connection"),
        (b"", "the peer has closed the connection"),
        (b"anabctrl\x01", "the peer has closed the connection"),
    ];
    for (answer, expected) in cases {
        let error = answered(answer);
        assert!(error.contains(expected), "{answer:?}: {error}");
    }
    let silent = TcpListener::bind(loopback()).unwrap();
    let error = refusal(silent.local_addr().unwrap(), &plain(), Duration::from_millis(100));
    assert!(error.contains("the peer does not answer"), "{error}");
    let (listener, _incoming) = listen(plain(), LIMIT);
    let other = Security::Plain { token: b"another".to_vec() };
    let error = refusal(listener.address(), &other, LIMIT);
    assert!(error.contains("the connection was refused: its token is not that of this process"), "{error}");
}

#[test]
fn an_incoming_connection_that_is_not_started_closes() {
    let (listener, incoming) = listen(plain(), LIMIT);
    let client = open(listener.address(), &plain()).unwrap();
    drop(incoming.recv_timeout(LIMIT).unwrap());
    assert!(client.error().contains("without a farewell"));
}
