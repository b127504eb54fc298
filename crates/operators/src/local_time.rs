//! An operator that works in local times of a zone, such as windows in a zone. Watermarks are instants. The
//! operator receives them as local times, which never decrease, and the watermarks that it emits become
//! instants again.

use anabranch_functions::Zone;
use anabranch_model::{Error, EventTime, Result};
use arrow::array::RecordBatch;

use crate::operator::same_kind;
use crate::{Dropped, Operator, Output, State, StateChange, StateShape};

pub(crate) struct LocalTime {
    zone: Zone,
    inner: Box<dyn Operator>,
    tables: Vec<StateShape>,
    /// The last watermark that arrived, as an instant.
    reached: EventTime,
    /// The last watermark that was emitted.
    passed: EventTime,
}

impl LocalTime {
    pub(crate) fn new(zone: Zone, mut inner: Box<dyn Operator>) -> Self {
        let tables = inner.state().map(|state| state.tables()).unwrap_or_default();
        LocalTime { zone, inner, tables, reached: EventTime::MIN, passed: EventTime::MIN }
    }

    fn of_inner(&mut self) -> Result<&mut dyn State> {
        self.inner.state().ok_or_else(|| Error::internal("an operator in a zone has no state"))
    }

    fn local(&self, instant: EventTime) -> EventTime {
        EventTime(self.zone.passed_local_ms(instant.0))
    }

    /// Calls the operator, and converts the watermarks that it emits to instants.
    fn call(
        &mut self,
        out: &mut Output,
        call: impl FnOnce(&mut dyn Operator, &mut Output) -> Result<bool>,
    ) -> Result<bool> {
        let before = out.len();
        let result = call(self.inner.as_mut(), out);
        let (zone, instant) = (self.zone, self.reached);
        out.change_watermarks(before, |watermark| {
            // Where clocks are set back, rows of a repeated local time follow: they become instants of its
            // first occurrence.
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
        // After a restore the inputs may be behind the restored watermark.
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

    fn event_time_ahead(&mut self, time: EventTime) {
        self.inner.event_time_ahead(self.local(time));
    }

    fn take_dropped(&mut self) -> Dropped {
        self.inner.take_dropped()
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        if self.tables.is_empty() { None } else { Some(self) }
    }
}

impl State for LocalTime {
    fn tables(&self) -> Vec<StateShape> {
        self.tables.clone()
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        self.of_inner()?.snapshot(adds)
    }

    fn catch_up(&mut self) -> Result<bool> {
        self.of_inner()?.catch_up()
    }

    fn restore(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        self.of_inner()?.restore(table, rows)
    }

    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.reached = self.reached.max(watermark);
        let local = self.local(watermark);
        self.of_inner()?.restored(local)
    }

    fn goes_on(&mut self) {
        self.inner.state().into_iter().for_each(|state| state.goes_on());
    }

    fn succeed(&mut self, former: &mut dyn State) -> Result<()> {
        let former: &mut LocalTime = same_kind(former)?;
        (self.reached, self.passed) = (former.reached, former.passed);
        self.of_inner()?.succeed(former.of_inner()?)
    }

    fn processing_time(&mut self, wall_ms: i64) -> Result<()> {
        self.of_inner()?.processing_time(wall_ms)
    }
}

#[cfg(test)]
mod tests;
