//! The functions that SQL may call: the scalar functions of `anabranch-functions` and DataFusion's aggregates. Flink's
//! special forms are rewritten before planning, see [`crate::spelling`].

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion_expr::planner::ExprPlanner;
use datafusion_expr::{AggregateUDF, ScalarUDF};

use crate::element::ElementPlanner;
use crate::exact::{ExactAggregate, ExactPlanner};

/// Functions by name in lower case.
pub(crate) struct Functions {
    scalar: &'static BTreeMap<String, Arc<ScalarUDF>>,
    aggregate: BTreeMap<String, Arc<AggregateUDF>>,
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
            Arc::new(datafusion_functions::core::planner::CoreFunctionPlanner::default()),
            Arc::new(datafusion_functions::datetime::planner::DatetimeFunctionPlanner),
            Arc::new(datafusion_functions::unicode::planner::UnicodeFunctionPlanner),
            Arc::new(datafusion_functions_aggregate::planner::AggregateFunctionPlanner),
        ];
        planners.extend(element);
        Functions { scalar, aggregate, planners }
    }

    pub(crate) fn scalar(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.scalar.get(name).or_else(|| self.scalar.get(&name.to_lowercase())).cloned()
    }

    pub(crate) fn aggregate(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.aggregate.get(name).or_else(|| self.aggregate.get(&name.to_lowercase())).cloned()
    }

    pub(crate) fn planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    pub(crate) fn scalar_names(&self) -> Vec<String> {
        self.scalar.keys().cloned().collect()
    }

    pub(crate) fn aggregate_names(&self) -> Vec<String> {
        self.aggregate.keys().cloned().collect()
    }
}
