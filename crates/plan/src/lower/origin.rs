//! Where in the text the nodes of a plan come from: where the columns in their expressions are named. The
//! operators that a node is lowered to come from there too, except projections, each of which comes from the
//! expressions that it computes.

use std::collections::BTreeSet;

use anabranch_dataflow::{Place, add_places};
use anabranch_model::{Error, ErrorKind};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_expr::{Aggregate, Expr, LogicalPlan};

use super::Lowering;
use crate::named_table::place_of_scan;
use crate::origin::see_places;
use crate::place::or_at;
use crate::walk::WalkPlan;

/// What is known of the places of a node's neighbours.
#[derive(Default)]
pub(super) struct Origins {
    /// Of the node that is being lowered.
    pub(super) present: Vec<Place>,
    /// Where the nodes above name results of the aggregate, or of the functions over rows, below.
    results: Vec<(String, Place)>,
    /// A node was refused. The nodes above pass the error on.
    has_failed: bool,
}

impl Lowering<'_> {
    /// A node is to be lowered. Returns the places of the node above.
    pub(super) fn enter(&mut self, plan: &LogicalPlan) -> Vec<Place> {
        let named = std::mem::take(&mut self.origins.results);
        let own = places(plan, &named);
        self.origins.results = results(plan, named);
        std::mem::replace(&mut self.origins.present, own)
    }

    /// A node has been lowered. Returns its places.
    pub(super) fn leave(&mut self, above: Vec<Place>) -> Vec<Place> {
        self.origins.results.clear();
        std::mem::replace(&mut self.origins.present, above)
    }

    /// The error of a node, with the node's place if all of its expressions belong together. Declarations of
    /// a session are in other texts.
    pub(super) fn located(&mut self, error: Error, plan: &LogicalPlan, places: &[Place]) -> Error {
        use LogicalPlan::{Extension, Sort, TableScan, Window};
        let is_passed_on = std::mem::replace(&mut self.origins.has_failed, true);
        let is_one = matches!(plan, Extension(_) | Sort(_) | TableScan(_) | Window(_));
        match places.first() {
            Some(place) if is_one && !is_passed_on && self.catalog.has_one_text && error.kind() == ErrorKind::User => {
                or_at(error, u64::from(place.line), u64::from(place.column))
            }
            _ => error,
        }
    }
}

/// The places of a node. `named`: where its results are named.
fn places(plan: &LogicalPlan, named: &[(String, Place)]) -> Vec<Place> {
    let mut found = Vec::new();
    match plan {
        // Their columns have places of their own.
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Union(_) => return found,
        LogicalPlan::TableScan(scan) => return place_of_scan(scan).into_iter().collect(),
        _ => {}
    }
    // The walk of expressions that are only read does not fail.
    let _ = plan.see_expressions(&mut |expr| {
        see_places(expr, &mut |_, place| found.push(place));
        Ok(TreeNodeRecursion::Continue)
    });
    let results: BTreeSet<&str> = computed(plan).into_iter().collect();
    let of_results = named.iter().filter(|(name, _)| results.contains(name.as_str()));
    let of_results: Vec<Place> = of_results.map(|(_, place)| *place).collect();
    add_places(&mut found, &of_results);
    found
}

/// The names of the results of an aggregate, or of functions over rows.
fn computed(plan: &LogicalPlan) -> Vec<&str> {
    let (schema, calls) = match plan {
        LogicalPlan::Aggregate(Aggregate { schema, aggr_expr, .. }) => (schema, aggr_expr.len()),
        LogicalPlan::Window(window) => (&window.schema, window.window_expr.len()),
        _ => return Vec::new(),
    };
    let fields = schema.fields();
    fields.iter().skip(fields.len().saturating_sub(calls)).map(|field| field.name().as_str()).collect()
}

/// Where results of what is below a node are named, by the node itself and by those above: `named`.
fn results(plan: &LogicalPlan, named: Vec<(String, Place)>) -> Vec<(String, Place)> {
    let (input, mut named) = match plan {
        LogicalPlan::Projection(projection) => (&projection.input, Vec::new()),
        LogicalPlan::Filter(filter) => (&filter.input, named),
        LogicalPlan::Sort(sort) => (&sort.input, named),
        LogicalPlan::Limit(limit) => (&limit.input, named),
        LogicalPlan::Window(window) => (&window.input, named),
        _ => return Vec::new(),
    };
    if !computes(input) {
        return Vec::new();
    }
    let mut add = |expr: &Expr| {
        see_places(expr, &mut |column, place| {
            // What is computed has no table.
            if column.relation.is_none() {
                named.push((column.name.clone(), place));
            }
        });
    };
    let _ = plan.see_expressions(&mut |expr| {
        add(expr);
        Ok(TreeNodeRecursion::Continue)
    });
    named
}

/// Whether the rows of a node have results of an aggregate or of functions over rows.
fn computes(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => true,
        LogicalPlan::Filter(filter) => computes(&filter.input),
        LogicalPlan::Sort(sort) => computes(&sort.input),
        LogicalPlan::Limit(limit) => computes(&limit.input),
        _ => false,
    }
}
