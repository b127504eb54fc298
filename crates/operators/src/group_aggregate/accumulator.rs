//! Aggregate functions that take rows back, a column at a time.
//!
//! DataFusion's accumulators give the results of all groups at once and forget them. Here the results of some groups are
//! read again and again, and a row may count any number of times, also less than zero.

use anabranch_dataflow::{AggregateSpec, Expr};
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Field, SchemaRef};

use super::count::Count;
use super::distinct::Distinct;
use super::entries::Entries;
use super::extreme::{self, Ordered};
use super::list::Lists;
use super::moments::Moments;
use super::readings::{self, Readings};
use super::sum;
use crate::key_hash::canonical;
use crate::{CompiledExpr, Functions};

/// One aggregate function over many groups, by their ids.
pub(crate) trait Accumulator: Send {
    /// Makes room for so many groups. New ones have no rows.
    fn resize(&mut self, groups: usize);

    /// Adds rows.
    fn update(&mut self, rows: &Rows<'_>) -> Result<()>;

    /// The results of these groups.
    fn results(&self, groups: &[usize]) -> Result<ArrayRef>;

    /// Adds rows, and reads results between them.
    fn running(&mut self, rows: &Rows<'_>, readings: &Readings) -> Result<ArrayRef> {
        readings::one_by_one(self, rows, readings)
    }

    /// Columns of the state of a group, without what is in its [entries](Accumulator::entries).
    fn state_fields(&self, name: &str) -> Vec<Field>;

    /// The state of these groups.
    fn state(&self, groups: &[usize]) -> Result<Vec<ArrayRef>>;

    /// Replaces the state of these groups.
    fn restore(&mut self, groups: &[usize], state: &[ArrayRef]) -> Result<()>;

    /// Keeps these groups only; the first of them becomes group 0.
    fn keep(&mut self, groups: &[usize]) -> Result<()>;

    /// Memory that it takes.
    fn size_bytes(&self) -> usize;

    /// The column of the values that it keeps of each group, if it does.
    fn value_field(&self) -> Option<Field> {
        None
    }

    /// The values that it keeps of each group, if it does.
    fn entries(&mut self) -> Option<&mut Entries> {
        None
    }

    /// Values were restored: the entries with these ids have other weights than those given.
    fn entries_restored(&mut self, _changed: &[(usize, i64)]) -> Result<()> {
        Ok(())
    }
}

/// Rows for an accumulator.
pub(crate) struct Rows<'a> {
    /// The group of each row.
    pub(crate) groups: &'a [usize],
    /// How often each row counts; `None`: once.
    pub(crate) weights: Option<&'a [i64]>,
    /// The arguments.
    pub(crate) values: &'a [ArrayRef],
}

impl Rows<'_> {
    /// Calls `add` with the row, group and weight of each row that counts and whose arguments are not NULL.
    pub(crate) fn for_each(&self, mut add: impl FnMut(usize, usize, i64)) {
        let has_nulls = self.values.iter().any(|values| values.null_count() > 0);
        match self.weights {
            None if !has_nulls => self.groups.iter().enumerate().for_each(|(row, group)| add(row, *group, 1)),
            weights => {
                for (row, group) in self.groups.iter().enumerate() {
                    let weight = weights.map_or(1, |weights| weights[row]);
                    if weight != 0 && self.values.iter().all(|values| values.is_valid(row)) {
                        add(row, *group, weight);
                    }
                }
            }
        }
    }

    /// The same, also of rows whose arguments are NULL.
    pub(super) fn for_each_with_nulls(&self, mut add: impl FnMut(usize, usize, i64)) {
        for (row, group) in self.groups.iter().enumerate() {
            let weight = self.weights.map_or(1, |weights| weights[row]);
            if weight != 0 {
                add(row, *group, weight);
            }
        }
    }
}

/// A call of an aggregate function: its arguments, and its accumulator.
pub(crate) struct Call {
    pub(crate) name: String,
    args: Vec<CompiledExpr>,
    filter: Option<CompiledExpr>,
    pub(crate) accumulator: Box<dyn Accumulator>,
    /// Number of columns of the state.
    pub(crate) state_columns: usize,
    weights: Vec<i64>,
}

impl Call {
    /// `retracts`: rows may be taken back.
    pub(super) fn new(spec: &AggregateSpec, input: &SchemaRef, functions: &Functions, retracts: bool) -> Result<Call> {
        Call::with(spec, input, functions, |args| accumulator(spec, args, retracts))
    }

    pub(crate) fn with(
        spec: &AggregateSpec,
        input: &SchemaRef,
        functions: &Functions,
        accumulator: impl FnOnce(&[CompiledExpr]) -> Result<Box<dyn Accumulator>>,
    ) -> Result<Call> {
        let compile = |e| CompiledExpr::new(e, input, functions);
        // `COUNT(*)` has a constant as its argument.
        let counts_all = |arg: &Expr| spec.function == "count" && matches!(arg, Expr::Literal(l) if l.text.is_some());
        let args = spec.args.iter().filter(|arg| spec.distinct || !counts_all(arg));
        let args: Vec<CompiledExpr> = args.map(compile).collect::<Result<_>>()?;
        let filter = spec.filter.as_ref().map(compile).transpose()?;
        let accumulator = accumulator(&args)?;
        let state_columns = accumulator.state_fields(&spec.name).len();
        Ok(Call { name: spec.name.clone(), args, filter, accumulator, state_columns, weights: Vec::new() })
    }

    /// Types of the arguments.
    pub(super) fn argument_types(&self) -> Vec<DataType> {
        self.args.iter().map(|arg| arg.data_type().clone()).collect()
    }

    /// Adds the rows of a batch.
    pub(super) fn update(&mut self, batch: &RecordBatch, groups: &[usize], weights: Option<&[i64]>) -> Result<()> {
        self.with_rows(batch, groups, weights, |accumulator, rows| accumulator.update(rows))
    }

    /// Adds the rows of a batch, and reads results between them.
    pub(crate) fn running(
        &mut self,
        batch: &RecordBatch,
        (groups, weights): (&[usize], Option<&[i64]>),
        readings: &Readings,
    ) -> Result<ArrayRef> {
        self.with_rows(batch, groups, weights, |accumulator, rows| accumulator.running(rows, readings))
    }

    /// Arguments that may fail are evaluated only for rows that pass the filter.
    fn with_rows<T>(
        &mut self,
        batch: &RecordBatch,
        groups: &[usize],
        weights: Option<&[i64]>,
        take: impl FnOnce(&mut dyn Accumulator, &Rows<'_>) -> Result<T>,
    ) -> Result<T> {
        let filter = self.filter.as_mut().map(|filter| filter.evaluate_predicate(batch)).transpose()?;
        let mut values = Vec::with_capacity(self.args.len());
        for arg in &mut self.args {
            values.push(canonical(&match &filter {
                Some(filter) if arg.may_fail() => arg.evaluate_where(batch, filter)?,
                _ => arg.evaluate(batch)?,
            }));
        }
        let weights = match &filter {
            Some(filter) => {
                filtered(filter, weights, &mut self.weights);
                Some(&*self.weights)
            }
            None => weights,
        };
        take(self.accumulator.as_mut(), &Rows { groups, weights, values: &values })
    }
}

/// Weights of rows of which some do not pass a filter.
fn filtered(filter: &BooleanArray, weights: Option<&[i64]>, out: &mut Vec<i64>) {
    let passes = |row: usize| filter.is_valid(row) && filter.value(row);
    let weight = |row: usize| if passes(row) { weights.map_or(1, |weights| weights[row]) } else { 0 };
    out.clear();
    out.extend((0..filter.len()).map(weight));
}

/// The accumulator of a function. What has none here is refused when a query is planned.
pub(crate) fn accumulator(spec: &AggregateSpec, args: &[CompiledExpr], retracts: bool) -> Result<Box<dyn Accumulator>> {
    let argument = args.first().map(CompiledExpr::data_type);
    let label = || format!("{}({})", spec.function.to_uppercase(), args.first().map_or("", CompiledExpr::text));
    let plain: Box<dyn Accumulator> = match (spec.function.as_str(), argument) {
        ("count", _) => Box::new(Count::default()),
        ("min" | "max", Some(argument)) => {
            let ordered = if spec.function == "min" { Ordered::Ascending } else { Ordered::Descending };
            // What is distinct makes no difference.
            return extreme::accumulator(argument, ordered, retracts);
        }
        ("first_value" | "last_value", Some(argument)) if !retracts => {
            let is_first = spec.function == "first_value";
            let ordered = if is_first { Ordered::Arrival } else { Ordered::LastArrival };
            extreme::accumulator(argument, ordered, false)?
        }
        ("sum" | "avg", Some(argument)) => sum::accumulator(&spec.function, argument, label())?,
        ("first_value" | "last_value" | "array_agg" | "string_agg", Some(argument)) => match Lists::of(spec, argument)?
        {
            Some(lists) => Box::new(lists),
            None => return Err(Error::internal(format!("{spec} makes no list"))),
        },
        (function, Some(_)) if Moments::of(function).is_some() => Moments::accumulator(function)?,
        (function, _) => return Err(Error::internal(format!("{function} has no accumulator for updating results"))),
    };
    match (spec.distinct, argument) {
        (true, Some(argument)) => Ok(Box::new(Distinct::new(argument, spec.function == "array_agg", plain)?)),
        _ => Ok(plain),
    }
}
