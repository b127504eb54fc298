//! `SUM` and `AVG`. Sums of exact numbers are so wide that none overflows. A whole-number result that does
//! not fit is an error; a DECIMAL that does not fit is NULL.

use std::sync::Arc;

use anabranch_dataflow::{DECIMAL_DIGITS_MAX, exact_aggregate};
use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, Float64Array, Int64Array, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Field, Float64Type, Int64Type, i256};

use super::accumulator::{Accumulator, InputRows};
use super::readings::{Readings, ReplayStep};
use crate::expression::runtime_error;
use crate::keyed_state::numbers;
use crate::window_aggregate::exact::Finish;

/// `function` is `sum` or `avg`; `label` identifies it in errors.
pub(super) fn accumulator(function: &str, argument: &DataType, label: String) -> Result<Box<dyn Accumulator>> {
    let average = function == "avg";
    Ok(match (argument, exact_aggregate(function, argument)) {
        (DataType::Int64, Some((to, _))) => {
            let finish = Finish { average, to, label };
            Box::new(Sums::<Int64Type>::new(DataType::Decimal128(DECIMAL_DIGITS_MAX, 0), 0, Finished::Exact(finish)))
        }
        (DataType::Decimal128(_, scale), Some((to, _))) => {
            let finish = Finish { average, to, label };
            let state = DataType::Decimal256(76, *scale);
            Box::new(Sums::<Decimal128Type>::new(state, *scale, Finished::Exact(finish)))
        }
        (DataType::Float64, _) => Box::new(Sums::<Float64Type>::new(DataType::Float64, 0, Finished::Float { average })),
        (other, _) => return Err(Error::internal(format!("{function} of {other} has no updating result"))),
    })
}

/// How a sum becomes the result.
enum Finished {
    Exact(Finish),
    Float { average: bool },
}

/// Values whose sums are kept in `Sum`.
trait Summed: ArrowPrimitiveType {
    type Sum: ArrowPrimitiveType<Native: Default + Copy + Send>;
    /// Whether adding and retracting a value leaves the sum unchanged. If not, the sum of a group without
    /// values is set to 0. An exact sum stays: it is not 0 if a value was retracted before it arrived.
    const EXACT: bool;

    fn plus(sum: Total<Self>, value: Self::Native, weight: i64) -> Total<Self>;
    /// The results of these totals, each a sum and the number of its values.
    fn results(totals: impl Iterator<Item = Option<(Total<Self>, i64)>>, scale: i8, how: &Finished)
    -> Result<ArrayRef>;
}

type Total<T> = <<T as Summed>::Sum as ArrowPrimitiveType>::Native;

fn exact(totals: impl Iterator<Item = Option<(i256, i64)>>, scale: i8, how: &Finished) -> Result<ArrayRef> {
    match how {
        Finished::Exact(finish) => finish.results(totals, scale).map_err(|e| runtime_error(&e)),
        Finished::Float { .. } => Err(Error::internal("an exact sum with a float as its result")),
    }
}

impl Summed for Int64Type {
    type Sum = Decimal128Type;
    const EXACT: bool = true;

    fn plus(sum: i128, value: i64, weight: i64) -> i128 {
        sum.wrapping_add(i128::from(value) * i128::from(weight))
    }

    fn results(totals: impl Iterator<Item = Option<(i128, i64)>>, scale: i8, how: &Finished) -> Result<ArrayRef> {
        exact(totals.map(|total| total.map(|(sum, count)| (i256::from_i128(sum), count))), scale, how)
    }
}

impl Summed for Decimal128Type {
    type Sum = Decimal256Type;
    const EXACT: bool = true;

    fn plus(sum: i256, value: i128, weight: i64) -> i256 {
        let value = i256::from_i128(value);
        match weight {
            1 => sum.wrapping_add(value),
            -1 => sum.wrapping_sub(value),
            weight => sum.wrapping_add(value.wrapping_mul(i256::from_i128(i128::from(weight)))),
        }
    }

    fn results(totals: impl Iterator<Item = Option<(i256, i64)>>, scale: i8, how: &Finished) -> Result<ArrayRef> {
        exact(totals, scale, how)
    }
}

impl Summed for Float64Type {
    type Sum = Float64Type;
    const EXACT: bool = false;

    fn plus(sum: f64, value: f64, weight: i64) -> f64 {
        if weight == 1 { sum + value } else { sum + value * weight as f64 }
    }

    fn results(totals: impl Iterator<Item = Option<(f64, i64)>>, _: i8, how: &Finished) -> Result<ArrayRef> {
        let average = matches!(how, Finished::Float { average: true });
        let result = |(sum, count): (f64, i64)| if average { sum / count as f64 } else { sum };
        Ok(Arc::new(totals.map(|total| total.map(result)).collect::<Float64Array>()))
    }
}

/// Sum and number of values of each group.
struct Sums<T: Summed> {
    sums: Vec<Total<T>>,
    counts: Vec<i64>,
    state: DataType,
    scale: i8,
    how: Finished,
}

impl<T: Summed> Sums<T> {
    fn new(state: DataType, scale: i8, how: Finished) -> Sums<T> {
        Sums { sums: Vec::new(), counts: Vec::new(), state, scale, how }
    }

    fn add(&mut self, group: usize, value: T::Native, weight: i64) {
        self.sums[group] = T::plus(self.sums[group], value, weight);
        self.counts[group] += weight;
        if self.counts[group] == 0 && !T::EXACT {
            // Discards rounding errors and an infinity.
            self.sums[group] = Total::<T>::default();
        }
    }

    /// Sum and number of the values. `None` if there are none.
    fn total(&self, group: usize) -> Option<(Total<T>, i64)> {
        (self.counts[group] > 0).then(|| (self.sums[group], self.counts[group]))
    }
}

impl<T: Summed> Accumulator for Sums<T> {
    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, Total::<T>::default());
        self.counts.resize(groups, 0);
    }

    fn update(&mut self, rows: &InputRows<'_>) -> Result<()> {
        let values = rows.values[0].as_primitive::<T>().values();
        rows.for_each(|row, group, weight| self.add(group, values[row], weight));
        Ok(())
    }

    fn running(&mut self, rows: &InputRows<'_>, readings: &Readings) -> Result<ArrayRef> {
        let values = rows.values[0].as_primitive::<T>().values();
        let mut totals = Vec::with_capacity(readings.len());
        rows.replay(readings, |step| match step {
            ReplayStep::Row { row, group, weight } => self.add(group, values[row], weight),
            ReplayStep::Read { group } => totals.push(self.total(group)),
        });
        T::results(totals.into_iter(), self.scale, &self.how)
    }

    fn results(&self, groups: &[usize]) -> Result<ArrayRef> {
        T::results(groups.iter().map(|group| self.total(*group)), self.scale, &self.how)
    }

    fn state_fields(&self, name: &str) -> Vec<Field> {
        let sum = Field::new(format!("{name}[sum]"), self.state.clone(), false);
        vec![sum, Field::new(format!("{name}[count]"), DataType::Int64, false)]
    }

    fn state(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        let sums = PrimitiveArray::<T::Sum>::from_iter_values(groups.iter().map(|group| self.sums[*group]));
        let counts = Int64Array::from_iter_values(groups.iter().map(|group| self.counts[*group]));
        Ok(vec![Arc::new(sums.with_data_type(self.state.clone())), Arc::new(counts)])
    }

    fn restore(&mut self, groups: &[usize], state: &[ArrayRef]) -> Result<()> {
        let sums = state.first().and_then(|sums| sums.as_primitive_opt::<T::Sum>());
        let sums = sums.ok_or_else(|| Error::internal("a state without its sums"))?;
        let counts = numbers(state, 1)?;
        for (row, group) in groups.iter().enumerate() {
            (self.sums[*group], self.counts[*group]) = (sums.value(row), counts.value(row));
        }
        Ok(())
    }

    fn keep(&mut self, groups: &[usize]) -> Result<()> {
        self.sums = groups.iter().map(|group| self.sums[*group]).collect();
        self.counts = groups.iter().map(|group| self.counts[*group]).collect();
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.sums.capacity() * size_of::<Total<T>>() + self.counts.capacity() * size_of::<i64>()
    }
}
