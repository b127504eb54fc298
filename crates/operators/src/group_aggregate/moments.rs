//! Variances and standard deviations, by the recurrences of Welford (1962) for weighted values, which also
//! support retractions.

use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Field, Float64Type};

use super::accumulator::{Accumulator, InputRows};
use super::readings::{Readings, ReplayStep};
use crate::keyed_state::numbers;

/// Number, mean, and sum of squared distances from the mean, of the values of each group.
pub(super) struct Moments {
    groups: Vec<Moment>,
    statistic: Statistic,
}

#[derive(Clone, Copy, Default)]
struct Moment {
    count: i64,
    mean: f64,
    squares: f64,
}

/// Which statistic is the result.
#[derive(Clone, Copy)]
pub(super) struct Statistic {
    of_sample: bool,
    root: bool,
}

impl Moment {
    fn add(&mut self, value: f64, weight: i64) {
        self.count += weight;
        if self.count == 0 {
            *self = Moment::default();
            return;
        }
        let distance = value - self.mean;
        self.mean += distance * weight as f64 / self.count as f64;
        self.squares += weight as f64 * distance * (value - self.mean);
    }

    fn result(&self, Statistic { of_sample, root }: Statistic) -> Option<f64> {
        let divisor = self.count - i64::from(of_sample);
        if self.count <= 0 || divisor <= 0 {
            return None;
        }
        // Rounding may leave a slightly negative sum after retractions.
        let variance = if self.squares < 0.0 { 0.0 } else { self.squares } / divisor as f64;
        Some(if root { variance.sqrt() } else { variance })
    }
}

impl Moments {
    /// The statistic that a function computes. `None` for functions of other kinds.
    pub(super) fn statistic(function: &str) -> Option<Statistic> {
        Some(match function {
            "var" | "var_sample" => Statistic { of_sample: true, root: false },
            "var_pop" => Statistic { of_sample: false, root: false },
            "stddev" => Statistic { of_sample: true, root: true },
            "stddev_pop" => Statistic { of_sample: false, root: true },
            _ => return None,
        })
    }

    pub(super) fn accumulator(function: &str) -> Result<Box<dyn Accumulator>> {
        let statistic =
            Moments::statistic(function).ok_or_else(|| Error::internal(format!("{function} is no variance")))?;
        Ok(Box::new(Moments { groups: Vec::new(), statistic }))
    }
}

fn doubles<'a>(rows: &'a InputRows<'_>) -> Result<&'a [f64]> {
    let values = rows.values[0].as_primitive_opt::<Float64Type>();
    Ok(values.ok_or_else(|| Error::internal("a variance of other values than DOUBLE"))?.values())
}

impl Accumulator for Moments {
    fn resize(&mut self, groups: usize) {
        self.groups.resize(groups, Moment::default());
    }

    fn update(&mut self, rows: &InputRows<'_>) -> Result<()> {
        let values = doubles(rows)?;
        rows.for_each(|row, group, weight| self.groups[group].add(values[row], weight));
        Ok(())
    }

    fn running(&mut self, rows: &InputRows<'_>, readings: &Readings) -> Result<ArrayRef> {
        let values = doubles(rows)?;
        let mut results = Vec::with_capacity(readings.len());
        rows.replay(readings, |step| match step {
            ReplayStep::Row { row, group, weight } => self.groups[group].add(values[row], weight),
            ReplayStep::Read { group } => results.push(self.groups[group].result(self.statistic)),
        });
        Ok(Arc::new(Float64Array::from(results)))
    }

    fn results(&self, groups: &[usize]) -> Result<ArrayRef> {
        Ok(Arc::new(groups.iter().map(|group| self.groups[*group].result(self.statistic)).collect::<Float64Array>()))
    }

    fn state_fields(&self, name: &str) -> Vec<Field> {
        let count = Field::new(format!("{name}[count]"), DataType::Int64, false);
        let floats = ["mean", "squares"].map(|part| Field::new(format!("{name}[{part}]"), DataType::Float64, false));
        std::iter::once(count).chain(floats).collect()
    }

    fn state(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        let moments = |group: &usize| self.groups[*group];
        let counts = Int64Array::from_iter_values(groups.iter().map(|group| moments(group).count));
        let means = Float64Array::from_iter_values(groups.iter().map(|group| moments(group).mean));
        let squares = Float64Array::from_iter_values(groups.iter().map(|group| moments(group).squares));
        Ok(vec![Arc::new(counts), Arc::new(means), Arc::new(squares)])
    }

    fn restore(&mut self, groups: &[usize], state: &[ArrayRef]) -> Result<()> {
        let floats = |column: usize| {
            let floats = state.get(column).and_then(|column| column.as_primitive_opt::<Float64Type>());
            floats.ok_or_else(|| Error::internal("the state of a variance without its columns"))
        };
        let (counts, means, squares) = (numbers(state, 0)?, floats(1)?, floats(2)?);
        for (row, group) in groups.iter().enumerate() {
            let (count, mean, squares) = (counts.value(row), means.value(row), squares.value(row));
            self.groups[*group] = Moment { count, mean, squares };
        }
        Ok(())
    }

    fn keep(&mut self, groups: &[usize]) -> Result<()> {
        self.groups = groups.iter().map(|group| self.groups[*group]).collect();
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Moment>()
    }
}
