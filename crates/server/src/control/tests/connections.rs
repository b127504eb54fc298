//! Messages, and every way in which a connection ends.

use std::io::Write as _;
use std::sync::mpsc::channel;
use std::thread;

use anabranch_model::ErrorKind;

use super::super::{Connection, Event, connect};
use super::{LIMIT, Note, listen, note, open, pair, plain, raw_pair, start};

const MESSAGES: u64 = 10_000;

#[test]
fn messages_arrive_both_ways_in_order_and_none_is_missing() {
    let (client, server) = pair(plain(), &plain());
    thread::scope(|scope| {
        for end in [&client, &server] {
            let connection = end.connection.clone();
            scope.spawn(move || (0..MESSAGES).for_each(|number| connection.send(&note(number))));
        }
        for end in [&client, &server] {
            (0..MESSAGES).for_each(|number| assert_eq!(end.message(), note(number)));
        }
    });
    let large = Note { number: 1, text: "x".repeat(3 << 20) };
    client.connection.send(&large);
    assert!(server.message() == large);
}

#[test]
fn if_one_end_closes_the_other_gets_all_messages_and_then_the_end() {
    let (client, server) = pair(plain(), &plain());
    let (other_client, other_server) = pair(plain(), &plain());
    for (closing, other) in [(client, server), (other_server, other_client)] {
        (0..100).for_each(|number| closing.connection.send(&note(number)));
        closing.connection.close();
        closing.connection.send(&note(100));
        (0..100).for_each(|number| assert_eq!(other.message(), note(number)));
        assert!(other.outcome().is_none());
        assert!(closing.outcome().is_none());
    }
}

#[test]
fn the_last_clone_closes_the_connection() {
    let (client, server) = pair(plain(), &plain());
    let clone = client.connection.clone();
    drop(client.connection);
    clone.send(&note(1));
    assert_eq!(server.message(), note(1));
    drop(clone);
    assert!(server.outcome().is_none());
    assert!(matches!(client.events.recv_timeout(LIMIT), Ok(Event::Closed(None))));
}

#[test]
fn a_connection_outlives_its_listener() {
    let (listener, incoming) = listen(plain(), LIMIT);
    let client = open(listener.address(), &plain()).unwrap();
    let server = start(&incoming);
    let address = listener.address();
    drop(listener);
    server.connection.send(&note(1));
    assert_eq!(client.message(), note(1));
    assert!(open(address, &plain()).err().unwrap().to_string().contains("cannot connect"));
}

#[test]
fn a_handler_may_send_and_close() {
    let (listener, incoming) = listen(plain(), LIMIT);
    let client = open(listener.address(), &plain()).unwrap();
    let (own, connection) = channel::<Connection<Note>>();
    let mut echo = None;
    let handler = move |event| {
        if let Event::Message(message) = event {
            let echo = echo.get_or_insert_with(|| connection.recv_timeout(LIMIT).unwrap());
            echo.send(&message);
            echo.close();
        }
    };
    own.send(incoming.recv_timeout(LIMIT).unwrap().start(handler)).unwrap();
    client.connection.send(&note(5));
    assert_eq!(client.message(), note(5));
    assert!(client.outcome().is_none());
}

#[test]
fn a_peer_that_vanishes_is_an_error() {
    let (stream, server) = raw_pair();
    drop(stream);
    let error = server.outcome().unwrap();
    assert_eq!(error.kind(), ErrorKind::Outside);
    assert!(error.to_string().starts_with("127.0.0.1:"), "{error}");
    assert!(error.message().contains("without a farewell"), "{error}");

    let (mut stream, server) = raw_pair();
    stream.write_all(&[200, 0, 0, 0, 0]).unwrap();
    drop(stream);
    assert!(server.error().contains("within a frame"));
}

#[test]
fn a_peer_that_does_not_read_is_given_up_at_the_limit_and_can_be_closed_before() {
    let large = Note { number: 1, text: "x".repeat(1 << 20) };
    let (_stream, server) = raw_pair();
    (0..200).for_each(|_| server.connection.send(&large));
    assert!(server.error().contains("it does not read"));

    let (_stream, server) = raw_pair();
    (0..16).for_each(|_| server.connection.send(&large));
    server.connection.close();
    assert!(server.outcome().is_none());
}

#[test]
fn a_handler_that_panics_ends_the_connection_with_an_error_at_both_ends() {
    let (listener, incoming) = listen(plain(), LIMIT);
    let (sender, outcome) = channel();
    let handler = move |event: Event<Note>| match event {
        Event::Message(_) => panic!("a planned panic"),
        Event::Closed(error) => sender.send(error).unwrap(),
    };
    let client: Connection<Note> = connect(listener.address(), &plain(), LIMIT, handler).unwrap();
    let server = start(&incoming);
    server.connection.send(&note(1));
    assert_eq!(outcome.recv_timeout(LIMIT).unwrap().unwrap().kind(), ErrorKind::Internal);
    assert!(server.error().contains("it has ended the connection: the receiver of a message has panicked"));
    drop(client);
}

#[test]
fn a_message_that_is_too_large_ends_the_connection_at_both_ends() {
    let (client, server) = pair(plain(), &plain());
    client.connection.send(&Note { number: 1, text: "x".repeat(64 << 20) });
    assert!(client.error().contains("67108864 are allowed"));
    assert!(server.error().contains("it has ended the connection: a message has"));
}
