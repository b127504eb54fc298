//! The suite that every connector passes.

use anabranch_connectors::kafka::KafkaConnector;
use anabranch_dataflow::ConnectorSpec;
use anabranch_operators::Connector;

use super::harness::{BOUNDED, Outside};
use crate::broker;
use crate::rows::{batches, schema};
use crate::suite::commit::{CommitCase, check_commits};
use crate::suite::{
    SourceCase, check_malformed, check_sink, check_source, check_waits, context, drain, row_texts, source_spec, write,
};

fn table(topic: &str, extra: &[(&str, &str)]) -> ConnectorSpec {
    let servers = broker::shared().servers();
    let patient = ("connection.timeout", "300 s");
    let base = [("topic", topic), ("properties.bootstrap.servers", servers), BOUNDED, patient];
    ConnectorSpec::new("kafka", &[&base, extra].concat())
}

const FORMATS: [(&str, &str); 2] = [("format", "json"), ("format", "csv")];

#[test]
fn what_is_written_can_be_read() {
    for format in FORMATS {
        let at = |parallelism: u32| {
            table(&format!("conformance-{}-{parallelism}", format.1), &[format, ("sink.topic.partitions", "2")])
        };
        let read = |parallelism: u32| {
            let drained = drain(&KafkaConnector, &at(parallelism), &schema(), &[0, 1, 2, 3, 4], 2);
            assert_eq!(drained.malformed, []);
            drained.sorted()
        };
        check_sink(&KafkaConnector, &at, &batches(), &read);
    }
}

#[test]
fn results_are_visible_once_and_with_their_checkpoint() {
    for partitioner in ["default", "round-robin"] {
        let topic = format!("conformance-exact-{partitioner}");
        let options = [("format", "json"), ("sink.topic.partitions", "3"), ("sink.partitioner", partitioner)];
        let table = table(&topic, &options);
        check_commits(&CommitCase {
            connector: &KafkaConnector,
            spec: table.clone(),
            scope: "job-1",
            batches: batches(),
            read: &|| {
                Outside::shared().settle(&topic);
                drain(&KafkaConnector, &table, &schema(), &[0, 1, 2, 3, 4], 2).sorted()
            },
        });
    }
}

#[test]
fn any_columns_are_read_by_any_parallelism() {
    let options = [("format", "json"), ("sink.topic.partitions", "3"), ("sink.partitioner", "round-robin")];
    let table = table("conformance-source", &options);
    write(&KafkaConnector, &table, &batches(), 1);
    let rows: Vec<_> = batches().iter().flat_map(row_texts).collect();
    check_source(&SourceCase {
        connector: &KafkaConnector,
        spec: table,
        columns: schema(),
        row_count: rows.len(),
        rows: Some(rows),
        ascending: Some("id"),
    });
}

#[test]
fn damaged_records_harm_no_others() {
    let topic = "conformance-malformed";
    Outside::shared().create_topic(topic, 2);
    let table = table(topic, &[("format", "json")]);
    write(&KafkaConnector, &table, &[crate::rows::batch(0, 10)], 1);
    // Both partitions may hold rows of their own: the places are those after them.
    let ends = drain(&KafkaConnector, &table, &schema(), &[0], 1).partitions;
    let end = |partition: u32| ends.get(&partition).map_or(0, Vec::len);
    Outside::shared().produce(topic, 0, &[Some("{".into()), Some(String::new())]);
    Outside::shared().produce(topic, 1, &[None]);
    let places = [(0, end(0)), (0, end(0) + 1), (1, end(1))]
        .map(|(partition, offset)| format!("topic {topic} partition {partition} offset {offset}"));
    let case = SourceCase {
        connector: &KafkaConnector,
        spec: table,
        columns: schema(),
        row_count: 10,
        rows: None,
        ascending: None,
    };
    check_malformed(&case, &places.each_ref().map(String::as_str));
}

#[test]
fn a_quiet_topic_is_waited_for() {
    Outside::shared().create_topic("conformance-quiet", 1);
    let mut table = table("conformance-quiet", &[("format", "json")]);
    table.options.remove(BOUNDED.0);
    let reader = source_spec(&table, &schema(), &[0]);
    let mut source = KafkaConnector.source(&reader, &context(0, 1), None).expect("source");
    check_waits(source.as_mut());
}
