//! Rewrites the expressions of a whole plan, with access to the types of their columns.

use std::cell::OnceCell;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchemaRef, Result, internal_datafusion_err};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use crate::origin::in_place_of;
use crate::rel::{Change, Columns, Rel};
use crate::walk::Walk;

/// Changes one expression of a node.
pub(crate) type Rewrite<'a> = &'a dyn Fn(Expr, &InputColumns) -> Result<Transformed<Expr>>;

/// The columns that the expressions of a node can read.
pub(crate) struct InputColumns {
    inputs: Vec<Arc<Columns>>,
    all: OnceCell<Arc<Columns>>,
    schema: OnceCell<DFSchemaRef>,
}

impl InputColumns {
    pub(crate) fn of_node(plan: &Rel) -> Self {
        let inputs = plan.inputs().into_iter().map(|input| Arc::clone(input.shared_columns())).collect();
        InputColumns { inputs, all: OnceCell::new(), schema: OnceCell::new() }
    }

    pub(crate) fn of_columns(columns: &Arc<Columns>) -> Self {
        InputColumns { inputs: vec![Arc::clone(columns)], all: OnceCell::new(), schema: OnceCell::new() }
    }

    pub(crate) fn columns(&self) -> &Arc<Columns> {
        self.all.get_or_init(|| match self.inputs.as_slice() {
            [one] => Arc::clone(one),
            inputs => Columns::merged(inputs),
        })
    }

    /// The schema of the columns, for DataFusion.
    pub(crate) fn schema(&self) -> Result<&DFSchemaRef> {
        if self.schema.get().is_none() {
            let _ = self.schema.set(Arc::new(self.columns().to_schema()?));
        }
        self.schema.get().ok_or_else(|| internal_datafusion_err!("the schema of a scope is set"))
    }

    pub(crate) fn is_of_type(&self, expr: &Expr, data_type: &DataType) -> bool {
        self.type_of(expr).is_ok_and(|of| of == *data_type)
    }

    pub(crate) fn type_of(&self, expr: &Expr) -> Result<DataType> {
        expr.get_type(self.columns().as_ref())
    }
}

/// Changes the nodes of a plan, inputs first. A changed node and all nodes above it derive their types again.
pub(crate) fn rewrite_nodes(plan: Rel, rewrite: &dyn Fn(Rel) -> Result<Transformed<Rel>>) -> Result<Transformed<Rel>> {
    let below = plan.walk_children(&mut |child| rewrite_nodes(child, rewrite))?;
    let node = below.transform_data(rewrite)?;
    // Nodes above may ask for the types of its columns.
    if node.transformed { node.map_data(Rel::with_types) } else { Ok(node) }
}

/// Applies these changes in turn to every expression of a plan. Types may change.
pub(crate) fn rewrite_expressions(plan: Rel, rewrites: &[Rewrite<'_>]) -> Result<Rel> {
    rewrite_nodes(plan, &|node| rewrite_node(node, rewrites)).map(|plan| plan.data)
}

/// Changes the expressions of one node whose inputs are changed already. Its types are not derived again.
pub(crate) fn rewrite_node(node: Rel, rewrites: &[Rewrite<'_>]) -> Result<Transformed<Rel>> {
    if matches!(node, Rel::Get(_)) {
        return Ok(Transformed::no(node));
    }
    let scope = InputColumns::of_node(&node);
    let mut rewrite = |expr: Expr| {
        let mut all = Transformed::no(expr);
        for rewrite in rewrites {
            all = all.transform_data(|expr| rewrite(expr, &scope))?;
        }
        Ok(all)
    };
    change_expressions(node, &mut rewrite)
}

/// Changes the expressions of one node, except plain columns.
pub(crate) fn change_expressions(node: Rel, change: Change<'_, Expr>) -> Result<Transformed<Rel>> {
    node.walk_expressions(&mut |expr| match expr {
        Expr::Column(_) => Ok(Transformed::no(expr)),
        Expr::GroupingSet(_) => expr.walk_children(&mut *change),
        expr => change(expr),
    })
}

/// Replaces columns by values. A value gets the place of the column. But a computed value that replaces the
/// whole expression keeps its own place.
pub(crate) fn with_values(expr: Expr, value_of: &dyn Fn(&Column) -> Option<Expr>) -> Result<Expr> {
    let is_name = expr.try_as_col().is_some();
    let changed = expr.walk_up(&mut |expr| {
        let Some((column, value)) = expr.try_as_col().and_then(|column| Some((column, value_of(column)?))) else {
            return Ok(Transformed::no(expr));
        };
        let stays = is_name && value.try_as_col().is_none();
        Ok(Transformed::yes(if stays { value } else { in_place_of(column, value)? }))
    });
    changed.map(|expr| expr.data)
}

/// Whether a condition compares the two sides of a join by `=`.
pub(crate) fn is_key(condition: &Expr, one: &dyn Fn(&Column) -> bool, other: &dyn Fn(&Column) -> bool) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return false };
    let reads = |expr: &Expr, is_of: &dyn Fn(&Column) -> bool| {
        let columns = expr.column_refs();
        !columns.is_empty() && columns.into_iter().all(is_of)
    };
    reads(left, one) && reads(right, other) || reads(left, other) && reads(right, one)
}

pub(crate) fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}
