use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anabranch_model::{Rng, pause};

use super::*;

fn listen() -> (Graphite, Receiver<(String, f64)>) {
    let (send, received) = channel();
    let take = move |path: &str, value| !path.starts_with("skip") && send.send((path.to_owned(), value)).is_ok();
    let address = "127.0.0.1:0".parse().expect("an address");
    (Graphite::listen(address, Box::new(take)).expect("a free port"), received)
}

fn next(received: &Receiver<(String, f64)>) -> (String, f64) {
    received.recv_timeout(Duration::from_secs(30)).expect("a line")
}

/// Waits until so many lines were counted as rubbish.
fn wait_for(graphite: &Graphite, is_true: impl Fn(Received) -> bool) -> Received {
    for _ in 0..3_000 {
        if is_true(graphite.received()) {
            return graphite.received();
        }
        pause(Duration::from_millis(10));
    }
    panic!("never true: {:?}", graphite.received());
}

#[test]
fn lines_of_several_connections_are_taken_whatever_their_pieces() {
    let (graphite, received) = listen();
    let mut first = TcpStream::connect(graphite.address()).expect("a connection");
    let mut second = TcpStream::connect(graphite.address()).expect("a connection");
    first.write_all(b"a.b 1 170").expect("sent");
    second.write_all(b"c.d-e 2.5E3 1700000000\nname with spaces NaN 1700000000\r\n\n").expect("sent");
    assert_eq!(next(&received), ("c.d-e".to_owned(), 2500.0));
    let (path, value) = next(&received);
    assert!(path == "name with spaces" && value.is_nan());
    first.write_all(b"0000000\nskip 1 1\nlast 3 1700000000").expect("sent");
    assert_eq!(next(&received), ("a.b".to_owned(), 1.0));
    drop(first);
    assert_eq!(next(&received), ("last".to_owned(), 3.0));
    let expected = Received { connections: 2, taken: 4, unwanted: 1, rubbish: 0 };
    wait_for(&graphite, |now| now == expected);
}

#[test]
fn rubbish_and_endless_lines_are_counted_and_the_rest_is_read() {
    let (graphite, received) = listen();
    let mut stream = TcpStream::connect(graphite.address()).expect("a connection");
    stream.write_all(b"GET / HTTP/1.1\nonly.path\npath value 1\n\xff\xfe 1 1\n 1 1\n").expect("sent");
    let endless = vec![b'x'; 1 << 20];
    stream.write_all(&endless).expect("sent");
    stream.write_all(b" 1 1\ngood 1 1\n").expect("sent");
    assert_eq!(next(&received), ("good".to_owned(), 1.0));
    assert_eq!(graphite.received().rubbish, 6);
}

#[test]
fn a_flood_of_connections_closes_the_silent_ones() {
    let (graphite, received) = listen();
    let silent: Vec<TcpStream> =
        (0..CONNECTIONS_MAX + 5).map(|_| TcpStream::connect(graphite.address()).expect("a connection")).collect();
    wait_for(&graphite, |now| now.connections == silent.len() as u64);
    let mut one_more = TcpStream::connect(graphite.address()).expect("a connection");
    one_more.write_all(b"alive 1 1\n").expect("sent");
    assert_eq!(next(&received), ("alive".to_owned(), 1.0));
    let mut first = &silent[0];
    first.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    assert_eq!(first.read(&mut [0; 1]).expect("closed"), 0);
}

#[test]
fn it_ends_with_open_connections_and_frees_its_port() {
    let (graphite, received) = listen();
    let address = graphite.address();
    let _open = TcpStream::connect(address).expect("a connection");
    let in_use = Graphite::listen(address, Box::new(|_, _| true)).err().expect("in use").to_string();
    assert!(in_use.contains("another osched") && in_use.contains(&address.to_string()), "{in_use}");
    drop(graphite);
    assert!(received.recv().is_err(), "its thread is gone");
    drop(Graphite::listen(address, Box::new(|_, _| true)).expect("free again"));
}

#[test]
fn only_this_machine_may_send() {
    let error =
        Graphite::listen("0.0.0.0:0".parse().expect("an address"), Box::new(|_, _| true)).err().expect("refused");
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
}

/// However a text is cut into pieces, the same lines are taken.
#[test]
fn pieces_do_not_matter() {
    println!("seed 5");
    let mut rng = Rng::new(5);
    for _ in 0..300 {
        let lines: Vec<String> = (0..20)
            .map(|line| match rng.below(4) {
                0 => "rubbish".to_owned(),
                1 => format!("{} 1 1", "y".repeat(usize::try_from(rng.below(6_000)).expect("small"))),
                _ => format!("path.{line} {line} 1"),
            })
            .collect();
        let text = lines.join("\n") + "\n";
        let run = |mut cut: Box<dyn FnMut(usize) -> usize>| {
            let (send, taken) = channel();
            let mut take: Take = Box::new(move |path, value| send.send((path.to_owned(), value)).is_ok());
            let counters = Counters::default();
            let address = TcpListener::bind("127.0.0.1:0").expect("a port");
            let stream = TcpStream::connect(address.local_addr().expect("an address")).expect("a connection");
            let mut connection = Connection { stream, half: Vec::new(), is_too_long: false, turn: 0 };
            let mut rest = text.as_bytes();
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(cut(rest.len()));
                connection.add(piece, &counters, &mut take);
                assert!(connection.half.len() <= LINE_BYTES_MAX);
                rest = behind;
            }
            drop(take);
            let lines: Vec<(String, f64)> = taken.iter().collect();
            (lines, counters.rubbish.load(Ordering::Relaxed))
        };
        let mut pieces = Rng::new(rng.next_u64());
        let whole = run(Box::new(|rest| rest));
        assert_eq!(run(Box::new(move |rest| rest.min(1 + pieces.below(700) as usize))), whole);
    }
}
