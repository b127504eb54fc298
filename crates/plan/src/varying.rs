//! Volatile expressions, such as `RAND()` and `NOW()`: each is evaluated where it is written, and once per
//! row.
//!
//! The optimizer moves a condition that reads only an aggregate's keys, or no column, below the aggregate,
//! and similarly below joins: `WHERE RAND() < 0.5` over counts would count half of the rows. So a volatile
//! condition becomes a column, which the filter reads. A volatile expression that would be copied is refused,
//! because a column of a query is computed once.

use std::sync::Arc;

use anabranch_model::Error;
use arrow::datatypes::DataType;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Column, DataFusionError, JoinType, Result, ScalarValue};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Case, Expr, ExprSchemable, lit};

use crate::place::{planning_error, through};
use crate::rel::{Columns, Join, Rel, computed, kept};
use crate::rewrite::{change_expressions, is_key};
use crate::walk::Walk;
use crate::{current_watermark, processing_time};

/// The column with the value of volatile conditions. No query can write this name.
const PASSES: &str = "$passes";

/// Whether an expression may have another value at each evaluation. Stamps of a source do not change.
pub(crate) fn varies(expr: &Expr) -> bool {
    let found = expr.has(&|expr| {
        let of_source = processing_time::is_stamp(expr) || current_watermark::is_call(expr);
        Ok(expr.is_volatile_node() && !of_source)
    });
    found.unwrap_or(true)
}

/// Whether an expression of a plan is volatile, including stamps.
pub(crate) fn is_volatile(plan: &Rel) -> bool {
    plan.has(&|node| Ok(node.expressions().into_iter().any(Expr::is_volatile))).unwrap_or(true)
}

/// Refuses volatile expressions that would be evaluated more than once for a row, or for a row and its group.
pub(crate) fn check(plan: Rel) -> Result<Rel> {
    plan.see(&mut |node| {
        if let Rel::Aggregate(aggregate) = node
            && aggregate.group_expr.iter().any(varies)
        {
            return Err(refused("a key of GROUP BY"));
        }
        let exprs: Vec<&Expr> = node.expressions().into_iter().filter(|expr| varies(expr)).collect();
        if exprs.is_empty() {
            return Ok(TreeNodeRecursion::Continue);
        }
        let inputs: Vec<_> = node.inputs().into_iter().map(|input| Arc::clone(input.shared_columns())).collect();
        let columns = Columns::merged(&inputs);
        for expr in exprs {
            expr.see(&mut |expr| match copied(expr, &columns) {
                Some((operand, what)) if varies(operand) => Err(refused(&what)),
                _ => Ok(TreeNodeRecursion::Continue),
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(plan)
}

/// The name of a volatile part of an expression.
pub(crate) fn what_varies(expr: &Expr) -> anabranch_model::Result<Option<String>> {
    let mut varying = None;
    let found = expr.see(&mut |expr| {
        if let Expr::ScalarFunction(call) = expr
            && expr.is_volatile()
        {
            varying = Some(match call.func.name() {
                processing_time::CLOCK => "the clock".to_owned(),
                name => format!("{}()", name.to_uppercase()),
            });
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found.map_err(planning_error)?;
    Ok(varying)
}

/// Refuses a volatile expression over an updating stream: a retraction must equal the row that it retracts.
pub(crate) fn check_repeatable(expr: &Expr) -> anabranch_model::Result<()> {
    let Some(varying) = what_varies(expr)? else { return Ok(()) };
    Err(Error::user(format!("{varying} would have another value when a row is retracted")).remedy(
        "write to a table that keeps the latest row of each key ('upsert-kafka', or 'jdbc' with a primary key), use a column of the records, or \
         compute it before the rows are aggregated",
    ))
}

fn refused(what: &str) -> DataFusionError {
    let error = Error::user(format!("{what} has another value at each evaluation, and is evaluated more than once"));
    through(error.remedy("compute the value first: SELECT *, RAND() AS r FROM t"))
}

/// The operand of an expression that is evaluated more than once, and its description.
fn copied<'e>(expr: &'e Expr, schema: &Columns) -> Option<(&'e Expr, String)> {
    match expr {
        Expr::Case(case) => Some((copied_of_case(case, schema)?, "the operand of CASE".into())),
        Expr::Between(between) => Some((&between.expr, "the operand of BETWEEN".into())),
        Expr::ScalarFunction(call) => match (call.func.name(), call.args.as_slice()) {
            ("coalesce" | "nvl", [first, rest @ ..]) => {
                let others = rest.iter().rev().skip(1);
                let operand =
                    std::iter::once(first).filter(|_| !rest.is_empty()).chain(others).find(|arg| varies(arg))?;
                Some((operand, "an argument of COALESCE before the last one".into()))
            }
            ("nullif", [first, _]) if is_floating(first, schema) => {
                Some((first, "the first argument of NULLIF".into()))
            }
            _ => None,
        },
        Expr::AggregateFunction(call) if ["first_value", "last_value"].contains(&call.func.name()) => {
            Some((call.params.args.first()?, format!("the argument of {}", call.func.name().to_uppercase())))
        }
        _ => None,
    }
}

/// For floating-point numbers, each branch compares the operand again.
fn copied_of_case<'e>(case: &'e Case, schema: &Columns) -> Option<&'e Expr> {
    case.expr.as_deref().filter(|operand| case.when_then_expr.len() > 1 && is_floating(operand, schema))
}

fn is_floating(expr: &Expr, schema: &Columns) -> bool {
    expr.get_type(schema).as_ref().is_ok_and(DataType::is_floating)
}

/// Keeps volatile expressions in their place. [`check`] has refused copies.
pub(crate) fn isolate(plan: Rel) -> Result<Rel> {
    if !is_volatile(&plan) {
        return Ok(plan);
    }
    let isolated = plan.walk_up(&mut |node| match node {
        Rel::Filter(filter) if filter.predicate.is_volatile() => {
            let stays = match varies(&filter.predicate) {
                true => is_of_one_table(&filter.input),
                false => !is_of_groups(&filter.input),
            };
            if stays {
                return Ok(Transformed::no(Rel::Filter(filter)));
            }
            let parts = split_conjunction_owned(filter.predicate);
            let (varying, others) = parts.into_iter().partition(Expr::is_volatile);
            filtered(Arc::unwrap_or_clone(filter.input), varying, others).map(Transformed::yes)
        }
        Rel::Join(join) if join.filter.as_ref().is_some_and(varies) => joined(join).map(Transformed::yes),
        node => apart(node),
    });
    isolated.map(|isolated| isolated.data)
}

/// Filters by a column that holds the volatile conditions.
fn filtered(input: Rel, varying: Vec<Expr>, others: Vec<Expr>) -> Result<Rel> {
    let columns = input.ids();
    let (passes, value) = computed(PASSES, conjunction(varying).unwrap_or_else(|| lit(true)));
    let conditions = others.into_iter().fold(Expr::Column(passes.clone()), Expr::and);
    let with_value = columns.iter().cloned().map(kept).chain([(passes, value)]);
    input.project(with_value)?.filter(conditions)?.project(columns.into_iter().map(kept))
}

/// A join with a volatile condition. Comparisons of the two sides are computed on each side, other volatile
/// conditions on the pairs.
fn joined(mut join: Join) -> Result<Rel> {
    let parts = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
    let [of_left, of_right] = [&join.left, &join.right].map(|side| |column: &Column| side.columns().has(column));
    let (varying, others): (Vec<Expr>, Vec<Expr>) =
        parts.into_iter().partition(|part| varies(part) && !is_key(part, &of_left, &of_right));
    join.filter = conjunction(others);
    match join.join_type {
        _ if varying.is_empty() => Ok(Rel::Join(join)),
        JoinType::Inner => filtered(Rel::Join(join), varying, Vec::new()),
        _ => {
            let error = Error::user("the condition of this join has another value at each evaluation");
            Err(through(error.remedy("compute the value in one side first: SELECT *, RAND() AS r FROM t")))
        }
    }
}

/// Whether rows come from one table, independently of each other. Then the place of a filter does not matter.
fn is_of_one_table(plan: &Rel) -> bool {
    match plan {
        Rel::Get(_) => true,
        // Equal volatile conditions must not be merged.
        Rel::Filter(filter) if varies(&filter.predicate) => false,
        Rel::Project(_) | Rel::Filter(_) => plan.inputs().into_iter().all(is_of_one_table),
        _ => false,
    }
}

/// Whether rows are results of an operator over several rows. Such rows have no stamps.
fn is_of_groups(plan: &Rel) -> bool {
    match plan {
        Rel::Aggregate(_) | Rel::Distinct(_) | Rel::Over(_) | Rel::Limit(_) => true,
        Rel::Project(_) | Rel::Filter(_) => plan.inputs().into_iter().any(is_of_groups),
        _ => false,
    }
}

/// Writes out the comparisons that repeat an operand, so that the optimizer computes the operand once.
fn apart(node: Rel) -> Result<Transformed<Rel>> {
    let Rel::Project(projection) = &node else { return Ok(Transformed::no(node)) };
    let schema = Arc::clone(projection.input.shared_columns());
    change_expressions(node, &mut |expr| {
        expr.walk_up(&mut |expr| match expr {
            Expr::Case(case) if copied_of_case(&case, &schema).is_some() => {
                let Case { expr, when_then_expr, else_expr } = case;
                let operand = expr.ok_or_else(|| through(Error::internal("a CASE without an operand")))?;
                let branches =
                    when_then_expr.into_iter().map(|(when, then)| (Box::new(operand.as_ref().clone().eq(*when)), then));
                Ok(Transformed::yes(Expr::Case(Case::new(None, branches.collect(), else_expr))))
            }
            Expr::ScalarFunction(call) if call.func.name() == "nullif" && is_floating(&call.args[0], &schema) => {
                let [value, other] = call.args.as_slice() else {
                    return Ok(Transformed::no(Expr::ScalarFunction(call)));
                };
                let null = lit(ScalarValue::try_new_null(&value.get_type(schema.as_ref())?)?);
                let same = Box::new(value.clone().eq(other.clone()));
                let branches = vec![(same, Box::new(null))];
                Ok(Transformed::yes(Expr::Case(Case::new(None, branches, Some(Box::new(value.clone()))))))
            }
            expr => Ok(Transformed::no(expr)),
        })
    })
}
