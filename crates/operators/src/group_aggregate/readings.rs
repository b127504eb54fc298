//! Results that are read between rows: for functions over the rows before each row.

use anabranch_model::Result;
use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;

use super::accumulator::{Accumulator, InputRows};

/// Where results are read, in order: the group, and the number of rows before the reading.
#[derive(Default)]
pub(crate) struct Readings {
    pub(crate) after: Vec<usize>,
    pub(crate) groups: Vec<usize>,
}

/// A step of [`InputRows::replay`].
pub(crate) enum ReplayStep {
    /// A row is added, or retracted.
    Row { row: usize, group: usize, weight: i64 },
    /// The result of a group is read.
    Read { group: usize },
}

impl Readings {
    pub(crate) fn push(&mut self, after: usize, group: usize) {
        self.after.push(after);
        self.groups.push(group);
    }

    pub(crate) fn len(&self) -> usize {
        self.after.len()
    }
}

impl InputRows<'_> {
    /// Calls `visit` with each row of a weight other than 0 whose arguments are not NULL, and with each
    /// reading between them.
    pub(crate) fn replay(&self, readings: &Readings, mut visit: impl FnMut(ReplayStep)) {
        let mut due = readings.after.iter().zip(&readings.groups).peekable();
        let mut read_until = |row: usize, visit: &mut dyn FnMut(ReplayStep)| {
            while let Some((_, group)) = due.next_if(|(after, _)| **after <= row) {
                visit(ReplayStep::Read { group: *group });
            }
        };
        self.for_each(|row, group, weight| {
            read_until(row, &mut visit);
            visit(ReplayStep::Row { row, group, weight });
        });
        read_until(usize::MAX, &mut visit);
    }

    /// A range of the rows.
    fn slice<'a>(&'a self, from: usize, to: usize, values: &'a [ArrayRef]) -> InputRows<'a> {
        let weights = self.weights.map(|weights| &weights[from..to]);
        InputRows { groups: &self.groups[from..to], weights, values }
    }
}

/// [`Accumulator::running`] for any function: one result at a time.
pub(super) fn one_by_one<A: Accumulator + ?Sized>(
    accumulator: &mut A,
    rows: &InputRows<'_>,
    readings: &Readings,
) -> Result<ArrayRef> {
    let mut results: Vec<ArrayRef> = Vec::with_capacity(readings.len());
    let mut from = 0;
    let ends = readings.after.iter().zip(&readings.groups).map(|(after, group)| (*after, Some(*group)));
    for (to, group) in ends.chain([(rows.groups.len(), None)]) {
        if to > from {
            let values: Vec<ArrayRef> = rows.values.iter().map(|column| column.slice(from, to - from)).collect();
            accumulator.update(&rows.slice(from, to, &values))?;
            from = to;
        }
        results.extend(group.map(|group| accumulator.results(&[group])).transpose()?);
    }
    if results.is_empty() {
        return accumulator.results(&[]);
    }
    Ok(concat(&results.iter().map(|result| result.as_ref() as &dyn Array).collect::<Vec<_>>())?)
}
