use std::sync::mpsc::RecvTimeoutError;

use anabranch_model::Nanos;
use anabranch_runtime::messages::{MESSAGES_VERSION, ToWorker};

use super::super::messages::{FromCluster, FromProcess, Introduction};
use super::*;
use crate::control::{Connection, Event, connect};
use crate::http::Listen;

/// No test waits longer for anything.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn names_are_parts_of_places() {
    for name in ["ads", "ads-2", "A_b"] {
        check_name(name).expect(name);
    }
    for name in ["", "a/b", "..", "a b", "ä", &"x".repeat(101)] {
        let error = check_name(name).expect_err(name).to_string();
        assert!(error.contains("letters of ASCII"), "{error}");
    }
}

fn start(store: &std::path::Path) -> Coordinator {
    let options = CoordinatorOptions {
        store: store.to_str().expect("text").to_owned(),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        advertise: None,
        security: security(),
        authority: None,
        demo: None,
    };
    let listener = Listener::bind(&Listen { address: "127.0.0.1:0".into(), ..Listen::default() });
    Coordinator::start(Engine::default(), options, listener.expect("a free port")).expect("a coordinator")
}

fn security() -> Security {
    Security::Plain { token: b"the secret of a cluster".to_vec() }
}

fn order(folder: &std::path::Path) -> JobOrder {
    let sql = format!(
        "CREATE TABLE events (ad_id STRING, event_time BIGINT) WITH ('connector' = 'ad_events', 'rows-per-second' = '10');
         CREATE TABLE out_rows (ad_id STRING) WITH ('connector' = 'filesystem', 'path' = '{}/out', 'format' = 'csv');
         INSERT INTO out_rows SELECT ad_id FROM events;",
        folder.display()
    );
    let settings = [("parallelism".to_owned(), "1".to_owned())].into();
    JobOrder { name: "ads".into(), sql, settings, ..JobOrder::default() }
}

/// A worker whose process is the test. It runs nothing.
struct Worker {
    connection: Connection<FromProcess>,
    events: std::sync::mpsc::Receiver<Event<FromCluster>>,
}

impl Worker {
    fn join(coordinator: &Coordinator) -> Worker {
        let (sender, events) = channel();
        let address = coordinator.address().expect("it listens");
        let on_event = move |event: Event<FromCluster>| drop(sender.send(event));
        let connection: Connection<FromProcess> = connect(address, &security(), LIMIT, on_event).expect("connected");
        connection.send(&FromProcess::Hello(Introduction {
            version: MESSAGES_VERSION,
            release: env!("CARGO_PKG_VERSION").into(),
            name: "only".into(),
            life: 1,
            slots: 1,
            labels: Vec::new(),
            pid: 1,
        }));
        let exchange = SocketAddr::from(([127, 0, 0, 1], 9));
        connection.send(&FromProcess::Ready { exchange, key: None, copies: Vec::new(), sent: Nanos(1) });
        Worker { connection, events }
    }

    /// The next deployment of a job: the job's number, and the term of its coordinator. Until then the
    /// process lives.
    fn deployed(&self) -> (u64, anabranch_protocol::worker::Term) {
        let beat = Duration::from_millis(50);
        for sent in (2_u32..).take_while(|sent| beat * *sent < LIMIT) {
            self.connection.send(&FromProcess::Beat { sent: Nanos(sent.into()), leader: None });
            loop {
                match self.events.recv_timeout(beat) {
                    Ok(Event::Message(FromCluster::Job { job, term, message: ToWorker::Deploy(_) })) => {
                        return (job, term);
                    }
                    Ok(Event::Message(_)) => {}
                    Ok(Event::Closed(why)) => panic!("closed: {why:?}"),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => panic!("nothing comes any more"),
                }
            }
        }
        panic!("no deployment comes");
    }
}

#[test]
fn tasks_that_a_worker_does_not_have_begin_again() {
    let folder = tempfile::tempdir().expect("folder");
    let coordinator = start(&folder.path().join("store"));
    let worker = Worker::join(&coordinator);
    coordinator.shared.take(order(folder.path())).expect("taken");
    let (job, term) = worker.deployed();
    worker.connection.send(&FromProcess::Missing { job });
    let again = worker.deployed();
    assert!(again.0 == job && again.1 > term, "another incarnation of the same job");
    coordinator.close(Duration::ZERO);
}
