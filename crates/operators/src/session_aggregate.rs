//! Aggregation by keys and session: consecutive rows of a key whose distance is at most the gap form a
//! session.
//!
//! The rows of a batch are divided into sessions, which are then merged with those of earlier batches. A
//! session has a list of pieces: rows of aggregate states, in columns. Pieces are merged only when the
//! session ends, when its list has grown long, and for a snapshot. So a row costs no read of a state.
//!
//! A row exactly one gap after another one continues its session. Such a row may arrive until the watermark
//! has reached the session's end, one millisecond after `window_time`. So sessions fire then, and the
//! watermarks that leave the operator are 1 ms earlier.

mod pieces;
mod sessions;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anabranch_dataflow::{JobOptions, Window, WindowAggregateSpec};
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::compute::{filter_record_batch, is_not_null};
use arrow::datatypes::{DataType, SchemaRef};

use self::sessions::{BatchSession, Session, Sessions};
use crate::event_time::event_times;
use crate::keyed_state::{KeyedState, Keys, narrow};
use crate::operator::RESULT_ROWS;
use crate::window_aggregate::{AggregateFunctions, result_schema};
use crate::window_assign::bound_columns;
use crate::{CompiledExpr, Dropped, Functions, Operator, Output, State};

pub(crate) struct SessionAggregate {
    gap: i64,
    time: CompiledExpr,
    time_type: DataType,
    keys: Vec<CompiledExpr>,
    schema: SchemaRef,
    state: KeyedState<Sessions>,
    dropped: Dropped,
}

impl SessionAggregate {
    pub(crate) fn new(spec: &WindowAggregateSpec, functions: &Functions, options: &JobOptions) -> Result<Self> {
        let Window::Session { gap_ms: gap } = spec.window else {
            return Err(Error::internal(format!("{} is no session", spec.window)));
        };
        let input = &spec.input_schema;
        let compile = |expr| CompiledExpr::new(expr, input, functions);
        let time = spec.time.as_ref().ok_or_else(|| Error::internal("a session without event time"))?;
        let keys = Keys {
            types: spec.keys.iter().map(|key| key.data_type.clone()).collect(),
            time_to_live_ms: None,
            window: None,
            wait_ms: Some(gap),
        };
        let sessions = Sessions::new(spec, AggregateFunctions::new(&spec.aggregates, input, functions)?);
        Ok(SessionAggregate {
            gap,
            time: compile(time)?,
            time_type: spec.time_type.clone(),
            keys: spec.keys.iter().map(|key| compile(&key.expr)).collect::<Result<_>>()?,
            schema: result_schema(spec, true),
            state: KeyedState::new(sessions, keys, options)?,
            dropped: Dropped::default(),
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds rows, which have event times.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let time = self.time.evaluate(batch)?;
        let columns = self.keys.iter_mut().map(|key| key.evaluate(batch)).collect::<Result<Vec<_>>>()?;
        if let Some(halves) = self.state.bring(&columns, batch.num_rows())? {
            return self.state.divide(batch, &halves);
        }
        let (runs, run_of) = self.runs(&self.state.ids, &event_times(&time)?)?;
        let KeyedState { rows: sessions, watermark, .. } = &mut self.state;
        self.dropped.late_rows += sessions.add(batch, &runs, &run_of, *watermark)?;
        self.state.remove_dead()?;
        self.state.keep_to_size(0).map(|_| ())
    }

    /// Divides rows into sessions. Also returns the session of each row.
    fn runs(&self, keys: &[usize], times: &[i64]) -> Result<(Vec<BatchSession>, Vec<usize>)> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|row| (keys[*row], times[*row]));
        let (mut runs, mut run_of) = (Vec::<BatchSession>::new(), vec![0; keys.len()]);
        for row in order {
            let (key, time) = (narrow(keys[row])?, times[row]);
            let end = time.checked_add(self.gap).ok_or_else(|| {
                Error::user(format!("an event time of {time} ms since 1970 is out of range for sessions"))
                    .remedy("exclude such rows with WHERE, or correct the event-time expression")
            })?;
            match runs.last_mut().filter(|run| run.key == key && time <= run.end) {
                Some(run) => (run.end, run.rows) = (end, run.rows + 1),
                None => runs.push(BatchSession { key, start: time, end, rows: 1 }),
            }
            run_of[row] = runs.len() - 1;
        }
        Ok((runs, run_of))
    }

    /// Emits some of the sessions that end at or before `to`. Returns false if there are none.
    fn fire(&mut self, to: i64, out: &mut Output) -> Result<bool> {
        let sessions = &mut self.state.rows;
        let due = sessions.due(to, RESULT_ROWS);
        if due.is_empty() {
            return Ok(false);
        }
        let ended: Vec<Session> = due.iter().filter_map(|id| sessions.remove(*id)).collect();
        let results = sessions.results(&ended)?;
        let mut columns = self.state.keys.keys_of(&due.iter().map(|(key, _)| *key as usize).collect::<Vec<_>>())?;
        let bounds = due.iter().zip(&ended).map(|((_, start), session)| (*start, session.end)).unzip();
        columns.extend(bound_columns(bounds, &self.time_type)?);
        columns.extend(results);
        let options = RecordBatchOptions::new().with_row_count(Some(due.len()));
        out.batch(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
        Ok(true)
    }
}

impl Operator for SessionAggregate {
    fn batch(&mut self, mut batch: RecordBatch, _out: &mut Output) -> Result<()> {
        self.state.end_restore()?;
        let time = self.time.evaluate(&batch)?;
        if time.null_count() > 0 {
            self.dropped.rows_without_event_time += time.null_count() as u64;
            batch = filter_record_batch(&batch, &is_not_null(&time)?)?;
        }
        self.add(&batch)?;
        self.state.work()
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.state.end_restore()?;
        // After a restore the inputs may be behind the restored watermark.
        let to = watermark.0.max(self.state.watermark);
        self.state.firing = Some(to);
        self.state.timers.iter_mut().for_each(|timers| timers.reach(to));
        self.more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        if let Some(batch) = self.state.divided.pop_front() {
            self.add(&batch)?;
            return Ok(true);
        }
        let Some(to) = self.state.firing else { return Ok(false) };
        if self.fire(to, out)? {
            return Ok(true);
        }
        self.state.keep_to_size(0)?;
        if self.state.load_due()? {
            return Ok(true);
        }
        self.state.pass();
        self.state.remove_dead()?;
        out.watermark(EventTime(if to == i64::MAX { to } else { to.saturating_sub(1) }));
        Ok(true)
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(&mut self.state)
    }
}
