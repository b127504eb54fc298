//! Export of metrics and spans to a collector of OpenTelemetry, by OTLP over HTTP with JSON.
//!
//! A thread sends what there is from time to time. No job waits for it: spans are kept in a bounded queue,
//! and what the collector does not take in time is dropped. The crates of OpenTelemetry would add nine crates
//! and a second version of `reqwest`, for two documents and a POST.

mod documents;
mod send;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anabranch_model::{Clock, Result, SystemClock};
use anabranch_runtime::random_seed;
use tracing::{info, warn};

use crate::http::{Jobs, families};
use crate::threads::{lock, spawn};
use documents::Resource;
use send::Collector;

/// Largest number of spans that wait to be sent. Further ones are dropped.
const SPANS_MAX: usize = 1024;
/// Longest time for one request.
const ANSWER: Duration = Duration::from_secs(5);
/// Longest time that the end of the process waits for the last export.
const END: Duration = Duration::from_secs(2);

/// Where to export to, and as what.
#[derive(Clone, Debug)]
pub struct Destination {
    /// `http://HOST:PORT`.
    pub url: String,
    /// Time between two exports.
    pub interval: Duration,
    /// What the process does: `coordinator`, `worker` or `run`.
    pub role: &'static str,
    /// Distinguishes the process from others.
    pub instance: String,
}

/// Something that has taken time.
#[derive(Clone, Debug)]
pub struct Span {
    /// What.
    pub name: &'static str,
    /// When it was over, in milliseconds since 1970.
    pub ended_ms: i64,
    /// How long it took.
    pub took: Duration,
    /// Whether it was given up.
    pub failed: bool,
    /// What distinguishes it: texts, numbers, booleans.
    pub attributes: serde_json::Map<String, serde_json::Value>,
}

/// Exports until it is dropped, and once more then.
pub struct Exporter {
    queue: Arc<Queue>,
    /// Closes with the thread.
    ended: Receiver<()>,
}

/// Spans that wait, and what metrics are of.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    jobs: OnceLock<Arc<dyn Jobs>>,
}

#[derive(Default)]
struct State {
    spans: VecDeque<Span>,
    ends: bool,
}

impl Queue {
    /// Adds a span, unless too many wait.
    pub fn add(&self, span: Span) {
        let mut state = lock(&self.state);
        if state.spans.len() < SPANS_MAX {
            state.spans.push_back(span);
        }
    }

    /// Waits for the time of an export, or for the last one. Returns the spans, and whether it is the last
    /// one.
    fn wait(&self, interval: Duration) -> (Vec<Span>, bool) {
        let waited = self.changed.wait_timeout_while(lock(&self.state), interval, |state| !state.ends);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        (state.spans.drain(..).collect(), state.ends)
    }
}

impl Exporter {
    /// Checks where to export to, and begins. The metrics are those of the process until there are jobs.
    pub fn start(destination: &Destination) -> Result<Exporter> {
        let collector = Collector::parse(&destination.url)?;
        let queue = Arc::<Queue>::default();
        let (ends, ended) = channel::<()>();
        let (exported, interval) = (Arc::clone(&queue), destination.interval);
        let resource = Resource::new(destination);
        let run = move || {
            let _ends = ends;
            let mut export = Export { collector, resource, answers: true };
            loop {
                let (spans, is_last) = exported.wait(interval);
                export.once(&spans, exported.jobs.get().map(Arc::as_ref));
                if is_last {
                    return;
                }
            }
        };
        spawn("otlp", run)?;
        Ok(Exporter { queue, ended })
    }

    /// Where spans are added.
    #[must_use]
    pub fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }

    /// The metrics are of these jobs too from now on.
    pub fn watch(&self, jobs: Arc<dyn Jobs>) {
        // A process has one set of jobs.
        let _ = self.queue.jobs.set(jobs);
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        lock(&self.queue.state).ends = true;
        self.queue.changed.notify_all();
        // Nothing is ever sent: the channel closes with the thread. A slow collector does not hold up the end
        // of the process for longer.
        let _ = self.ended.recv_timeout(END);
    }
}

/// What the thread keeps.
struct Export {
    collector: Collector,
    resource: Resource,
    /// The last export succeeded: the log has each change once.
    answers: bool,
}

impl Export {
    fn once(&mut self, spans: &[Span], jobs: Option<&dyn Jobs>) {
        let jobs = jobs.map(Jobs::jobs).unwrap_or_default();
        let readings: Vec<_> = jobs.iter().map(|job| (job.name().to_owned(), job.reading())).collect();
        let metrics = self.resource.metrics(&families(&readings), SystemClock::new().wall_ms());
        let mut outcome = self.collector.post("/v1/metrics", &metrics, ANSWER);
        if outcome.is_ok() && !spans.is_empty() {
            let ids = || (u128::from(random_seed()) << 64 | u128::from(random_seed()), random_seed());
            outcome = self.collector.post("/v1/traces", &self.resource.spans(spans, ids), ANSWER);
        }
        let url = self.collector.url();
        match (outcome, self.answers) {
            (Ok(()), false) => info!(url, "collector answers again"),
            (Err(why), true) => warn!(url, why, "collector does not answer"),
            _ => return,
        }
        self.answers = !self.answers;
    }
}
