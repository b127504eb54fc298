//! `SUM` and `AVG` of BIGINT and DECIMAL. Sums are kept in numbers so wide that no intermediate sum
//! overflows. So the result does not depend on how rows are divided among batches, tasks and panes. Only the
//! total must fit: if it does not, a BIGINT is an error and a DECIMAL is NULL.

use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_dataflow::{DECIMAL_DIGITS_MAX, exact_aggregate};
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Int64Array, PrimitiveArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Int64Type, i256};
use arrow::error::ArrowError;
use datafusion_common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};

use crate::expression::decimal::mean;

/// The exact form of an aggregate over an argument, if there is one. `label` identifies it in errors.
pub(super) fn exact(function: &str, argument: Option<&DataType>, label: String) -> Option<Arc<AggregateUDF>> {
    exact_aggregate(function, argument?)?;
    let signature = Signature::any(1, Volatility::Immutable);
    let exact = Exact { function: function.into(), argument: argument?.clone(), label, signature };
    Some(Arc::new(AggregateUDF::new_from_impl(exact)))
}

/// `SUM` or `AVG` of an argument of an exact type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Exact {
    function: String,
    argument: DataType,
    label: String,
    signature: Signature,
}

impl Exact {
    /// Types of the result and of the state.
    fn types(&self) -> Result<(DataType, Vec<DataType>)> {
        match exact_aggregate(&self.function, &self.argument) {
            Some(types) => Ok(types),
            None => internal_err!("{} of {} is not exact", self.function, self.argument),
        }
    }

    fn finish(&self) -> Result<Finish> {
        Ok(Finish { average: self.function == "avg", to: self.types()?.0, label: self.label.clone() })
    }

    fn scale(&self) -> i8 {
        if let DataType::Decimal128(_, scale) = self.argument { scale } else { 0 }
    }
}

impl AggregateUDFImpl for Exact {
    fn name(&self) -> &str {
        &self.function
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.types()?.0)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            let item = Arc::new(Field::new_list_field(self.argument.clone(), true));
            return Ok(vec![Arc::new(Field::new(format!("{}[values]", args.name), DataType::List(item), true))]);
        }
        let (_, types) = self.types()?;
        let names = ["sum", "count"].into_iter().zip(types);
        Ok(names.map(|(part, t)| Arc::new(Field::new(format!("{}[{part}]", args.name), t, true))).collect())
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Distinct {
            values: BTreeSet::new(),
            argument: self.argument.clone(),
            scale: self.scale(),
            finish: self.finish()?,
        }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let (finish, scale) = (self.finish()?, self.scale());
        let (_, state) = self.types()?;
        Ok(match &self.argument {
            DataType::Int64 => Box::new(Sums::<i128> { sums: Vec::new(), counts: Vec::new(), state, scale, finish }),
            _ => Box::new(Sums::<i256> { sums: Vec::new(), counts: Vec::new(), state, scale, finish }),
        })
    }
}

/// Conversion of a total to the result.
#[derive(Clone, Debug)]
pub(crate) struct Finish {
    pub(crate) average: bool,
    /// Type of the result.
    pub(crate) to: DataType,
    /// Identifies the aggregate in errors.
    pub(crate) label: String,
}

impl Finish {
    /// The results of totals with this scale. As in an expression, a DECIMAL with more digits than its type
    /// has is NULL.
    pub(crate) fn results(&self, totals: impl Iterator<Item = Option<(i256, i64)>>, scale: i8) -> Result<ArrayRef> {
        if let DataType::Decimal128(precision, to) = self.to {
            let result = |(sum, count)| mean(sum, if self.average { count } else { 1 }, scale, to);
            let results: Vec<Option<i128>> = totals.map(|total| total.and_then(result)).collect();
            return Ok(Arc::new(Decimal128Array::from(results).with_precision_and_scale(precision, to)?));
        }
        let whole = |(sum, count)| self.whole(sum, count);
        let results = totals.map(|total| total.map(whole).transpose());
        Ok(Arc::new(results.collect::<Result<Int64Array>>()?))
    }

    /// The result of whole numbers; a mean is rounded towards zero.
    fn whole(&self, sum: i256, count: i64) -> Result<i64> {
        let result = sum.to_i128().and_then(|sum| sum.checked_div(if self.average { count.into() } else { 1 }));
        let result = result.and_then(|result| i64::try_from(result).ok());
        result.ok_or_else(|| self.overflow(sum))
    }

    fn overflow(&self, total: impl std::fmt::Display) -> DataFusionError {
        DataFusionError::from(ArrowError::ArithmeticOverflow(format!("{} comes to {total}", self.label)))
    }
}

/// A number wide enough for the sum of any number of values.
trait Total: Copy + Default + Send + std::fmt::Debug + 'static {
    type Value: ArrowPrimitiveType;
    type State: ArrowPrimitiveType<Native = Self>;

    fn of(value: <Self::Value as ArrowPrimitiveType>::Native) -> Self;
    fn plus(self, other: Self) -> Self;
    fn widest(self) -> i256;
}

impl Total for i128 {
    type Value = Int64Type;
    type State = Decimal128Type;

    fn of(value: i64) -> Self {
        i128::from(value)
    }

    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    fn widest(self) -> i256 {
        i256::from_i128(self)
    }
}

impl Total for i256 {
    type Value = Decimal128Type;
    type State = Decimal256Type;

    fn of(value: i128) -> Self {
        i256::from_i128(value)
    }

    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    fn widest(self) -> i256 {
        self
    }
}

/// Sum and number of values of each group.
struct Sums<T: Total> {
    sums: Vec<T>,
    counts: Vec<i64>,
    state: Vec<DataType>,
    scale: i8,
    finish: Finish,
}

impl<T: Total> Sums<T> {
    fn add(
        &mut self,
        groups: &[usize],
        total: usize,
        values: impl Iterator<Item = Option<T>>,
        count: impl Fn(usize) -> i64,
    ) {
        self.sums.resize(total, T::default());
        self.counts.resize(total, 0);
        for (row, (group, value)) in groups.iter().zip(values).enumerate() {
            if let Some(value) = value {
                self.sums[*group] = self.sums[*group].plus(value);
                self.counts[*group] += count(row);
            }
        }
    }

    fn states(&self, sums: Vec<Option<T>>, counts: Vec<i64>) -> Result<Vec<ArrayRef>> {
        let sums: PrimitiveArray<T::State> = sums.into_iter().collect();
        let mut states: Vec<ArrayRef> = vec![Arc::new(sums.with_data_type(self.state[0].clone()))];
        if self.state.len() > 1 {
            states.push(Arc::new(Int64Array::from(counts)));
        }
        Ok(states)
    }
}

/// The values that pass the filter.
fn filtered<T: Total>(values: &ArrayRef, filter: Option<&BooleanArray>) -> impl Iterator<Item = Option<T>> {
    let keeps = move |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
    let values = values.as_primitive::<T::Value>();
    values.iter().enumerate().map(move |(row, value)| value.filter(|_| keeps(row)).map(T::of))
}

impl<T: Total> GroupsAccumulator for Sums<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.add(groups, total, filtered::<T>(&values[0], filter), |_| 1);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let sums = states[0].as_primitive::<T::State>();
        match states.get(1).map(|counts| counts.as_primitive::<Int64Type>()) {
            Some(counts) => self.add(groups, total, sums.iter(), |row| counts.value(row)),
            None => self.add(groups, total, sums.iter(), |_| 1),
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let sums = emit.take_needed(&mut self.sums).into_iter();
        let totals = sums.zip(emit.take_needed(&mut self.counts));
        let totals = totals.map(|(sum, count)| (count > 0).then_some((sum.widest(), count)));
        self.finish.results(totals, self.scale)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, counts) = (emit.take_needed(&mut self.sums), emit.take_needed(&mut self.counts));
        let sums = sums.into_iter().zip(&counts).map(|(sum, count)| (*count > 0).then_some(sum)).collect();
        self.states(sums, counts)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let sums: Vec<Option<T>> = filtered::<T>(&values[0], filter).collect();
        let counts = sums.iter().map(|sum| i64::from(sum.is_some())).collect();
        self.states(sums, counts)
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<T>() + self.counts.capacity() * size_of::<i64>()
    }
}

/// The distinct values of one group.
#[derive(Debug)]
struct Distinct {
    values: BTreeSet<i128>,
    argument: DataType,
    scale: i8,
    finish: Finish,
}

impl Distinct {
    /// Values of the argument's type as whole numbers of their last digit.
    fn whole(&self, values: &ArrayRef) -> Result<Decimal128Array> {
        let wide = cast(values, &DataType::Decimal128(DECIMAL_DIGITS_MAX, self.scale))?;
        Ok(wide.as_primitive::<Decimal128Type>().clone())
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let whole = self.whole(&values[0])?;
        self.values.extend(whole.iter().flatten());
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.values.iter().fold(i256::ZERO, |sum, value| sum.wrapping_add(i256::from_i128(*value)));
        let count = self.values.len() as i64;
        let total = (count > 0).then_some((sum, count));
        ScalarValue::try_from_array(&self.finish.results(std::iter::once(total), self.scale)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.len() * 2 * size_of::<i128>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = Decimal128Array::from_iter_values(self.values.iter().copied());
        let values: ArrayRef = Arc::new(values.with_precision_and_scale(DECIMAL_DIGITS_MAX, self.scale)?);
        let values = cast(&values, &self.argument)?;
        let values = (0..values.len()).map(|row| ScalarValue::try_from_array(&values, row)).collect::<Result<Vec<_>>>();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values?, &self.argument))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[values])?;
        }
        Ok(())
    }
}
