//! `COUNT`.

use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field};

use super::accumulator::{Accumulator, InputRows};
use super::readings::{Readings, ReplayStep};
use crate::keyed_state::numbers;

/// Number of rows of each group.
#[derive(Default)]
pub(super) struct Count {
    counts: Vec<i64>,
}

impl Count {
    fn counts(&self, groups: &[usize]) -> ArrayRef {
        Arc::new(groups.iter().map(|group| self.counts[*group]).collect::<Int64Array>())
    }
}

impl Accumulator for Count {
    fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
    }

    fn update(&mut self, rows: &InputRows<'_>) -> Result<()> {
        match rows.weights {
            // A row of weight 0 adds nothing.
            Some(weights) if rows.values.iter().all(|values| values.null_count() == 0) => {
                rows.groups.iter().zip(weights).for_each(|(group, weight)| self.counts[*group] += weight);
            }
            _ => rows.for_each(|_, group, weight| self.counts[group] += weight),
        }
        Ok(())
    }

    fn running(&mut self, rows: &InputRows<'_>, readings: &Readings) -> Result<ArrayRef> {
        let mut results = Vec::with_capacity(readings.len());
        rows.replay(readings, |step| match step {
            ReplayStep::Row { group, weight, .. } => self.counts[group] += weight,
            ReplayStep::Read { group } => results.push(self.counts[group]),
        });
        Ok(Arc::new(Int64Array::from(results)))
    }

    fn results(&self, groups: &[usize]) -> Result<ArrayRef> {
        Ok(self.counts(groups))
    }

    fn state_fields(&self, name: &str) -> Vec<Field> {
        vec![Field::new(format!("{name}[count]"), DataType::Int64, false)]
    }

    fn state(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.counts(groups)])
    }

    fn restore(&mut self, groups: &[usize], state: &[ArrayRef]) -> Result<()> {
        let counts = numbers(state, 0)?;
        groups.iter().zip(counts.values()).for_each(|(group, count)| self.counts[*group] = *count);
        Ok(())
    }

    fn keep(&mut self, groups: &[usize]) -> Result<()> {
        self.counts = groups.iter().map(|group| self.counts[*group]).collect();
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<i64>()
    }
}
