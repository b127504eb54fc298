//! `INTERSECT ALL` and `EXCEPT ALL`: how often each row occurs on both sides decides how often it is in the result. The library's
//! planner forgets how often a row occurs.

use std::ops::ControlFlow;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use datafusion_common::{Column, DataFusionError, plan_err};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder, lit, when};
use datafusion_sql::sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, Query, Select, SetExpr, SetOperator, SetQuantifier, Spanned, TableFactor,
    VisitorMut,
};
use datafusion_sql::sqlparser::parser::{Parser, ParserError};

use crate::copies::Copies;
use crate::dialect::AnabranchDialect;
use crate::place::{at, through};
use crate::spelling::number_columns;
use crate::walk::change_syntax;

/// Names of the table functions that stand for the operations.
const INTERSECT_ALL: &str = "$INTERSECT_ALL";
const EXCEPT_ALL: &str = "$EXCEPT_ALL";

/// Columns that say how often a row is on the left and on the right.
const SIDES: [&str; 2] = ["$left", "$right"];

/// Replaces each such operation by a call of a table function, which [`plan`] plans.
pub(crate) fn rewrite(query: &mut Query) -> Result<()> {
    struct Rewriting;
    impl VisitorMut for Rewriting {
        type Break = Error;

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
            each_select(query.body.as_mut(), number_columns);
            let mut open = vec![query.body.as_mut()];
            while let Some(body) = open.pop() {
                let SetExpr::SetOperation { op, set_quantifier, right, .. } = &*body else { continue };
                let (op, place) = (*op, right.span().start);
                match (op, *set_quantifier) {
                    // The sides are visited in the call.
                    (SetOperator::Intersect, SetQuantifier::All) => replace(body, INTERSECT_ALL)?,
                    (SetOperator::Except, SetQuantifier::All) => replace(body, EXCEPT_ALL)?,
                    (SetOperator::Intersect | SetOperator::Except, SetQuantifier::AllByName) => {
                        let error = Error::user(format!("{op} ALL BY NAME is not supported"));
                        let error = error.at(at(place)).remedy("select the columns in the same order");
                        return ControlFlow::Break(error);
                    }
                    _ => {
                        let SetExpr::SetOperation { left, right, .. } = body else { continue };
                        open.extend([left.as_mut(), right.as_mut()]);
                    }
                }
            }
            ControlFlow::Continue(())
        }
    }
    match change_syntax(query, &mut Rewriting) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Calls `visit` with each SELECT that is a side.
fn each_select(body: &mut SetExpr, visit: fn(&mut Select)) {
    let mut open = vec![body];
    while let Some(body) = open.pop() {
        match body {
            SetExpr::SetOperation { left, right, .. } => open.extend([left.as_mut(), right.as_mut()]),
            SetExpr::Query(query) => open.push(query.body.as_mut()),
            SetExpr::Select(select) => visit(select),
            _ => {}
        }
    }
}

fn replace(operation: &mut SetExpr, function: &str) -> ControlFlow<Error> {
    let place = operation.span().start;
    match call(operation, function) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(Error::internal(error.to_string()).at(at(place))),
    }
}

/// `SELECT * FROM function((left), (right))`.
fn call(operation: &mut SetExpr, function: &str) -> std::result::Result<(), ParserError> {
    let text = format!("SELECT * FROM `{function}`((SELECT 1), (SELECT 1))");
    let mut template = Parser::new(&AnabranchDialect::default()).try_with_sql(&text)?.parse_query()?;
    let SetExpr::Select(select) = template.body.as_mut() else { return Ok(()) };
    let Some(TableFactor::Table { args: Some(args), .. }) = select.from.first_mut().map(|from| &mut from.relation)
    else {
        return Ok(());
    };
    let queries = args.args.iter_mut().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Subquery(query))) => Some(query),
        _ => None,
    });
    if let SetExpr::SetOperation { left, right, .. } = operation {
        for (query, side) in queries.zip([left, right]) {
            std::mem::swap(&mut query.body, side);
        }
        *operation = *template.body;
    }
    Ok(())
}

/// Plans such a call. `None`: the relation is another one.
pub(crate) fn plan(
    relation: &TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> datafusion_common::Result<Option<LogicalPlan>> {
    let TableFactor::Table { name, args: Some(args), .. } = relation else { return Ok(None) };
    let name = name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.as_str());
    let Some(function @ (INTERSECT_ALL | EXCEPT_ALL)) = name else { return Ok(None) };
    let mut sides = Vec::new();
    for arg in &args.args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Subquery(query))) = arg else { continue };
        let derived = TableFactor::Derived { lateral: false, subquery: query.clone(), alias: None, sample: None };
        sides.push((context.plan(derived)?, query.span().start));
    }
    let [(left, _), (right, place)] =
        <[_; 2]>::try_from(sides).map_err(|_| DataFusionError::Internal("a set operation has two sides".to_owned()))?;
    let widths = [&left, &right].map(|side| side.schema().fields().len());
    if widths[0] != widths[1] {
        let operation = function.trim_start_matches('$').replace('_', " ");
        let error = Error::user(format!("the sides of {operation} have {} and {} columns", widths[0], widths[1]));
        return Err(through(error.at(at(place)).remedy("select the same columns on both sides")));
    }
    counted(left, right, function == EXCEPT_ALL, context).map(Some)
}

/// The same names, with numbers where one was there before, as in Flink: `k`, `k0`, `k1`.
fn distinct(names: &[String]) -> Vec<String> {
    let mut seen: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let numbered = (0..).map(|number| format!("{name}{number}"));
        let is_new = |of: &String| !seen.contains(of) && (of == name || !names.contains(of));
        seen.extend(std::iter::once(name.clone()).chain(numbered).find(is_new));
    }
    seen
}

/// Rows of the left side as often as they count, in its columns.
fn counted(
    left: LogicalPlan,
    right: LogicalPlan,
    excepted: bool,
    context: &mut dyn RelationPlannerContext,
) -> datafusion_common::Result<LogicalPlan> {
    let names: Vec<String> = left.schema().fields().iter().map(|field| field.name().clone()).collect();
    let numbered: Vec<String> = (0..names.len()).map(|place| format!("${place}")).collect();
    let side = |plan: LogicalPlan, counts: [i64; 2]| {
        let columns = plan.schema().columns().into_iter().zip(&numbered).map(|(of, name)| Expr::Column(of).alias(name));
        let counts = SIDES.iter().zip(counts).map(|(name, count)| lit(count).alias(*name));
        let columns: Vec<Expr> = columns.chain(counts).collect();
        LogicalPlanBuilder::from(plan).project(columns)?.build()
    };
    let rows = LogicalPlanBuilder::from(side(left, [1, 0])?).union(side(right, [0, 1])?)?;
    let column = |name: &str| Expr::Column(Column::from_name(name));
    let Some(sum) = context.context_provider().get_aggregate_meta("sum") else { return plan_err!("there is no SUM") };
    let keys: Vec<Expr> = numbered.iter().map(|name| column(name)).collect();
    let sums: Vec<Expr> = SIDES.iter().map(|name| sum.call(vec![column(name)]).alias(*name)).collect();
    let [on_left, on_right] = SIDES.map(column);
    let copies = match excepted {
        true => on_left - on_right,
        false => when(on_left.clone().lt(on_right.clone()), on_left).otherwise(on_right)?,
    };
    let named = numbered.iter().zip(distinct(&names)).map(|(number, name)| column(number).alias(name));
    let columns: Vec<Expr> = named.chain([copies.alias("$copies")]).collect();
    let rows = rows.aggregate(keys, sums)?.project(columns)?;
    let counts = rows.filter(column("$copies").gt(lit(0_i64)))?.build()?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(Copies::new(counts)?) }))
}
