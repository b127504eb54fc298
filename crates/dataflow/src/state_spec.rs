//! Operators with state.

use crate::{
    AggregatePhase, DeduplicateSpec, GroupAggregateSpec, LimitSpec, MultiJoinSpec, OperatorSpec, OverSpec, RankSpec,
    SortSpec, StreamJoinSpec, WindowAggregateSpec,
};

/// An operator that keeps state between batches, which belongs into every checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the kinds say it")]
pub enum StateSpec<'a> {
    WindowAggregate(&'a WindowAggregateSpec),
    GroupAggregate(&'a GroupAggregateSpec),
    StreamJoin(&'a StreamJoinSpec),
    MultiJoin(&'a MultiJoinSpec),
    Rank(&'a RankSpec),
    Deduplicate(&'a DeduplicateSpec),
    Over(&'a OverSpec),
    Sort(&'a SortSpec),
    Limit(&'a LimitSpec),
}

impl<'a> StateSpec<'a> {
    /// The time zone in which times of windows are local times. Watermarks are instants; the operator gets them as local times. `None`: the
    /// times are those that watermarks speak of.
    #[must_use]
    pub fn zone(self) -> Option<&'a str> {
        match self {
            StateSpec::WindowAggregate(spec) => spec.zone.as_deref(),
            StateSpec::GroupAggregate(spec) => spec.zone.as_deref(),
            StateSpec::StreamJoin(spec) => spec.zone.as_deref(),
            StateSpec::Rank(spec) => spec.zone.as_deref(),
            StateSpec::MultiJoin(_)
            | StateSpec::Deduplicate(_)
            | StateSpec::Over(_)
            | StateSpec::Sort(_)
            | StateSpec::Limit(_) => None,
        }
    }
}

impl OperatorSpec {
    /// The zone of [`StateSpec::zone`]. The first half of an aggregation, which keeps nothing across epochs, has one too.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        match self {
            OperatorSpec::WindowAggregate(spec) => spec.zone.as_deref(),
            other => other.state().and_then(StateSpec::zone),
        }
    }

    /// The operator's state. `None` if it keeps none. A static join's table is read again at every start.
    #[must_use]
    pub fn state(&self) -> Option<StateSpec<'_>> {
        match self {
            OperatorSpec::WindowAggregate(spec) if spec.phase != AggregatePhase::Partial => {
                Some(StateSpec::WindowAggregate(spec))
            }
            OperatorSpec::GroupAggregate(spec) => Some(StateSpec::GroupAggregate(spec)),
            OperatorSpec::StreamJoin(spec) => Some(StateSpec::StreamJoin(spec)),
            OperatorSpec::MultiJoin(spec) => Some(StateSpec::MultiJoin(spec)),
            OperatorSpec::Rank(spec) => Some(StateSpec::Rank(spec)),
            OperatorSpec::Deduplicate(spec) => Some(StateSpec::Deduplicate(spec)),
            OperatorSpec::Over(spec) => Some(StateSpec::Over(spec)),
            OperatorSpec::Sort(spec) => Some(StateSpec::Sort(spec)),
            OperatorSpec::Limit(spec) => Some(StateSpec::Limit(spec)),
            OperatorSpec::Filter { .. }
            | OperatorSpec::Project { .. }
            | OperatorSpec::StaticJoin(_)
            | OperatorSpec::LookupJoin(_)
            | OperatorSpec::NotNull(_)
            | OperatorSpec::Values(_)
            | OperatorSpec::Expand(_)
            | OperatorSpec::Unnest(_)
            | OperatorSpec::Repeat(_)
            | OperatorSpec::WindowAssign(_)
            | OperatorSpec::WindowAggregate(_) => None,
        }
    }
}
