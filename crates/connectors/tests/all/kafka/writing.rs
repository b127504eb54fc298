//! Writing: when an epoch has ended, the brokers have stored all its rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::kafka::UpsertKafkaConnector;
use anabranch_dataflow::{SinkSpec, weight_field};
use anabranch_model::Epoch;
use anabranch_operators::{Connector, Delivery, Former, TaskContext};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::Schema;
use rdkafka::mocking::MockCluster;

use super::harness::{
    BOUNDED, Outside, Reader, context, open_exact, open_sink, refusal, rows, schema, table, table_at,
};

#[test]
fn what_several_tasks_write_is_read_by_any_number() {
    let outside = Outside::shared();
    outside.create_topic("written", 4);
    let writers: Vec<_> = (0..3_u32)
        .map(|index| {
            let writer = std::thread::Builder::new().name(format!("writer-{index}"));
            let write = move || {
                let mut sink = open_sink(table("written", &[]), index, 3).expect("sink");
                let first = i64::from(index) * 10_000;
                for (epoch, start) in (1..).zip((first..first + 10_000).step_by(1000)) {
                    sink.write(&rows(start..start + 500)).expect("write");
                    sink.flush().expect("flush");
                    sink.write(&rows(start + 500..start + 1000)).expect("write");
                    sink.epoch_end(Epoch(epoch)).expect("epoch end");
                }
                sink.finish().expect("finish");
            };
            writer.spawn(write).expect("thread")
        })
        .collect();
    for writer in writers {
        writer.join().expect("writer");
    }
    for parallelism in 1..=3 {
        let mut ids = Vec::new();
        for index in 0..parallelism {
            ids.extend(Reader::read_to_end(table("written", &[BOUNDED]), index, parallelism).sorted_ids());
        }
        ids.sort_unstable();
        assert_eq!(ids, (0..30_000).collect::<Vec<_>>(), "parallelism {parallelism}");
    }
}

#[test]
fn an_ended_epoch_is_stored() {
    Outside::shared().create_topic("acknowledged", 2);
    let mut sink = open_sink(table("acknowledged", &[]), 0, 1).expect("sink");
    for epoch in 1..=5 {
        let first = (i64::try_from(epoch).expect("small") - 1) * 10;
        sink.write(&rows(first..first + 10)).expect("write");
        sink.epoch_end(Epoch(epoch)).expect("epoch end");
        let reader = Reader::read_to_end(table("acknowledged", &[BOUNDED]), 0, 1);
        assert_eq!(reader.sorted_ids(), (0..first + 10).collect::<Vec<_>>());
    }
}

#[test]
fn rows_of_one_key_stay_in_one_partition_and_in_order() {
    Outside::shared().create_topic("keyed", 4);
    let mut sink = open_sink(table("keyed", &[("key.fields", "name")]), 0, 1).expect("sink");
    for _ in 0..3 {
        sink.write(&rows(0..50)).expect("write");
    }
    sink.epoch_end(Epoch(1)).expect("epoch end");
    let reader = Reader::read_to_end(table("keyed", &[BOUNDED]), 0, 1);
    let mut partition_of = BTreeMap::new();
    for (partition, ids) in &reader.ids {
        let mut seen = BTreeMap::<i64, usize>::new();
        for id in ids {
            assert_eq!(*partition_of.entry(*id).or_insert(*partition), *partition, "row {id} is in two partitions");
            *seen.entry(*id).or_default() += 1;
        }
        assert!(seen.values().all(|count| *count == 3), "{partition:?}: {seen:?}");
    }
    assert_eq!(partition_of.len(), 50);
    assert_eq!(partition_of.values().collect::<BTreeSet<_>>().len(), 4, "50 keys should reach 4 partitions");
}

#[test]
fn rows_without_a_key_are_written_without_one() {
    let outside = Outside::shared();
    outside.create_topic("keyless", 1);
    let names = StringViewArray::from(vec![Some("a"), None, Some("")]);
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..3)), Arc::new(names)];
    let rows = RecordBatch::try_new(schema(), columns).expect("rows");
    let options = [("key.fields", "name")];
    let mut sink = open_sink(table("keyless", &options), 0, 1).expect("sink");
    sink.write(&rows).expect("write");
    sink.finish().expect("finish");
    let mut exact = open_exact(table("keyless", &options), 0, 1, "keyless").expect("sink");
    exact.write(&rows).expect("write");
    let committable = exact.prepare_commit(Epoch(1)).expect("prepare").expect("rows");
    exact.commit(&committable).expect("commit");
    let some = |key: &str| Some(key.as_bytes().to_vec());
    let keys = [some("a"), None, some("")];
    assert_eq!(outside.keys("keyless", 6), [keys.clone(), keys].concat());
}

#[test]
fn partitioners_do_as_they_say() {
    let outside = Outside::shared();
    for (partitioner, expected) in [("fixed", vec![0, 0, 40]), ("round-robin", vec![13, 13, 14])] {
        let topic = format!("partitioned-{partitioner}");
        outside.create_topic(&topic, 3);
        let mut sink = open_sink(table(&topic, &[("sink.partitioner", partitioner)]), 2, 3).expect("sink");
        sink.write(&rows(0..40)).expect("write");
        sink.finish().expect("finish");
        let reader = Reader::read_to_end(table(&topic, &[BOUNDED]), 0, 1);
        let mut counts: Vec<_> =
            (0..3).map(|p| reader.ids.get(&anabranch_model::PartitionId(p)).map_or(0, Vec::len)).collect();
        if partitioner == "round-robin" {
            counts.sort_unstable();
        }
        assert_eq!(counts, expected, "{partitioner}");
    }
}

/// The client's thread of a broker must wait for the broker's answer, not look for it without a pause.
#[test]
fn a_slow_broker_costs_no_processor_time() {
    // The threads of other tests have the names of other brokers.
    const BROKER: i32 = 7;
    let cluster = MockCluster::new(BROKER).expect("brokers in this process");
    cluster.create_topic("slow", 1, 1).expect("topic");
    cluster.partition_leader("slow", 0, Some(BROKER)).expect("leader");
    let mut sink = open_sink(table_at(&cluster.bootstrap_servers(), "slow", &[]), 0, 1).expect("sink");
    sink.write(&rows(0..100)).expect("write");
    sink.epoch_end(Epoch(1)).expect("epoch end");
    cluster.broker_round_trip_time(BROKER, Duration::from_secs(2)).expect("delay");
    // A request is under way, and further rows come.
    for first in (0..1000).step_by(100) {
        sink.write(&rows(first..first + 100)).expect("write");
        anabranch_model::pause(Duration::from_millis(10));
    }
    let before = processor_time(BROKER);
    sink.epoch_end(Epoch(2)).expect("epoch end");
    let took = processor_time(BROKER) - before;
    assert!(
        took < Duration::from_millis(300),
        "while the sink waited for 2 s, the client took {took:?} of a processor"
    );
}

/// Processor time of the clients' threads of this broker.
fn processor_time(broker: i32) -> Duration {
    let name = format!("rdk:broker{broker}");
    let mut total = 0;
    for thread in std::fs::read_dir("/proc/self/task").expect("threads").flatten().map(|thread| thread.path()) {
        let read = |file| std::fs::read_to_string(thread.join(file)).unwrap_or_default();
        if read("comm").trim() == name {
            let times = read("schedstat");
            total += times.split_whitespace().next().and_then(|time| time.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Duration::from_nanos(total)
}

#[test]
fn a_missing_topic_is_created_once_by_several_tasks() {
    let sinks: Vec<_> = (0..3)
        .map(|index| open_sink(table("created", &[("sink.topic.partitions", "3")]), index, 3).expect("sink"))
        .collect();
    assert_eq!(sinks.len(), 3);
    assert_eq!(Outside::shared().partitions("created"), 3);
    drop(open_sink(table("created-plain", &[]), 0, 1).expect("sink"));
    assert_eq!(Outside::shared().partitions("created-plain"), 1, "the broker's default");
}

#[test]
fn wrong_keys_and_several_topics_are_refused() {
    let refused = |topic: &str, extra: &[(&str, &str)]| refusal(open_sink(table(topic, extra), 0, 1));
    let error = refused("created", &[("key.fields", "nme")]);
    assert!(error.contains("'nme'") && error.contains("columns: id, name"), "{error}");
    let error = refused("created", &[("key.fields", "id;name")]);
    assert!(error.contains("'key.format' = 'json'"), "{error}");
    let error = refused("a;b", &[]);
    assert!(error.contains("one topic, not 2"), "{error}");
}

#[test]
fn a_topic_of_versions_has_the_latest_of_each_batch_and_tombstones() {
    let outside = Outside::shared();
    outside.create_topic("versions", 1);
    let updates = |rows: &[(i64, &str, i64)]| {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|(id, ..)| *id).collect::<Int64Array>()),
            Arc::new(StringViewArray::from_iter_values(rows.iter().map(|(_, name, _)| *name))),
            Arc::new(rows.iter().map(|(.., weight)| *weight).collect::<Int64Array>()),
        ];
        let fields = schema().fields().iter().map(|f| f.as_ref().clone()).chain([weight_field()]).collect::<Vec<_>>();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("rows")
    };
    let open = |extra: &[(&str, &str)], delivery: Delivery| {
        let options = [&[("key.format", "json"), ("value.format", "json")], extra].concat();
        let mut connector = table("versions", &options);
        connector.options.remove("format");
        let spec = SinkSpec { key: vec![0], updating: true, ..SinkSpec::new("versions", connector, schema()) };
        UpsertKafkaConnector.sink(&spec, &TaskContext { delivery, ..context(0, 1) }).expect("sink")
    };
    let mut sink = open(&[], Delivery::AtLeastOnce);
    sink.write(&updates(&[(1, "a", 1), (2, "b", 1), (1, "a", -1), (1, "c", 1)])).expect("write");
    sink.write(&updates(&[(2, "b", -1)])).expect("write");
    sink.finish().expect("finish");
    let exactly = Delivery::ExactlyOnce { scope: "versions".into(), former: Former::default() };
    let mut sink = open(&[("value.fields-include", "EXCEPT_KEY")], exactly);
    sink.write(&updates(&[(3, "d", 1), (1, "c", -1)])).expect("write");
    let committable = sink.prepare_commit(Epoch(1)).expect("prepare").expect("rows");
    sink.commit(&committable).expect("commit");
    let text = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8(bytes).expect("text"));
    let mut records: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    for (key, value) in outside.records("versions", 5) {
        records.entry(text(key).expect("a key")).or_default().push(text(value));
    }
    let some = |value: &str| Some(value.to_owned());
    let expected = [
        (r#"{"id":1}"#, vec![some(r#"{"id":1,"name":"c"}"#), None]),
        (r#"{"id":2}"#, vec![some(r#"{"id":2,"name":"b"}"#), None]),
        (r#"{"id":3}"#, vec![some(r#"{"name":"d"}"#)]),
    ];
    assert_eq!(records, expected.map(|(key, values)| (key.to_owned(), values)).into());
}
