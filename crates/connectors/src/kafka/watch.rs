//! Watches the topics of a table while a job reads them. Partitions may be added, and topics may be deleted
//! or created again. The client reports this only in its log, so the topics are requested periodically. A
//! broker may answer slowly, so a separate thread sends the requests, and the source waits for none.

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

/// Timeout of a request. It is short because the end of the job waits for a request that was sent.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause before a second request, which must confirm that a topic is gone or that no broker answers. A broker
/// that has just started may not know a topic yet, and a busy one may answer late.
const CONFIRM: Duration = Duration::from_secs(1);

/// What a watch has observed.
#[derive(Debug)]
pub(super) enum Observation {
    /// The present topics, and known topics that do not exist any more.
    Topics { found: Vec<FoundTopic>, gone: BTreeSet<String> },
    /// No broker has answered two requests in a row.
    Silence,
}

/// A running watch, which ends when it is dropped.
pub(super) struct Watch {
    /// Has at most one observation.
    seen: Receiver<Observation>,
    /// Lets the thread send its next request now. Dropping it ends the thread.
    request: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts to request the table's topics every `interval`. `known` are the topics that the source knows.
    pub(super) fn start(
        client: Arc<Consumer>,
        subscription: Subscription,
        known: BTreeSet<String>,
        interval: Duration,
    ) -> Result<Watch> {
        let (request, requested) = sync_channel::<()>(1);
        let (sender, seen) = sync_channel(1);
        let watcher = Watcher { client, subscription, known, sender, requested };
        let thread = std::thread::Builder::new().name("kafka-watch".into()).spawn(move || watcher.run(interval));
        let thread = thread
            .map_err(|error| Error::outside(format!("the thread that watches topics does not start: {error}")))?;
        Ok(Watch { seen, request: Some(request), thread: Some(thread) })
    }

    /// Requests the topics now instead of at the end of the interval.
    pub(super) fn request_now(&self) {
        // One pending request is enough.
        let _ = self.request.as_ref().map(|request| request.try_send(()));
    }

    /// Takes the observation that was not taken yet, if there is one.
    pub(super) fn next(&self) -> Option<Observation> {
        self.seen.try_recv().ok()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.request.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by the panic hook. It must not cause a panic here.
            let _ = thread.join();
        }
    }
}

/// The thread of a watch.
struct Watcher {
    client: Arc<Consumer>,
    subscription: Subscription,
    /// Topics that the source reads or waits for.
    known: BTreeSet<String>,
    sender: SyncSender<Observation>,
    /// Has a value if the next request is due now. Disconnected once the watch was dropped.
    requested: Receiver<()>,
}

impl Watcher {
    /// Observes the topics until the watch is dropped.
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
            // If the source has not taken the last observation, this one is dropped, and `known` stays as it
            // is: the next round observes the same.
            if self.sender.try_send(seen).is_ok() {
                self.known.extend(found);
                self.known.retain(|topic| !gone.contains(topic));
            }
        }
    }

    /// Waits for this time, or until the source requests the topics. While its client has no connection, the
    /// source does so several times per second. Returns false if the watch was dropped.
    fn wait(&self, time: Duration) -> bool {
        self.requested.recv_timeout(time) != Err(RecvTimeoutError::Disconnected)
    }

    /// Waits for the whole time, even if the source requests the topics. Returns false if the watch was
    /// dropped.
    fn wait_fully(&self, time: Duration) -> bool {
        let clock = SystemClock::new();
        let end = clock.now().plus(time);
        loop {
            match self.requested.recv_timeout(end.after(clock.now())) {
                Ok(()) => {}
                Err(ended) => return ended != RecvTimeoutError::Disconnected,
            }
        }
    }

    /// Requests the topics. `None`: no broker has answered in time.
    fn ask(&self) -> Option<Topics> {
        let topics = self.subscription.ask(&self.client, &self.known, REQUEST_TIMEOUT).ok()?;
        self.client.context().answered();
        Some(topics)
    }
}
