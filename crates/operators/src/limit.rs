//! Limit: the first rows to arrive. Its state is the number of rows so far, so a restarted job continues to
//! count.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anabranch_dataflow::LimitSpec;
use anabranch_model::{EventTime, Result};
use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::Schema;

use crate::keyed_state::{check_columns, number, numbers};
use crate::operator::{StateChange, StateShape, same_kind};
use crate::{Operator, Output, State};

pub(crate) struct Limit {
    spec: LimitSpec,
    /// Number of rows so far, up to the limit.
    rows: u64,
    /// The number in the last snapshot.
    noted: Option<u64>,
}

impl Limit {
    pub(crate) fn new(spec: LimitSpec) -> Limit {
        Limit { spec, rows: 0, noted: None }
    }

    fn shape() -> StateShape {
        let schema = Arc::new(Schema::new(vec![number("rows")]));
        StateShape { table: String::new(), schema, keys: 0..0, pane: None }
    }
}

impl Operator for Limit {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let LimitSpec { skip, fetch } = self.spec;
        let end = skip.saturating_add(fetch);
        let rows = batch.num_rows();
        // The number of rows of the batch before the given row of the whole input.
        let before = |all: u64| usize::try_from(all.saturating_sub(self.rows)).unwrap_or(usize::MAX).min(rows);
        let (first, last) = (before(skip), before(end));
        if last > first {
            out.batch(batch.slice(first, last - first));
        }
        self.rows = self.rows.saturating_add(rows as u64).min(end);
        Ok(())
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Limit {
    fn tables(&self) -> Vec<StateShape> {
        vec![Limit::shape()]
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let former = self.noted.replace(self.rows);
        let has_changed = former != Some(self.rows);
        let complete = has_changed && !(adds && former.is_some());
        let rows: Int64Array = has_changed.then(|| i64::try_from(self.rows).unwrap_or(i64::MAX)).into_iter().collect();
        let rows = RecordBatch::try_new(Limit::shape().schema, vec![Arc::new(rows)])?;
        Ok(StateChange::of_tables(vec![rows], complete, Vec::new()))
    }

    fn restore(&mut self, _table: usize, rows: RecordBatch) -> Result<()> {
        check_columns(&rows.schema(), &Limit::shape().schema)?;
        // Later snapshots have larger numbers.
        let largest = numbers(rows.columns(), 0)?.values().iter().copied().max().unwrap_or(0);
        self.rows = self.rows.max(u64::try_from(largest).unwrap_or(0));
        Ok(())
    }

    fn restored(&mut self, _watermark: EventTime) -> Result<()> {
        self.noted = None;
        Ok(())
    }

    fn goes_on(&mut self) {
        self.noted = Some(self.rows);
    }

    fn succeed(&mut self, former: &mut dyn State) -> Result<()> {
        let former: &mut Limit = same_kind(former)?;
        (self.rows, self.noted) = (former.rows, former.noted);
        Ok(())
    }
}
