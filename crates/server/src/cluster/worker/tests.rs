//! A worker's process whose coordinator is the test.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anabranch_model::Incarnation;
use anabranch_protocol::membership::WorkerId;
use anabranch_protocol::message::Downward;
use anabranch_protocol::worker::Term;
use anabranch_runtime::messages::{Deploy, ToWorker};

use super::super::coordinator::nothing;
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
fn next<T>(events: &Receiver<Event<FromProcess>>, mut find: impl FnMut(FromProcess) -> Option<T>) -> T {
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

/// A worker's process, which has joined, and the coordinator's end of its connection.
fn join(silence: Duration, test: impl FnOnce(&Connection<FromCluster>, &Receiver<Event<FromProcess>>)) {
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
        wait: Duration::ZERO,
    };
    let run = move || run_worker(&Engine::default(), &options);
    let process = std::thread::Builder::new().name("process".into()).spawn(run).expect("a thread");
    let (connection, events) = accepted.recv_timeout(LIMIT).expect("a connection");
    next(&events, |message| matches!(message, FromProcess::Hello { .. }).then_some(()));
    connection.send(&FromCluster::Welcome { worker: WorkerId(1), silence });
    connection.send(&FromCluster::Leads { leader: Some(Leader(1)) });
    next(&events, |message| matches!(message, FromProcess::Ready { .. }).then_some(()));
    test(&connection, &events);
    connection.send(&FromCluster::End);
    process.join().expect("no panic").expect("it ends");
}

fn job(message: ToWorker) -> FromCluster {
    FromCluster::Job { job: 7, term: Term(1), message }
}

fn hold() -> FromCluster {
    job(ToWorker::Protocol(Box::new(Downward::Hold { incarnation: Incarnation(1), held: false })))
}

#[test]
fn a_message_for_tasks_that_are_not_here_is_answered_so() {
    join(Duration::from_secs(2), |connection, events| {
        connection.send(&hold());
        let missing = |message| match message {
            FromProcess::Missing { job } => Some(job),
            _ => None,
        };
        assert_eq!(next(events, missing), 7);
    });
}

/// The coordinator lives, and does not speak of the job any more.
#[test]
fn the_worker_of_a_job_that_no_coordinator_has_ends() {
    let silence = Duration::from_millis(400);
    join(silence, |connection, events| {
        let deploy = Deploy {
            incarnation: Incarnation(1),
            prepares: false,
            plan: nothing(),
            origin: None,
            checkpoints: None,
            retries_opening: false,
            placement: Vec::new(),
            peers: BTreeMap::new(),
            keys: BTreeMap::new(),
        };
        connection.send(&job(ToWorker::Deploy(Box::new(deploy))));
        // A message of the job would be one more sign of life, so they come at longer and longer intervals.
        let (mut beats, mut next_hold, mut pause) = (0, 130, 130);
        next(events, |message| match message {
            FromProcess::Missing { job } => (job == 7).then_some(()),
            FromProcess::Beat { .. } => {
                connection.send(&FromCluster::Leads { leader: Some(Leader(1)) });
                beats += 1;
                assert!(beats < 1500, "it does not end");
                if beats == next_hold {
                    connection.send(&hold());
                    pause *= 2;
                    next_hold += pause;
                }
                None
            }
            _ => None,
        });
    });
}
