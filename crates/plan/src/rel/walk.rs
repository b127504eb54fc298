//! Visits and changes trees of operators, and the expressions of an operator.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_expr::Expr;

use super::{Rel, Sort};
use crate::temporal_join::VersionTimes;
use crate::walk::Walk as _;

/// Changes an owned node.
pub(crate) type Change<'a, T> = &'a mut dyn FnMut(T) -> Result<Transformed<T>>;

/// Records whether a change happened.
struct Changes<'a, T> {
    change: Change<'a, T>,
    changed: bool,
}

impl<T> Changes<'_, T> {
    fn one(&mut self, of: T) -> Result<T> {
        let Transformed { data, transformed, .. } = (self.change)(of)?;
        self.changed |= transformed;
        Ok(data)
    }

    fn all(&mut self, of: Vec<T>) -> Result<Vec<T>> {
        of.into_iter().map(|of| self.one(of)).collect()
    }
}

impl Changes<'_, Rel> {
    fn below(&mut self, input: &mut Arc<Rel>) -> Result<()> {
        let below = std::mem::replace(input, Rel::placeholder());
        *input = Arc::new(self.one(Arc::unwrap_or_clone(below))?);
        Ok(())
    }
}

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
        let mut changes = Changes { change, changed: false };
        match &mut self {
            Rel::Get(_) | Rel::Values(_) => {}
            Rel::Project(node) => changes.below(&mut node.input)?,
            Rel::Filter(node) => changes.below(&mut node.input)?,
            Rel::Aggregate(node) => changes.below(&mut node.input)?,
            Rel::Over(node) => changes.below(&mut node.input)?,
            Rel::Sort(node) => changes.below(&mut node.input)?,
            Rel::Limit(node) => changes.below(&mut node.input)?,
            Rel::Distinct(node) => changes.below(&mut node.input)?,
            Rel::Assign(node) => changes.below(&mut node.input)?,
            Rel::Unnest(node) => changes.below(&mut node.input)?,
            Rel::Copies(node) => changes.below(&mut node.input)?,
            Rel::Join(node) => {
                changes.below(&mut node.left)?;
                changes.below(&mut node.right)?;
            }
            Rel::Temporal(node) => {
                changes.below(&mut node.left)?;
                changes.below(&mut node.right)?;
            }
            Rel::Union(node) => node.inputs.iter_mut().try_for_each(|input| changes.below(input))?,
        }
        Ok(Transformed::new_transformed(self, changes.changed))
    }

    /// Changes the expressions of this operator.
    pub(crate) fn walk_expressions(mut self, change: Change<'_, Expr>) -> Result<Transformed<Rel>> {
        let mut changes = Changes { change, changed: false };
        let mut each = |exprs: &mut Vec<Expr>| {
            *exprs = changes.all(std::mem::take(exprs))?;
            Ok::<_, datafusion_common::DataFusionError>(())
        };
        match &mut self {
            Rel::Get(_) | Rel::Distinct(_) | Rel::Union(_) | Rel::Copies(_) => {}
            Rel::Values(node) => node.rows.iter_mut().try_for_each(each)?,
            Rel::Project(node) => each(&mut node.exprs)?,
            Rel::Over(node) => each(&mut node.window_expr)?,
            Rel::Aggregate(node) => {
                each(&mut node.group_expr)?;
                each(&mut node.aggr_expr)?;
            }
            Rel::Filter(node) => node.predicate = changes.one(std::mem::take(&mut node.predicate))?,
            Rel::Unnest(node) => node.value = changes.one(std::mem::take(&mut node.value))?,
            Rel::Sort(Sort { keys, .. }) => {
                for key in keys {
                    key.expr = changes.one(std::mem::take(&mut key.expr))?;
                }
            }
            Rel::Limit(node) => {
                for bound in [&mut node.skip, &mut node.fetch] {
                    *bound = bound.take().map(|bound| changes.one(bound)).transpose()?;
                }
            }
            Rel::Join(node) => {
                for (left, right) in &mut node.on {
                    *left = changes.one(std::mem::take(left))?;
                    *right = changes.one(std::mem::take(right))?;
                }
                node.filter = node.filter.take().map(|filter| changes.one(filter)).transpose()?;
            }
            Rel::Assign(node) => {
                node.time = changes.one(std::mem::take(&mut node.time))?;
                node.partition = changes.all(std::mem::take(&mut node.partition))?;
            }
            Rel::Temporal(node) => {
                node.condition = changes.one(std::mem::take(&mut node.condition))?;
                if let Some(VersionTimes { time, valid_from }) = &mut node.times {
                    *time = changes.one(std::mem::take(time))?;
                    *valid_from = changes.one(std::mem::take(valid_from))?;
                }
                node.key = changes.all(std::mem::take(&mut node.key))?;
            }
        }
        Ok(Transformed::new_transformed(self, changes.changed))
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

    /// Changes every operator, this one first. [`TreeNodeRecursion::Jump`] skips the inputs.
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
