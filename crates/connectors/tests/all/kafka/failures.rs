//! Failures of the broker: each ends in an error that names the place and the remedy, or is waited for.

use std::net::TcpListener;

use anabranch_model::{Clock, Epoch, SystemClock};

use super::harness::{
    BOUNDED, Outside, Reader, await_notice, open_exact_at, open_sink, open_sink_at, open_source, process, records,
    refusal, rows, table, table_at,
};
use crate::broker::Broker;

#[test]
fn an_unknown_topic_is_named_with_those_that_exist() {
    Outside::shared().create_topic("impressions", 1);
    let error = refusal(open_source(table("impresions", &[]), 0, 1));
    assert!(error.contains("table events"), "{error}");
    assert!(error.contains("topic 'impresions' does not exist"), "{error}");
    assert!(error.contains("there are: impressions"), "{error}");
}

#[test]
fn an_unreachable_broker_is_named_within_a_bounded_time() {
    // No process listens on this port: it was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").expect("port").local_addr().expect("address").port();
    let servers = format!("127.0.0.1:{port}");
    let timeout = [("connection.timeout", "1 s")];
    for error in [
        refusal(open_source(table_at(&servers, "any", &timeout), 0, 1)),
        refusal(open_sink(table_at(&servers, "any", &timeout), 0, 1)),
    ] {
        assert!(error.contains(&format!("no Kafka broker answered at {servers} within 1 s")), "{error}");
        assert!(error.contains("help: start the broker"), "{error}");
    }
}

#[test]
fn a_topic_that_is_deleted_ends_the_job_with_its_name() {
    let outside = Outside::shared();
    outside.create_topic("deleted", 1);
    outside.produce("deleted", 0, &records(0..10));
    let quick = [("scan.topic-partition-discovery.interval", "200 ms")];
    let mut reader = Reader::open(table("deleted", &quick), 0, 1);
    reader.read_until("ten rows", |reader| reader.count() == 10);
    outside.delete_topic("deleted");
    let error = reader.read_until_error();
    assert!(error.contains("topic 'deleted' does not exist any more"), "{error}");
    assert!(error.contains("create it again. Then to read the new topic from its beginning"), "{error}");
}

#[test]
fn an_outage_is_bridged_by_reader_and_writer() {
    let broker = Broker::start();
    let outside = Outside::new(broker.servers());
    outside.create_topic("bridged", 1);
    outside.produce("bridged", 0, &records(0..10));
    let quick = [("scan.topic-partition-discovery.interval", "200 ms")];
    let host = process(true, None);
    let mut reader = Reader::open_at(table_at(broker.servers(), "bridged", &quick), host.clone());
    let mut sink = open_sink(table_at(broker.servers(), "bridged", &[]), 0, 1).expect("sink");
    reader.read_until("ten rows", |reader| reader.count() == 10);
    broker.stop();
    sink.write(&rows(10..20)).expect("written while the broker is down");
    let notices = || host.notices.lock().unwrap().clone();
    reader.read_until("a notice", |_| !notices().is_empty());
    let told = format!("topic bridged: no Kafka broker answers at {}", broker.servers());
    assert!(notices()[0].starts_with(&told), "{:?}", notices());
    assert!(notices()[0].contains("for up to 300 s ('connection.timeout')"), "{:?}", notices());
    broker.restart();
    sink.epoch_end(Epoch(1)).expect("stored once the broker is back");
    reader.read_until("twenty rows", |reader| reader.count() == 20);
    assert_eq!(reader.sorted_ids(), (0..20).collect::<Vec<_>>());
    assert!(notices()[1].contains("answer again, after"), "{:?}", notices());
}

/// A broker that hangs keeps its connections open. Only a request shows that it does not answer.
#[test]
fn writers_report_a_broker_that_hangs_and_wait_for_it() {
    let broker = Broker::start();
    let outside = Outside::new(broker.servers());
    outside.create_topic("hung", 1);
    outside.create_topic("hung-exact", 1);
    let (host, exact_host) = (process(true, None), process(true, None));
    let mut loose = open_sink_at(table_at(broker.servers(), "hung", &[]), host.clone()).expect("sink");
    let mut exact =
        open_exact_at(table_at(broker.servers(), "hung-exact", &[]), "hung", exact_host.clone()).expect("sink");
    for sink in [&mut loose, &mut exact] {
        sink.write(&rows(0..10)).expect("written");
    }
    let prepared = exact.prepare_commit(Epoch(1)).expect("prepared").expect("rows");
    loose.epoch_end(Epoch(1)).expect("stored");
    let pause = broker.pause();
    loose.write(&rows(10..20)).expect("written while the broker hangs");
    let thread = |name: &str| std::thread::Builder::new().name(name.into());
    let storing = thread("store").spawn(move || loose.epoch_end(Epoch(2))).expect("thread");
    let committing = thread("commit").spawn(move || exact.commit(&prepared)).expect("thread");
    await_notice(&host, &format!("topic hung: no Kafka broker answers at {}", broker.servers()));
    await_notice(&exact_host, "topic hung-exact: requests to the Kafka brokers");
    drop(pause);
    storing.join().expect("no panic").expect("stored");
    committing.join().expect("no panic").expect("committed");
    await_notice(&host, "answer again, after");
    await_notice(&exact_host, "answer again, after");
    let ids = |topic: &str| {
        outside.settle(topic);
        Reader::read_to_end(table_at(broker.servers(), topic, &[BOUNDED]), 0, 1).sorted_ids()
    };
    assert_eq!(ids("hung"), (0..20).collect::<Vec<_>>());
    assert_eq!(ids("hung-exact"), (0..10).collect::<Vec<_>>());
}

#[test]
fn an_outage_that_lasts_ends_the_job() {
    let broker = Broker::start();
    let outside = Outside::new(broker.servers());
    outside.create_topic("lost", 1);
    outside.produce("lost", 0, &records(0..10));
    let options = [("connection.timeout", "2 s"), ("sink.delivery.timeout", "2 s"), ("properties.group.id", "lost")];
    let mut reader = Reader::open(table_at(broker.servers(), "lost", &options), 0, 1);
    let mut sink = open_sink(table_at(broker.servers(), "lost", &options), 0, 1).expect("sink");
    reader.read_until("ten rows", |reader| reader.count() == 10);
    broker.stop();
    reader.source.epoch_cut(Epoch(1)).expect("cut");
    reader.source.epoch_done(Epoch(1)).expect("done, although no broker stores the positions");
    let error = reader.read_until_error();
    assert!(error.contains(&format!("no Kafka broker has answered at {}", broker.servers())), "{error}");
    assert!(error.contains("'connection.timeout' says how long"), "{error}");
    sink.write(&rows(10..20)).expect("written while the broker is down");
    let error = sink.epoch_end(Epoch(1)).expect_err("nobody acknowledged").to_string();
    assert!(error.contains("topic lost") && error.contains("within 2 s"), "{error}");

    let clock = SystemClock::new();
    drop(reader);
    drop(sink);
    assert!(clock.now().0 < 60_000_000_000, "closing took {:?}", clock.now());
}

#[test]
fn a_position_that_retention_has_deleted_is_an_error() {
    let outside = Outside::shared();
    outside.create_topic("shortened", 1);
    outside.produce("shortened", 0, &records(0..5));
    let group = [("properties.group.id", "shortened"), ("scan.startup.mode", "group-offsets")];
    let mut reader = Reader::open(table("shortened", &group), 0, 1);
    reader.read_until("five rows", |reader| reader.count() == 5);
    reader.source.epoch_cut(Epoch(1)).expect("cut");
    reader.source.epoch_done(Epoch(1)).expect("done");
    drop(reader);
    outside.produce("shortened", 0, &records(5..10));
    outside.delete_records("shortened", 0, 7);
    let error = Reader::open(table("shortened", &group), 0, 1).read_until_error();
    assert!(error.contains("topic shortened partition 0: cannot be read any further"), "{error}");
    assert!(error.contains("'properties.auto.offset.reset' = 'earliest'"), "{error}");
    let lenient = [group[0], group[1], ("properties.auto.offset.reset", "earliest"), BOUNDED];
    assert_eq!(Reader::read_to_end(table("shortened", &lenient), 0, 1).sorted_ids(), [7, 8, 9]);
}
