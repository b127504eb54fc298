//! Jobs that write a topic exactly once, as processes, and the comparison of a topic with what it must hold.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use anabranch_model::{Clock, Nanos, SystemClock};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Message, Offset, TopicPartitionList};

/// Nothing that works takes this long.
const PATIENCE: Duration = Duration::from_secs(150);
const LOOK: Duration = Duration::from_millis(50);

/// Records without their order: how many there are, and the sum of their hashes. A lost, doubled or changed
/// record changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) records: u64,
    hashes: u64,
}

impl Fingerprint {
    pub(crate) fn add(&mut self, record: &[u8]) {
        let mut hasher = DefaultHasher::new();
        record.hash(&mut hasher);
        self.records += 1;
        self.hashes = self.hashes.wrapping_add(hasher.finish());
    }

    /// Of what readers of committed records see in a topic once no transaction is open.
    pub(crate) fn of_topic(servers: &str, topic: &str) -> Fingerprint {
        let (limit, ends) = (Limit::new(), |isolation| ends(servers, topic, isolation));
        // A commit is answered before the brokers have marked it in every partition.
        while ends("read_committed") != ends("read_uncommitted") {
            limit.check(|| format!("a transaction of topic {topic} stays open"));
            anabranch_model::pause(LOOK);
        }
        Fingerprint::committed(servers, topic)
    }

    /// Of what readers of committed records see in a topic now.
    fn committed(servers: &str, topic: &str) -> Fingerprint {
        let consumer = reader(servers, "read_committed");
        let mut open = partitions(&consumer, topic);
        let mut assigned = TopicPartitionList::new();
        for partition in &open {
            assigned.add_partition_offset(topic, *partition, Offset::Beginning).expect("offset");
        }
        consumer.assign(&assigned).expect("assigned");
        let (mut found, limit) = (Fingerprint::default(), Limit::new());
        while !open.is_empty() {
            match consumer.poll(Duration::from_millis(100)) {
                None => {}
                Some(Ok(message)) => found.add(message.payload().expect("a value")),
                Some(Err(rdkafka::error::KafkaError::PartitionEOF(partition))) => drop(open.remove(&partition)),
                Some(Err(error)) => panic!("{error}"),
            }
            limit.check(|| format!("topic {topic} is not read to its end: {found:?}"));
        }
        found
    }
}

fn reader(servers: &str, isolation: &str) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("group.id", "independent").set("auto.offset.reset", "earliest");
    config.set("isolation.level", isolation).set("enable.partition.eof", "true");
    config.create().expect("consumer")
}

fn partitions(consumer: &BaseConsumer, topic: &str) -> BTreeSet<i32> {
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).expect("metadata");
    metadata.topics()[0].partitions().iter().map(|partition| partition.id()).collect()
}

/// The end of each partition for readers of this isolation.
fn ends(servers: &str, topic: &str, isolation: &str) -> Vec<Offset> {
    let consumer = reader(servers, isolation);
    let mut asked = TopicPartitionList::new();
    for partition in partitions(&consumer, topic) {
        asked.add_partition_offset(topic, partition, Offset::End).expect("offset");
    }
    let found = consumer.offsets_for_times(asked, PATIENCE).expect("offsets");
    found.elements().iter().map(|end| end.offset()).collect()
}

/// The end of [`PATIENCE`].
struct Limit {
    clock: SystemClock,
    end: Nanos,
}

impl Limit {
    fn new() -> Limit {
        let clock = SystemClock::new();
        Limit { end: clock.now().plus(PATIENCE), clock }
    }

    fn check(&self, what: impl FnOnce() -> String) {
        assert!(self.clock.now() < self.end, "{}", what());
    }
}

/// Writes records as another program would.
pub(crate) struct Writer {
    producer: ThreadedProducer<DefaultProducerContext>,
    topic: String,
}

impl Writer {
    pub(crate) fn new(servers: &str, topic: &str) -> Writer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", servers).set("enable.idempotence", "true");
        Writer { producer: config.create().expect("a producer"), topic: topic.to_owned() }
    }

    pub(crate) fn send(&self, partition: i32, record: &str) {
        let mut unsent = BaseRecord::<(), str>::to(&self.topic).partition(partition).payload(record);
        while let Err((_, again)) = self.producer.send(unsent) {
            unsent = again;
            anabranch_model::pause(Duration::from_millis(1));
        }
    }

    pub(crate) fn flush(&self) {
        self.producer.flush(PATIENCE).expect("written");
    }
}

/// A job in a separate process, which is killed when this is dropped.
pub(crate) struct Job {
    child: Child,
    told: Arc<(Mutex<Vec<String>>, Condvar)>,
}

impl Job {
    /// Starts a script with checkpoints in this folder.
    pub(crate) fn start(sql: &str, checkpoints: &Path, settings: &[&str]) -> Job {
        Job::start_with(sql, checkpoints, settings, &[])
    }

    /// Starts a script with checkpoints in this folder, and with these further arguments.
    pub(crate) fn start_with(sql: &str, checkpoints: &Path, settings: &[&str], arguments: &[&str]) -> Job {
        let script = checkpoints.with_extension("sql");
        std::fs::File::create(&script).expect("file").write_all(sql.as_bytes()).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.arg("run").arg(script).args(["--plain", "--parallelism", "2"]).args(arguments);
        let directory = format!("checkpoint-directory={}", checkpoints.display());
        for setting in settings.iter().copied().chain([directory.as_str()]) {
            command.args(["--set", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let told = Arc::<(Mutex<Vec<String>>, Condvar)>::default();
        let (out, err) = (child.stdout.take().expect("output"), child.stderr.take().expect("errors"));
        collect("output", out, &told);
        collect("errors", err, &told);
        Job { child, told }
    }

    /// Waits for a line with this text.
    pub(crate) fn await_line(&self, text: &str) {
        let (lines, changed) = &*self.told;
        let missing = |lines: &mut Vec<String>| !lines.iter().any(|line| line.contains(text));
        let waited = changed.wait_timeout_while(lines.lock().expect("lines"), PATIENCE, missing).expect("lines");
        assert!(!waited.1.timed_out(), "no line has {text:?}: {:#?}", *waited.0);
    }

    /// Waits until a notice with this text has come this often: repeated ones are counted at their ends.
    pub(crate) fn await_notices(&self, text: &str, times: u64) {
        let (lines, changed) = &*self.told;
        let count = |line: &String| {
            let counted = line.rsplit_once('(').and_then(|(_, count)| count.strip_suffix(" times)")?.parse().ok());
            if line.contains(text) { counted.unwrap_or(1) } else { 0 }
        };
        let missing = |lines: &mut Vec<String>| lines.iter().map(count).max().unwrap_or(0) < times;
        let waited = changed.wait_timeout_while(lines.lock().expect("lines"), PATIENCE, missing).expect("lines");
        assert!(!waited.1.timed_out(), "{text:?} did not come {times} times: {:#?}", *waited.0);
    }

    /// Waits until this number of committed records is in a topic.
    pub(crate) fn await_records(&mut self, servers: &str, topic: &str, records: u64) {
        let limit = Limit::new();
        while Fingerprint::committed(servers, topic).records < records {
            let status = self.child.try_wait().expect("status");
            let missing =
                || format!("{records} records do not come, {status:?}: {:#?}", self.told.0.lock().expect("lines"));
            assert!(status.is_none(), "{}", missing());
            limit.check(missing);
            anabranch_model::pause(LOOK);
        }
    }

    /// Waits for the end of the process. Returns its lines, and the most memory that it had, in bytes.
    pub(crate) fn finish(mut self) -> (Vec<String>, u64) {
        let (mut looks, mut memory_max) = (0, 0);
        let status = loop {
            memory_max = memory_max.max(self.memory_max().unwrap_or(0));
            if let Some(status) = self.child.try_wait().expect("status") {
                break status;
            }
            looks += 1;
            assert!(LOOK * looks < PATIENCE, "the job does not end: {:#?}", self.told.0.lock().expect("lines"));
            anabranch_model::pause(LOOK);
        };
        let lines = self.told.0.lock().expect("lines").clone();
        assert!(status.success(), "{lines:#?}");
        (lines, memory_max)
    }

    /// Kills one of the processes of its workers, once there is one.
    pub(crate) fn kill_worker(&mut self, which: usize) {
        let limit = Limit::new();
        let workers = loop {
            let workers = self.children();
            let status = self.child.try_wait().expect("status");
            let missing = || format!("no worker to kill, {status:?}: {:#?}", self.told.0.lock().expect("lines"));
            assert!(status.is_none(), "{}", missing());
            if !workers.is_empty() {
                break workers;
            }
            limit.check(missing);
            anabranch_model::pause(LOOK);
        };
        let status = Command::new("kill").args(["-KILL", &workers[which % workers.len()]]).status();
        assert!(status.expect("kill runs").success());
    }

    /// The processes that it has started.
    fn children(&self) -> Vec<String> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs").flatten();
        let children = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("children")).ok();
        let all: String = threads.filter_map(children).collect();
        all.split_whitespace().map(str::to_owned).collect()
    }

    /// Requests the end after the current epoch.
    pub(crate) fn stop(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    }

    /// The most resident memory that the process has had.
    fn memory_max(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps the lines of a process on a thread of its own.
fn collect(name: &str, from: impl Read + Send + 'static, told: &Arc<(Mutex<Vec<String>>, Condvar)>) {
    let told = Arc::clone(told);
    let read = move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            told.0.lock().expect("lines").push(line);
            told.1.notify_all();
        }
    };
    std::thread::Builder::new().name(name.into()).spawn(read).expect("thread");
}
