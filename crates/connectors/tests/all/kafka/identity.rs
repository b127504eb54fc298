//! A topic that is deleted and created again is another one, whatever its name: none of its records is lost,
//! and none read twice.

use std::time::Duration;

use anabranch_model::{Clock as _, Error, ErrorKind, SystemClock};
use anabranch_operators::{Positions, Source};

use super::harness::{
    BOUNDED, Outside, PATIENCE, Reader, await_notice, open_source_from, process, records, table, table_like,
};

/// The error of what does not open.
fn error_of(opened: anabranch_model::Result<Box<dyn Source>>) -> Error {
    match opened {
        Ok(_) => panic!("it opened, which it should not have"),
        Err(error) => error,
    }
}

/// Reads all records of a new topic, and returns the positions after them.
fn read_all(outside: &Outside, topic: &str, count: i64) -> Positions {
    outside.create_topic(topic, 1);
    outside.produce(topic, 0, &records(0..count));
    let mut reader = Reader::open(table(topic, &[]), 0, 1);
    reader.read_until("all rows", |reader| reader.count() as i64 == count);
    reader.source.positions().expect("positions")
}

fn renew(outside: &Outside, topic: &str, records_of: std::ops::Range<i64>) {
    outside.delete_topic(topic);
    let clock = SystemClock::new();
    let deadline = clock.now().plus(PATIENCE);
    while outside.partitions(topic) > 0 {
        assert!(clock.now() < deadline, "topic {topic} stays");
        outside.producer.poll(Duration::from_millis(20));
    }
    outside.create_topic(topic, 1);
    outside.produce(topic, 0, &records(records_of));
}

#[test]
fn a_topic_that_was_created_anew_is_refused_and_both_remedies_read_all_of_it() {
    let outside = Outside::shared();
    let positions = read_all(&outside, "renewed.a", 100);
    renew(&outside, "renewed.a", 1000..1150);
    for startup in [&[][..], &[("scan.startup.mode", "latest-offset")]] {
        let error = error_of(open_source_from(table("renewed.a", startup), 0, 1, Some(&positions)));
        // A job does not try again by itself until the offset fits.
        assert_eq!(error.kind(), ErrorKind::User);
        let error = error.to_string();
        assert!(error.contains("topic 'renewed.a' at") && error.contains("was deleted and created again"), "{error}");
        // The first remedy: the words that the message has.
        let pattern = error.split_once("'topic-pattern' = '").and_then(|(_, rest)| rest.split_once('\''));
        let (pattern, rest) = pattern.expect("a pattern to write");
        assert_eq!(pattern, "renewed\\.a");
        let host = process(true, None);
        let mut reader = Reader::open_at_from(table_like(pattern, startup), host.clone(), Some(&positions));
        await_notice(&host, "created again: renewed.a; the job reads the new ones from their beginning");
        reader.read_until("all rows", |reader| reader.count() == 150);
        assert_eq!(reader.sorted_ids(), (1000..1150).collect::<Vec<_>>());
        // The other remedy.
        assert!(rest.contains("start the job without its checkpoints"), "{error}");
        assert_eq!(rest.contains("'scan.startup.mode' = 'earliest-offset'"), !startup.is_empty(), "{error}");
        let anew = [("scan.startup.mode", "earliest-offset"), BOUNDED];
        assert_eq!(Reader::read_to_end(table("renewed.a", &anew), 0, 1).count(), 150);
    }
}

/// The client reads on in the new topic without a word. No checkpoint may hold what it has read there.
#[test]
fn a_topic_that_is_replaced_between_two_looks_is_found_before_the_next_checkpoint() {
    let outside = Outside::shared();
    outside.create_topic("replaced", 1);
    outside.produce("replaced", 0, &records(0..100));
    let rarely = [("scan.topic-partition-discovery.interval", "1 h")];
    let mut reader = Reader::open(table("replaced", &rarely), 0, 1);
    reader.read_until("all rows", |reader| reader.count() == 100);
    reader.source.positions().expect("positions");
    renew(&outside, "replaced", 1000..1150);
    reader.read_until("records of the new topic", |reader| reader.count() > 100);
    let error = reader.source.positions().expect_err("another topic");
    assert_eq!(error.kind(), ErrorKind::User);
    assert!(error.to_string().contains("'replaced'"), "{error}");
}

#[test]
fn a_topic_that_is_replaced_ends_the_job_at_the_next_look() {
    let outside = Outside::shared();
    for (topic, connector) in [
        ("relooked-a", table("relooked-a", &[("scan.topic-partition-discovery.interval", "1 s")])),
        ("relooked-b", table_like("relooked-b.*", &[("scan.topic-partition-discovery.interval", "1 s")])),
    ] {
        outside.create_topic(topic, 1);
        outside.produce(topic, 0, &records(0..100));
        let mut reader = Reader::open(connector.clone(), 0, 1);
        reader.read_until("all rows", |reader| reader.count() == 100);
        let positions = reader.source.positions().expect("positions");
        renew(&outside, topic, 1000..1010);
        let error = reader.read_until_error();
        assert!(error.contains(topic), "{error}");
        drop(reader);
        if topic == "relooked-b" {
            // What the restarted job does.
            let mut again = Reader::open_from(connector, 0, 1, Some(&positions));
            again.read_until("the new records", |reader| reader.count() == 10);
            assert_eq!(again.sorted_ids(), (1000..1010).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_position_beyond_the_end_of_the_log_is_final() {
    let outside = Outside::shared();
    outside.create_topic("beyond", 1);
    outside.produce("beyond", 0, &records(0..10));
    let positions: Positions = [("beyond/0".to_owned(), "50".to_owned())].into();
    for reset in [&[][..], &[("properties.auto.offset.reset", "earliest")]] {
        let mut reader = Reader::open_from(table("beyond", reset), 0, 1, Some(&positions));
        let error = reader.read_until_error();
        assert!(error.contains("topic beyond partition 0: cannot be read any further"), "{error}");
        assert!(error.contains("the job is at offset 50, but the log ends at 10"), "{error}");
        assert!(error.contains("start the job without its checkpoints: it reads all existing records"), "{error}");
    }
    assert_eq!(Reader::read_to_end(table("beyond", &[BOUNDED]), 0, 1).count(), 10);
}

/// Brokers that gave no identities were upgraded since.
#[test]
fn positions_without_the_identity_of_their_topic_are_taken_once() {
    let outside = Outside::shared();
    read_all(&outside, "former", 10);
    let host = process(true, None);
    let positions: Positions = [("former/0".to_owned(), "4".to_owned())].into();
    let mut reader = Reader::open_at_from(table("former", &[]), host.clone(), Some(&positions));
    await_notice(&host, "positions in former without the identity of the topic");
    assert!(reader.source.positions().expect("positions")["former/0"].starts_with("4 topic-id "));
    reader.read_until("the rest", |reader| reader.count() == 6);
    let positions = reader.source.positions().expect("positions");
    let host = process(true, None);
    Reader::open_at_from(table("former", &[]), host.clone(), Some(&positions));
    assert!(host.notices.lock().unwrap().is_empty(), "{:?}", host.notices.lock().unwrap());
}
