//! A function over the distinct values of each group.

use anabranch_model::Result;
use arrow::array::{ArrayRef, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field};

use super::accumulator::{Accumulator, Rows};
use super::entries::Entries;

/// Counts values, and passes each to the function when it comes to be, and back when it ceases to be.
pub(super) struct Distinct {
    entries: Entries,
    of: Box<dyn Accumulator>,
}

impl Distinct {
    pub(super) fn new(argument: &DataType, of: Box<dyn Accumulator>) -> Result<Distinct> {
        Ok(Distinct { entries: Entries::new(argument)?, of })
    }
}

impl Accumulator for Distinct {
    fn resize(&mut self, groups: usize) {
        self.of.resize(groups);
    }

    fn update(&mut self, rows: &Rows<'_>) -> Result<()> {
        let transitions = self.entries.update(rows)?;
        if transitions.is_empty() {
            return Ok(());
        }
        let groups: Vec<usize> = transitions.iter().map(|of| of.group).collect();
        let weights: Vec<i64> = transitions.iter().map(|of| if of.is_there { 1 } else { -1 }).collect();
        let at: UInt64Array = transitions.iter().map(|of| of.row as u64).collect();
        let values = [take(&rows.values[0], &at, None)?];
        self.of.update(&Rows { groups: &groups, weights: Some(&weights), values: &values })
    }

    fn results(&self, groups: &[usize]) -> Result<ArrayRef> {
        self.of.results(groups)
    }

    fn state_fields(&self, name: &str) -> Vec<Field> {
        self.of.state_fields(name)
    }

    fn state(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        self.of.state(groups)
    }

    fn restore(&mut self, groups: &[usize], state: &[ArrayRef]) -> Result<()> {
        self.of.restore(groups, state)
    }

    fn keep(&mut self, groups: &[usize]) -> Result<()> {
        self.entries.keep(groups)?;
        self.of.keep(groups)
    }

    fn size_bytes(&self) -> usize {
        self.entries.size_bytes() + self.of.size_bytes()
    }

    fn value_type(&self) -> Option<&DataType> {
        Some(self.entries.value_type())
    }

    fn entries(&mut self) -> Option<&mut Entries> {
        Some(&mut self.entries)
    }
}
