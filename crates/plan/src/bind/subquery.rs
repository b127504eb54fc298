//! Binds subqueries. As conditions they filter rows, elsewhere they are values. [`apply`] turns both into
//! joins.

use std::sync::Arc;

use anabranch_model::Error;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Column, JoinType, Result, ScalarValue, internal_err};
use datafusion_expr::utils::{conjunction, disjunction};
use datafusion_expr::{Expr, ExprSchemable, Operator, binary_expr, lit, when};
use datafusion_sql::sqlparser::ast::{self as ast, BinaryOperator, Query, Spanned};
use datafusion_sql::sqlparser::tokenizer::Location;

use super::expr::as_outer;
use super::scope::Scope;
use super::{Binder, Env};
use crate::apply::{apply, has_one_row, substitute};
use crate::place::{at, counted, through};
use crate::rel::{Distinct, Rel, computed, fresh};
use crate::table::is_bounded;

/// Names of columns that describe the rows of a subquery.
pub(super) const EXISTS: &str = "$there";
pub(super) const ROWS: [&str; 2] = ["$rows", "$values"];
pub(super) const LISTED: &str = "$listed";
pub(super) const IS_NULL: &str = "$is_null";

/// How a subquery is used. `L`: the operand that it is compared with.
pub(super) enum Form<L> {
    /// The value of its only row.
    Value,
    Exists {
        negated: bool,
    },
    In {
        left: L,
        negated: bool,
    },
    /// `left op ANY (...)`, or `ALL`.
    Compared {
        left: L,
        op: BinaryOperator,
        all: bool,
    },
}

/// A bound subquery that is not joined yet.
pub(crate) struct Pending {
    /// The column that represents its value in expressions.
    pub(super) column: Column,
    pub(super) field: FieldRef,
    pub(super) form: Form<Vec<Expr>>,
    /// Its rows. Columns of outer queries are outer references.
    pub(super) rows: Rel,
    start: Location,
}

impl Pending {
    /// The operands that it is compared with.
    pub(super) fn operands(&mut self) -> Vec<&mut Expr> {
        match &mut self.form {
            Form::In { left, .. } | Form::Compared { left, .. } => left.iter_mut().collect(),
            Form::Value | Form::Exists { .. } => Vec::new(),
        }
    }

    /// The column that represents its value, and the column's type.
    pub(super) fn value(&self) -> (Column, FieldRef) {
        (self.column.clone(), Arc::clone(&self.field))
    }

    /// The outer columns that it reads.
    pub(super) fn outer(&self) -> Vec<Expr> {
        self.rows.outer_references()
    }

    /// Whether it reads columns of a plan.
    pub(super) fn reads(&self, plan: &Rel) -> bool {
        let operands = match &self.form {
            Form::In { left, .. } | Form::Compared { left, .. } => left.as_slice(),
            Form::Value | Form::Exists { .. } => &[],
        };
        let outer = self.outer();
        let of_outer = outer.iter().filter_map(|expr| match expr {
            Expr::OuterReferenceColumn(_, column) => Some(column),
            _ => None,
        });
        let mut columns = operands.iter().flat_map(Expr::column_refs).chain(of_outer);
        columns.any(|column| plan.columns().has(column))
    }
}

impl Form<ast::Expr> {
    /// Replaces a subquery expression by NULL, and returns its form and its query.
    pub(super) fn extract(expr: &mut ast::Expr) -> Option<(Self, Box<Query>)> {
        let is_one = match expr {
            ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => true,
            ast::Expr::AnyOp { right, .. } | ast::Expr::AllOp { right, .. } => {
                matches!(right.as_ref(), ast::Expr::Subquery(_))
            }
            _ => false,
        };
        if !is_one {
            return None;
        }
        let taken = std::mem::replace(expr, ast::Expr::value(ast::Value::Null));
        let of_query = |right: ast::Expr| match right {
            ast::Expr::Subquery(query) => Some(query),
            _ => None,
        };
        Some(match taken {
            ast::Expr::Subquery(query) => (Form::Value, query),
            ast::Expr::Exists { subquery, negated } => (Form::Exists { negated }, subquery),
            ast::Expr::InSubquery { expr: left, subquery, negated } => (Form::In { left: *left, negated }, subquery),
            ast::Expr::AnyOp { left, compare_op: op, right, .. } => {
                (Form::Compared { left: *left, op, all: false }, of_query(*right)?)
            }
            ast::Expr::AllOp { left, compare_op: op, right } => {
                (Form::Compared { left: *left, op, all: true }, of_query(*right)?)
            }
            _ => return None,
        })
    }
}

impl<L> Form<L> {
    pub(super) fn map<M>(self, change: &mut dyn FnMut(L) -> Result<M>) -> Result<Form<M>> {
        Ok(match self {
            Form::Value => Form::Value,
            Form::Exists { negated } => Form::Exists { negated },
            Form::In { left, negated } => Form::In { left: change(left)?, negated },
            Form::Compared { left, op, all } => Form::Compared { left: change(left)?, op, all },
        })
    }
}

impl Form<Vec<Expr>> {
    /// Turns `= ANY` into `IN`, and `<> ALL` into `NOT IN`.
    fn plain(self) -> Self {
        match self {
            Form::Compared { left, op: BinaryOperator::Eq, all: false } => Form::In { left, negated: false },
            Form::Compared { left, op: BinaryOperator::NotEq, all: true } => Form::In { left, negated: true },
            other => other,
        }
    }
}

/// A three-valued condition on the rows of a subquery: `is` for TRUE, `unknown` for NULL.
struct ThreeValued {
    is: Expr,
    /// `None`: the condition is never NULL.
    unknown: Option<Expr>,
}

/// A column of an aggregation over all rows.
pub(super) struct AggregateColumn {
    name: &'static str,
    function: &'static str,
    argument: Expr,
}

impl AggregateColumn {
    pub(super) fn count(name: &'static str, argument: Expr) -> Self {
        AggregateColumn { name, function: "count", argument }
    }
}

fn operator(op: &BinaryOperator, all: bool, start: Location) -> Result<Operator> {
    Ok(match op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        other => {
            let error = Error::user(format!("{other} does not compare with {}", if all { "ALL" } else { "ANY" }));
            return Err(through(error.at(at(start)).remedy("use one of =, <>, <, <=, > and >=")));
        }
    })
}

pub(super) fn columns_of(plan: &Rel) -> Vec<Expr> {
    plan.ids().into_iter().map(Expr::Column).collect()
}

/// Whether a plan is correlated.
pub(super) fn reads_outer(plan: &Rel) -> bool {
    !plan.outer_references().is_empty()
}

impl Binder<'_> {
    pub(super) fn subquery(
        &self,
        form: Form<Vec<Expr>>,
        query: Query,
        scope: &Scope<'_>,
        env: &Env<'_>,
        start: Location,
    ) -> Result<Pending> {
        let form = form.plain();
        let place = query.span().start;
        let rows = self.query(query, &env.within(scope))?;
        let width = rows.width();
        let wanted = match &form {
            Form::Exists { .. } => width,
            Form::Value => 1,
            Form::In { left, .. } | Form::Compared { left, .. } => left.len(),
        };
        if width != wanted {
            let given = counted(width, "column");
            let what = match &form {
                Form::Value => format!("this subquery gives {given}, but is used as one value"),
                _ if wanted > 1 => format!("this subquery gives {given}, and {wanted} are compared"),
                _ => format!("this subquery gives {given}, and {wanted} is compared"),
            };
            return Err(through(Error::user(what).at(at(place)).remedy("select as many columns as are compared")));
        }
        let data_type = match form {
            Form::Value => rows.columns().field(0).data_type().clone(),
            _ => DataType::Boolean,
        };
        let field = Arc::new(Field::new("value", data_type, true));
        Ok(Pending { column: fresh("value"), field, form, rows, start })
    }

    /// Joins each row of a plan with the values of subqueries, and inserts these into the expressions.
    pub(super) fn join_values(&self, mut plan: Rel, pending: Vec<Pending>, exprs: &mut [&mut Expr]) -> Result<Rel> {
        let mut known: Vec<(Column, Expr)> = Vec::new();
        for Pending { column, form, rows, start, .. } in pending {
            let form = form.map(&mut |left| left.into_iter().map(|expr| substitute(expr, &known)).collect())?;
            let value;
            (plan, value) = self.value(plan, form, rows, start)?;
            known.push((column, value));
        }
        for expr in exprs {
            **expr = substitute(std::mem::take(expr), &known)?;
        }
        Ok(plan)
    }

    /// The rows of a plan for which a subquery holds as a condition.
    pub(super) fn filter_by_subquery(&self, plan: Rel, pending: Pending) -> Result<Rel> {
        let Pending { form, rows, start, .. } = pending;
        let semi = |negated: bool| if negated { JoinType::LeftAnti } else { JoinType::LeftSemi };
        match form {
            Form::Value => internal_err!("a value is no condition"),
            Form::Exists { negated } => self.apply(plan, rows, semi(negated), Vec::new()),
            Form::In { left, negated: false } => {
                let rows = self.listed(rows)?;
                let on = left.into_iter().zip(columns_of(&rows)).map(|(left, own)| left.eq(own)).collect();
                self.apply(plan, rows, JoinType::LeftSemi, on)
            }
            Form::In { left, negated: true } => self.without_listed(plan, left, rows),
            Form::Compared { left, op, all } => {
                let op = operator(&op, all, start)?;
                let rows = self.listed(rows)?;
                let [own] = <[Expr; 1]>::try_from(columns_of(&rows))
                    .map_err(|_| through(Error::internal("a comparison has one column")))?;
                let Some(left) = left.into_iter().next() else { return internal_err!("a comparison has a left side") };
                // The comparison holds for some row if it holds for the least or the greatest value.
                let extreme = match (op, all) {
                    (Operator::Lt | Operator::LtEq, false) => Some("max"),
                    (Operator::Gt | Operator::GtEq, false) => Some("min"),
                    _ => None,
                };
                if let Some(extreme) = extreme.filter(|_| !reads_outer(&rows)) {
                    let (best, _) =
                        self.aggregated(rows, [AggregateColumn { name: LISTED, function: extreme, argument: own }])?;
                    let (plan, value) = self.value(plan, Form::Value, best, start)?;
                    return plan.filter(binary_expr(left, op, value));
                }
                let is = binary_expr(left, op, own);
                let condition = if all { Expr::IsNotTrue(Box::new(is)) } else { is };
                self.apply(plan, rows, semi(all), vec![condition])
            }
        }
    }

    /// Joins each row of a plan with the value of a subquery.
    fn value(&self, plan: Rel, form: Form<Vec<Expr>>, rows: Rel, start: Location) -> Result<(Rel, Expr)> {
        match form {
            Form::Value => {
                let row = if has_one_row(&rows) { rows } else { self.single(rows)? };
                self.join_row(plan, row)
            }
            Form::Exists { negated } => {
                let (plan, there) = self.exists(plan, rows)?;
                Ok((plan, if negated { !there } else { there }))
            }
            Form::In { left, negated } => {
                let correlated = reads_outer(&rows);
                let (plan, there) = match <[Expr; 1]>::try_from(left) {
                    Ok([left]) if !correlated => self.in_list(plan, left, rows)?,
                    Ok([left]) => self.in_list_of_row(plan, left, rows)?,
                    Err(left) => {
                        let rows = self.listed(rows)?;
                        let condition = self.is_listed(&plan, &rows, &left)?;
                        self.three_valued(plan, rows, condition)?
                    }
                };
                Ok((plan, if negated { !there } else { there }))
            }
            Form::Compared { left, op, all } => {
                let op = operator(&op, all, start)?;
                let rows = self.listed(rows)?;
                let Some((left, own)) = left.into_iter().zip(columns_of(&rows)).next() else {
                    return internal_err!("a comparison has a left side");
                };
                let is = binary_expr(left, op, own);
                // The comparison holds for all rows unless its negation holds for one.
                let is = if all { Expr::Not(Box::new(is)) } else { is };
                let condition = ThreeValued { unknown: Some(is.clone().is_null()), is };
                let (plan, there) = self.three_valued(plan, rows, condition)?;
                Ok((plan, if all { !there } else { there }))
            }
        }
    }

    fn is_listed(&self, plan: &Rel, rows: &Rel, left: &[Expr]) -> Result<ThreeValued> {
        let (mut equal, mut may_be, mut is_known) = (Vec::new(), Vec::new(), true);
        for (left, own) in left.iter().zip(columns_of(rows)) {
            is_known &= !left.nullable(plan.columns())? && !own.nullable(rows.columns())?;
            equal.push(own.clone().eq(left.clone()));
            may_be.extend(disjunction([own.clone().eq(left.clone()), own.is_null(), left.clone().is_null()]));
        }
        let is = conjunction(equal).unwrap_or_else(|| lit(true));
        Ok(ThreeValued { is, unknown: conjunction(may_be).filter(|_| !is_known) })
    }

    /// TRUE if the condition is TRUE for a row of the subquery, else NULL if it is NULL for one, else FALSE.
    fn three_valued(&self, plan: Rel, rows: Rel, condition: ThreeValued) -> Result<(Rel, Expr)> {
        let is = outer_of(condition.is, &plan)?;
        let some = rows.clone().filter(is)?;
        let (plan, there) = self.exists(plan, some)?;
        let Some(unknown) = condition.unknown else { return Ok((plan, there)) };
        let unknown = outer_of(unknown, &plan)?;
        let some = rows.filter(unknown)?.instance()?;
        let (plan, unknown) = self.exists(plan, some)?;
        let value = when(there, lit(true)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))?;
        Ok((plan, value))
    }

    /// Whether a subquery has rows.
    pub(super) fn exists(&self, plan: Rel, rows: Rel) -> Result<(Rel, Expr)> {
        if reads_outer(&rows) {
            let there = rows.project([computed(EXISTS, lit(true))])?.distinct();
            let (plan, there) = self.join_row(plan, there)?;
            return Ok((plan, there.is_true()));
        }
        let (number, [rows]) = self.aggregated(rows, [AggregateColumn::count(ROWS[0], lit(1_i64))])?;
        let (plan, there) = self.join_row(plan, distinct_values(number, vec![(EXISTS, is_positive(rows))])?)?;
        Ok((plan, there.is_true()))
    }

    /// Aggregates of all rows, and their columns.
    pub(super) fn aggregated<const N: usize>(
        &self,
        rows: Rel,
        calls: [AggregateColumn; N],
    ) -> Result<(Rel, [Expr; N])> {
        let call = |AggregateColumn { name, function, argument }| match self.functions().aggregate(function) {
            Some(function) => Ok(computed(name, function.call(vec![argument]))),
            None => internal_err!("there is no aggregate {function}"),
        };
        let calls = calls.into_iter().map(call).collect::<Result<Vec<_>>>()?;
        let columns = std::array::from_fn(|index| Expr::Column(calls[index].0.clone()));
        Ok((rows.aggregate([], calls)?, columns))
    }

    /// The only row of a subquery that may return several. The job fails if it does.
    fn single(&self, rows: Rel) -> Result<Rel> {
        let value = columns_of(&rows).swap_remove(0);
        let name = rows.columns().field(0).name().clone();
        let [number, first] = ROWS;
        let first = AggregateColumn { name: first, function: "first_value", argument: value };
        let (row, [first, number]) = self.aggregated(rows, [first, AggregateColumn::count(number, lit(1_i64))])?;
        let Some(single) = self.functions().scalar("$single") else {
            return internal_err!("there is no function $single");
        };
        row.project([computed(&name, single.call(vec![first, number]))])
    }

    /// Joins each row with the first column of a plan that has at most one row.
    pub(super) fn join_row(&self, plan: Rel, row: Rel) -> Result<(Rel, Expr)> {
        let column = row.columns().id(0);
        // A missing row makes the value NULL. An updating aggregate over an empty input has no row.
        let is_there = !reads_outer(&row) && is_bounded(&row) && !self.streaming() && gives_a_row(&row);
        let kind = if is_there { JoinType::Inner } else { JoinType::Left };
        Ok((self.apply(plan, row, kind, Vec::new())?, Expr::Column(column)))
    }

    pub(super) fn apply(&self, left: Rel, right: Rel, kind: JoinType, on: Vec<Expr>) -> Result<Rel> {
        apply(left, right, kind, on, self.functions())
    }
}

/// Turns columns of the outer query in an expression of a subquery into outer references.
pub(super) fn outer_of(expr: Expr, outer: &Rel) -> Result<Expr> {
    let columns = outer.columns();
    as_outer(expr, &|column| Some(Arc::clone(columns.field(columns.find(column)?))))
}

/// Expressions over a plan with a single row. DISTINCT suppresses updates of the row that do not change them.
pub(super) fn distinct_values(row: Rel, columns: Vec<(&str, Expr)>) -> Result<Rel> {
    Ok(row.project(columns.into_iter().map(|(name, expr)| computed(name, expr)))?.distinct())
}

/// Whether a count is above 0. The count is NULL over an empty input.
pub(super) fn is_positive(rows: Expr) -> Expr {
    rows.clone().is_not_null().and(rows.gt(lit(0_i64)))
}

/// Whether a plan with at most one row always has it, over bounded tables.
fn gives_a_row(plan: &Rel) -> bool {
    match plan {
        Rel::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        Rel::Project(projection) => gives_a_row(&projection.input),
        Rel::Distinct(Distinct { input }) => gives_a_row(input),
        Rel::Values(values) => values.rows.len() == 1,
        _ => false,
    }
}
