//! An operator whose times are local times of a zone, as those of windows are. Watermarks are instants. The operator gets them as local
//! times, which never go back, and what it emits of them becomes instants again.

use std::any::Any;

use anabranch_functions::Zone;
use anabranch_model::{EventTime, Result};
use arrow::array::RecordBatch;

use crate::{Dropped, Operator, Output, StateChange, StateShape};

pub(crate) struct LocalTime {
    zone: Zone,
    inner: Box<dyn Operator>,
    /// The last watermark, as an instant.
    reached: EventTime,
    /// The last watermark that has left.
    passed: EventTime,
}

impl LocalTime {
    pub(crate) fn new(zone: Zone, inner: Box<dyn Operator>) -> Self {
        LocalTime { zone, inner, reached: EventTime::MIN, passed: EventTime::MIN }
    }

    fn local(&self, instant: EventTime) -> EventTime {
        EventTime(self.zone.passed_local_ms(instant.0))
    }

    /// Calls the operator, and gives its watermarks as instants.
    fn call(
        &mut self,
        out: &mut Output,
        call: impl FnOnce(&mut dyn Operator, &mut Output) -> Result<bool>,
    ) -> Result<bool> {
        let before = out.len();
        let result = call(self.inner.as_mut(), out);
        let (zone, instant) = (self.zone, self.reached);
        out.change_watermarks(before, |watermark| {
            // Where clocks are set back, rows of a local time that comes again follow: they become instants of its first time.
            let reached = EventTime(zone.passed_instant_ms(watermark.0)).min(instant);
            self.passed = self.passed.max(reached);
            self.passed
        });
        result
    }
}

impl Operator for LocalTime {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.call(out, |inner, out| inner.batch(batch, out).map(|()| true)).map(|_| ())
    }

    fn input_batch(&mut self, input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.call(out, |inner, out| inner.input_batch(input, batch, out).map(|()| true)).map(|_| ())
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        // After a restore the inputs may be behind.
        self.reached = self.reached.max(watermark);
        let local = self.local(self.reached);
        self.call(out, |inner, out| inner.watermark(local, out).map(|()| true)).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        self.call(out, |inner, out| inner.more(out))
    }

    fn flush(&mut self, out: &mut Output) -> Result<()> {
        self.call(out, |inner, out| inner.flush(out).map(|()| true)).map(|_| ())
    }

    fn processing_time(&mut self, wall_ms: i64) -> Result<()> {
        self.inner.processing_time(wall_ms)
    }

    fn state_tables(&self) -> Vec<StateShape> {
        self.inner.state_tables()
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        self.inner.snapshot(adds)
    }

    fn catch_up(&mut self) -> Result<bool> {
        self.inner.catch_up()
    }

    fn restore(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        self.inner.restore(table, rows)
    }

    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.reached = self.reached.max(watermark);
        self.inner.restored(self.local(watermark))
    }

    fn goes_on(&mut self) {
        self.inner.goes_on();
    }

    fn succeed(&mut self, former: Box<dyn Operator>) -> Result<()> {
        let former: Box<dyn Any> = former;
        let former = former.downcast::<LocalTime>();
        let former =
            former.map_err(|_| anabranch_model::Error::internal("an operator in a zone follows one without"))?;
        let LocalTime { inner, reached, passed, .. } = *former;
        (self.reached, self.passed) = (reached, passed);
        self.inner.succeed(inner)
    }

    fn event_time_ahead(&mut self, time: EventTime) {
        self.inner.event_time_ahead(self.local(time));
    }

    fn take_dropped(&mut self) -> Dropped {
        self.inner.take_dropped()
    }
}

#[cfg(test)]
mod tests;
