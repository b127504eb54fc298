//! Window assignment without aggregation: each row with the window, or once per window, that holds it.

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
    dropped: Dropped,
}

impl WindowAssign {
    pub(crate) fn new(spec: &WindowAssignSpec, input: &Schema) -> Result<Self> {
        let times = WindowTimes::new(spec.window)?.ok_or_else(|| Error::internal("a global window has no columns"))?;
        let time_type = input.field(spec.time).data_type().clone();
        let mut fields: Vec<Field> = spec.keep.iter().map(|i| input.field(*i).clone()).collect();
        fields.extend(window_fields(&time_type));
        let (time, keep, schema) = (spec.time, spec.keep.clone(), Arc::new(Schema::new(fields)));
        Ok(WindowAssign { times, time, keep, time_type, schema, dropped: Dropped::default() })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl WindowAssign {
    /// Emits these rows of a batch, each in the window with the given start.
    fn give(&self, batch: &RecordBatch, rows: Vec<u32>, starts: &[i64], out: &mut Output) -> Result<()> {
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
        let column = batch.column(self.time);
        let times = event_times(column)?;
        let (mut rows, mut starts) = (Vec::with_capacity(times.len()), Vec::with_capacity(times.len()));
        for (row, time) in times.iter().enumerate() {
            if column.is_null(row) {
                self.dropped.rows_without_event_time += 1;
                continue;
            }
            let (mut start, last) = (self.times.first_start(*time), self.times.last_start(*time));
            self.times.check(last)?;
            while start <= last {
                // If the slide is longer than the size, times between two windows are in neither.
                if start.saturating_add(self.times.size) > *time {
                    rows.push(row as u32);
                    starts.push(start);
                }
                let Some(next) = start.checked_add(self.times.slide) else { break };
                start = next;
            }
            // A row may be in thousands of windows: emit what has been gathered before it is too much.
            if rows.len() >= RESULT_ROWS.max(times.len()) {
                self.give(&batch, std::mem::take(&mut rows), &starts, out)?;
                starts.clear();
            }
        }
        self.give(&batch, rows, &starts, out)
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }
}
