//! Functions over the rows before each row: `SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING
//! AND CURRENT ROW)`.
//!
//! With event time, rows wait until the watermark reaches them, and are then processed in time order. Without
//! event time, they are processed in order of arrival, and results follow at once. A row enters the frames of
//! its partition once and leaves them once: aggregates add it and retract it, whatever the size of the frame.
//! All due rows are processed together, function by function, with results read between the rows
//! (`Accumulator::running`).
//!
//! The state is what later rows may need: for a bounded frame, the columns that functions read; for an
//! unbounded one, only the states of the functions. With state on a local disk, a partition is in memory as a
//! whole or not at all: it is looked up when its rows are due.

mod fifo;
mod finite;
mod frames;
mod functions;
mod history;
mod partitions;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anabranch_dataflow::{JobOptions, OverSpec};
use anabranch_model::{EventTime, Result};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{interleave, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef};

use self::partitions::Partitions;
use crate::keyed_state::{KeyedState, Keys};
use crate::waiting::{DueRows, Order, Waiting, timely};
use crate::{Dropped, Functions, Operator, Output, State};

pub(crate) struct Over {
    spec: OverSpec,
    schema: SchemaRef,
    /// Without event time no rows wait: results follow at once.
    state: KeyedState<Partitions>,
    dropped: Dropped,
}

impl Over {
    pub(crate) fn new(spec: &OverSpec, functions: &Functions, options: &JobOptions) -> Result<Over> {
        // With a disk, waiting rows take at most half of the memory limit.
        let share = JobOptions { state_bytes: options.state_bytes / 2, ..options.clone() };
        let order = spec.time.map(Order::Time);
        let waiting = order.map(|order| Waiting::new(Arc::clone(&spec.schema), spec.keys, order, &share));
        let keys = Keys { time_to_live_ms: spec.time_to_live_ms, ..Keys::first_of(&spec.schema, spec.keys) };
        let state = KeyedState::new(Partitions::new(spec, functions)?, keys, options)?;
        Ok(Over {
            schema: Arc::new(spec.output_schema()),
            state: state.with_waiting(waiting.transpose()?),
            spec: spec.clone(),
            dropped: Dropped::default(),
        })
    }

    fn emit(&mut self, piece: &DueRows, out: &mut Output) -> Result<()> {
        let results = self.results(piece)?;
        self.keep_to_size()?;
        let kept = self.spec.output.iter().map(|column| ArrayRef::clone(piece.rows.column(*column)));
        let options = RecordBatchOptions::new().with_row_count(Some(piece.rows.num_rows()));
        let columns = kept.chain(results).collect();
        out.batch(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
        Ok(())
    }

    /// The results of rows whose partitions do not fit into memory at once: first those of one half of the
    /// partitions, then of the other.
    fn results_of_halves(&mut self, piece: &DueRows, halves: &[UInt64Array; 2]) -> Result<Vec<ArrayRef>> {
        let mut places = vec![(0, 0); piece.rows.num_rows()];
        let mut results = Vec::with_capacity(2);
        for (half, at) in halves.iter().enumerate() {
            at.values().iter().enumerate().for_each(|(place, row)| places[*row as usize] = (half, place));
            let numbers = at.values().iter().map(|row| piece.numbers[*row as usize]).collect();
            let part = DueRows { rows: take_record_batch(&piece.rows, at)?, numbers };
            results.push(self.results(&part)?);
            self.keep_to_size()?;
        }
        let functions = results[0].iter().zip(&results[1]);
        functions.map(|(a, b)| Ok(interleave(&[a.as_ref(), b.as_ref()], &places)?)).collect()
    }

    fn keep_to_size(&mut self) -> Result<()> {
        self.state.keep_to_size(0)?;
        self.state.work()
    }
}

impl Operator for Over {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        match (self.spec.time, &mut self.state.waiting) {
            (Some(time), Some(waiting)) => {
                let kept = timely(batch.column(time), self.state.watermark, &mut self.dropped)?;
                waiting.add(&batch, kept)?;
                self.keep_to_size()
            }
            _ => {
                self.state.end_restore()?;
                let numbers = vec![i64::MIN; batch.num_rows()];
                self.emit(&DueRows { rows: batch, numbers }, out)
            }
        }
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.state.reach(watermark, out)?;
        self.more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        if let Some(piece) = self.state.next_piece()? {
            self.emit(&piece, out)?;
            return Ok(true);
        }
        let Some(watermark) = self.state.pass() else { return Ok(false) };
        self.state.forget_away();
        self.state.rows.drop_early(watermark.0)?;
        self.state.remove_dead()?;
        out.watermark(watermark);
        Ok(true)
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(&mut self.state)
    }
}

/// The operator, and the columns of its output.
pub(crate) fn build(
    spec: &OverSpec,
    functions: &Functions,
    options: &JobOptions,
) -> Result<(Box<dyn Operator>, SchemaRef)> {
    let over = Over::new(spec, functions, options)?;
    let schema = Arc::clone(&over.schema);
    Ok((Box::new(over), schema))
}

/// Whether functions over rows can take over the state of others: the functions, columns and frames are the
/// same, and both or neither have a time to live.
pub(crate) fn goes_on(former: &OverSpec, next: &OverSpec) -> bool {
    let types = |spec: &OverSpec| -> Vec<(DataType, bool)> {
        spec.schema.fields().iter().map(|field| (field.data_type().clone(), field.is_nullable())).collect()
    };
    let kinds =
        |spec: &OverSpec| (spec.keys, spec.time, spec.frame, spec.time_to_live_ms.is_some(), spec.functions.clone());
    kinds(former) == kinds(next) && types(former) == types(next)
}
