//! Where in the text the nodes of a plan come from: where the columns in their expressions are named. The
//! operators that a node is lowered to come from there too, except projections, each of which comes from the
//! expressions that it computes.

use std::collections::BTreeSet;

use anabranch_dataflow::{Place, add_places};
use anabranch_model::{Error, ErrorKind};
use datafusion_common::Column;

use super::Lowering;
use crate::origin::see_places;
use crate::place::or_at;
use crate::rel::Rel;

/// What is known of the places of a node's neighbours.
#[derive(Default)]
pub(super) struct Origins {
    /// Of the node that is being lowered.
    pub(super) present: Vec<Place>,
    /// Where the nodes above name results of the aggregate, or of the functions over rows, below.
    results: Vec<(Column, Place)>,
    /// A node was refused. The nodes above pass the error on.
    has_failed: bool,
}

impl Lowering<'_> {
    /// A node is to be lowered. Returns the places of the node above.
    pub(super) fn enter(&mut self, plan: &Rel) -> Vec<Place> {
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
    pub(super) fn located(&mut self, error: Error, plan: &Rel, places: &[Place]) -> Error {
        use Rel::{Assign, Copies, Get, Over, Sort, Temporal, Unnest};
        let is_passed_on = std::mem::replace(&mut self.origins.has_failed, true);
        let is_one = matches!(plan, Assign(_) | Copies(_) | Get(_) | Over(_) | Sort(_) | Temporal(_) | Unnest(_));
        match places.first() {
            Some(place) if is_one && !is_passed_on && self.catalog.has_one_text && error.kind() == ErrorKind::User => {
                or_at(error, u64::from(place.line), u64::from(place.column))
            }
            _ => error,
        }
    }
}

/// The places of a node. `named`: where its results are named.
fn places(plan: &Rel, named: &[(Column, Place)]) -> Vec<Place> {
    let mut found = Vec::new();
    match plan {
        // Their columns have places of their own.
        Rel::Project(_) | Rel::Union(_) => return found,
        Rel::Get(scan) => return scan.place().into_iter().collect(),
        _ => {}
    }
    for expr in plan.expressions() {
        see_places(expr, &mut |_, place| found.push(place));
    }
    let results: BTreeSet<&Column> = computed(plan).collect();
    let of_results = named.iter().filter(|(column, _)| results.contains(column));
    let of_results: Vec<Place> = of_results.map(|(_, place)| *place).collect();
    add_places(&mut found, &of_results);
    found
}

/// The results of an aggregate, or of functions over rows.
fn computed(plan: &Rel) -> impl Iterator<Item = &Column> {
    let calls = match plan {
        Rel::Aggregate(aggregate) => aggregate.aggr_expr.len(),
        Rel::Over(window) => window.window_expr.len(),
        _ => 0,
    };
    plan.columns().iter().skip(plan.width() - calls).map(|col| &col.id)
}

/// Where results of what is below a node are named, by the node itself and by those above: `named`.
fn results(plan: &Rel, named: Vec<(Column, Place)>) -> Vec<(Column, Place)> {
    let (input, mut named) = match plan {
        Rel::Project(projection) => (&projection.input, Vec::new()),
        Rel::Filter(filter) => (&filter.input, named),
        Rel::Sort(sort) => (&sort.input, named),
        Rel::Limit(limit) => (&limit.input, named),
        Rel::Over(window) => (&window.input, named),
        _ => return Vec::new(),
    };
    if !computes(input) {
        return Vec::new();
    }
    for expr in plan.expressions() {
        see_places(expr, &mut |column, place| named.push((column.clone(), place)));
    }
    named
}

/// Whether the rows of a node have results of an aggregate or of functions over rows.
fn computes(plan: &Rel) -> bool {
    match plan {
        Rel::Aggregate(_) | Rel::Over(_) => true,
        Rel::Filter(filter) => computes(&filter.input),
        Rel::Sort(sort) => computes(&sort.input),
        Rel::Limit(limit) => computes(&limit.input),
        _ => false,
    }
}
