//! The functions of SQL: the scalar functions of `anabranch-functions` and DataFusion's aggregates. Flink's
//! special forms are rewritten before planning, see [`crate::spelling`].

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::LAG;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, not_impl_err};
use datafusion_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion_expr::planner::ExprPlanner;
use datafusion_expr::{
    AggregateUDF, PartitionEvaluator, ScalarUDF, Signature, TypeSignature, Volatility, WindowUDF, WindowUDFImpl,
};

use crate::compared_times::TimesOfDayPlanner;
use crate::element::ElementPlanner;
use crate::exact::{ExactAggregate, ExactPlanner};
use crate::{current_watermark, processing_time, type_of};

pub(crate) const ROW_NUMBER: &str = "row_number";

/// A window function. It is only planned, never called.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PlannedWindow {
    name: &'static str,
    signature: Signature,
}

impl WindowUDFImpl for PlannedWindow {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        not_impl_err!("an operator knows the rows before")
    }

    /// `ROW_NUMBER()` returns a number. The others return their argument's value in another row: `LAG(value,
    /// rows, otherwise)`.
    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        if self.name == ROW_NUMBER {
            return Ok(Arc::new(Field::new(args.name(), DataType::Int64, false)));
        }
        let value = args.get_input_field(0).map_or(DataType::Null, |field| field.data_type().clone());
        Ok(Arc::new(Field::new(args.name(), value, true)))
    }
}

/// Functions by name in lower case.
pub(crate) struct Functions {
    scalar: &'static BTreeMap<String, Arc<ScalarUDF>>,
    aggregate: BTreeMap<String, Arc<AggregateUDF>>,
    row_number: Arc<WindowUDF>,
    /// The window functions other than `ROW_NUMBER`.
    values: Vec<Arc<WindowUDF>>,
    planners: Vec<Arc<dyn ExprPlanner>>,
}

impl Functions {
    pub(crate) fn new() -> Self {
        let scalar = anabranch_functions::scalar_functions();
        let mut aggregate = BTreeMap::new();
        for function in datafusion_functions_aggregate::all_default_aggregate_functions() {
            for name in std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str)) {
                let exact = matches!(function.name(), "sum" | "avg");
                let function = if exact { ExactAggregate::over(Arc::clone(&function)) } else { Arc::clone(&function) };
                if function.name() == "var" {
                    aggregate.insert("variance".to_owned(), Arc::clone(&function));
                }
                if name == "grouping" {
                    aggregate.insert("grouping_id".to_owned(), Arc::clone(&function));
                }
                aggregate.insert(name.to_lowercase(), function);
            }
        }
        let named = |name: &str| scalar.get(name).cloned();
        let element = named("make_array").zip(named("make_map")).zip(named("item")).zip(named("get_field"));
        let element = element.map(|(((make_array, make_map), item), get_field)| {
            Arc::new(ElementPlanner { make_array, make_map, item, get_field }) as Arc<dyn ExprPlanner>
        });
        let mut planners: Vec<Arc<dyn ExprPlanner>> = vec![
            Arc::new(ExactPlanner),
            Arc::new(TimesOfDayPlanner),
            Arc::new(datafusion_functions::core::planner::CoreFunctionPlanner::default()),
            Arc::new(datafusion_functions::datetime::planner::DatetimeFunctionPlanner),
            Arc::new(datafusion_functions::unicode::planner::UnicodeFunctionPlanner),
            Arc::new(datafusion_functions_aggregate::planner::AggregateFunctionPlanner),
        ];
        planners.extend(element);
        let planned = |name, signature| Arc::new(WindowUDF::new_from_impl(PlannedWindow { name, signature }));
        let row_number = planned(ROW_NUMBER, Signature::nullary(Volatility::Immutable));
        let value_of = |(name, args): (&'static str, usize)| {
            let signature = (1..=args).map(TypeSignature::Any).collect();
            planned(name, Signature::one_of(signature, Volatility::Immutable))
        };
        let values = [(LAG, 3), ("first_value", 1), ("last_value", 1)].into_iter().map(value_of).collect();
        Functions { scalar, aggregate, row_number, values, planners }
    }

    pub(crate) fn scalar(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        if name.eq_ignore_ascii_case(processing_time::PROCTIME) {
            return Some(processing_time::function());
        }
        if name.eq_ignore_ascii_case(current_watermark::CURRENT_WATERMARK) {
            return Some(current_watermark::function());
        }
        if name.eq_ignore_ascii_case(type_of::TYPEOF) {
            return Some(type_of::function());
        }
        self.scalar.get(name).or_else(|| self.scalar.get(&name.to_lowercase())).cloned()
    }

    pub(crate) fn aggregate(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.aggregate.get(name).or_else(|| self.aggregate.get(&name.to_lowercase())).cloned()
    }

    pub(crate) fn row_number(&self) -> Arc<WindowUDF> {
        Arc::clone(&self.row_number)
    }

    pub(crate) fn window(&self, name: &str) -> Option<Arc<WindowUDF>> {
        let mut all = std::iter::once(&self.row_number).chain(&self.values);
        all.find(|function| name.eq_ignore_ascii_case(function.name())).cloned()
    }

    pub(crate) fn planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    pub(crate) fn scalar_names(&self) -> Vec<String> {
        let named = self.scalar.keys().filter(|name| !name.starts_with('$')).cloned();
        let planned =
            [processing_time::PROCTIME, current_watermark::CURRENT_WATERMARK, type_of::TYPEOF].map(str::to_owned);
        named.chain(planned).collect()
    }

    pub(crate) fn aggregate_names(&self) -> Vec<String> {
        self.aggregate.keys().cloned().collect()
    }
}
