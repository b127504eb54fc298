//! Shared by the tests: tables of two columns, readers with a deadline, and a plain client of the broker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_connectors::kafka::KafkaConnector;
use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec};
use anabranch_model::{Clock, Epoch, Nanos, PartitionId, Result, SystemClock};
use anabranch_operators::testing::{self, TestHost};
use anabranch_operators::{Connector, Delivery, Former, Malformed, Polled, Positions, Sink, Source, TaskContext};
use arrow::array::{AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication, TopicResult};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Message};

use crate::broker;

/// Of a record.
pub(crate) type KeyAndValue = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Nothing that works takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// `id BIGINT, name STRING`.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("name", DataType::Utf8View, true)]))
}

/// The options of a table of the shared broker.
pub(crate) fn table(topic: &str, extra: &[(&str, &str)]) -> ConnectorSpec {
    table_at(broker::shared().servers(), topic, extra)
}

pub(crate) fn table_at(servers: &str, topic: &str, extra: &[(&str, &str)]) -> ConnectorSpec {
    // A busy machine starts a broker in more than the default times.
    let base = [
        ("topic", topic),
        ("properties.bootstrap.servers", servers),
        ("format", "json"),
        ("connection.timeout", "300 s"),
        ("sink.delivery.timeout", "300 s"),
    ];
    ConnectorSpec::new("kafka", &[&base, extra].concat())
}

/// A table of all topics that match.
pub(crate) fn table_like(pattern: &str, extra: &[(&str, &str)]) -> ConnectorSpec {
    let mut table = table("", extra);
    table.options.remove("topic");
    table.options.insert("topic-pattern".into(), pattern.into());
    table
}

pub(crate) fn context(index: u32, parallelism: u32) -> TaskContext {
    testing::context(index, parallelism, 500)
}

pub(crate) fn open_source(connector: ConnectorSpec, index: u32, parallelism: u32) -> Result<Box<dyn Source>> {
    open_source_from(connector, index, parallelism, None)
}

/// Opens a reader that resumes from these positions.
pub(crate) fn open_source_from(
    connector: ConnectorSpec,
    index: u32,
    parallelism: u32,
    from: Option<&Positions>,
) -> Result<Box<dyn Source>> {
    KafkaConnector.source(&source_spec(connector), &context(index, parallelism), from)
}

pub(crate) fn source_spec(connector: ConnectorSpec) -> SourceSpec {
    SourceSpec::new("events", connector, schema())
}

pub(crate) fn open_sink(connector: ConnectorSpec, index: u32, parallelism: u32) -> Result<Box<dyn Sink>> {
    let spec = SinkSpec::new("results", connector, schema());
    KafkaConnector.sink(&spec, &context(index, parallelism))
}

/// Reads a bounded table to its end: its batches, and how many records were malformed.
pub(crate) fn read_to_end(spec: &SourceSpec) -> (Vec<RecordBatch>, usize) {
    let mut source = KafkaConnector.source(spec, &context(0, 1), None).unwrap();
    let (clock, mut batches, mut malformed) = (SystemClock::new(), Vec::new(), 0);
    let deadline = clock.now().plus(PATIENCE);
    loop {
        assert!(clock.now() < deadline, "waited in vain for the end");
        match source.poll(Duration::from_millis(50)).unwrap() {
            Polled::Rows(rows) => {
                malformed += rows.malformed.len();
                batches.push(rows.batch);
            }
            Polled::End => return (batches, malformed),
            _ => {}
        }
    }
}

/// Opens a writer that writes exactly once.
pub(crate) fn open_exact(connector: ConnectorSpec, index: u32, parallelism: u32, scope: &str) -> Result<Box<dyn Sink>> {
    let spec = SinkSpec::new("results", connector, schema());
    let delivery = Delivery::ExactlyOnce { scope: scope.into(), former: Former::default() };
    KafkaConnector.sink(&spec, &TaskContext { delivery, ..context(index, parallelism) })
}

/// The host of one process among several.
pub(crate) fn process(is_owner: bool, resumed_after: Option<u64>) -> Arc<TestHost> {
    Arc::new(TestHost { is_owner, resumed_after: resumed_after.map(Epoch), ..TestHost::default() })
}

/// Waits until a notice has these words.
pub(crate) fn await_notice(host: &TestHost, words: &str) {
    let clock = SystemClock::new();
    let deadline = deadline(&clock);
    while !host.notices.lock().unwrap().iter().any(|notice| notice.contains(words)) {
        assert!(clock.now() < deadline, "no notice '{words}': {:?}", host.notices.lock().unwrap());
        anabranch_model::pause(Duration::from_millis(20));
    }
}

/// Opens the only writer of a table in this place, which writes at least once.
pub(crate) fn open_sink_at(connector: ConnectorSpec, host: Arc<TestHost>) -> Result<Box<dyn Sink>> {
    let spec = SinkSpec::new("results", connector, schema());
    KafkaConnector.sink(&spec, &TaskContext { host, ..context(0, 1) })
}

/// Opens the only writer of a table in this place, which writes exactly once.
pub(crate) fn open_exact_at(connector: ConnectorSpec, scope: &str, host: Arc<TestHost>) -> Result<Box<dyn Sink>> {
    open_renamed(connector, scope, Former::default(), host)
}

/// Opens a writer that had other scopes before.
pub(crate) fn open_renamed(
    connector: ConnectorSpec,
    scope: &str,
    former: Former,
    host: Arc<TestHost>,
) -> Result<Box<dyn Sink>> {
    let spec = SinkSpec::new("results", connector, schema());
    let delivery = Delivery::ExactlyOnce { scope: scope.into(), former };
    KafkaConnector.sink(&spec, &TaskContext { delivery, host, ..context(0, 1) })
}

/// The message of the error with which opening fails.
pub(crate) fn refusal<T>(opened: Result<T>) -> String {
    match opened {
        Ok(_) => panic!("it opened, which it should not have"),
        Err(error) => error.to_string(),
    }
}

/// Rows with these identifiers; the name of row 7 is `row 7`.
pub(crate) fn rows(ids: impl Iterator<Item = i64> + Clone) -> RecordBatch {
    let names = StringViewArray::from_iter_values(ids.clone().map(|id| format!("row {id}")));
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(ids)), Arc::new(names)]).expect("rows")
}

/// The same rows as raw records.
pub(crate) fn records(ids: impl Iterator<Item = i64>) -> Vec<Option<String>> {
    ids.map(|id| Some(format!(r#"{{"id":{id},"name":"row {id}"}}"#))).collect()
}

/// A reader and what it has read.
pub(crate) struct Reader {
    pub(crate) source: Box<dyn Source>,
    clock: SystemClock,
    pub(crate) opened: Vec<PartitionId>,
    pub(crate) closed: Vec<PartitionId>,
    /// Identifiers in the order of reading.
    pub(crate) ids: BTreeMap<PartitionId, Vec<i64>>,
    pub(crate) malformed: Vec<Malformed>,
    pub(crate) ended: bool,
}

impl Reader {
    pub(crate) fn open(connector: ConnectorSpec, index: u32, parallelism: u32) -> Reader {
        Reader::open_from(connector, index, parallelism, None)
    }

    pub(crate) fn open_from(
        connector: ConnectorSpec,
        index: u32,
        parallelism: u32,
        from: Option<&Positions>,
    ) -> Reader {
        let source = open_source_from(connector, index, parallelism, from).unwrap_or_else(|error| panic!("{error}"));
        Reader::of(source)
    }

    /// The only reader of a table in this place.
    pub(crate) fn open_at(connector: ConnectorSpec, host: Arc<TestHost>) -> Reader {
        Reader::open_at_from(connector, host, None)
    }

    /// The same, from these positions.
    pub(crate) fn open_at_from(connector: ConnectorSpec, host: Arc<TestHost>, from: Option<&Positions>) -> Reader {
        let context = TaskContext { host, ..context(0, 1) };
        Reader::of(KafkaConnector.source(&source_spec(connector), &context, from).expect("source"))
    }

    fn of(source: Box<dyn Source>) -> Reader {
        Reader {
            source,
            clock: SystemClock::new(),
            opened: Vec::new(),
            closed: Vec::new(),
            ids: BTreeMap::new(),
            malformed: Vec::new(),
            ended: false,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.ids.values().map(Vec::len).sum()
    }

    /// All identifiers, ascending.
    pub(crate) fn sorted_ids(&self) -> Vec<i64> {
        let mut ids: Vec<_> = self.ids.values().flatten().copied().collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn poll(&mut self) -> Result<()> {
        match self.source.poll(Duration::from_millis(50))? {
            Polled::Opened { partition, .. } => self.opened.push(partition),
            Polled::Closed(partition) => self.closed.push(partition),
            Polled::Pending => {}
            Polled::End => self.ended = true,
            Polled::Rows(rows) => {
                assert!(self.opened.contains(&rows.partition), "rows of {:?} before it was opened", rows.partition);
                assert!(!self.closed.contains(&rows.partition), "rows of {:?} after it was closed", rows.partition);
                let (ids, names) = (rows.batch.column(0).as_primitive::<Int64Type>(), rows.batch.column(1));
                let names = names.as_string_view();
                for (id, name) in ids.values().iter().zip(names.iter()) {
                    assert_eq!(name, Some(format!("row {id}").as_str()));
                }
                self.ids.entry(rows.partition).or_default().extend(ids.values());
                self.malformed.extend(rows.malformed);
            }
        }
        Ok(())
    }

    /// Polls until `enough` holds, and fails at the deadline.
    pub(crate) fn read_until(&mut self, what: &str, enough: impl Fn(&Reader) -> bool) {
        let deadline = deadline(&self.clock);
        while !enough(self) {
            self.poll().unwrap_or_else(|error| panic!("while waiting for {what}: {error}"));
            assert!(self.clock.now() < deadline, "waited in vain for {what}; read {} rows", self.count());
        }
    }

    /// Polls until it fails, and returns the error.
    pub(crate) fn read_until_error(&mut self) -> String {
        let deadline = deadline(&self.clock);
        loop {
            if let Err(error) = self.poll() {
                return error.to_string();
            }
            assert!(self.clock.now() < deadline, "waited in vain for an error");
        }
    }

    /// Reads a bounded table to its end.
    pub(crate) fn read_to_end(connector: ConnectorSpec, index: u32, parallelism: u32) -> Reader {
        let mut reader = Reader::open(connector, index, parallelism);
        reader.read_until("the end", |reader| reader.ended);
        reader
    }
}

fn deadline(clock: &SystemClock) -> Nanos {
    clock.now().plus(PATIENCE)
}

pub(crate) const BOUNDED: (&str, &str) = ("scan.bounded.mode", "latest-offset");

/// Topics that tests of this process have created, with their brokers.
static CREATED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A client of the broker that shares no code with the connector.
pub(crate) struct Outside {
    config: ClientConfig,
    pub(crate) producer: BaseProducer,
}

impl Outside {
    pub(crate) fn new(servers: &str) -> Outside {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", servers).set("linger.ms", "1");
        let producer = config.create().expect("producer");
        Outside { config, producer }
    }

    pub(crate) fn shared() -> Outside {
        Outside::new(broker::shared().servers())
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config.create().expect("admin client")
    }

    pub(crate) fn create_topic(&self, topic: &str, partitions: i32) {
        let servers = self.config.get("bootstrap.servers").expect("servers");
        let is_new = CREATED.lock().unwrap().insert(format!("{servers}/{topic}"));
        assert!(is_new, "two tests use the topic {topic}");
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let outcomes = block_on(self.admin().create_topics([&new], &AdminOptions::new())).expect("create topic");
        // A busy broker may create the topic and answer too late. Then the client repeats the request, and
        // the name is taken.
        let is_there =
            |outcome: &TopicResult| matches!(outcome, Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)));
        assert!(outcomes.iter().all(is_there), "{outcomes:?}");
        self.await_partitions(topic, usize::try_from(partitions).expect("partitions"));
    }

    pub(crate) fn grow_topic(&self, topic: &str, partitions: usize) {
        let more = NewPartitions::new(topic, partitions);
        let outcomes = block_on(self.admin().create_partitions([&more], &AdminOptions::new())).expect("add partitions");
        // A repeated request finds the effect of the first one, whose answer was late.
        let is_done = |outcome: &TopicResult| matches!(outcome, Ok(_) | Err((_, RDKafkaErrorCode::InvalidPartitions)));
        assert!(outcomes.iter().all(is_done), "{outcomes:?}");
        self.await_partitions(topic, partitions);
    }

    /// Waits until the broker shows the partitions to clients: the controller answers before its brokers know
    /// them.
    fn await_partitions(&self, topic: &str, partitions: usize) {
        let clock = SystemClock::new();
        let deadline = deadline(&clock);
        while self.partitions(topic) < partitions {
            assert!(clock.now() < deadline, "topic {topic} does not get {partitions} partitions");
            self.producer.poll(Duration::from_millis(20));
        }
    }

    pub(crate) fn delete_topic(&self, topic: &str) {
        let outcomes = block_on(self.admin().delete_topics(&[topic], &AdminOptions::new())).expect("delete topic");
        CREATED.lock().unwrap().remove(&format!("{}/{topic}", self.config.get("bootstrap.servers").expect("servers")));
        let is_done =
            |outcome: &TopicResult| matches!(outcome, Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)));
        assert!(outcomes.iter().all(is_done), "{outcomes:?}");
    }

    /// Deletes the records before `offset`, as retention does.
    pub(crate) fn delete_records(&self, topic: &str, partition: i32, offset: i64) {
        let mut before = TopicPartitionList::new();
        before.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("offset");
        block_on(self.admin().delete_records(&before, &AdminOptions::new())).expect("delete records");
    }

    pub(crate) fn partitions(&self, topic: &str) -> usize {
        let metadata = self.producer.client().fetch_metadata(Some(topic), PATIENCE).expect("metadata");
        metadata.topics()[0].partitions().len()
    }

    /// Waits until no transaction is open: a commit is answered before the brokers have marked it in every
    /// partition.
    pub(crate) fn settle(&self, topic: &str) {
        let ends = |isolation: &str| {
            let mut config = self.config.clone();
            let consumer: BaseConsumer = config.set("isolation.level", isolation).create().expect("consumer");
            let mut asked = TopicPartitionList::new();
            for partition in 0..i32::try_from(self.partitions(topic)).expect("few") {
                asked.add_partition_offset(topic, partition, Offset::End).expect("offset");
            }
            move || {
                let ends = consumer.offsets_for_times(asked.clone(), PATIENCE).expect("offsets");
                ends.elements().iter().map(|end| end.offset()).collect::<Vec<_>>()
            }
        };
        let (stable, last) = (ends("read_committed"), ends("read_uncommitted"));
        let clock = SystemClock::new();
        let deadline = deadline(&clock);
        while stable() != last() {
            assert!(clock.now() < deadline, "a transaction of topic {topic} stays open");
            self.producer.poll(Duration::from_millis(5));
        }
    }

    /// The keys of the first `count` records of partition 0.
    pub(crate) fn keys(&self, topic: &str, count: usize) -> Vec<Option<Vec<u8>>> {
        self.records(topic, count).into_iter().map(|(key, _)| key).collect()
    }

    /// Key and value of the first `count` records of partition 0.
    pub(crate) fn records(&self, topic: &str, count: usize) -> Vec<KeyAndValue> {
        let mut config = self.config.clone();
        let consumer: BaseConsumer = config.set("group.id", "keys").create().expect("consumer");
        let mut from = TopicPartitionList::new();
        from.add_partition_offset(topic, 0, Offset::Beginning).expect("offset");
        consumer.assign(&from).expect("assignment");
        let clock = SystemClock::new();
        let deadline = deadline(&clock);
        let mut records = Vec::new();
        while records.len() < count {
            assert!(clock.now() < deadline, "topic {topic} has no {count} records");
            if let Some(record) = consumer.poll(Duration::from_millis(20)) {
                let record = record.expect("record");
                records.push((record.key().map(<[u8]>::to_vec), record.payload().map(<[u8]>::to_vec)));
            }
        }
        records
    }

    /// Writes records to one partition and waits until they are stored. `None` is a tombstone.
    pub(crate) fn produce(&self, topic: &str, partition: i32, records: &[Option<String>]) {
        let clock = SystemClock::new();
        let deadline = deadline(&clock);
        for record in records {
            let mut new = BaseRecord::<(), str>::to(topic).partition(partition);
            if let Some(record) = record {
                new = new.payload(record);
            }
            // The client may hold metadata from before the topic had this partition.
            while let Err((error, again)) = self.producer.send(new) {
                let code = error.rdkafka_error_code();
                let is_old = matches!(code, Some(RDKafkaErrorCode::UnknownPartition | RDKafkaErrorCode::UnknownTopic));
                assert!(is_old && clock.now() < deadline, "topic {topic}, partition {partition}: {error}");
                self.partitions(topic);
                self.producer.poll(Duration::from_millis(20));
                new = again;
            }
        }
        self.producer.flush(PATIENCE).expect("flush");
    }
}

/// Waits for a future that another thread completes.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
