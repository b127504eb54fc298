//! Window assignment without aggregation: each row with its window, or once for each of its windows.

use std::sync::Arc;

use anabranch_dataflow::WindowAssignSpec;
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::event_time::{WindowTimes, event_times, time_column};
use crate::operator::RESULT_ROWS;
use crate::{Dropped, Operator, Output};

pub(crate) struct WindowAssign {
    times: WindowTimes,
    time: usize,
    keep: Vec<usize>,
    time_type: DataType,
    schema: SchemaRef,
    /// The rest of the last batch, if its rows are in many windows.
    rest: Option<RecordBatch>,
    dropped: Dropped,
}

impl WindowAssign {
    pub(crate) fn new(spec: &WindowAssignSpec, input: &Schema) -> Result<Self> {
        let times = WindowTimes::new(spec.window)?.ok_or_else(|| Error::internal("a global window has no columns"))?;
        let time_type = input.field(spec.time).data_type().clone();
        let mut fields: Vec<Field> = spec.keep.iter().map(|i| input.field(*i).clone()).collect();
        fields.extend(window_fields(&time_type));
        let (time, keep, schema) = (spec.time, spec.keep.clone(), Arc::new(Schema::new(fields)));
        Ok(WindowAssign { times, time, keep, time_type, schema, rest: None, dropped: Dropped::default() })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl WindowAssign {
    /// Emits these rows of a batch, each in the window with the given start.
    fn emit(&self, batch: &RecordBatch, rows: Vec<u32>, starts: &[i64], out: &mut Output) -> Result<()> {
        let identity = rows.len() == batch.num_rows() && self.times.size == self.times.slide;
        let rows = UInt32Array::from(rows);
        let kept = self.keep.iter().map(|i| match identity {
            true => Ok(Arc::clone(batch.column(*i))),
            false => Ok(take(batch.column(*i), &rows, None)?),
        });
        let mut columns = kept.collect::<Result<Vec<_>>>()?;
        columns.extend(window_columns(starts, &self.times, &self.time_type)?);
        out.batch(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        Ok(())
    }
}

/// The three columns that a window table function appends.
pub(crate) fn window_fields(time_type: &DataType) -> [Field; 3] {
    ["window_start", "window_end", "window_time"].map(|name| Field::new(name, time_type.clone(), false))
}

/// The three columns for the windows that are named by `starts`.
pub(crate) fn window_columns(starts: &[i64], times: &WindowTimes, time_type: &DataType) -> Result<[ArrayRef; 3]> {
    let spans = starts.iter().map(|start| times.span(*start));
    bound_columns(spans.map(|span| (span.start, span.end)).unzip(), time_type)
}

/// The three columns for windows with these starts and ends. `window_time` is the last instant of the window.
pub(crate) fn bound_columns((starts, ends): (Vec<i64>, Vec<i64>), time_type: &DataType) -> Result<[ArrayRef; 3]> {
    let lasts = ends.iter().map(|end| end.saturating_sub(1)).collect();
    Ok([time_column(starts, time_type)?, time_column(ends, time_type)?, time_column(lasts, time_type)?])
}

impl Operator for WindowAssign {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.rest = Some(batch);
        self.more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        let Some(batch) = self.rest.take() else { return Ok(false) };
        let column = batch.column(self.time);
        let times = event_times(column)?;
        let (mut rows, mut starts) = (Vec::with_capacity(times.len()), Vec::with_capacity(times.len()));
        for (row, time) in times.iter().enumerate() {
            // A row may be in thousands of windows.
            if rows.len() >= RESULT_ROWS.max(times.len()) {
                self.rest = Some(batch.slice(row, times.len() - row));
                break;
            }
            if column.is_null(row) {
                self.dropped.rows_without_event_time += 1;
                continue;
            }
            let (mut start, last) = (self.times.first_start(*time), self.times.last_start(*time));
            self.times.check(last)?;
            while start <= last {
                // If the slide is longer than the size, a time may be in no window.
                if start.saturating_add(self.times.size) > *time {
                    rows.push(row as u32);
                    starts.push(start);
                }
                let Some(next) = start.checked_add(self.times.slide) else { break };
                start = next;
            }
        }
        self.emit(&batch, rows, &starts, out)?;
        Ok(true)
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_dataflow::Window;
    use arrow::array::{AsArray, TimestampMillisecondArray};
    use arrow::datatypes::{TimeUnit, TimestampMillisecondType};

    use super::*;
    use crate::Element;

    #[test]
    fn rows_in_many_windows_leave_in_pieces() {
        let field = Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true);
        let input = Arc::new(Schema::new(vec![field]));
        let window = Window::Hop { size_ms: 1000, slide_ms: 1, offset_ms: 0 };
        let spec = WindowAssignSpec { time: 0, window, keep: vec![0] };
        let mut assign = WindowAssign::new(&spec, &input).expect("valid");
        let times = (0..100).map(|n| (n % 10 > 0).then_some(n * 7)).collect::<TimestampMillisecondArray>();
        let batch = RecordBatch::try_new(input, vec![Arc::new(times)]).expect("a batch");
        let (mut out, mut pieces, mut assigned) = (Output::default(), 0, Vec::new());
        assign.batch(batch, &mut out).expect("assigned");
        loop {
            let elements: Vec<_> = out.drain().collect();
            assert!(elements.len() <= 1, "a piece passes before the next one is made");
            for element in elements {
                let Element::Batch(rows) = element else { panic!("no watermark") };
                assert!(rows.num_rows() < RESULT_ROWS + 1000);
                pieces += 1;
                let column = |index: usize| rows.column(index).as_primitive::<TimestampMillisecondType>().values();
                assigned.extend(column(0).iter().copied().zip(column(1).iter().copied()));
            }
            if !assign.more(&mut out).expect("more") {
                break;
            }
        }
        let times = (0..100_i64).filter(|n| n % 10 > 0).map(|n| n * 7);
        let expected: Vec<_> = times.flat_map(|time| (time - 999..=time).map(move |start| (time, start))).collect();
        assert_eq!((assigned, pieces), (expected, 6));
        assert_eq!(assign.take_dropped().rows_without_event_time, 10);
    }
}
