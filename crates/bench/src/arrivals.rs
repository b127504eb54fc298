//! When records arrive in topics of a broker, as a consumer there sees it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anabranch_model::{Error, Result};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};

use crate::trace::{Row, Trace, between, millis, wall_ms};

/// Longest time without a look whether the benchmark is over.
const WAIT: Duration = Duration::from_millis(100);

/// When the records of a topic came, each with the value of its field.
type Arrived = Vec<(Instant, i64)>;

/// The records of topics of one partition, each a JSON object.
pub(crate) struct Arrivals {
    records: Arc<Mutex<Vec<Arrived>>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Arrivals {
    /// Consumes topics that exist. Of each record its field `field` is kept, a number.
    pub(crate) fn consume(servers: &str, topics: &[&str], field: &'static str) -> Result<Arrivals> {
        let failed = |error: KafkaError| Error::outside(format!("a consumer: {error}"));
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", servers).set("group.id", "bench").set("enable.auto.commit", "false");
        config.set("fetch.wait.max.ms", "5");
        let consumer: BaseConsumer = config.create().map_err(failed)?;
        let mut partitions = TopicPartitionList::new();
        for topic in topics {
            partitions.add_partition_offset(topic, 0, Offset::Beginning).map_err(failed)?;
        }
        consumer.assign(&partitions).map_err(failed)?;
        let records = Arc::new(Mutex::new(vec![Vec::new(); topics.len()]));
        let ends = Arc::new(AtomicBool::new(false));
        let (kept, ended) = (Arc::clone(&records), Arc::clone(&ends));
        let topics: Vec<String> = topics.iter().map(|topic| (*topic).to_owned()).collect();
        let read = move || {
            while !ended.load(Ordering::Relaxed) {
                // Errors are temporary: the client tries again.
                let Some(Ok(message)) = consumer.poll(WAIT) else { continue };
                let document: Option<serde_json::Value> =
                    message.payload().and_then(|payload| serde_json::from_slice(payload).ok());
                let value = document.and_then(|document| document[field].as_i64());
                let topic = topics.iter().position(|topic| topic == message.topic());
                if let Some((topic, value)) = topic.zip(value) {
                    kept.lock().unwrap_or_else(PoisonError::into_inner)[topic].push((Instant::now(), value));
                }
            }
        };
        let thread = std::thread::Builder::new().name("arrivals".into()).spawn(read);
        let thread = thread.map_err(|error| Error::outside(format!("cannot start a thread: {error}")))?;
        Ok(Arrivals { records, ends, thread: Some(thread) })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arrived>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The largest value of a topic so far.
    pub(crate) fn largest(&self, topic: usize) -> Option<i64> {
        self.lock()[topic].iter().map(|(_, value)| *value).max()
    }

    /// The records of a topic so far, whose values are the times at which they were due, in milliseconds
    /// since 1970.
    pub(crate) fn trace(&self, topic: usize) -> Trace {
        let (now, now_ms) = (Instant::now(), wall_ms());
        let row = |(at, due_ms): &(Instant, i64)| {
            let arrived_ms = now_ms - millis(now.saturating_duration_since(*at));
            Row { at: *at, took: between(*due_ms as f64, arrived_ms) }
        };
        Trace(self.lock()[topic].iter().map(row).collect())
    }

    /// When the first record of a topic with a larger value came.
    pub(crate) fn first_above(&self, topic: usize, value: i64) -> Option<Instant> {
        self.lock()[topic].iter().find(|(_, of)| *of > value).map(|(at, _)| *at)
    }

    /// The longest time without a record of a topic between two moments, and when it ended.
    pub(crate) fn longest_gap(&self, topic: usize, from: Instant, until: Instant) -> (Duration, Instant) {
        let records = self.lock();
        let within = records[topic].iter().map(|(at, _)| *at).filter(|at| (from..until).contains(at));
        let mut ends: Vec<Instant> = within.collect();
        ends.insert(0, from);
        ends.push(until);
        let gaps = ends.windows(2).map(|pair| (pair[1].saturating_duration_since(pair[0]), pair[1]));
        gaps.max().unwrap_or((Duration::ZERO, until))
    }

    /// How many groups of records of a topic, each with values of one window of `length`, began more than
    /// `late` after they were due, as it is known from the group before. Only groups that began between two
    /// moments count.
    pub(crate) fn late_windows(
        &self,
        topic: usize,
        (from, until): (Instant, Instant),
        length_ms: i64,
        late: Duration,
    ) -> usize {
        let records = self.lock();
        let mut firsts: Vec<(i64, Instant)> = Vec::new();
        for (at, value) in &records[topic] {
            let window = value.div_euclid(length_ms);
            if firsts.last().is_none_or(|(last, _)| window > *last) {
                firsts.push((window, *at));
            }
        }
        let is_late = |pair: &&[(i64, Instant)]| {
            let windows = u32::try_from(pair[1].0 - pair[0].0).unwrap_or(u32::MAX);
            let due = Duration::from_millis(length_ms.unsigned_abs()) * windows;
            (from..until).contains(&pair[1].1) && pair[1].1 - pair[0].1 > due + late
        };
        firsts.windows(2).filter(is_late).count()
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join).unwrap_or(Ok(())).unwrap_or_default();
    }
}
