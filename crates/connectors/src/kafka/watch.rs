//! Watches the topics while the job reads them: partitions are added, topics are deleted. The client reports both only in its
//! log. A request to a slow broker can take seconds, so a thread of its own sends it, and the task only checks whether there is an
//! answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Clock as _, Error, Result, SystemClock};
use rdkafka::consumer::Consumer as _;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::Metadata;

use super::client::{Consumer, count_in};
use super::subscription::Subscription;

/// The longest time that a question may take: the job's end waits for it.
const ANSWER: Duration = Duration::from_secs(1);

/// What is still so after this time is reported: a broker that has just started may not know a topic yet, and a busy one may
/// answer late.
const CONFIRM: Duration = Duration::from_secs(1);

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Topics with the numbers of their partitions.
    Partitions(Vec<(String, i32)>),
    /// The topic does not exist any more.
    Gone(String),
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
    /// Requests the metadata of the table's topics every `interval`. There are `topics` now.
    pub(super) fn start(
        client: Arc<Consumer>,
        subscription: Subscription,
        topics: Vec<String>,
        interval: Duration,
    ) -> Result<Watch> {
        let (hurry, hurried) = sync_channel::<()>(1);
        let (tell, seen) = sync_channel(topics.len().max(1));
        let watcher = Watcher { client, subscription, topics, tell, hurried };
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
    subscription: Subscription,
    /// Those of the table that were found so far.
    topics: Vec<String>,
    tell: SyncSender<Seen>,
    /// Has a value if the next request is due now; disconnected when the watch ends.
    hurried: Receiver<()>,
}

/// The answer to one question.
enum Answer {
    Found(Vec<(String, i32)>),
    Gone(String),
    Unclear,
    Silence,
}

impl Watcher {
    fn run(mut self, interval: Duration) {
        let mut pause = interval;
        while self.wait(pause) {
            pause = interval;
            // All topics of a pattern are asked for at once.
            let questions = if self.subscription.pattern().is_some() { 1 } else { self.topics.len() };
            for question in 0..questions {
                let seen = match self.ask(question) {
                    Answer::Found(topics) => Seen::Partitions(topics),
                    Answer::Gone(_) => {
                        if !self.wait_fully(CONFIRM) {
                            return;
                        }
                        let Answer::Gone(topic) = self.ask(question) else { continue };
                        Seen::Gone(topic)
                    }
                    Answer::Unclear => continue,
                    Answer::Silence => {
                        if !self.wait(CONFIRM) {
                            return;
                        }
                        pause = CONFIRM.min(interval);
                        let Answer::Silence = self.ask(question) else { continue };
                        Seen::Silence
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

    /// Asks for the topic of this index, or for all topics that match.
    fn ask(&mut self, question: usize) -> Answer {
        match &self.subscription {
            Subscription::Topics(_) => {
                let name = &self.topics[question];
                let Some(metadata) = self.metadata(Some(name)) else { return Answer::Silence };
                match count_in(&metadata, name) {
                    Ok(count) => Answer::Found(vec![(name.clone(), count)]),
                    Err(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                        Answer::Gone(name.clone())
                    }
                    Err(_) => Answer::Unclear,
                }
            }
            Subscription::Pattern(pattern) => {
                let Some(metadata) = self.metadata(None) else { return Answer::Silence };
                let found = pattern.found(&metadata);
                let there: BTreeSet<&String> = found.iter().map(|(topic, _)| topic).collect();
                if let Some(gone) = self.topics.iter().find(|topic| !there.contains(topic)) {
                    return Answer::Gone(gone.clone());
                }
                self.topics = found.iter().map(|(topic, _)| topic.clone()).collect();
                Answer::Found(found)
            }
        }
    }

    /// What a broker says of one topic or of all, if one answers.
    fn metadata(&self, topic: Option<&str>) -> Option<Metadata> {
        let metadata = self.client.fetch_metadata(topic, ANSWER).ok()?;
        self.client.context().answered();
        Some(metadata)
    }
}
