//! The places of a plan's nodes in the text: the places of the columns in their expressions. The operators of
//! a node have its places, except projections, which have the places of the expressions that they compute.

use std::collections::BTreeSet;

use anabranch_dataflow::{Place, add_places};
use anabranch_model::{Error, ErrorKind};
use datafusion_common::Column;

use super::Lowering;
use crate::origin::see_places;
use crate::place::or_at;
use crate::rel::Rel;

/// The places around the node that is being lowered.
#[derive(Default)]
pub(super) struct Origins {
    /// The places of the node that is being lowered.
    pub(super) present: Vec<Place>,
    /// Where the nodes above name results of the aggregate or the window functions below.
    results: Vec<(Column, Place)>,
    /// A node was refused. The nodes above pass its error on.
    has_failed: bool,
}

impl Lowering<'_> {
    /// Begins lowering a node. Returns the places of the node above.
    pub(super) fn enter(&mut self, plan: &Rel) -> Vec<Place> {
        let named = std::mem::take(&mut self.origins.results);
        let own = places(plan, &named);
        self.origins.results = results(plan, named);
        std::mem::replace(&mut self.origins.present, own)
    }

    /// Ends lowering a node. Returns its places.
    pub(super) fn leave(&mut self, above: Vec<Place>) -> Vec<Place> {
        self.origins.results.clear();
        std::mem::replace(&mut self.origins.present, above)
    }

    /// Adds the node's place to an error, if the node's expressions stand together in the text. The
    /// declarations of a session may be in other texts, so its errors get no place.
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

/// The places of a node. `named`: the places that name its results.
fn places(plan: &Rel, named: &[(Column, Place)]) -> Vec<Place> {
    let mut found = Vec::new();
    match plan {
        // Each column has places of its own.
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

/// The results of an aggregate or of window functions.
fn computed(plan: &Rel) -> impl Iterator<Item = &Column> {
    let calls = match plan {
        Rel::Aggregate(aggregate) => aggregate.aggr_expr.len(),
        Rel::Over(window) => window.window_expr.len(),
        _ => 0,
    };
    plan.columns().iter().skip(plan.width() - calls).map(|col| &col.id)
}

/// The places that name results of the node below: in the node itself and, by `named`, in the nodes above.
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

/// Whether the rows contain results of an aggregate or of window functions.
fn computes(plan: &Rel) -> bool {
    match plan {
        Rel::Aggregate(_) | Rel::Over(_) => true,
        Rel::Filter(filter) => computes(&filter.input),
        Rel::Sort(sort) => computes(&sort.input),
        Rel::Limit(limit) => computes(&limit.input),
        _ => false,
    }
}
