//! A worker's process whose coordinator is the test.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anabranch_model::Incarnation;
use anabranch_protocol::membership::WorkerId;
use anabranch_protocol::worker::Term;
use anabranch_runtime::messages::ToWorker;

use super::super::messages::{FromCluster, FromProcess, Leader};
use super::{WorkerOptions, run_worker};
use crate::Engine;
use crate::control::{Connection, Event, Listener, Security};

/// No test waits longer for anything.
const LIMIT: Duration = Duration::from_secs(60);
const TOKEN: &[u8] = b"the secret of a cluster";

type Accepted = (Connection<FromCluster>, Receiver<Event<FromProcess>>);

fn listen() -> (Listener, Receiver<Accepted>) {
    let (sender, accepted) = channel();
    let security = Security::Plain { token: TOKEN.to_vec() };
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind(any, security, move |incoming| {
        let (events, received) = channel();
        // A test that is over receives nothing.
        let connection = incoming.start(move |event: Event<FromProcess>| drop(events.send(event)));
        drop(sender.send((connection, received)));
    });
    (listener.expect("a listener"), accepted)
}

/// The next message of which something is found.
fn next<T>(events: &Receiver<Event<FromProcess>>, find: impl Fn(FromProcess) -> Option<T>) -> T {
    loop {
        match events.recv_timeout(LIMIT).expect("a message") {
            Event::Message(message) => {
                if let Some(found) = find(message) {
                    return found;
                }
            }
            Event::Closed(why) => panic!("closed: {why:?}"),
        }
    }
}

#[test]
fn a_message_for_tasks_that_are_not_here_is_answered_so() {
    let (listener, accepted) = listen();
    let options = WorkerOptions {
        coordinators: vec![listener.address().to_string()],
        token: TOKEN.to_vec(),
        authority: None,
        name: "only".into(),
        slots: 1,
        labels: Vec::new(),
        listen: None,
        advertise: None,
        state: None,
        once: false,
    };
    let run = move || run_worker(&Engine::default(), &options, |_| {});
    let process = std::thread::Builder::new().name("process".into()).spawn(run).expect("a thread");
    let (connection, events) = accepted.recv_timeout(LIMIT).expect("a connection");
    next(&events, |message| matches!(message, FromProcess::Hello { .. }).then_some(()));
    connection.send(&FromCluster::Welcome { worker: WorkerId(1), silence: Duration::from_secs(2) });
    connection.send(&FromCluster::Leads { leader: Some(Leader(1)) });
    next(&events, |message| matches!(message, FromProcess::Ready { .. }).then_some(()));
    let message = || ToWorker::Hold { incarnation: Incarnation(1), held: false };
    connection.send(&FromCluster::Job { job: 7, term: Term(1), message: message() });
    let missing = |message| match message {
        FromProcess::Missing { job } => Some(job),
        _ => None,
    };
    assert_eq!(next(&events, missing), 7);
    connection.send(&FromCluster::End);
    process.join().expect("no panic").expect("it ends");
}
