//! The time to live of state: keys that do not change for this time are forgotten.
//!
//! The time of a key is noted in steps, and all rows of a key's state have the same time: when a key is
//! changed for the first time in a step, all of its rows are written again. So they expire together, in
//! memory and in files that are only merged later, and an operator never finds a part of a key. The time is
//! the processing time at the ends of epochs: an operator reads no clock.

use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::JobOptions;
use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, TimestampMillisecondArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit, TimestampMillisecondType};

/// Column of the times of rows of state.
const WRITTEN: &str = "$written";

/// The time to live is divided into this number of steps. A key lives for at most one step and one epoch
/// longer.
const STEPS: i64 = 8;

/// The longest epoch of an idle job.
const IDLE_EPOCH: Duration = Duration::from_secs(2);

/// When keys were changed last, by their ids.
pub(crate) struct TimeToLive {
    ms: i64,
    /// How far the processing time may be behind, in milliseconds.
    behind_ms: i64,
    /// The processing time, in milliseconds. It never decreases.
    now: i64,
    /// The step in which keys were forgotten last.
    swept: i64,
    /// For each key: when it was changed. 0: never.
    written: Vec<i64>,
}

impl TimeToLive {
    /// The times of keys with this time to live.
    pub(crate) fn new(ms: i64, options: &JobOptions) -> TimeToLive {
        let behind_ms = i64::try_from(options.epoch_interval.max(IDLE_EPOCH).as_millis()).unwrap_or(i64::MAX);
        TimeToLive { ms: ms.max(1), behind_ms, now: 0, swept: i64::MIN, written: Vec::new() }
    }

    /// The column of times in rows of state, before the number of their snapshot.
    pub(crate) fn field() -> Field {
        Field::new(WRITTEN, DataType::Timestamp(TimeUnit::Millisecond, None), false)
    }

    fn step_ms(&self) -> i64 {
        (self.ms / STEPS).max(1)
    }

    /// Processing time advances. Returns whether it is time to forget keys.
    pub(crate) fn advance(&mut self, wall_ms: i64) -> bool {
        self.now = self.now.max(wall_ms);
        let step = self.now / self.step_ms();
        std::mem::replace(&mut self.swept, step) != step
    }

    /// The time of present changes: an upper bound until the end of the next epoch.
    pub(crate) fn current(&self) -> i64 {
        (self.now.saturating_add(self.behind_ms) / self.step_ms()).saturating_add(1).saturating_mul(self.step_ms())
    }

    /// Notes that a key is changed. Returns whether its other rows have an earlier time. The time of a key
    /// never decreases, even if the time to live or an epoch became shorter, or another process has another
    /// clock: a row that replaces another must not expire before it.
    pub(crate) fn write(&mut self, key: usize) -> bool {
        if self.written.len() <= key {
            self.written.resize(key + 1, 0);
        }
        let before = self.written[key];
        self.written[key] = before.max(self.current());
        before != 0 && before != self.written[key]
    }

    /// The earliest time of rows that are needed, in milliseconds.
    pub(crate) fn first_needed(&self) -> i64 {
        self.now.saturating_sub(self.ms).saturating_add(1)
    }

    /// Whether the time to live of rows that were written then is over.
    pub(crate) fn is_over(&self, written: i64) -> bool {
        written < self.first_needed()
    }

    /// Those of the keys whose time to live is over.
    pub(crate) fn over(&self, keys: impl Iterator<Item = usize>) -> Vec<usize> {
        keys.filter(|key| self.written.get(*key).is_some_and(|written| self.is_over(*written))).collect()
    }

    /// The times of rows of these keys.
    pub(crate) fn times_of(&self, keys: &[usize]) -> ArrayRef {
        let written = |key: &usize| self.written.get(*key).copied().unwrap_or(0);
        Arc::new(keys.iter().map(|key| Some(written(key))).collect::<TimestampMillisecondArray>())
    }

    /// Rows of state without the expired ones. Rows from before there was a time to live get the present
    /// time.
    pub(crate) fn needed(&self, rows: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let column = column_of(schema)?;
        if rows.num_columns() + 1 == schema.fields().len() {
            let mut columns = rows.columns().to_vec();
            columns.insert(column, Arc::new(TimestampMillisecondArray::from(vec![self.current(); rows.num_rows()])));
            return with_columns(schema, columns);
        }
        let (times, first) = (times(&rows, column)?, self.first_needed());
        if times.values().iter().all(|time| *time >= first) {
            return Ok(rows);
        }
        let needed: BooleanArray = times.values().iter().map(|time| Some(*time >= first)).collect();
        Ok(filter_record_batch(&rows, &needed)?)
    }

    /// Restores the time of a key from one of its rows.
    pub(crate) fn restore(&mut self, key: usize, time: i64) {
        if self.written.len() <= key {
            self.written.resize(key + 1, 0);
        }
        self.written[key] = self.written[key].max(time);
    }

    /// The rows of a table that have the time of their key, with their keys. Other rows belong to a former
    /// life of the key, which had expired. They are found again only if the time to live became longer or the
    /// clock is another one.
    pub(crate) fn living(&self, mut keys: Vec<usize>, rows: &RecordBatch) -> Result<(Vec<usize>, RecordBatch)> {
        let living = self.are_living(&keys, rows)?;
        let mut row = 0..keys.len();
        keys.retain(|_| row.next().is_some_and(|row| living.value(row)));
        Ok((keys, filter_record_batch(rows, &living)?))
    }

    /// Which rows [`TimeToLive::living`] returns.
    pub(crate) fn are_living(&self, keys: &[usize], rows: &RecordBatch) -> Result<BooleanArray> {
        let times = times(rows, column_of(rows.schema_ref())?)?;
        let is_of_key = |(key, time): (&usize, &i64)| Some(self.written.get(*key) == Some(time));
        Ok(keys.iter().zip(times.values()).map(is_of_key).collect())
    }

    /// Restores the times of keys from their rows.
    pub(crate) fn restore_rows(&mut self, keys: &[usize], rows: &RecordBatch) -> Result<()> {
        let times = times(rows, column_of(rows.schema_ref())?)?;
        keys.iter().zip(times.values()).for_each(|(key, time)| self.restore(*key, *time));
        Ok(())
    }

    /// Keeps these keys only; the first of them becomes key 0.
    pub(crate) fn keep(&mut self, keys: &[usize]) {
        self.written = keys.iter().map(|key| self.written.get(*key).copied().unwrap_or(0)).collect();
    }

    /// Takes over the times of a former plan version.
    pub(crate) fn follow(self, former: Option<TimeToLive>) -> TimeToLive {
        let (now, written) = former.map_or((self.now, Vec::new()), |former| (former.now, former.written));
        TimeToLive { now, swept: i64::MIN, written, ..self }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.written.capacity() * size_of::<i64>()
    }
}

/// The column of times, if rows of this schema have a time to live: the one before the number of the
/// snapshot.
pub(crate) fn column(schema: &SchemaRef) -> Option<usize> {
    let column = schema.fields().len().checked_sub(2)?;
    let (field, own) = (schema.field(column), TimeToLive::field());
    (field.name() == own.name() && field.data_type() == own.data_type()).then_some(column)
}

fn column_of(schema: &SchemaRef) -> Result<usize> {
    column(schema).ok_or_else(|| Error::internal("rows of a state without their times"))
}

fn times(rows: &RecordBatch, column: usize) -> Result<&TimestampMillisecondArray> {
    let times = rows.column(column).as_primitive_opt::<TimestampMillisecondType>();
    times.ok_or_else(|| Error::internal("the times of a state are no timestamps"))
}

fn with_columns(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// Rows of state without their times: the former plan version had a time to live.
pub(crate) fn without_times(rows: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    match column_of(rows.schema_ref()) {
        Ok(column) if rows.num_columns() == schema.fields().len() + 1 => {
            let kept: Vec<usize> = (0..rows.num_columns()).filter(|other| *other != column).collect();
            Ok(rows.project(&kept)?)
        }
        _ => Ok(rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of 1 s, and epochs of 2 s at most.
    fn times() -> TimeToLive {
        TimeToLive::new(8_000, &JobOptions::default())
    }

    #[test]
    fn keys_live_as_long_as_they_are_changed_and_little_longer() {
        let mut times = times();
        assert!(times.advance(100_000) && !times.advance(100_500), "a step has a second");
        assert!(!times.write(0), "it has no other rows");
        assert!(!times.write(0), "they were written in this step");
        // A row may have been changed up to 2 s later than its time says.
        times.advance(109_999);
        assert_eq!(times.over(0..1), Vec::<usize>::new());
        assert!(times.write(0), "they are written anew");
        times.advance(119_998);
        assert_eq!(times.over(0..1), Vec::<usize>::new());
        times.advance(121_000);
        assert_eq!(times.over(0..1), vec![0]);
        times.advance(0);
        assert_eq!(times.over(0..1), vec![0], "time does not go back");
    }

    #[test]
    fn what_is_restored_goes_on_living() {
        let mut times = times();
        times.advance(100_000);
        times.restore(3, 107_000);
        assert_eq!(times.over(0..4), vec![0, 1, 2]);
        times.advance(115_001);
        assert_eq!(times.over([3].into_iter()), vec![3]);
    }

    /// With a longer time to live, times were rounded further ahead, and rows of state have them.
    #[test]
    fn times_of_a_key_do_not_go_back_when_the_time_to_live_is_shorter() {
        let mut times = times();
        times.advance(100_000);
        times.restore(0, 190_000);
        times.restore(1, 101_000);
        assert_eq!(times.over(0..2), Vec::<usize>::new());
        assert!(!times.write(0), "its rows have a later time");
        assert!(times.write(1), "its rows have an earlier time");
        times.advance(197_999);
        assert_eq!(times.over(0..2), vec![1]);
        times.advance(198_000);
        assert_eq!(times.over(0..2), vec![0, 1]);
    }
}
