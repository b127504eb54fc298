//! Plans queries against a catalog: binds them and runs the passes. DataFusion converts single expressions.

use std::collections::HashMap;
use std::sync::Arc;

use anabranch_dataflow::Lookups;
use anabranch_functions::FunctionDoc;
use anabranch_model::{Error, Result, nearest};
use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::{DFSchema, DataFusionError, TableReference};
use datafusion_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion_expr::{AggregateUDF, Expr, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion_sql::planner::{NullOrdering, ParserOptions, PlannerContext, SqlToRel};
use datafusion_sql::sqlparser::ast::{self, Query};
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::bind::Binder;
use crate::catalog::{Catalog, Relation};
use crate::current_watermark;
use crate::passes::{self, ANALYSIS, Pass, REWRITES, Session};
use crate::place::{planning_error, through, unknown_column, unknown_function};
use crate::rel::{Col, Columns, Rel};
use crate::rewrite::with_values;
use crate::spelling;
use crate::types::FlinkTypes;
use crate::zones::zone_windows;

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

    /// A planner for a session with this time zone.
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

    /// Binds a query that is run: the plan before all passes.
    pub(crate) fn query(&self, query: Box<Query>) -> Result<Rel> {
        zone_windows(self.view(query)?, self.zone).map_err(planning_error)
    }

    /// Binds a query of a view, which other queries use in their time zones.
    pub(crate) fn view(&self, query: Box<Query>) -> Result<Rel> {
        Binder::new(self).bind(*query).and_then(current_watermark::check_calls).map_err(planning_error)
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        self.catalog
    }

    /// The plan of a table or a view that a statement names at `start`.
    pub(crate) fn relation(&self, name: &str, start: Location) -> Result<Rel> {
        match self.catalog.get(name)? {
            Relation::Table(declared) => {
                // Lowering decides whether a lookup table is only looked up.
                if declared.table.traits.lookups != Lookups::ByKey {
                    declared.table.check_readable()?;
                }
                declared.named_at(start)
            }
            Relation::View(view) => Ok(view.plan.clone()),
        }
    }

    /// Converts an expression with the names of `schema`, after its calls have their plain forms.
    pub(crate) fn written(&self, expr: ast::Expr, schema: &DFSchema) -> datafusion_common::Result<Expr> {
        let expr = self.sql_to_rel().sql_to_expr(expr, schema, &mut PlannerContext::new());
        expr.map_err(|error| through(self.explain(error)))
    }

    /// Binds an expression over `columns`.
    pub(crate) fn expr(&self, expr: ast::Expr, columns: &Columns) -> Result<Expr> {
        self.resolved(expr, columns, |error| self.explain(error))
    }

    /// Binds the body of a function over its parameters. `unknown` returns the error for another name.
    pub(crate) fn body(&self, expr: ast::Expr, parameters: &Columns, unknown: &dyn Fn(&str) -> Error) -> Result<Expr> {
        self.resolved(expr, parameters, |error| match unknown_column(&error) {
            Some((name, place)) => place.into_iter().fold(unknown(&name), Error::at),
            None => self.explain(error),
        })
    }

    fn resolved(
        &self,
        mut expr: ast::Expr,
        columns: &Columns,
        explain: impl Fn(DataFusionError) -> Error,
    ) -> Result<Expr> {
        spelling::rewrite(&mut expr)?;
        let named = columns.iter().map(|col| (col.table.clone(), Arc::clone(&col.field))).collect();
        let schema = DFSchema::new_with_metadata(named, HashMap::new()).map_err(planning_error)?;
        let expr = self.sql_to_rel().sql_to_expr(expr, &schema, &mut PlannerContext::new()).map_err(explain)?;
        let known: HashMap<&str, &Col> = columns.iter().map(|col| (col.field.name().as_str(), col)).collect();
        with_values(expr, &|column| known.get(column.name.as_str()).map(|col| col.expr())).map_err(planning_error)
    }

    /// Runs the passes that determine types.
    pub(crate) fn analyze(&self, plan: Rel) -> Result<Rel> {
        self.run(&ANALYSIS, plan, &mut |_, _| {})
    }

    /// Runs all passes.
    pub(crate) fn optimize(&self, plan: Rel) -> Result<Rel> {
        self.optimize_observed(plan, &mut |_, _| {})
    }

    /// Runs all passes. `observe` receives the plan after each.
    pub(crate) fn optimize_observed(&self, plan: Rel, observe: &mut dyn FnMut(&Rel, &Pass)) -> Result<Rel> {
        let plan = self.run(&ANALYSIS, plan, observe)?;
        self.run(&REWRITES, plan, observe)
    }

    /// Runs these passes.
    pub(crate) fn run(&self, passes: &[Pass], plan: Rel, observe: &mut dyn FnMut(&Rel, &Pass)) -> Result<Rel> {
        let session = Session { zone: self.zone };
        passes::run(passes, plan, &session, observe).map_err(planning_error)
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
    fn get_table_source(
        &self,
        _name: TableReference,
    ) -> datafusion_common::Result<Arc<dyn datafusion_expr::TableSource>> {
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
