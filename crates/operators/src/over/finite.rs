//! Sums of DOUBLE over frames. A NaN or an infinity cannot be retracted from a sum: `inf - inf` is NaN. So
//! the NaNs and infinities of a frame are counted beside the sum of its finite values, and no trace is left
//! when their rows leave.

use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};

use crate::group_aggregate::accumulator::{Accumulator, InputRows};
use crate::group_aggregate::readings::{Readings, ReplayStep};

/// Wraps an accumulator with such counts, if it is a sum or an average of DOUBLE.
pub(super) fn counted(
    function: &str,
    argument: Option<&DataType>,
    inner: Box<dyn Accumulator>,
) -> Box<dyn Accumulator> {
    match (function, argument) {
        ("sum" | "avg", Some(DataType::Float64)) => Box::new(Finite { inner, groups: Vec::new(), others: 0 }),
        _ => inner,
    }
}

struct Finite {
    /// The accumulator of the finite values.
    inner: Box<dyn Accumulator>,
    groups: Vec<Others>,
    /// Number of values that are not finite, over the frames of all groups.
    others: i64,
}

/// The numbers of values of a frame that are not finite.
#[derive(Clone, Copy, Default)]
struct Others {
    nan: i64,
    positive: i64,
    negative: i64,
}

impl Others {
    fn add(&mut self, value: f64, weight: i64) {
        match value {
            f64::INFINITY => self.positive += weight,
            f64::NEG_INFINITY => self.negative += weight,
            _ => self.nan += weight,
        }
    }

    /// The result if any value is not finite.
    fn result(&self) -> Option<f64> {
        match (self.nan > 0, self.positive > 0, self.negative > 0) {
            (false, false, false) => None,
            (false, true, false) => Some(f64::INFINITY),
            (false, false, true) => Some(f64::NEG_INFINITY),
            _ => Some(f64::NAN),
        }
    }
}

impl Accumulator for Finite {
    fn resize(&mut self, groups: usize) {
        self.inner.resize(groups);
        self.groups.resize(groups, Others::default());
    }

    fn update(&mut self, rows: &InputRows<'_>) -> Result<()> {
        self.running(rows, &Readings::default()).map(|_| ())
    }

    fn running(&mut self, rows: &InputRows<'_>, readings: &Readings) -> Result<ArrayRef> {
        let values = rows.values[0].as_primitive_opt::<Float64Type>();
        let values = values.ok_or_else(|| Error::internal("a sum of other values than DOUBLE"))?.values();
        if self.others == 0 && values.iter().all(|value| value.is_finite()) {
            return self.inner.running(rows, readings);
        }
        let weight = |row: usize| rows.weights.map_or(1, |weights| weights[row]);
        let of_finite = values.iter().enumerate().map(|(row, value)| if value.is_finite() { weight(row) } else { 0 });
        let weights: Vec<i64> = of_finite.collect();
        let finite = InputRows { groups: rows.groups, weights: Some(&weights), values: rows.values };
        let results = self.inner.running(&finite, readings)?;
        let mut others = Vec::with_capacity(readings.len());
        rows.replay(readings, |step| match step {
            ReplayStep::Row { row, .. } if values[row].is_finite() => {}
            ReplayStep::Row { row, group, weight } => {
                self.groups[group].add(values[row], weight);
                self.others += weight;
            }
            ReplayStep::Read { group } => others.push(self.groups[group].result()),
        });
        let results = results.as_primitive::<Float64Type>().iter();
        Ok(Arc::new(others.into_iter().zip(results).map(|(other, sum)| other.or(sum)).collect::<Float64Array>()))
    }

    fn keep(&mut self, groups: &[usize]) -> Result<()> {
        self.groups = groups.iter().map(|group| self.groups[*group]).collect();
        self.others = self.groups.iter().map(|group| group.nan + group.positive + group.negative).sum();
        self.inner.keep(groups)
    }

    fn size_bytes(&self) -> usize {
        self.inner.size_bytes() + self.groups.capacity() * size_of::<Others>()
    }
}
