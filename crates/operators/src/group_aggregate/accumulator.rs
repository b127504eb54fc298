//! Aggregate functions that can retract rows. They process a column at a time.
//!
//! DataFusion's accumulators give the results of all groups at once and forget them. Here the results of some
//! groups are read again and again, and a row may have any weight, also a negative one.

use anabranch_dataflow::{AggregateSpec, Expr};
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, SchemaRef};

use super::count::Count;
use super::distinct::{Distinct, has_nulls};
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
    /// Makes room for this number of groups. New ones have no rows.
    fn resize(&mut self, groups: usize);

    /// Adds rows.
    fn update(&mut self, rows: &InputRows<'_>) -> Result<()>;

    /// The results of these groups. A function over frames has none: they are read between its rows.
    fn results(&self, _groups: &[usize]) -> Result<ArrayRef> {
        Err(Error::internal("the results of frames are read between their rows"))
    }

    /// Adds rows, and reads results between them.
    fn running(&mut self, rows: &InputRows<'_>, readings: &Readings) -> Result<ArrayRef> {
        readings::one_by_one(self, rows, readings)
    }

    /// Columns of the state of a group, without its [entries](Accumulator::entries).
    fn state_fields(&self, _name: &str) -> Vec<Field> {
        Vec::new()
    }

    /// The state of these groups.
    fn state(&self, _groups: &[usize]) -> Result<Vec<ArrayRef>> {
        Ok(Vec::new())
    }

    /// Replaces the state of these groups.
    fn restore(&mut self, _groups: &[usize], _state: &[ArrayRef]) -> Result<()> {
        Ok(())
    }

    /// Keeps these groups only; the first of them becomes group 0.
    fn keep(&mut self, groups: &[usize]) -> Result<()>;

    /// Memory in bytes.
    fn size_bytes(&self) -> usize;

    /// The column of the values of each group, if the function keeps them.
    fn value_field(&self) -> Option<Field> {
        None
    }

    /// The values of each group, if the function keeps them.
    fn entries(&mut self) -> Option<&mut Entries> {
        None
    }

    /// Values were restored: the entries with these ids had the given weights before.
    fn entries_restored(&mut self, _changed: &[(usize, i64)]) -> Result<()> {
        Ok(())
    }
}

/// Rows for an accumulator.
pub(crate) struct InputRows<'a> {
    /// The group of each row.
    pub(crate) groups: &'a [usize],
    /// The weight of each row; `None`: 1.
    pub(crate) weights: Option<&'a [i64]>,
    /// The arguments.
    pub(crate) values: &'a [ArrayRef],
}

impl InputRows<'_> {
    /// Calls `add` with the row, group and weight of each row whose weight is not 0 and whose arguments are
    /// not NULL.
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

    /// The rows with a weight other than 0 and, unless `with_nulls`, with a first argument other than NULL.
    /// `None`: all.
    pub(super) fn counting(&self, with_nulls: bool) -> Option<UInt32Array> {
        let nulls = self.values[0].nulls().filter(|nulls| !with_nulls && nulls.null_count() > 0);
        if nulls.is_none() && self.weights.is_none_or(|weights| !weights.contains(&0)) {
            return None;
        }
        // Which rows count is hard to predict, so the loop has no branch.
        let mut counting = vec![0; self.groups.len()];
        let mut len = 0;
        for row in 0..self.groups.len() {
            counting[len] = row as u32;
            let counts = self.weights.is_none_or(|weights| weights[row] != 0);
            len += usize::from(counts & nulls.is_none_or(|nulls| nulls.is_valid(row)));
        }
        counting.truncate(len);
        Some(UInt32Array::from(counting))
    }
}

/// The conditions of the `FILTER` clauses of several calls. Calls with the same condition share it.
#[derive(Default)]
pub(crate) struct Conditions {
    list: Vec<Condition>,
}

struct Condition {
    expr: Expr,
    compiled: CompiledExpr,
    /// The rows of a batch that satisfy the condition.
    passes: BooleanArray,
    /// The weight of each row, or 0 if it does not satisfy the condition.
    weights: Vec<i64>,
}

impl Conditions {
    /// The index of a condition, which is added if it is new.
    fn index_of(&mut self, expr: &Expr, input: &SchemaRef, functions: &Functions) -> Result<usize> {
        if let Some(index) = self.list.iter().position(|other| other.expr == *expr && !expr.varies()) {
            return Ok(index);
        }
        let (compiled, passes) = (CompiledExpr::new(expr, input, functions)?, BooleanArray::from(Vec::<bool>::new()));
        self.list.push(Condition { expr: expr.clone(), compiled, passes, weights: Vec::new() });
        Ok(self.list.len() - 1)
    }

    /// Evaluates all conditions for the rows of a batch.
    pub(crate) fn evaluate(&mut self, batch: &RecordBatch, weights: Option<&[i64]>) -> Result<()> {
        for condition in &mut self.list {
            condition.passes = condition.compiled.evaluate_predicate(batch)?;
            condition.weights.clear();
            let passes = condition.passes.values().iter().map(i64::from);
            match weights {
                None => condition.weights.extend(passes),
                Some(weights) => condition.weights.extend(passes.zip(weights).map(|(passes, weight)| passes * weight)),
            }
        }
        Ok(())
    }
}

/// A call of an aggregate function: its arguments, and its accumulator.
pub(crate) struct Call {
    pub(crate) name: String,
    args: Vec<CompiledExpr>,
    /// The index of its condition.
    filter: Option<usize>,
    pub(crate) accumulator: Box<dyn Accumulator>,
    /// Number of columns of the state.
    pub(crate) state_columns: usize,
}

impl Call {
    pub(crate) fn new(
        spec: &AggregateSpec,
        input: &SchemaRef,
        functions: &Functions,
        conditions: &mut Conditions,
        accumulator: impl FnOnce(&[CompiledExpr]) -> Result<Box<dyn Accumulator>>,
    ) -> Result<Call> {
        // `COUNT(*)` has a constant as its argument.
        let counts_all = |arg: &Expr| spec.function == "count" && matches!(arg, Expr::Literal(l) if l.value.is_some());
        let args = spec.args.iter().filter(|arg| spec.distinct || !counts_all(arg));
        let args: Vec<CompiledExpr> =
            args.map(|arg| CompiledExpr::new(arg, input, functions)).collect::<Result<_>>()?;
        let filter = spec.filter.as_ref().map(|filter| conditions.index_of(filter, input, functions)).transpose()?;
        let accumulator = accumulator(&args)?;
        let state_columns = accumulator.state_fields(&spec.name).len();
        Ok(Call { name: spec.name.clone(), args, filter, accumulator, state_columns })
    }

    pub(super) fn argument_types(&self) -> Vec<DataType> {
        self.args.iter().map(|arg| arg.data_type().clone()).collect()
    }

    /// Adds the rows of a batch, for which the conditions were evaluated.
    pub(super) fn update(
        &mut self,
        batch: &RecordBatch,
        (groups, weights): (&[usize], Option<&[i64]>),
        conditions: &Conditions,
    ) -> Result<()> {
        self.with_rows(batch, (groups, weights), conditions, |accumulator, rows| accumulator.update(rows))
    }

    /// Like [`Call::update`], but reads results between the rows.
    pub(crate) fn running(
        &mut self,
        batch: &RecordBatch,
        (groups, weights): (&[usize], Option<&[i64]>),
        conditions: &Conditions,
        readings: &Readings,
    ) -> Result<ArrayRef> {
        self.with_rows(batch, (groups, weights), conditions, |accumulator, rows| accumulator.running(rows, readings))
    }

    /// Arguments that may fail are evaluated only for rows that pass the filter.
    fn with_rows<T>(
        &mut self,
        batch: &RecordBatch,
        (groups, weights): (&[usize], Option<&[i64]>),
        conditions: &Conditions,
        apply: impl FnOnce(&mut dyn Accumulator, &InputRows<'_>) -> Result<T>,
    ) -> Result<T> {
        let condition = self.filter.map(|index| &conditions.list[index]);
        let mut values = Vec::with_capacity(self.args.len());
        for arg in &mut self.args {
            values.push(canonical(&match condition {
                Some(condition) if arg.may_fail() => arg.evaluate_where(batch, &condition.passes)?,
                _ => arg.evaluate(batch)?,
            }));
        }
        let weights = condition.map_or(weights, |condition| Some(&condition.weights));
        apply(self.accumulator.as_mut(), &InputRows { groups, weights, values: &values })
    }
}

/// The accumulator of a function. The planner refuses functions that have none.
pub(crate) fn accumulator(spec: &AggregateSpec, args: &[CompiledExpr], retracts: bool) -> Result<Box<dyn Accumulator>> {
    let argument = args.first().map(CompiledExpr::data_type);
    let label = || format!("{}({})", spec.function.to_uppercase(), args.first().map_or("", CompiledExpr::text));
    let plain: Box<dyn Accumulator> = match (spec.function.as_str(), argument) {
        ("count", _) => Box::new(Count::default()),
        ("min" | "max", Some(argument)) => {
            let ordered = if spec.function == "min" { Ordered::Ascending } else { Ordered::Descending };
            // `DISTINCT` makes no difference.
            return extreme::accumulator(argument, ordered, retracts);
        }
        ("first_value" | "last_value", Some(argument)) if !retracts => {
            let is_first = spec.function == "first_value";
            let ordered = if is_first { Ordered::Arrival } else { Ordered::LastArrival };
            extreme::accumulator(argument, ordered, false)?
        }
        ("sum" | "avg", Some(argument)) => sum::accumulator(&spec.function, argument, label())?,
        ("first_value" | "last_value" | "array_agg" | "string_agg", Some(argument)) => {
            match Lists::for_function(spec, argument)? {
                Some(lists) => Box::new(lists),
                None => return Err(Error::internal(format!("{spec} makes no list"))),
            }
        }
        (function, Some(_)) if Moments::statistic(function).is_some() => Moments::accumulator(function)?,
        (function, _) => return Err(Error::internal(format!("{function} has no accumulator for updating results"))),
    };
    match (spec.distinct, argument) {
        (true, Some(argument)) => Ok(Box::new(Distinct::new(argument, has_nulls(spec), plain)?)),
        _ => Ok(plain),
    }
}
