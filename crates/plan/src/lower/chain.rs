//! The operators of a chain, with their places in the text.

use std::ops::Deref;

use anabranch_dataflow::{Expr, OperatorSpec, Place, add_places};

/// See the module.
#[derive(Default)]
pub(super) struct Chain {
    specs: Vec<OperatorSpec>,
    origins: Vec<Origin>,
}

/// The places of an operator.
struct Origin {
    places: Vec<Place>,
    /// The operator also gets the places of the node that is being lowered.
    is_open: bool,
}

impl Chain {
    /// Adds an operator with the places of the node that is being lowered.
    pub(super) fn push(&mut self, spec: OperatorSpec) {
        self.push_as(spec, Vec::new(), true);
    }

    /// Adds an operator with these places only.
    pub(super) fn push_from(&mut self, spec: OperatorSpec, places: Vec<Place>) {
        self.push_as(spec, places, false);
    }

    /// Adds an operator with these places. `is_open`: it also gets those of the node that is being lowered.
    pub(super) fn push_as(&mut self, spec: OperatorSpec, places: Vec<Place>, is_open: bool) {
        self.specs.push(spec);
        self.origins.push(Origin { places, is_open });
    }

    /// Removes the filter at the end of the chain, if there is one. It passes all columns on, because filters
    /// are narrowed only after lowering.
    pub(super) fn pop_filter(&mut self) -> Option<(Expr, Vec<Place>)> {
        let is_filter = |spec: &mut OperatorSpec| matches!(spec, OperatorSpec::Filter { .. });
        let OperatorSpec::Filter { predicate, .. } = self.specs.pop_if(is_filter)? else { return None };
        Some((predicate, self.origins.pop().map(|origin| origin.places).unwrap_or_default()))
    }

    /// Adds the places of the lowered node to its operators.
    pub(super) fn close(&mut self, places: &[Place]) {
        for origin in self.origins.iter_mut().filter(|origin| origin.is_open) {
            add_places(&mut origin.places, places);
            origin.is_open = false;
        }
    }

    /// The operators, and the places of each.
    pub(super) fn into_parts(self) -> (Vec<OperatorSpec>, Vec<Vec<Place>>) {
        (self.specs, self.origins.into_iter().map(|origin| origin.places).collect())
    }
}

impl Deref for Chain {
    type Target = [OperatorSpec];

    fn deref(&self) -> &[OperatorSpec] {
        &self.specs
    }
}
