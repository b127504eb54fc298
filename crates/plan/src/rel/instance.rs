//! Renumbers the columns of a plan. Each use of a shared plan gets new columns.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result};

use super::columns::with_columns;
use super::{ColId, Columns, Rel, fresh, name_of};

/// New columns by the numbers of the replaced ones.
type Renumbered = HashMap<ColId, Column>;

impl Rel {
    /// Gives new numbers to all columns that the operators of this tree define. Outer columns stay.
    pub(crate) fn instance(self) -> Result<Rel> {
        let mut ids = Renumbered::new();
        let renumbered = self.walk_up(&mut |mut node| {
            for column in node.own_columns().into_iter().flat_map(|columns| columns.ids()) {
                if let Some(id) = ColId::parse(&column) {
                    ids.entry(id).or_insert_with(|| fresh(name_of(&column)));
                }
            }
            node.renumbered(&ids).map(Transformed::yes)
        });
        renumbered.map(|plan| plan.data)
    }

    /// The operator with other columns, also in its expressions.
    fn renumbered(self, ids: &Renumbered) -> Result<Rel> {
        let other = |column: &Column| ids.get(&ColId::parse(column)?).cloned();
        let mut node = self.walk_expressions(&mut |expr| with_columns(expr, &other).map(Transformed::yes))?.data;
        if let Rel::Project(project) = &mut node {
            project.event_time = project.event_time.take().map(|of| other(&of).unwrap_or(of));
        }
        if let Some(columns) = node.own_columns() {
            *columns = columns.with_ids(ids);
        }
        Ok(node)
    }

    /// The columns, unless they are those of the input.
    fn own_columns(&mut self) -> Option<&mut Arc<Columns>> {
        match self {
            Rel::Get(node) => Some(&mut node.columns),
            Rel::Values(node) => Some(&mut node.columns),
            Rel::Project(node) => Some(&mut node.columns),
            Rel::Join(node) => Some(&mut node.columns),
            Rel::Aggregate(node) => Some(&mut node.columns),
            Rel::Over(node) => Some(&mut node.columns),
            Rel::Union(node) => Some(&mut node.columns),
            Rel::Assign(node) => Some(&mut node.columns),
            Rel::Unnest(node) => Some(&mut node.columns),
            Rel::Temporal(node) => Some(&mut node.columns),
            Rel::Copies(node) => Some(&mut node.columns),
            Rel::Filter(_) | Rel::Sort(_) | Rel::Limit(_) | Rel::Distinct(_) => None,
        }
    }
}
