//! A function over the distinct values of each group.

use anabranch_dataflow::{AggregateSpec, Expr};
use anabranch_model::Result;
use arrow::array::{ArrayRef, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field};

use super::accumulator::{Accumulator, InputRows};
use super::entries::{Entries, Transition};
use super::readings::Readings;

/// The index of the call whose pairs of group and value this call [shares](Entries::follow): the first call
/// over the distinct values of the same argument, if that call takes all rows.
pub(super) fn followed(calls: &[AggregateSpec], index: usize) -> Option<usize> {
    let keeps_values = |call: &AggregateSpec| call.distinct && !matches!(call.function.as_str(), "min" | "max");
    let values = |call: &AggregateSpec| (call.args.first().cloned(), has_nulls(call));
    let own = &calls[index];
    let first = calls[..index].iter().position(|call| keeps_values(call) && values(call) == values(own))?;
    let varies = own.args.iter().any(Expr::varies);
    (keeps_values(own) && !varies && calls[first].filter.is_none()).then_some(first)
}

/// Whether a function takes NULL as a distinct value.
pub(super) fn has_nulls(call: &AggregateSpec) -> bool {
    call.function == "array_agg"
}

/// Counts values. Adds a value to the function when it first occurs in a group, and retracts it when it no
/// longer occurs.
pub(super) struct Distinct {
    entries: Entries,
    inner: Box<dyn Accumulator>,
}

impl Distinct {
    /// `has_nulls`: NULL is a value too.
    pub(super) fn new(argument: &DataType, has_nulls: bool, inner: Box<dyn Accumulator>) -> Result<Distinct> {
        Ok(Distinct { entries: Entries::new(argument, has_nulls)?, inner })
    }
}

/// Passes transitions on as rows: weight 1 for a value that has appeared, -1 for one that has disappeared.
fn with_transitions<T>(
    transitions: &[Transition],
    rows: &InputRows<'_>,
    add: impl FnOnce(&InputRows<'_>) -> Result<T>,
) -> Result<T> {
    let groups: Vec<usize> = transitions.iter().map(|transition| transition.group).collect();
    let weights: Vec<i64> = transitions.iter().map(|transition| if transition.is_there { 1 } else { -1 }).collect();
    let at: UInt64Array = transitions.iter().map(|transition| transition.row as u64).collect();
    let values = [take(&rows.values[0], &at, None)?];
    add(&InputRows { groups: &groups, weights: Some(&weights), values: &values })
}

impl Accumulator for Distinct {
    fn resize(&mut self, groups: usize) {
        self.inner.resize(groups);
    }

    fn update(&mut self, rows: &InputRows<'_>) -> Result<()> {
        let transitions = self.entries.update(rows)?;
        if transitions.is_empty() {
            return Ok(());
        }
        with_transitions(&transitions, rows, |rows| self.inner.update(rows))
    }

    fn running(&mut self, rows: &InputRows<'_>, readings: &Readings) -> Result<ArrayRef> {
        let transitions = self.entries.update(rows)?;
        let after = |rows: &usize| transitions.partition_point(|transition| transition.row < *rows);
        let after = readings.after.iter().map(after).collect();
        let readings = Readings { after, groups: readings.groups.clone() };
        with_transitions(&transitions, rows, |rows| self.inner.running(rows, &readings))
    }

    fn results(&self, groups: &[usize]) -> Result<ArrayRef> {
        self.inner.results(groups)
    }

    fn state_fields(&self, name: &str) -> Vec<Field> {
        self.inner.state_fields(name)
    }

    fn state(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        self.inner.state(groups)
    }

    fn restore(&mut self, groups: &[usize], state: &[ArrayRef]) -> Result<()> {
        self.inner.restore(groups, state)
    }

    fn keep(&mut self, groups: &[usize]) -> Result<()> {
        self.entries.keep(groups)?;
        self.inner.keep(groups)
    }

    fn size_bytes(&self) -> usize {
        self.entries.size_bytes() + self.inner.size_bytes()
    }

    fn value_field(&self) -> Option<Field> {
        Some(self.entries.value_field())
    }

    fn entries(&mut self) -> Option<&mut Entries> {
        Some(&mut self.entries)
    }
}
