//! Reading: every record once, in its partition's order, by the task that owns the partition.

use std::collections::BTreeSet;

use anabranch_model::PartitionId;

use super::harness::{
    BOUNDED, Outside, Reader, await_notice, open_source, open_source_from, process, records, refusal, table, table_like,
};

#[test]
fn any_parallelism_reads_every_partition_once_and_in_order() {
    let outside = Outside::shared();
    outside.create_topic("spread", 5);
    for partition in 0..5 {
        let first = i64::from(partition) * 1000;
        outside.produce("spread", partition, &records(first..first + 1000));
    }
    for parallelism in [1, 2, 3, 7] {
        let mut partitions = BTreeSet::new();
        for index in 0..parallelism {
            let reader = Reader::read_to_end(table("spread", &[BOUNDED]), index, parallelism);
            for (partition, ids) in reader.ids {
                assert_eq!(partition.0 % parallelism, index, "task {index} of {parallelism} read {partition:?}");
                let first = i64::from(partition.0) * 1000;
                assert_eq!(ids, (first..first + 1000).collect::<Vec<_>>());
                assert!(partitions.insert(partition));
            }
            assert_eq!(reader.opened.len(), reader.closed.len());
        }
        assert_eq!(partitions.len(), 5, "parallelism {parallelism}");
    }
}

#[test]
fn a_bounded_table_ends_where_the_topic_ended_at_the_start() {
    let outside = Outside::shared();
    outside.create_topic("bounded", 2);
    outside.produce("bounded", 0, &records(0..100));
    let mut reader = Reader::open(table("bounded", &[BOUNDED]), 0, 1);
    outside.produce("bounded", 0, &records(100..200));
    outside.produce("bounded", 1, &records(200..300));
    reader.read_until("the end", |reader| reader.ended);
    assert_eq!(reader.sorted_ids(), (0..100).collect::<Vec<_>>());
    assert_eq!(reader.closed.len(), 2, "a partition that was empty ends too");
    reader.poll().expect("the end stays the end");
}

#[test]
fn the_lag_is_what_the_topic_has_and_was_not_read() {
    let outside = Outside::shared();
    outside.create_topic("lag", 2);
    outside.produce("lag", 0, &records(0..100));
    let mut reader = Reader::open(table("lag", &[]), 0, 1);
    reader.read_until("no lag", |reader| reader.count() == 100 && reader.source.lag_rows() == Some(0));
    outside.produce("lag", 1, &records(100..107));
    // The client hears of them before anybody polls.
    let (_never, pause) = std::sync::mpsc::channel::<()>();
    for _ in 0..600 {
        if reader.source.lag_rows() == Some(7) {
            break;
        }
        let _ = pause.recv_timeout(std::time::Duration::from_millis(50));
    }
    assert_eq!(reader.source.lag_rows(), Some(7));
    reader.read_until("no lag", |reader| reader.count() == 107 && reader.source.lag_rows() == Some(0));
}

#[test]
fn several_topics_are_one_table() {
    let outside = Outside::shared();
    outside.create_topic("left", 2);
    outside.create_topic("right", 1);
    outside.produce("left", 1, &records(0..10));
    outside.produce("right", 0, &records(10..20));
    let mut ids = Vec::new();
    for index in 0..2 {
        let reader = Reader::read_to_end(table("right;left", &[BOUNDED]), index, 2);
        assert!(!reader.opened.is_empty(), "task {index} has nothing to read");
        ids.extend(reader.sorted_ids());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..20).collect::<Vec<_>>());
}

#[test]
fn reading_starts_where_the_table_says() {
    let outside = Outside::shared();
    outside.create_topic("startup", 1);
    outside.produce("startup", 0, &records(0..10));
    let mut latest = Reader::open(table("startup", &[("scan.startup.mode", "latest-offset")]), 0, 1);
    // Written after the reader was opened and before its first poll.
    outside.produce("startup", 0, &records(10..20));
    latest.read_until("what is new", |reader| reader.count() >= 10);
    assert_eq!(latest.sorted_ids(), (10..20).collect::<Vec<_>>());

    let from = |ms: &str| {
        let options = [BOUNDED, ("scan.startup.mode", "timestamp"), ("scan.startup.timestamp-millis", ms)];
        Reader::read_to_end(table("startup", &options), 0, 1).count()
    };
    assert_eq!(from("1"), 20);
    assert_eq!(from("4102444800000"), 0, "nothing was written in 2100");
}

#[test]
fn new_partitions_are_noticed_and_read_from_their_beginning() {
    let outside = Outside::shared();
    outside.create_topic("growing", 1);
    outside.produce("growing", 0, &records(0..10));
    let options = [("scan.topic-partition-discovery.interval", "200 ms"), ("scan.startup.mode", "latest-offset")];
    let mut readers = [0, 1].map(|index| Reader::open(table("growing", &options), index, 2));
    outside.grow_topic("growing", 4);
    for partition in 1..4 {
        let first = i64::from(partition) * 100;
        outside.produce("growing", partition, &records(first..first + 5));
    }
    readers[0].read_until("partition 2", |reader| reader.count() >= 5);
    readers[1].read_until("partitions 1 and 3", |reader| reader.count() >= 10);
    assert_eq!(readers[0].sorted_ids(), (200..205).collect::<Vec<_>>());
    assert_eq!(readers[1].sorted_ids(), (100..105).chain(300..305).collect::<Vec<_>>());
    assert_eq!(readers[1].opened, [PartitionId(1), PartitionId(3)]);
}

#[test]
fn all_topics_that_match_are_one_table() {
    let outside = Outside::shared();
    for (n, (topic, partitions)) in
        [("like-a", 3), ("like-b", 1), ("like-c1", 2), ("unlike-a", 1), ("like-d", 1)].into_iter().enumerate()
    {
        outside.create_topic(topic, partitions);
        for partition in 0..partitions {
            let first = n as i64 * 100 + i64::from(partition) * 10;
            outside.produce(topic, partition, &records(first..first + 10));
        }
    }
    for parallelism in [1, 2, 5] {
        let mut ids = Vec::new();
        for index in 0..parallelism {
            ids.extend(
                Reader::read_to_end(table_like("like-[ab]|like-c.*", &[BOUNDED]), index, parallelism).sorted_ids(),
            );
        }
        ids.sort_unstable();
        assert_eq!(ids, (0..30).chain(100..110).chain(200..220).collect::<Vec<_>>(), "parallelism {parallelism}");
    }
    let error = refusal(open_source(table_like("like-e.*", &[BOUNDED]), 0, 1));
    assert!(error.contains("there are no topics like 'like-e.*'"), "{error}");
}

#[test]
fn new_topics_that_match_are_read_from_their_beginning_and_lost_ones_left_out_after_a_restart() {
    let outside = Outside::shared();
    let options = [("scan.topic-partition-discovery.interval", "200 ms"), ("connection.timeout", "2 s")];
    let spec = || table_like("coming-.*", &[options[0], options[1], ("scan.startup.mode", "latest-offset")]);
    let host = process(true, None);
    let mut first = Reader::open_at(spec(), host.clone());
    await_notice(&host, "there are no topics like 'coming-.*'");
    let read = |reader: &mut Reader, ids: std::ops::Range<i64>| {
        reader.read_until("what was written", |reader| reader.count() as i64 >= ids.end - ids.start);
        assert_eq!(reader.sorted_ids(), ids.collect::<Vec<_>>());
    };
    outside.create_topic("coming-b", 2);
    outside.produce("coming-b", 1, &records(0..10));
    read(&mut first, 0..10);
    outside.create_topic("coming-a", 1);
    outside.produce("coming-a", 0, &records(10..20));
    read(&mut first, 0..20);
    let positions = first.source.positions().expect("positions");
    assert!(positions.get("coming-a/0").is_some_and(|position| position.starts_with("10 topic-id ")), "{positions:?}");
    drop(first);
    // A task that is placed again while the job runs knows what was found since the start.
    let mut moved = Reader::open_at_from(spec(), host.clone(), Some(&positions));
    outside.produce("coming-a", 0, &records(20..21));
    read(&mut moved, 20..21);
    let positions = moved.source.positions().expect("positions");
    drop(moved);
    // Whichever of two tasks reads a topic, it goes on there. One that ends has the topics of its start.
    outside.create_topic("coming-c", 1);
    outside.produce("coming-c", 0, &records(21..25));
    outside.produce("coming-b", 0, &records(25..30));
    let mut ids = Vec::new();
    for index in 0..2 {
        let mut spec = spec();
        spec.options.insert("scan.bounded.mode".into(), "latest-offset".into());
        let mut reader = Reader::open_from(spec, index, 2, Some(&positions));
        reader.read_until("the end", |reader| reader.ended);
        ids.extend(reader.sorted_ids());
    }
    ids.sort_unstable();
    assert_eq!(ids, (25..30).collect::<Vec<_>>());
    let mut last = Reader::open_from(spec(), 0, 1, Some(&positions));
    read(&mut last, 21..30);
    let positions = last.source.positions().expect("positions");
    outside.delete_topic("coming-b");
    let error = last.read_until_error();
    assert!(error.contains("coming-b") && error.contains("restart the job"), "{error}");
    drop(last);
    let mut rest = Reader::open_at_from(spec(), host.clone(), Some(&positions));
    await_notice(&host, "coming-b; the job continues without them");
    let kept = |name: &str| positions.get(name).cloned();
    assert_eq!(rest.source.positions().expect("positions").get("coming-b/1").cloned(), kept("coming-b/1"));
    outside.produce("coming-a", 0, &records(30..33));
    read(&mut rest, 30..33);
    // A topic of the same name is a new one, and is read from its beginning.
    outside.create_topic("coming-b", 1);
    outside.produce("coming-b", 0, &records(33..36));
    read(&mut rest, 30..36);
    let positions = rest.source.positions().expect("positions");
    assert!(positions.get("coming-b/0").is_some_and(|position| position.starts_with("3 topic-id ")), "{positions:?}");
    assert_eq!(positions.get("coming-b/1"), None, "the new topic has no such partition");
    let other = table_like("going-.*", &[]);
    let error = refusal(open_source_from(other, 0, 1, Some(&positions)));
    assert!(error.contains("it has topics like 'going-.*'"), "{error}");
}

#[test]
fn malformed_records_are_reported_with_their_places() {
    let outside = Outside::shared();
    outside.create_topic("malformed", 2);
    let mut mixed = records(0..3);
    mixed.insert(1, Some(r#"{"id": "many"}"#.into()));
    mixed.push(None);
    outside.produce("malformed", 1, &mixed);
    let reader = Reader::read_to_end(table("malformed", &[BOUNDED]), 0, 1);
    assert_eq!(reader.sorted_ids(), [0, 1, 2]);
    let places: Vec<_> = reader.malformed.iter().map(|m| m.place.as_str()).collect();
    assert_eq!(places, ["topic malformed partition 1 offset 1", "topic malformed partition 1 offset 4"]);
    assert_eq!(reader.malformed[0].record, br#"{"id": "many"}"#);
    assert!(reader.malformed[1].error.contains("tombstone"), "{:?}", reader.malformed[1]);
}
