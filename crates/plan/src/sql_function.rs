//! Functions that statements declare: `CREATE FUNCTION f(a BIGINT) RETURNS BIGINT RETURN a + 1`.
//!
//! The declaration plans the body, so its errors are found there. The body is bound to the functions that
//! exist then, as a view is bound to its tables. A call is first a call of a function without an
//! implementation: the planner resolves it and coerces its arguments, as for every function. Then `expand`
//! replaces it by the body, so that the optimizer and the tasks see one expression.

mod expand;
mod reserved;

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use anabranch_dataflow::sql_name;
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::{internal_err, plan_err};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast};
use datafusion_sql::sqlparser::ast::{self, Function, Query, Spanned, Visitor};

pub(crate) use self::expand::{called_functions, expand_calls};
use self::expand::{count_columns, count_nodes};
pub(crate) use self::reserved::is_reserved;
use crate::catalog::Catalog;
use crate::insert::is_assignable;
use crate::place::{at, counted, or_at, planning_error};
use crate::query::Planner;
use crate::rel::{Rel, computed};
use crate::statement::CreateFunction;
use crate::table::row_of;
use crate::walk::see_syntax;

/// A function that a statement calls, directly or through a view, a table or another function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CalledFunction {
    /// Its declared name.
    pub name: String,
    /// The statement that declares it.
    pub text: String,
}

/// A declared function. It has no implementation: [`expand_calls`] replaces its calls.
#[derive(Debug)]
pub(crate) struct SqlFunction {
    itself: CalledFunction,
    parameters: Vec<Parameter>,
    returns: DataType,
    /// The analyzed body, of the type `returns`. Its columns are the parameters.
    body: Expr,
    /// The number of expressions in `body`.
    nodes: usize,
    /// The functions that the body calls, directly or indirectly.
    calls: BTreeSet<CalledFunction>,
    signature: Signature,
}

#[derive(Debug)]
struct Parameter {
    name: String,
    data_type: DataType,
    /// The number of references in the body.
    uses: usize,
}

impl SqlFunction {
    pub(crate) fn declare(statement: &CreateFunction, catalog: &Catalog) -> Result<ScalarUDF> {
        let name = &statement.name.value;
        check_body(statement, catalog)?;
        let here = |error: Error| or_at(error, statement.body_start.line, statement.body_start.column);
        let fields = statement.parameters.iter().map(|(name, t)| Field::new(&name.value, t.clone(), true));
        let row = row_of(name, &Arc::new(Schema::new(fields.collect::<Vec<_>>())));
        let planner = Planner::new(catalog);
        let unknown = |column: &str| not_a_parameter(column, statement);
        let body = planner.body(statement.body.clone(), row.columns(), &unknown).map_err(here)?;
        let plan = row.project([computed("value", body)]);
        let plan = plan.map_err(planning_error).map_err(here)?;
        let calls = called_functions(&plan).map_err(planning_error)?;
        // Only for its errors: the optimizer's result depends on the arguments.
        planner.optimize(plan.clone()).map_err(here)?;
        let plan = planner.analyze(plan).map_err(here)?;
        let plan = expand_calls(plan).map_err(planning_error).map_err(here)?;
        let Rel::Project(projection) = &plan else {
            return Err(Error::internal("the body of a function is not a projection"));
        };
        let [body] = projection.exprs.as_slice() else {
            return Err(Error::internal("the body of a function is not one expression"));
        };
        let given = plan.columns().field(0).data_type().clone();
        let returns = statement.returns.clone();
        if !is_assignable(&given, &returns) {
            let (given, returns) = (sql_name(&given), sql_name(&returns));
            let error = Error::user(format!("function {name} returns {returns}, but its expression is {given}"));
            return Err(here(error.remedy(format!("convert the expression with CAST(... AS {returns})"))));
        }
        let body = body.clone();
        let body = if given == returns { body } else { cast(body, returns.clone()) };
        let parameter = |(name, data_type): &(ast::Ident, DataType)| Parameter {
            name: name.value.clone(),
            data_type: data_type.clone(),
            uses: count_columns(&body, &name.value),
        };
        let parameters: Vec<Parameter> = statement.parameters.iter().map(parameter).collect();
        let volatility = if body.is_volatile() { Volatility::Volatile } else { Volatility::Immutable };
        let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let signature = Signature::user_defined(volatility).with_parameter_names(names).map_err(planning_error)?;
        let itself = CalledFunction { name: name.clone(), text: statement.text.clone() };
        let nodes = count_nodes(&body);
        let function = SqlFunction { itself, parameters, returns, body, nodes, calls, signature };
        Ok(ScalarUDF::new_from_impl(function))
    }

    /// The declared function behind a `ScalarUDF`, if it is one.
    pub(crate) fn from_udf(function: &ScalarUDF) -> Option<&SqlFunction> {
        function.inner().downcast_ref::<SqlFunction>()
    }

    /// The statement that declares it.
    pub(crate) fn text(&self) -> &str {
        &self.itself.text
    }

    /// `f(a BIGINT, b STRING)`.
    fn form(&self) -> String {
        let parameters = self.parameters.iter().map(|p| format!("{} {}", p.name, sql_name(&p.data_type)));
        format!("{}({})", self.itself.name, parameters.collect::<Vec<_>>().join(", "))
    }
}

/// Functions are equal if the same statement declared them.
impl PartialEq for SqlFunction {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for SqlFunction {}

impl Hash for SqlFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.itself.name.hash(state);
    }
}

impl ScalarUDFImpl for SqlFunction {
    fn name(&self) -> &str {
        &self.itself.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> datafusion_common::Result<DataType> {
        Ok(self.returns.clone())
    }

    /// An argument needs no CAST if an INSERT of the value needs none.
    fn coerce_types(&self, given: &[DataType]) -> datafusion_common::Result<Vec<DataType>> {
        let (name, form) = (&self.itself.name, self.form());
        if given.len() != self.parameters.len() {
            let wanted = counted(self.parameters.len(), "argument");
            return plan_err!("{name} takes {wanted}, not {}; write {form}", given.len());
        }
        for (parameter, given) in self.parameters.iter().zip(given) {
            if !is_assignable(given, &parameter.data_type) {
                let (wanted, given) = (sql_name(&parameter.data_type), sql_name(given));
                return plan_err!(
                    "argument '{}' of {name} is {wanted}, not {given}; write {form}, with CAST where a type differs",
                    parameter.name
                );
            }
        }
        Ok(self.parameters.iter().map(|parameter| parameter.data_type.clone()).collect())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> datafusion_common::Result<ColumnarValue> {
        internal_err!("{} is not expanded", self.itself.name)
    }
}

fn not_a_parameter(name: &str, statement: &CreateFunction) -> Error {
    let function = &statement.name.value;
    let error = Error::user(format!("'{name}' is not a parameter of function {function}"));
    let names: Vec<&str> = statement.parameters.iter().map(|(name, _)| name.value.as_str()).collect();
    error.remedy(match names.as_slice() {
        [] => "a function sees only its parameters, and this one has none".to_owned(),
        names => format!("a function sees only its parameters: {}", names.join(", ")),
    })
}

/// Refuses queries, aggregates, window functions and recursion in a body.
fn check_body(statement: &CreateFunction, catalog: &Catalog) -> Result<()> {
    see_syntax(&statement.body, &mut BodyCheck { name: &statement.name.value, catalog })
}

struct BodyCheck<'a> {
    name: &'a str,
    catalog: &'a Catalog,
}

impl Visitor for BodyCheck<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        let error = Error::user(format!("function {} contains a query", self.name)).at(at(query.span().start));
        ControlFlow::Break(error.remedy("give the function the value as an argument"))
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Error> {
        match expr {
            ast::Expr::Function(call) => self.call(call),
            _ => ControlFlow::Continue(()),
        }
    }
}

impl BodyCheck<'_> {
    fn call(&self, call: &Function) -> ControlFlow<Error> {
        let (name, called) = (self.name, call.name.to_string().replace(['`', '"'], ""));
        let place = at(call.span().start);
        let functions = &self.catalog.functions;
        let aggregate = functions.aggregate(&called).is_some() && functions.scalar(&called).is_none();
        if aggregate || called.eq_ignore_ascii_case("LISTAGG") {
            let error = Error::user(format!("function {name} contains the aggregate {}", called.to_uppercase()));
            return ControlFlow::Break(error.at(place).remedy("give the function the result as an argument"));
        }
        if call.over.is_some() {
            let error = Error::user(format!("function {name} contains {}(...) OVER", called.to_uppercase()));
            return ControlFlow::Break(error.at(place).remedy("give the function the result as an argument"));
        }
        let indirect = self.catalog.sql_function(&called).and_then(|function| {
            let calls = SqlFunction::from_udf(function).map(|function| &function.calls);
            calls.is_some_and(|calls| calls.iter().any(|f| f.name.eq_ignore_ascii_case(name))).then_some(&called)
        });
        let error = match indirect {
            _ if called.eq_ignore_ascii_case(name) => Error::user(format!("function {name} calls itself")),
            Some(through) => Error::user(format!("function {name} calls itself through {through}")),
            None => return ControlFlow::Continue(()),
        };
        ControlFlow::Break(error.at(place).remedy("functions cannot be recursive"))
    }
}
