//! Connections that break, and connections that must not begin.

use std::net::TcpStream;

use anabranch_model::ErrorKind;

use super::*;
use crate::network::Greeting;

fn failure(received: Received) -> Error {
    match received {
        Received::Failed(error) => error,
        Received::Envelope(_, envelope) => panic!("{envelope:?}"),
        Received::Timeout | Received::Closed => panic!("no failure"),
    }
}

/// Sources at workers 1 and 2, each of which sends to its own sink at worker 3.
#[test]
fn a_broken_connection_fails_those_that_use_it_after_what_arrived_before() {
    let plan = plan(2, ExchangeKind::Forward, 2, JobOptions::default(), OnMalformed::Fail);
    let clock = clock();
    let endpoints: Vec<Endpoint> = (1..4).map(|worker| listen(worker, &clock)).collect();
    let at = |task: TaskId| WorkerId(if task.stage == StageId(1) { 3 } else { 1 + task.index });
    let placement = all_tasks(&plan).into_iter().map(|task| (task, at(task))).collect();
    let mut wirings = connect(&plan, 1, &placement, &endpoints);
    let mut senders: Vec<_> =
        [0, 1].map(|index| wirings[index].senders(&plan.exchanges[0], task(0, index as u32)).unwrap().remove(0)).into();
    let inboxes = [0, 1].map(|index| wirings[2].inbox(task(1, index), Port::Main).unwrap().0);
    let receive = |index: usize| inboxes[index].receive(&[false], None, clock.as_ref());
    let taken = |index: usize| match receive(index) {
        Received::Envelope(0, envelope) => lines(&envelope),
        _ => panic!("nothing was received"),
    };
    senders.iter_mut().for_each(|sender| send(sender.as_mut(), rows(1, 2), clock.as_ref()).unwrap());
    send(senders[1].as_mut(), watermark(5), clock.as_ref()).unwrap();
    assert_eq!(taken(1), ["row 1", "row 2"]);
    // The watermark has arrived before worker 2 dies.
    while inboxes[1].stats(Nanos(0)).bytes == 0 {
        thread::yield_now();
    }
    let lost = wirings.remove(1);
    lost.close();
    assert_eq!(taken(1), ["watermark 5"]);
    let error = failure(receive(1)).to_string();
    assert!(error.starts_with("worker 2 at 127.0.0.1:") && error.contains("closed"), "{error}");
    assert!(senders[1].offer(Envelope::Idle, clock.as_ref()).is_err());
    // The other one does not notice.
    assert_eq!(taken(0), ["row 1", "row 2"]);
    send(senders[0].as_mut(), rows(3, 1), clock.as_ref()).unwrap();
    assert_eq!(taken(0), ["row 3"]);
    // Now the receiver dies while the sender waits for room.
    let error = thread::scope(|scope| {
        let sender = senders[0].as_mut();
        let sending = || (0..).map(|first| rows(first, 10_000)).try_for_each(|rows| send(sender, rows, clock.as_ref()));
        let sending = scope.spawn(sending);
        wirings[1].close();
        sending.join().unwrap().unwrap_err().to_string()
    });
    assert!(error.starts_with(&format!("worker 3 at {}: ", endpoints[2].address())), "{error}");
}

/// A worker whose tasks have all ended closes its connections. Other connections stay.
#[test]
fn a_peer_that_has_ended_in_order_is_no_failure() {
    let mut pair = pair(10_000);
    pair.send(rows(1, 1)).unwrap();
    pair.send(marker(1, MarkerKind::End)).unwrap();
    let sender = pair.wirings.remove(0);
    sender.finish().unwrap();
    drop(sender);
    pair.wirings[0].finish().unwrap();
    assert_eq!(lines(&pair.received()), ["row 1"]);
    assert_eq!(lines(&pair.received()), ["marker 1"]);
    assert!(matches!(pair.inbox.receive(&[false], Some(Duration::ZERO), pair.clock.as_ref()), Received::Timeout));
}

#[test]
fn a_peer_that_ends_in_order_too_early_is_a_failure() {
    let mut pair = pair(10_000);
    pair.send(marker(1, MarkerKind::Cut)).unwrap();
    pair.wirings[0].finish().unwrap();
    assert_eq!(lines(&pair.received()), ["marker 1"]);
    let error = failure(pair.receive()).to_string();
    assert_eq!(error, "worker 1: it has ended the connection before its tasks have ended");
}

/// The inbox of a task that needs nothing more takes everything and keeps nothing: its sender does not wait.
#[test]
fn a_closed_inbox_does_not_stop_its_sender() {
    let mut pair = pair(5000);
    pair.inbox.close();
    for turn in 0..100 {
        pair.send(rows(turn, 500)).unwrap();
    }
    pair.send(marker(1, MarkerKind::Stop)).unwrap();
    pair.wirings[0].finish().unwrap();
}

#[test]
fn a_newer_incarnation_ends_the_connections_of_the_older_one() {
    let older = pair(10_000);
    let plan = plan(1, ExchangeKind::Forward, 1, JobOptions::default(), OnMalformed::Fail);
    let placement = BTreeMap::from([(task(0, 0), WorkerId(1)), (task(1, 0), WorkerId(2))]);
    let newer = connect(&plan, 2, &placement, &older.endpoints);
    // Whether the end here or the one there is closed first: no task waits for the older one.
    failure(older.receive());
    // The older incarnation closes its own connections only.
    drop(older.wirings);
    let mut sender = newer[0].senders(&plan.exchanges[0], task(0, 0)).unwrap().remove(0);
    send(sender.as_mut(), rows(1, 1), older.clock.as_ref()).unwrap();
    let inbox = newer[1].inbox(task(1, 0), Port::Main).unwrap().0;
    assert!(matches!(inbox.receive(&[false], None, older.clock.as_ref()), Received::Envelope(..)));
    // The older one cannot come back, neither here nor from there.
    let peers = addresses(&older.endpoints);
    let again = Wiring::connect(&plan, (JOB, Incarnation(1)), &placement, &peers, &older.endpoints[1]);
    assert_eq!(again.map(drop).unwrap_err().to_string(), "job 9 runs here already, as incarnation 2");
    let zombie = listen(1, &older.clock);
    let again = Wiring::connect(&plan, (JOB, Incarnation(1)), &placement, &peers, &zombie);
    let error = again.map(drop).unwrap_err().to_string();
    assert!(error.ends_with("the connection was refused: incarnation 1 of job 9 is over, 2 runs"), "{error}");
}

/// A worker that does not connect, or to which no connection leads, fails the incarnation in time.
fn connect_alone(sender: &Endpoint, receiver: &Endpoint, job: u64) -> String {
    let plan = plan(1, ExchangeKind::Forward, 1, JobOptions::default(), OnMalformed::Fail);
    let placement = BTreeMap::from([(task(0, 0), WorkerId(1)), (task(1, 0), WorkerId(2))]);
    let peers = BTreeMap::from([(WorkerId(1), sender.peer()), (WorkerId(2), receiver.peer())]);
    Wiring::connect(&plan, (job, Incarnation(1)), &placement, &peers, sender).map(drop).unwrap_err().to_string()
}

#[test]
fn strangers_are_refused_and_both_sides_learn_why() {
    let clock = clock();
    let receiver = listen(2, &clock);
    let error = connect_alone(&listen_with(1, b"another", PATIENCE, &clock), &receiver, JOB);
    let place = format!("worker 2 at {}: ", receiver.address());
    assert_eq!(error, format!("{place}the connection was refused: its token is not that of this worker"));
    let other = listen(3, &clock);
    let error = connect_alone(&listen(1, &clock), &other, JOB);
    assert!(error.ends_with("the connection was refused: this is worker 3, not worker 2"), "{error}");
    let notices = receiver.notices().after(0);
    assert_eq!(notices.len(), 1);
    let text = &notices[0].text;
    assert!(text.starts_with("worker 1 at 127.0.0.1:") && text.contains("its token is not"), "{text}");
}

#[test]
fn a_job_that_does_not_begin_at_a_peer_fails_in_time() {
    let clock = clock();
    let hasty = Patience { connect_max: Duration::from_millis(50), ..PATIENCE };
    let receiver = listen(2, &clock);
    let error = connect_alone(&listen_with(1, TOKEN, hasty, &clock), &receiver, 10);
    assert!(error.starts_with("worker 2 at ") && error.ends_with("the peer does not answer"), "{error}");
    let (peer, sender) = (receiver.peer(), listen_with(1, TOKEN, hasty, &clock));
    let address = peer.address;
    drop(receiver);
    let gone = listen_with(4, TOKEN, hasty, &clock);
    let plan = plan(1, ExchangeKind::Forward, 1, JobOptions::default(), OnMalformed::Fail);
    let placement = BTreeMap::from([(task(0, 0), WorkerId(1)), (task(1, 0), WorkerId(4))]);
    let peers = BTreeMap::from([(WorkerId(4), peer)]);
    let error = Wiring::connect(&plan, (JOB, Incarnation(1)), &placement, &peers, &sender).map(drop).unwrap_err();
    assert!(error.to_string().starts_with(&format!("worker 4 at {address}: no connection: ")), "{error}");
    let error = Wiring::connect(&plan, (JOB, Incarnation(1)), &placement, &peers, &gone).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "worker 1 did not connect in time");
}

/// A frozen process keeps its sockets open. The operating system answers for it.
#[test]
fn a_frozen_peer_is_given_up() {
    let clock = clock();
    let strict = Patience { silence_max: Duration::from_millis(50), ..PATIENCE };
    let plan = plan(1, ExchangeKind::Forward, 1, JobOptions::default(), OnMalformed::Fail);
    let placement = BTreeMap::from([(task(0, 0), WorkerId(1)), (task(1, 0), WorkerId(2))]);
    // A receiver: it accepts the connection by hand.
    let frozen = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let sender = listen_with(1, TOKEN, strict, &clock);
    let peers = BTreeMap::from([(WorkerId(2), Peer { address: frozen.local_addr().unwrap(), key: None })]);
    let (wiring, _held) = thread::scope(|scope| {
        let connecting = || Wiring::connect(&plan, (JOB, Incarnation(1)), &placement, &peers, &sender);
        let connecting = scope.spawn(connecting);
        let greeting = Greeting::receive(frozen.accept().unwrap().0).unwrap();
        greeting.accept().unwrap();
        (connecting.join().unwrap().unwrap(), greeting)
    });
    let mut to_frozen = wiring.senders(&plan.exchanges[0], task(0, 0)).unwrap().remove(0);
    let error = send(to_frozen.as_mut(), Envelope::Idle, clock.as_ref()).unwrap_err().to_string();
    assert!(error.starts_with("worker 2 at 127.0.0.1:") && error.ends_with("the peer does not answer"), "{error}");

    // A sender: it sends its hello, and nothing more.
    let receiver = listen_with(2, TOKEN, strict, &clock);
    let hello = Hello { job: JOB, incarnation: Incarnation(1), from: WorkerId(1), to: WorkerId(2), channels: 1 };
    let stream = TcpStream::connect(receiver.address()).unwrap();
    let peers = BTreeMap::new();
    let wiring = thread::scope(|scope| {
        let connecting = scope.spawn(|| Wiring::connect(&plan, (JOB, Incarnation(1)), &placement, &peers, &receiver));
        hello.introduce(&stream.try_clone().unwrap().into(), TOKEN, PATIENCE.connect_max).unwrap();
        connecting.join().unwrap().unwrap()
    });
    let inbox = wiring.inbox(task(1, 0), Port::Main).unwrap().0;
    let error = failure(inbox.receive(&[false], None, clock.as_ref())).to_string();
    assert!(error.starts_with("worker 1 at 127.0.0.1:") && error.ends_with("the peer does not answer"), "{error}");
}

/// A worker that must abandon an incarnation does not wait for absent peers.
#[test]
fn connecting_can_be_cancelled() {
    let clock = clock();
    let plan = plan(1, ExchangeKind::Forward, 1, JobOptions::default(), OnMalformed::Fail);
    let placement = BTreeMap::from([(task(0, 0), WorkerId(1)), (task(1, 0), WorkerId(2))]);
    // The operating system takes the connection, and nobody answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let peers = BTreeMap::from([(WorkerId(2), Peer { address: silent.local_addr().unwrap(), key: None })]);
    for worker in [1, 2] {
        // As the sender, which waits for the answer, and as the receiver, which waits for the connection.
        let endpoint = listen(worker, &clock);
        let error = thread::scope(|scope| {
            let connecting =
                scope.spawn(|| Wiring::connect(&plan, (JOB, Incarnation(1)), &placement, &peers, &endpoint).map(drop));
            while !connecting.is_finished() {
                endpoint.cancel(JOB, Incarnation(1));
                thread::yield_now();
            }
            connecting.join().unwrap().unwrap_err()
        });
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
}
