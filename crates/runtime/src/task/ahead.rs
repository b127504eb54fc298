//! The input of a task that looks up an outside table: lookups are requested when batches arrive, and the
//! batches wait here for the answers. Watermarks and markers wait behind the rows before them, so nothing
//! overtakes anything, and a task that takes a snapshot has processed every row before it. Calls continue
//! meanwhile, also beyond the end of an epoch.
//!
//! The waiting batches are bounded, together with the answers that have arrived. A task with a full queue
//! reads no channel: back-pressure spreads to the source.

use std::collections::VecDeque;

use anabranch_model::batch_bytes;

use crate::task::alignment::Event;

/// Limit of the bytes of rows and answers that wait, except for one batch and pending calls.
const BYTES_MAX: usize = 4 << 20;
/// Limit of the number of events that wait: rows may arrive one by one.
const EVENTS_MAX: usize = 4096;

/// Events that wait for answers; see the module.
#[derive(Default)]
pub(crate) struct Ahead {
    waiting: VecDeque<Event>,
    bytes: usize,
}

impl Ahead {
    pub(crate) fn push(&mut self, event: Event) {
        self.bytes += bytes(&event);
        self.waiting.push_back(event);
    }

    /// The next event, if its answer has arrived.
    pub(crate) fn pop(&mut self, is_answered: impl FnOnce() -> bool) -> Option<Event> {
        if !self.is_ready(is_answered) {
            return None;
        }
        let event = self.waiting.pop_front()?;
        self.bytes -= bytes(&event);
        Some(event)
    }

    /// Whether there is an event whose answer has arrived.
    pub(crate) fn is_ready(&self, is_answered: impl FnOnce() -> bool) -> bool {
        match self.waiting.front() {
            Some(Event::Batch(_)) => is_answered(),
            Some(_) => true,
            None => false,
        }
    }

    /// Whether the queue takes no further event now. `answers`: bytes of the answers that wait.
    pub(crate) fn is_full(&self, answers: usize) -> bool {
        let holds_rows = self.bytes > 0;
        holds_rows && self.bytes + answers >= BYTES_MAX || self.waiting.len() >= EVENTS_MAX
    }
}

fn bytes(event: &Event) -> usize {
    match event {
        Event::Batch(batch) => batch_bytes(&batch.value),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_model::{EventTime, Nanos, Stamped};
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn rows(count: i64) -> Event {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let column = Arc::new((0..count).collect::<Int64Array>());
        Event::Batch(Stamped { value: RecordBatch::try_new(schema, vec![column]).expect("rows"), born: Nanos(0) })
    }

    #[test]
    fn nothing_overtakes_rows_that_wait_for_an_answer() {
        let mut ahead = Ahead::default();
        let watermark = || Event::Watermark(Stamped { value: EventTime(7), born: Nanos(0) });
        [watermark(), rows(1), watermark(), rows(2)].into_iter().for_each(|event| ahead.push(event));
        assert!(matches!(ahead.pop(|| false), Some(Event::Watermark(_))));
        assert!(ahead.pop(|| false).is_none(), "the rows wait, and so does what follows them");
        assert!(matches!(ahead.pop(|| true), Some(Event::Batch(batch)) if batch.value.num_rows() == 1));
        assert!(matches!(ahead.pop(|| false), Some(Event::Watermark(_))));
        assert!(ahead.pop(|| false).is_none() && !ahead.is_full(0));
        assert!(matches!(ahead.pop(|| true), Some(Event::Batch(batch)) if batch.value.num_rows() == 2));
        assert!(ahead.pop(|| true).is_none());
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_and_in_number() {
        let mut ahead = Ahead::default();
        ahead.push(rows(BYTES_MAX as i64 / 8));
        assert!(ahead.is_full(0));
        assert!(ahead.pop(|| true).is_some() && !ahead.is_full(0), "the bytes are free again");
        ahead.push(rows(1));
        assert!(ahead.is_full(BYTES_MAX) && !ahead.is_full(BYTES_MAX / 2), "answers that wait count too");
        assert!(ahead.pop(|| true).is_some() && !ahead.is_full(BYTES_MAX), "what waits for nothing may always arrive");
        (0..EVENTS_MAX).for_each(|_| ahead.push(rows(1)));
        assert!(ahead.is_full(0));
    }
}
