//! Processing time: the time at which a source reads its rows, by the clock of its task. Operators get it as
//! a column of the rows and as a watermark, and read no clock. So a run can be repeated, and windows of
//! processing time are ordinary windows.

use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{SourceSpec, processing_time_field};
use anabranch_model::{EventTime, Nanos, Result};
use arrow::array::{ArrayRef, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{Field, Schema};

/// Interval of the watermarks of processing time.
const STEP: Duration = Duration::from_millis(100);

/// The processing time of one source.
pub(crate) struct ProcessingTime {
    /// Milliseconds since 1970. It never decreases, even if the machine's clock does. If windows use it, it
    /// does not decrease on another machine after a restart either.
    reached: i64,
    /// When the next watermark is due. `None`: windows use event time, or there are none.
    next_progress: Option<Nanos>,
}

impl ProcessingTime {
    /// The processing time of a source, if it needs one. `restored` is the watermark from which it resumes.
    pub(crate) fn for_source(spec: &SourceSpec, restored: Option<EventTime>) -> Option<ProcessingTime> {
        let is_watermark = spec.watermark.as_ref().is_some_and(|watermark| watermark.by_clock);
        let reached = restored.filter(|_| is_watermark).map_or(i64::MIN, |watermark| watermark.0.saturating_add(1));
        spec.reads_clock.then_some(ProcessingTime { reached, next_progress: is_watermark.then_some(Nanos(0)) })
    }

    fn read(&mut self, wall_ms: i64) -> i64 {
        self.reached = self.reached.max(wall_ms);
        self.reached
    }

    /// Appends the time to the rows as their last column.
    pub(crate) fn stamp(&mut self, batch: &RecordBatch, wall_ms: i64) -> Result<RecordBatch> {
        let times = TimestampMillisecondArray::from(vec![self.read(wall_ms); batch.num_rows()]).with_timezone("UTC");
        let columns = batch.columns().iter().cloned().chain([Arc::new(times) as ArrayRef]).collect();
        let fields = batch.schema().fields().iter().map(|field| field.as_ref().clone()).collect::<Vec<Field>>();
        let schema = Schema::new(fields.into_iter().chain([processing_time_field()]).collect::<Vec<_>>());
        Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
    }

    /// The watermark, if it is due. No later row gets a time at or before it.
    pub(crate) fn progress(&mut self, now: Nanos, wall_ms: i64) -> Option<EventTime> {
        let due = self.next_progress.filter(|due| now >= *due)?;
        self.next_progress = Some(due.max(now).plus(STEP));
        Some(EventTime(self.read(wall_ms).saturating_sub(1)))
    }

    /// When the next watermark is due.
    pub(crate) fn next_progress(&self) -> Option<Nanos> {
        self.next_progress
    }
}

#[cfg(test)]
mod tests {
    use anabranch_dataflow::{ConnectorSpec, Expr, Lateness, WatermarkSpec};
    use anabranch_operators::event_times;
    use arrow::array::Int64Array;
    use arrow::datatypes::DataType;

    use super::*;

    fn source(by_clock: bool) -> SourceSpec {
        let watermark = WatermarkSpec {
            time: Expr::Column(1),
            delay_ms: 0,
            idle_timeout_ms: None,
            lateness: Lateness::Job,
            by_clock,
            at_end: false,
            alignment: None,
        };
        SourceSpec {
            watermark: Some(watermark),
            reads_clock: true,
            ..SourceSpec::new(
                "t",
                ConnectorSpec::new("x", &[]),
                Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)])),
            )
        }
    }

    fn stamped(processing: &mut ProcessingTime, spec: &SourceSpec, wall_ms: i64) -> i64 {
        let schema = Arc::clone(&spec.declared);
        let rows = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![1, 2]))]).expect("rows");
        let rows = processing.stamp(&rows, wall_ms).expect("a time");
        assert_eq!(rows.schema().as_ref(), &spec.decoded().expect("columns"));
        let times = event_times(rows.column(1)).expect("times").to_vec();
        assert_eq!(times[0], times[1]);
        times[0]
    }

    #[test]
    fn no_row_is_behind_the_time_that_windows_know() {
        let spec = source(true);
        let mut processing = ProcessingTime::for_source(&spec, None).expect("it reads the clock");
        assert_eq!(processing.progress(Nanos(5), 1000), Some(EventTime(999)));
        assert_eq!(stamped(&mut processing, &spec, 1000), 1000, "the watermark is just before it");
        assert_eq!(stamped(&mut processing, &spec, 400), 1000, "the clock was set back");
        assert_eq!(processing.progress(Nanos(6), 1001), None, "it is not time yet");
        let next = processing.next_progress().expect("a time");
        assert_eq!(processing.progress(next, 900), Some(EventTime(999)));
        let mut resumed = ProcessingTime::for_source(&spec, Some(EventTime(2000))).expect("it reads the clock");
        assert_eq!(stamped(&mut resumed, &spec, 1500), 2001, "the clock of the former machine was ahead");
    }

    #[test]
    fn a_source_whose_windows_follow_event_time_only_gives_its_rows_the_time() {
        let spec = source(false);
        let mut processing = ProcessingTime::for_source(&spec, Some(EventTime(9000))).expect("it reads the clock");
        assert_eq!(processing.progress(Nanos(u64::MAX), 10), None);
        assert_eq!(stamped(&mut processing, &spec, 10), 10);
        assert!(ProcessingTime::for_source(&SourceSpec { reads_clock: false, ..spec }, None).is_none());
    }
}
