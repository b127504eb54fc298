//! Visits and changes trees of operators, and the expressions of an operator.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_expr::Expr;

use super::{Aggregate, Distinct, Filter, Join, Limit, Over, Project, Rel, Sort};
use crate::copies::Copies;
use crate::temporal_join::TemporalJoin;
use crate::unnest::Unnest;
use crate::walk::Walk as _;
use crate::window_assign::WindowAssign;

/// Changes an owned node.
pub(crate) type Change<'a, T> = &'a mut dyn FnMut(T) -> Result<Transformed<T>>;

impl Rel {
    /// Replaces an operator that is moved out.
    fn placeholder() -> Arc<Rel> {
        thread_local! {
            static NOTHING: Arc<Rel> = Arc::new(Rel::nothing(Arc::default()));
        }
        NOTHING.with(Arc::clone)
    }

    /// Changes the inputs.
    pub(crate) fn walk_children(mut self, change: Change<'_, Rel>) -> Result<Transformed<Rel>> {
        let mut changed = false;
        for input in self.inputs_mut() {
            let owned = Arc::unwrap_or_clone(std::mem::replace(input, Rel::placeholder()));
            let new = change(owned)?;
            changed |= new.transformed;
            *input = Arc::new(new.data);
        }
        Ok(Transformed::new_transformed(self, changed))
    }

    /// Changes the expressions of this operator.
    pub(crate) fn walk_expressions(mut self, change: Change<'_, Expr>) -> Result<Transformed<Rel>> {
        let mut changed = false;
        for expr in self.expressions_mut() {
            let new = change(std::mem::take(expr))?;
            changed |= new.transformed;
            *expr = new.data;
        }
        Ok(Transformed::new_transformed(self, changed))
    }

    fn inputs_mut(&mut self) -> Vec<&mut Arc<Rel>> {
        match self {
            Rel::Get(_) | Rel::Values(_) => Vec::new(),
            Rel::Project(Project { input, .. })
            | Rel::Filter(Filter { input, .. })
            | Rel::Aggregate(Aggregate { input, .. })
            | Rel::Over(Over { input, .. })
            | Rel::Sort(Sort { input, .. })
            | Rel::Limit(Limit { input, .. })
            | Rel::Distinct(Distinct { input })
            | Rel::Assign(WindowAssign { input, .. })
            | Rel::Unnest(Unnest { input, .. })
            | Rel::Copies(Copies { input, .. }) => vec![input],
            Rel::Join(Join { left, right, .. }) | Rel::Temporal(TemporalJoin { left, right, .. }) => vec![left, right],
            Rel::Union(node) => node.inputs.iter_mut().collect(),
        }
    }

    fn expressions_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Rel::Get(_) | Rel::Distinct(_) | Rel::Union(_) | Rel::Copies(_) => Vec::new(),
            Rel::Values(node) => node.rows.iter_mut().flatten().collect(),
            Rel::Project(node) => node.exprs.iter_mut().collect(),
            Rel::Filter(node) => vec![&mut node.predicate],
            Rel::Over(node) => node.window_expr.iter_mut().collect(),
            Rel::Aggregate(node) => node.group_expr.iter_mut().chain(&mut node.aggr_expr).collect(),
            Rel::Sort(node) => node.keys.iter_mut().map(|key| &mut key.expr).collect(),
            Rel::Limit(node) => node.skip.iter_mut().chain(&mut node.fetch).collect(),
            Rel::Join(node) => {
                node.on.iter_mut().flat_map(|(left, right)| [left, right]).chain(&mut node.filter).collect()
            }
            Rel::Unnest(node) => vec![&mut node.value],
            Rel::Assign(node) => std::iter::once(&mut node.time).chain(&mut node.partition).collect(),
            Rel::Temporal(node) => {
                let times = node.times.iter_mut().flat_map(|times| [&mut times.time, &mut times.valid_from]);
                std::iter::once(&mut node.condition).chain(times).chain(&mut node.key).collect()
            }
        }
    }

    /// The expressions of this operator.
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        match self {
            Rel::Get(_) | Rel::Distinct(_) | Rel::Union(_) | Rel::Copies(_) => Vec::new(),
            Rel::Values(node) => node.rows.iter().flatten().collect(),
            Rel::Project(node) => node.exprs.iter().collect(),
            Rel::Filter(node) => vec![&node.predicate],
            Rel::Over(node) => node.window_expr.iter().collect(),
            Rel::Aggregate(node) => node.group_expr.iter().chain(&node.aggr_expr).collect(),
            Rel::Sort(node) => node.keys.iter().map(|key| &key.expr).collect(),
            Rel::Limit(node) => node.skip.iter().chain(&node.fetch).collect(),
            Rel::Join(node) => node.on.iter().flat_map(|(left, right)| [left, right]).chain(&node.filter).collect(),
            Rel::Unnest(node) => vec![&node.value],
            Rel::Assign(node) => std::iter::once(&node.time).chain(&node.partition).collect(),
            Rel::Temporal(node) => {
                let times = node.times.iter().flat_map(|times| [&times.time, &times.valid_from]);
                std::iter::once(&node.condition).chain(times).chain(&node.key).collect()
            }
        }
    }

    /// Changes every operator, inputs first.
    pub(crate) fn walk_up(self, change: Change<'_, Rel>) -> Result<Transformed<Rel>> {
        self.walk_children(&mut |child| child.walk_up(change))?.transform_data(&mut *change)
    }

    /// Changes every operator, this one first. [`TreeNodeRecursion::Jump`] and [`TreeNodeRecursion::Stop`]
    /// skip the inputs.
    pub(crate) fn walk_down(self, change: Change<'_, Rel>) -> Result<Transformed<Rel>> {
        let node = change(self)?;
        match node.tnr {
            TreeNodeRecursion::Continue => {
                node.transform_data(|node| node.walk_children(&mut |child| child.walk_down(change)))
            }
            _ => Ok(Transformed::new_transformed(node.data, node.transformed)),
        }
    }

    /// Visits every operator, this one first. [`TreeNodeRecursion::Jump`] skips the inputs.
    pub(crate) fn see(&self, see: &mut dyn FnMut(&Rel) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        match see(self)? {
            TreeNodeRecursion::Continue => {}
            TreeNodeRecursion::Jump => return Ok(TreeNodeRecursion::Continue),
            TreeNodeRecursion::Stop => return Ok(TreeNodeRecursion::Stop),
        }
        for input in self.inputs() {
            if input.see(see)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    /// Whether `is` is true of an operator.
    pub(crate) fn has(&self, is: &dyn Fn(&Rel) -> Result<bool>) -> Result<bool> {
        Ok(is(self)?
            || self
                .inputs()
                .into_iter()
                .try_fold(false, |has, input| Ok::<_, datafusion_common::DataFusionError>(has || input.has(is)?))?)
    }

    /// The outer columns that the tree reads, without duplicates.
    pub(crate) fn outer_references(&self) -> Vec<Expr> {
        let mut found: Vec<Expr> = Vec::new();
        // A walk that only reads does not fail.
        let _ = self.see(&mut |node| {
            for expr in node.expressions() {
                expr.see(&mut |expr| {
                    if matches!(expr, Expr::OuterReferenceColumn(..)) && !found.contains(expr) {
                        found.push(expr.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
            Ok(TreeNodeRecursion::Continue)
        });
        found
    }
}
