//! Events with a duration, as spans.

use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, SystemClock};
use anabranch_server::otlp::{Queue, Span};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::lines::Fields;

/// The events, the names of their spans, and whether the span was abandoned.
const SPANS: [(&str, &str, bool); 3] = [
    ("checkpoint completed", "checkpoint", false),
    ("checkpoint abandoned", "checkpoint", true),
    ("incarnation runs", "start of an incarnation", false),
];

/// Adds the spans to a queue.
pub(crate) struct Spans {
    queue: Arc<Queue>,
    clock: SystemClock,
}

impl Spans {
    pub(crate) fn new(queue: Arc<Queue>) -> Spans {
        Spans { queue, clock: SystemClock::new() }
    }
}

impl<S: Subscriber> Layer<S> for Spans {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let Fields { event, job, others } = Fields::from_event(event);
        let span = SPANS.iter().find(|(name, ..)| *name == event);
        let took_ms = others.get("took_ms").and_then(serde_json::Value::as_f64);
        if let (Some((_, name, failed)), Some(took_ms)) = (span, took_ms) {
            let mut attributes = others;
            attributes.remove("took_ms");
            attributes.extend(job.map(|job| ("job".to_owned(), job.into())));
            let took = Duration::try_from_secs_f64(took_ms / 1e3).unwrap_or_default();
            let ended_ms = self.clock.wall_ms();
            self.queue.add(Span { name, ended_ms, took, failed: *failed, attributes });
        }
    }
}
