//! Watches the topics while the job reads them: partitions are added, topics are deleted and created again.
//! The client reports both only in its log. A request to a slow broker can take seconds, so a thread of its
//! own sends it, and the task only checks whether there is an answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Clock as _, Error, Result, SystemClock};
use rdkafka::consumer::Consumer as _;

use super::client::Consumer;
use super::subscription::Subscription;
use super::topics::{FoundTopic, Topics};

/// Time limit of a request: the job's end waits for it.
const ANSWER: Duration = Duration::from_secs(1);

/// A condition that lasts for this time is reported: a broker that has just started may not know a topic yet,
/// and a busy one may answer late.
const CONFIRM: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) enum Observation {
    /// The present topics, and known topics that do not exist any more.
    Topics { found: Vec<FoundTopic>, gone: BTreeSet<String> },
    /// No broker has answered.
    Silence,
}

/// A running watch, which ends when it is dropped.
pub(super) struct Watch {
    seen: Receiver<Observation>,
    /// Dropping it ends the thread.
    hurry: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Requests the table's topics every `interval`. The source knows `known`.
    pub(super) fn start(
        client: Arc<Consumer>,
        subscription: Subscription,
        known: BTreeSet<String>,
        interval: Duration,
    ) -> Result<Watch> {
        let (hurry, hurried) = sync_channel::<()>(1);
        let (tell, seen) = sync_channel(1);
        let watcher = Watcher { client, subscription, known, tell, hurried };
        let thread = std::thread::Builder::new().name("kafka-watch".into()).spawn(move || watcher.run(interval));
        let thread = thread
            .map_err(|error| Error::outside(format!("the thread that watches topics does not start: {error}")))?;
        Ok(Watch { seen, hurry: Some(hurry), thread: Some(thread) })
    }

    /// Requests the topics now instead of at the end of the interval.
    pub(super) fn hurry(&self) {
        // One pending request is enough.
        let _ = self.hurry.as_ref().map(|hurry| hurry.try_send(()));
    }

    /// The observations since the last call.
    pub(super) fn next(&self) -> Option<Observation> {
        self.seen.try_recv().ok()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.hurry.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic there, which must not become a second one here.
            let _ = thread.join();
        }
    }
}

/// The thread's side.
struct Watcher {
    client: Arc<Consumer>,
    subscription: Subscription,
    /// Topics that the source reads or waits for.
    known: BTreeSet<String>,
    tell: SyncSender<Observation>,
    /// Has a value if the next request is due now; disconnected when the watch ends.
    hurried: Receiver<()>,
}

impl Watcher {
    fn run(mut self, interval: Duration) {
        let mut pause = interval;
        while self.wait(pause) {
            pause = interval;
            let seen = match self.ask() {
                Some(topics) if topics.gone.is_empty() => {
                    Observation::Topics { found: topics.found, gone: topics.gone }
                }
                Some(before) => {
                    if !self.wait_fully(CONFIRM) {
                        return;
                    }
                    let Some(Topics { found, gone, .. }) = self.ask() else { continue };
                    Observation::Topics { found, gone: gone.intersection(&before.gone).cloned().collect() }
                }
                None => {
                    if !self.wait(CONFIRM) {
                        return;
                    }
                    pause = CONFIRM.min(interval);
                    if self.ask().is_some() {
                        continue;
                    }
                    Observation::Silence
                }
            };
            let (found, gone) = match &seen {
                Observation::Topics { found, gone } => {
                    (found.iter().map(|topic| topic.name.clone()).collect(), gone.clone())
                }
                Observation::Silence => (BTreeSet::new(), BTreeSet::new()),
            };
            // If the task has not received the last answer yet, the next round repeats this one.
            if self.tell.try_send(seen).is_ok() {
                self.known.extend(found);
                self.known.retain(|topic| !gone.contains(topic));
            }
        }
    }

    /// Waits, unless the task hurries: a client without connections makes it hurry several times per second.
    /// Returns false when the watch has ended.
    fn wait(&self, time: Duration) -> bool {
        self.hurried.recv_timeout(time) != Err(RecvTimeoutError::Disconnected)
    }

    /// Waits for the whole time, even if the task hurries. Returns false when the watch has ended.
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

    /// A broker's description of the topics, if one answers.
    fn ask(&self) -> Option<Topics> {
        let topics = self.subscription.ask(&self.client, &self.known, ANSWER).ok()?;
        self.client.context().answered();
        Some(topics)
    }
}
