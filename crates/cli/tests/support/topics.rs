//! Topics as another program writes and reads them: a plain client of the broker.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::Message;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

/// Nothing that works takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a topic.
pub(crate) fn create(servers: &str, topic: &str, partitions: i32) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    let admin: AdminClient<DefaultClientContext> = config.create().expect("a client");
    let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    let outcome = futures::executor::block_on(admin.create_topics([&new], &options)).expect("answered").remove(0);
    // A busy broker may create the topic and answer too late: then the client asks again.
    assert!(matches!(outcome, Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists))), "{outcome:?}");
    // The controller answers before its brokers know the topic.
    let count = || {
        let metadata = admin.inner().fetch_metadata(Some(topic), PATIENCE).expect("metadata");
        metadata.topics().first().map_or(0, |topic| topic.partitions().len())
    };
    let mut looks = 0;
    while count() < partitions as usize {
        looks += 1;
        assert!(looks < 3000, "topic {topic} does not get {partitions} partitions");
        anabranch_model::pause(Duration::from_millis(20));
    }
}

/// Everything that is visible in a topic, with how often.
pub(crate) fn records(servers: &str, topic: &str) -> BTreeMap<String, u32> {
    let mut records = BTreeMap::new();
    for record in in_order(servers, topic) {
        *records.entry(record.value.expect("a value")).or_default() += 1;
    }
    records
}

/// What a program reads of a topic.
pub(crate) struct Read {
    pub(crate) key: Option<String>,
    /// `None`: a tombstone.
    pub(crate) value: Option<String>,
}

/// Everything that is visible in a topic; of each partition in order.
pub(crate) fn in_order(servers: &str, topic: &str) -> Vec<Read> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("group.id", "independent").set("auto.offset.reset", "earliest");
    config.set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().expect("consumer");
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).expect("metadata");
    let mut open = metadata.topics()[0].partitions().len();
    let mut assigned = TopicPartitionList::new();
    (0..open).for_each(|partition| drop(assigned.add_partition_offset(topic, partition as i32, Offset::Beginning)));
    consumer.assign(&assigned).expect("assigned");
    let (mut records, mut silent) = (Vec::new(), 0);
    while open > 0 {
        match consumer.poll(Duration::from_millis(100)) {
            None => silent += 1,
            Some(Ok(message)) => {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
                records.push(Read { key: message.key().map(text), value: message.payload().map(text) });
            }
            Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => open -= 1,
            Some(Err(error)) => panic!("{error}"),
        }
        assert!(silent < 600, "the topic is not read to its end");
    }
    records
}
