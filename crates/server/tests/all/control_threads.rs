//! Control connections leave no thread behind. This needs a process of its own, whose threads are counted.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::io::Write as _;
use std::sync::mpsc::channel;
use std::time::Duration;

use anabranch_model::{Clock as _, SystemClock};
use anabranch_server::control::{Connection, Event, Incoming, Listener, Security, connect};

const LIMIT: Duration = Duration::from_secs(60);

/// Names of the threads of control connections that run.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread may end in the meantime.
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("control-")).collect()
}

/// A thread gets its name when it begins to run.
fn wait_for(number: usize) {
    let clock = SystemClock::new();
    let (_open, tick) = channel::<()>();
    while threads().len() != number {
        assert!(clock.now().0 < LIMIT.as_nanos() as u64, "{:?}", threads());
        let _ = tick.recv_timeout(Duration::from_millis(5));
    }
}

#[test]
fn no_thread_is_left_when_connections_and_listeners_are_dropped() {
    let security = Security::Plain { token: Vec::new() };
    let (sender, incoming) = channel::<Incoming>();
    let on_connection = move |connection| sender.send(connection).unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), security.clone(), on_connection).unwrap();
    let address = listener.address();
    let mut held = Vec::new();
    for _ in 0..8 {
        let client: Connection<u64> = connect(address, &security, LIMIT, |_: Event<u64>| {}).unwrap();
        let server: Connection<u64> = incoming.recv_timeout(LIMIT).unwrap().start(|_: Event<u64>| {});
        client.send(&1);
        held.push((client, server));
    }
    // A stranger, and a connection that is never started.
    let stranger = std::net::TcpStream::connect(address).unwrap();
    let unused: Connection<u64> = connect(address, &security, LIMIT, |_: Event<u64>| {}).unwrap();
    let not_started = incoming.recv_timeout(LIMIT).unwrap();
    // A peer that neither sends nor closes, at a connection that is closed here.
    let mut frozen = std::net::TcpStream::connect(address).unwrap();
    frozen.write_all(b"anabctrl\x01\0\0\0\0\0\0\0").unwrap();
    let left: Connection<u64> = incoming.recv_timeout(LIMIT).unwrap().start(|_: Event<u64>| {});
    // The listener's thread, the stranger's, and two for each end of a connection.
    wait_for(1 + 1 + 2 * (8 * 2 + 1 + 1));
    // Both ends, the client's end, the listener's end; the other end follows.
    for (index, (client, server)) in held.into_iter().enumerate() {
        match index % 3 {
            0 => drop((client, server)),
            1 => client.close(),
            _ => server.close(),
        }
    }
    drop(listener);
    drop((unused, not_started, left));
    wait_for(0);
    drop((stranger, frozen));
}
