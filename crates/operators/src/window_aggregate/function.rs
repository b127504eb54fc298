//! The aggregate functions of one operator, on DataFusion's vectorized accumulators.

use std::sync::Arc;

use anabranch_dataflow::AggregateSpec;
use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion_expr::GroupsAccumulator;
use datafusion_physical_expr::GroupsAccumulatorAdapter;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};

use super::exact::exact;
use super::groups::Input;
use crate::expression::runtime_error;
use crate::key_hash::canonical;
use crate::{CompiledExpr, Functions};

pub(crate) struct AggregateFunctions {
    functions: Vec<AggregateFunction>,
    /// One accumulator of each function, without groups, to convert single rows to states; `None` if a
    /// function cannot.
    converters: Option<Vec<Box<dyn GroupsAccumulator>>>,
}

struct AggregateFunction {
    function: Arc<AggregateFunctionExpr>,
    args: Vec<CompiledExpr>,
    filter: Option<CompiledExpr>,
    state_fields: Vec<Field>,
    /// Whether its accumulator retains the arrays that it receives. Their strings must then not keep larger
    /// buffers alive.
    retains: bool,
}

impl AggregateFunctions {
    pub(crate) fn new(specs: &[AggregateSpec], input: &SchemaRef, functions: &Functions) -> Result<Self> {
        let functions: Vec<_> =
            specs.iter().map(|s| AggregateFunction::new(s, input, functions)).collect::<Result<_>>()?;
        let native = functions.iter().all(|f| f.function.groups_accumulator_supported());
        let mut all = AggregateFunctions { functions, converters: None };
        if native {
            all.converters = Some(all.accumulators()?);
        }
        Ok(all)
    }

    /// New accumulators, one per function.
    pub(crate) fn accumulators(&self) -> Result<Vec<Box<dyn GroupsAccumulator>>> {
        self.functions.iter().map(AggregateFunction::accumulator).collect()
    }

    /// Types of the arguments of each function.
    pub(super) fn argument_types(&self) -> Vec<Vec<DataType>> {
        let types = |f: &AggregateFunction| f.args.iter().map(|a| a.data_type().clone()).collect();
        self.functions.iter().map(types).collect()
    }

    pub(crate) fn state_fields(&self) -> impl Iterator<Item = Field> {
        self.functions.iter().flat_map(|f| f.state_fields.clone())
    }

    pub(crate) fn state_columns(&self) -> usize {
        self.functions.iter().map(|f| f.state_fields.len()).sum()
    }

    /// Whether the state of a group may be of any size: a set, a list, a sketch, a text.
    pub(super) fn states_vary(&self) -> bool {
        let varies = |t: &DataType| t != &DataType::Boolean && t.primitive_width().is_none();
        self.state_fields().any(|field| varies(field.data_type()))
    }

    /// Arguments and filters of each function over the rows of a batch.
    #[expect(clippy::type_complexity, reason = "two lists in step with the functions")]
    pub(crate) fn arguments(&mut self, batch: &RecordBatch) -> Result<(Vec<Vec<ArrayRef>>, Vec<Option<BooleanArray>>)> {
        let mut values = Vec::with_capacity(self.functions.len());
        let mut filters = Vec::with_capacity(self.functions.len());
        for function in &mut self.functions {
            let filter = function.filter.as_mut().map(|f| f.evaluate_predicate(batch)).transpose()?;
            values.push(function.values(batch, filter.as_ref())?);
            filters.push(filter);
        }
        Ok((values, filters))
    }

    /// Divides the state columns of all functions by function.
    pub(crate) fn split_states(&self, columns: &[ArrayRef]) -> Result<Vec<Vec<ArrayRef>>> {
        let mut rest = columns;
        let mut states = Vec::with_capacity(self.functions.len());
        for function in &self.functions {
            let (own, others) = rest
                .split_at_checked(function.state_fields.len())
                .ok_or_else(|| Error::internal("the partial aggregate sent too few state columns"))?;
            states.push(own.to_vec());
            rest = others;
        }
        Ok(states)
    }

    /// Whether single rows can be turned into states.
    pub(super) fn rows_have_states(&self) -> bool {
        self.converters.is_some()
    }

    /// Converts each row to the state of a separate group.
    pub(super) fn states_of_rows(&self, input: &Input) -> Result<Vec<Vec<ArrayRef>>> {
        let converters = self.converters.as_ref().ok_or_else(|| Error::internal("a function without row states"))?;
        let states = converters.iter().enumerate().map(|(i, converter)| {
            converter.convert_to_state(&input.grouped[i], input.filter(i)).map_err(|e| runtime_error(&e))
        });
        states.collect()
    }
}

impl AggregateFunction {
    fn new(spec: &AggregateSpec, input: &SchemaRef, functions: &Functions) -> Result<Self> {
        let compile = |e| CompiledExpr::new(e, input, functions);
        let args: Vec<CompiledExpr> = spec.args.iter().map(compile).collect::<Result<_>>()?;
        let physical = args.iter().map(|a| Arc::clone(a.physical())).collect();
        let label = |argument: &CompiledExpr| format!("{}({})", spec.function.to_uppercase(), argument.text());
        let argument = args.first().map(CompiledExpr::data_type);
        let udf = match exact(&spec.function, argument, args.first().map(label).unwrap_or_default()) {
            Some(exact) => exact,
            None => functions.aggregate(&spec.function)?,
        };
        let built = AggregateExprBuilder::new(udf, physical)
            .schema(Arc::clone(input))
            .alias(&spec.name)
            .with_distinct(spec.distinct)
            .build();
        let function = built.map_err(|e| Error::internal(format!("{spec}: {}", e.strip_backtrace())))?;
        if function.field().data_type() != &spec.data_type {
            let (is, planned) = (function.field().data_type().clone(), &spec.data_type);
            return Err(Error::internal(format!("{spec} has the type {is}, but the plan says {planned}")));
        }
        let fields = function.state_fields().map_err(|e| runtime_error(&e))?;
        Ok(AggregateFunction {
            function: Arc::new(function),
            args,
            filter: spec.filter.as_ref().map(compile).transpose()?,
            state_fields: fields.iter().map(|f| f.as_ref().clone()).collect(),
            retains: spec.function == "array_agg",
        })
    }

    /// The arguments. Those that may fail are evaluated only for rows that pass the filter.
    fn values(&mut self, batch: &RecordBatch, filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let (retains, unifies) = (self.retains, self.function.is_distinct());
        let own = |array: ArrayRef| match array.as_string_view_opt().filter(|_| retains) {
            Some(strings) => Arc::new(strings.gc()),
            None if unifies => canonical(&array),
            None => array,
        };
        let values = self.args.iter_mut().map(|arg| match filter.filter(|_| arg.may_fail()) {
            Some(filter) => arg.evaluate_where(batch, filter).map(own),
            None => arg.evaluate(batch).map(own),
        });
        values.collect()
    }

    fn accumulator(&self) -> Result<Box<dyn GroupsAccumulator>> {
        if self.function.groups_accumulator_supported() {
            return self.function.create_groups_accumulator().map_err(|e| runtime_error(&e));
        }
        let function = Arc::clone(&self.function);
        Ok(Box::new(GroupsAccumulatorAdapter::new(move || function.create_accumulator())))
    }
}
