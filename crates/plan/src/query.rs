//! Converts queries to optimized logical plans: our catalog and functions behind DataFusion's planner and optimizer.

use std::sync::Arc;

use anabranch_dataflow::Lookups;
use anabranch_functions::FunctionDoc;
use anabranch_model::{Error, Result, nearest};
use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::{DFSchema, DataFusionError, TableReference};
use datafusion_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion_expr::{AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF};
use datafusion_optimizer::analyzer::Analyzer;
use datafusion_optimizer::{Optimizer, OptimizerContext, OptimizerRule};
use datafusion_sql::planner::{NullOrdering, ParserOptions, PlannerContext, SqlToRel};
use datafusion_sql::sqlparser::ast::{self, Query};

use crate::accesses;
use crate::approximate::approximate_decimals;
use crate::bind::Binder;
use crate::catalog::{Catalog, Relation};
use crate::compared_rows::compare_fields;
use crate::compared_times::read_texts;
use crate::current_watermark;
use crate::exact::settle_constants;
use crate::inner_orders::without_inner_orders;
use crate::intervals::without_days;
use crate::maps::compare_maps;
use crate::place::{planning_error, through, unknown_column, unknown_function};
use crate::rules::rules;
use crate::simplify::Simplify;
use crate::spelling;
use crate::sql_function::expand_calls;
use crate::types::FlinkTypes;
use crate::unsupported;
use crate::varying;
use crate::walk::Walk;
use crate::zones::{settle_times, settle_windows};

/// Computes common subexpressions first, even those that can only be computed for rows that pass an aggregate's FILTER.
const SHARING_RULE: &str = "common_sub_expression_eliminate";

fn filters_aggregates(plan: &LogicalPlan) -> bool {
    let filters = |expr: &Expr| matches!(expr, Expr::AggregateFunction(call) if call.params.filter.is_some());
    let found = plan.has(&|node| match node {
        LogicalPlan::Aggregate(aggregate) => {
            Ok(aggregate.aggr_expr.iter().any(|expr| expr.has(&|e| Ok(filters(e))).unwrap_or(true)))
        }
        _ => Ok(false),
    });
    found.unwrap_or(true)
}

/// Whether functions over rows are the same once constants are computed. The library would make one of them a column that nothing computes.
fn repeats_calls(plan: &LogicalPlan, context: &OptimizerContext) -> Result<bool> {
    if !plan.has(&|node| Ok(matches!(node, LogicalPlan::Window(_)))).map_err(planning_error)? {
        return Ok(false);
    }
    let folded = Optimizer::with_rules(vec![Arc::new(Simplify)])
        .optimize(plan.clone(), context, |_, _| {})
        .map_err(planning_error)?;
    let repeats = folded.has(&|node| {
        let mut calls: Vec<Expr> = Vec::new();
        let mut next = node;
        while let LogicalPlan::Window(window) = next {
            calls.extend(window.window_expr.iter().map(|call| call.clone().unalias()));
            next = window.input.as_ref();
        }
        Ok(calls.iter().enumerate().any(|(place, call)| calls[..place].contains(call)))
    });
    repeats.map_err(planning_error)
}

/// Plans queries against a catalog.
pub(crate) struct Planner<'a> {
    catalog: &'a Catalog,
    /// The time zone of the session. `None`: UTC.
    zone: Option<&'a str>,
    options: Arc<ConfigOptions>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(catalog: &'a Catalog) -> Self {
        Planner::in_zone(catalog, catalog.settings.table.zone.as_deref())
    }

    /// Plans statements of a session with this time zone.
    pub(crate) fn in_zone(catalog: &'a Catalog, zone: Option<&'a str>) -> Self {
        let mut options = ConfigOptions::default();
        options.sql_parser.enable_ident_normalization = false;
        options.sql_parser.collect_spans = true;
        options.sql_parser.parse_float_as_decimal = true;
        Planner { catalog, zone, options: Arc::new(options) }
    }

    /// The time zone of the session. `None`: UTC.
    pub(crate) fn zone(&self) -> Option<&str> {
        self.zone
    }

    /// The plan of a query that is run, names resolved, not yet optimized.
    pub(crate) fn query(&self, query: Box<Query>) -> Result<LogicalPlan> {
        settle_windows(self.view(query)?, self.zone).map_err(planning_error)
    }

    /// The plan of a query that others are to use, in their time zones.
    pub(crate) fn view(&self, query: Box<Query>) -> Result<LogicalPlan> {
        unsupported::check(&query)?;
        Binder::new(self).bind(*query).and_then(current_watermark::settle).map_err(planning_error)
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        self.catalog
    }

    /// The plan of a table or a view.
    pub(crate) fn relation(&self, name: &str) -> Result<&LogicalPlan> {
        match self.catalog.get(name)? {
            Relation::Table(declared) => {
                // Whether it may be only asked is known when the query is lowered.
                if declared.table.traits.lookups != Lookups::ByKey {
                    declared.table.check_readable()?;
                }
                Ok(&declared.plan)
            }
            Relation::View(view) => Ok(&view.plan),
        }
    }

    /// An expression whose names are those of `schema`, and whose calls have their plain forms.
    pub(crate) fn written(&self, expr: ast::Expr, schema: &DFSchema) -> datafusion_common::Result<Expr> {
        let expr = self.sql_to_rel().sql_to_expr(expr, schema, &mut PlannerContext::new());
        expr.map_err(|error| through(self.explain(error)))
    }

    /// An expression over the columns of `schema`.
    pub(crate) fn expr(&self, expr: ast::Expr, schema: &DFSchema) -> Result<Expr> {
        self.resolved(expr, schema, |error| self.explain(error))
    }

    /// The body of a function over its parameters; `unknown` gives the error of another name.
    pub(crate) fn body(&self, expr: ast::Expr, parameters: &DFSchema, unknown: &dyn Fn(&str) -> Error) -> Result<Expr> {
        self.resolved(expr, parameters, |error| match unknown_column(&error) {
            Some((name, place)) => place.into_iter().fold(unknown(&name), Error::at),
            None => self.explain(error),
        })
    }

    fn resolved(
        &self,
        mut expr: ast::Expr,
        schema: &DFSchema,
        explain: impl Fn(DataFusionError) -> Error,
    ) -> Result<Expr> {
        spelling::rewrite(&mut expr)?;
        spelling::approximate_exponents(&mut expr);
        self.sql_to_rel().sql_to_expr(expr, schema, &mut PlannerContext::new()).map_err(explain)
    }

    /// Coerces types.
    pub(crate) fn analyze(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = compare_fields(plan)
            .and_then(approximate_decimals)
            .and_then(compare_maps)
            .and_then(read_texts)
            .map_err(planning_error)?;
        Analyzer::new().execute_and_check(plan, &self.options, |_, _| {}).map_err(planning_error)
    }

    /// Coerces types, replaces calls of declared functions, and pushes filters and projections down.
    pub(crate) fn optimize(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        self.optimize_observed(self.analyze(plan)?, &mut |_, _| {})
    }

    /// Optimizes a plan with coerced types. `observe` gets the plan after each step, and the name of the step.
    pub(crate) fn optimize_observed(
        &self,
        plan: LogicalPlan,
        observe: &mut dyn FnMut(&LogicalPlan, &str),
    ) -> Result<LogicalPlan> {
        let plan = expand_calls(plan)
            .and_then(|plan| settle_times(plan, self.zone))
            .and_then(without_days)
            .and_then(settle_constants)
            .and_then(varying::check)
            .and_then(without_inner_orders)
            .and_then(varying::settle);
        let plan = plan.map_err(planning_error)?;
        observe(&plan, "settle");
        let mut rules = rules();
        let context = OptimizerContext::new_with_config_options(Arc::clone(&self.options));
        if filters_aggregates(&plan) || repeats_calls(&plan, &context)? {
            rules.retain(|rule| rule.name() != SHARING_RULE);
        }
        let rules = accesses::rules(&plan, rules).map_err(planning_error)?;
        let observe = |plan: &LogicalPlan, rule: &dyn OptimizerRule| observe(plan, rule.name());
        Optimizer::with_rules(rules).optimize(plan, &context, observe).map_err(planning_error)
    }

    fn explain(&self, error: DataFusionError) -> Error {
        let Some((name, place)) = unknown_function(&error) else { return planning_error(error) };
        let known = anabranch_functions::catalog().iter().flat_map(FunctionDoc::names);
        let mut names: Vec<&str> = known.collect();
        names.extend(self.catalog.sql_functions());
        let error = Error::user(format!("unknown function {}", name.to_uppercase()));
        let error = match nearest(&name, names) {
            Some(near) => error.remedy(format!("did you mean {}?", near.to_uppercase())),
            None => error,
        };
        if let Some(place) = place { error.at(place) } else { error }
    }

    fn sql_to_rel(&self) -> SqlToRel<'_, Self> {
        let options = ParserOptions::new().with_enable_ident_normalization(false).with_collect_spans(true);
        // NULL is the least value, as in Flink.
        let options = options.with_parse_float_as_decimal(true).with_default_null_ordering(NullOrdering::NullsMin);
        SqlToRel::new_with_options(self, options)
    }
}

impl ContextProvider for Planner<'_> {
    fn get_table_source(&self, _name: TableReference) -> datafusion_common::Result<Arc<dyn TableSource>> {
        Err(through(Error::user("a query is not allowed in this expression").remedy("give the value as a column")))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.catalog.functions.planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(FlinkTypes))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.catalog.functions.scalar(name).or_else(|| self.catalog.sql_function(name).cloned())
    }

    fn get_higher_order_meta(&self, _name: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.catalog.functions.aggregate(name)
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.catalog.functions.window(name)
    }

    fn get_variable_type(&self, _variable_names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        let mut names = self.catalog.functions.scalar_names();
        names.extend(self.catalog.sql_functions().map(str::to_owned));
        names
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.catalog.functions.aggregate_names()
    }

    fn udwf_names(&self) -> Vec<String> {
        Vec::new()
    }
}
