//! The parts that a chain leaves for the next plan version, and takes over from the former one.

use anabranch_model::{Error, EventTime, Result};
use anabranch_operators::{Operator, Sided, StaticSide};

use super::{Chain, Link, SinkTail, Tail};
use crate::task::left::LeftOperator;

impl Chain {
    /// The static sides of its joins, by their indices.
    pub(crate) fn static_sides(&mut self) -> Vec<(usize, StaticSide)> {
        let sides = self.links.iter_mut().map(|link| link.operator.sided()?.static_side()).enumerate();
        sides.filter_map(|(place, side)| Some((place, side?))).collect()
    }

    /// Gives the join at this index the static side that it keeps.
    pub(crate) fn take_static_side(&mut self, place: usize, side: StaticSide) -> Result<()> {
        self.sided(place)?.take_static_side(side)
    }

    /// The operator with a static side at an index.
    pub(super) fn sided(&mut self, place: usize) -> Result<&mut dyn Sided> {
        let sided = self.links.get_mut(place).and_then(|link| link.operator.sided());
        sided.ok_or_else(|| Error::internal(format!("operator {place} has no static side")))
    }

    /// The operators with state at the end of an epoch, and the sink.
    pub(crate) fn leave_parts(self) -> (Vec<LeftOperator>, Option<SinkTail>) {
        let left = |(place, Link { mut operator, reached, .. }): (usize, Link)| {
            operator.state().is_some().then_some(LeftOperator { place, operator, watermark: reached })
        };
        let operators = self.links.into_iter().enumerate().filter_map(left).collect();
        match self.tail {
            Tail::Sink(tail) => (operators, Some(tail)),
            Tail::Exchanges(_) => (operators, None),
        }
    }

    /// Gives an operator the state of `former`: of its predecessor in the plan version before, or of an
    /// operator whose state was loaded ahead.
    pub(crate) fn succeed(&mut self, place: usize, mut former: Box<dyn Operator>, reached: EventTime) -> Result<()> {
        let link = &mut self.links[place];
        link.reached = reached;
        match (link.operator.state(), former.state()) {
            (Some(own), Some(former)) => own.succeed(former),
            _ => Err(Error::internal("an operator without state cannot take over one")),
        }
    }
}
