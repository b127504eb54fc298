//! Looks for partitions that were added to a topic while the job runs. Asking a broker can take seconds when it is slow,
//! so it is done on a thread of its own and the task only looks whether there is an answer.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Error, Result};
use rdkafka::consumer::Consumer as _;

use super::client::{Consumer, count_in};

/// The longest time that a question may take: the job's end waits for it.
const ANSWER: Duration = Duration::from_secs(1);

/// A running look-out, which ends when it is dropped.
pub(super) struct Discovery {
    found: Receiver<(usize, i32)>,
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Discovery {
    /// Asks for the partitions of `topics` every `interval`.
    pub(super) fn start(client: Arc<Consumer>, topics: Vec<String>, interval: Duration) -> Result<Discovery> {
        let (stop, stopped) = sync_channel::<()>(0);
        let (tell, found) = sync_channel(topics.len());
        let look = move || {
            // The sender never sends: what ends the wait early is that it is dropped.
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                for (index, topic) in topics.iter().enumerate() {
                    // A broker that does not answer is the reader's concern; the next round asks again.
                    let Ok(metadata) = client.fetch_metadata(Some(topic), ANSWER) else { break };
                    let Ok(count) = count_in(&metadata, topic) else { continue };
                    if tell.try_send((index, count)).is_err() {
                        // The task has not yet looked at the last answer.
                        break;
                    }
                }
            }
        };
        let builder = std::thread::Builder::new().name("kafka-discovery".into());
        let thread = builder
            .spawn(look)
            .map_err(|error| Error::outside(format!("the thread that looks for new partitions does not start: {error}")))?;
        Ok(Discovery { found, stop: Some(stop), thread: Some(thread) })
    }

    /// An answer that has come: a topic's index and how many partitions it has.
    pub(super) fn next(&self) -> Option<(usize, i32)> {
        self.found.try_recv().ok()
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the panic hook and must not become a second one here.
            let _ = thread.join();
        }
    }
}
