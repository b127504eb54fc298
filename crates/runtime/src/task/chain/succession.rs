//! What a chain leaves for the next plan version, and takes from the former one.

use anabranch_model::{EventTime, Result};
use anabranch_operators::{Operator, StaticSide};

use super::{Chain, Link, SinkTail, Tail};
use crate::task::left::LeftOperator;

impl Chain {
    /// The static sides of its joins, by their places.
    pub(crate) fn static_sides(&self) -> Vec<(usize, StaticSide)> {
        let sides = self.links.iter().map(|link| link.operator.static_side()).enumerate();
        sides.filter_map(|(place, side)| Some((place, side?))).collect()
    }

    /// The join at this place goes on with the static side that it had.
    pub(crate) fn take_static_side(&mut self, place: usize, side: StaticSide) -> Result<()> {
        self.links[place].operator.take_static_side(side)
    }

    /// What the operators have at the end of an epoch, and the sink.
    pub(crate) fn leave_parts(self) -> (Vec<LeftOperator>, Option<SinkTail>) {
        let left = |(place, Link { operator, reached, .. }): (usize, Link)| {
            (!operator.state_tables().is_empty()).then_some(LeftOperator { place, operator, watermark: reached })
        };
        let operators = self.links.into_iter().enumerate().filter_map(left).collect();
        match self.tail {
            Tail::Sink(tail) => (operators, Some(tail)),
            Tail::Exchanges(_) => (operators, None),
        }
    }

    /// The operator goes on with the state that this one had at the end of the epoch before.
    pub(crate) fn succeed(&mut self, place: usize, former: Box<dyn Operator>, reached: EventTime) -> Result<()> {
        let link = &mut self.links[place];
        link.reached = reached;
        link.operator.succeed(former)
    }
}
