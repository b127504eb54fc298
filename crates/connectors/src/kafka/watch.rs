//! Watches the topics while the job reads them: partitions are added, topics are deleted. The client reports both only in its
//! log. A request to a slow broker can take seconds, so a thread of its own sends it, and the task only checks whether there is an
//! answer.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Clock as _, Error, Result, SystemClock};
use rdkafka::consumer::Consumer as _;
use rdkafka::error::RDKafkaErrorCode;

use super::client::{Consumer, count_in};

/// The longest time that a question may take: the job's end waits for it.
const ANSWER: Duration = Duration::from_secs(1);

/// What is still so after this time is reported: a broker that has just started may not know a topic yet, and a busy one may
/// answer late.
const CONFIRM: Duration = Duration::from_secs(1);

/// What was seen; topics by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The topic has this many partitions.
    Partitions { topic: usize, count: i32 },
    /// The topic does not exist any more.
    Gone { topic: usize },
    /// No broker has answered.
    Silence,
}

/// A running watch, which ends when it is dropped.
pub(super) struct Watch {
    seen: Receiver<Seen>,
    /// Dropped, it ends the thread.
    hurry: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Requests the metadata of `topics` every `interval`.
    pub(super) fn start(client: Arc<Consumer>, topics: Vec<String>, interval: Duration) -> Result<Watch> {
        let (hurry, hurried) = sync_channel::<()>(1);
        let (tell, seen) = sync_channel(topics.len());
        let watcher = Watcher { client, topics, tell, hurried };
        let thread = std::thread::Builder::new().name("kafka-watch".into()).spawn(move || watcher.run(interval));
        let thread = thread
            .map_err(|error| Error::outside(format!("the thread that watches topics does not start: {error}")))?;
        Ok(Watch { seen, hurry: Some(hurry), thread: Some(thread) })
    }

    /// Has the brokers asked now instead of at the end of the interval.
    pub(super) fn hurry(&self) {
        // If a request to hurry waits already, one is enough.
        let _ = self.hurry.as_ref().map(|hurry| hurry.try_send(()));
    }

    /// What has been seen since the last call, one topic at a time.
    pub(super) fn next(&self) -> Option<Seen> {
        self.seen.try_recv().ok()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.hurry.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the panic hook and must not become a second one here.
            let _ = thread.join();
        }
    }
}

/// The thread's side.
struct Watcher {
    client: Arc<Consumer>,
    topics: Vec<String>,
    tell: SyncSender<Seen>,
    /// Has a value if the next request is due now; disconnected when the watch ends.
    hurried: Receiver<()>,
}

impl Watcher {
    fn run(&self, interval: Duration) {
        let mut pause = interval;
        while self.wait(pause) {
            pause = interval;
            for topic in 0..self.topics.len() {
                let seen = match self.count(topic) {
                    Some(Err(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic)) => {
                        if !self.wait_fully(CONFIRM) {
                            return;
                        }
                        match self.count(topic) {
                            Some(Err(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic)) => {
                                Seen::Gone { topic }
                            }
                            _ => continue,
                        }
                    }
                    Some(Ok(count)) => Seen::Partitions { topic, count },
                    Some(Err(_)) => continue,
                    None => {
                        if !self.wait(CONFIRM) {
                            return;
                        }
                        pause = CONFIRM.min(interval);
                        match self.count(topic) {
                            None => Seen::Silence,
                            Some(_) => continue,
                        }
                    }
                };
                // If the task has not received the last answers yet, the next round repeats this one.
                let _ = self.tell.try_send(seen);
            }
        }
    }

    /// Waits, unless the task hurries: a client without connections has it hurry several times per second. `false` when the watch has
    /// ended.
    fn wait(&self, time: Duration) -> bool {
        self.hurried.recv_timeout(time) != Err(RecvTimeoutError::Disconnected)
    }

    /// Waits for the whole time, however the task hurries. `false` when the watch has ended.
    fn wait_fully(&self, time: Duration) -> bool {
        let clock = SystemClock::new();
        let end = clock.now().plus(time);
        loop {
            match self.hurried.recv_timeout(end.after(clock.now())) {
                Ok(()) => {}
                Err(ended) => return ended != RecvTimeoutError::Disconnected,
            }
        }
    }

    /// The number of partitions in the answer of a broker, if one answers.
    fn count(&self, topic: usize) -> Option<Result<i32, RDKafkaErrorCode>> {
        let name = &self.topics[topic];
        let metadata = self.client.fetch_metadata(Some(name), ANSWER).ok()?;
        self.client.context().answered();
        Some(count_in(&metadata, name))
    }
}
