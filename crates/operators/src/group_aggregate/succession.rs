//! An aggregate of the next plan version goes on with the state of the former one, in memory.

use anabranch_dataflow::{AggregateSpec, GroupAggregateSpec};
use anabranch_model::{Error, Result};

use super::distinct::followed;
use super::{GroupAggregate, Groups};
use crate::operator::StateShape;
use crate::{Functions, Operator};

/// Whether an aggregate can go on with the state of another one. What keys, arguments and filters are computed from may be
/// different: state has only their results.
pub(crate) fn goes_on(former: &GroupAggregateSpec, next: &GroupAggregateSpec, functions: &Functions) -> bool {
    let call = |a: &AggregateSpec| (a.function.clone(), a.distinct, a.data_type.clone(), a.args.len());
    let calls = |spec: &GroupAggregateSpec| spec.aggregates.iter().map(call).collect::<Vec<_>>();
    if former == next {
        return true;
    }
    let followed = |spec: &GroupAggregateSpec| {
        (0..spec.aggregates.len()).map(|place| followed(&spec.aggregates, place)).collect::<Vec<_>>()
    };
    let kinds = |spec: &GroupAggregateSpec| {
        (calls(spec), followed(spec), spec.weight.is_some(), spec.emission.map(|of| of.time))
    };
    if kinds(former) != kinds(next) {
        return false;
    }
    let tables = |spec: &GroupAggregateSpec| GroupAggregate::new(spec, functions, &Default::default()).ok();
    let (Some(former), Some(next)) = (tables(former), tables(next)) else { return false };
    let arguments = |of: &GroupAggregate| of.groups.calls.iter().map(|call| call.argument_types()).collect::<Vec<_>>();
    let columns = |of: &GroupAggregate| {
        let fields = |shape: StateShape| {
            let field = |f: &std::sync::Arc<arrow::datatypes::Field>| (f.data_type().clone(), f.is_nullable());
            shape.schema.fields().iter().map(field).collect::<Vec<_>>()
        };
        of.shapes().into_iter().map(fields).collect::<Vec<_>>()
    };
    arguments(&former) == arguments(&next) && columns(&former) == columns(&next)
}

impl GroupAggregate {
    /// Takes the state of an aggregate [with which](goes_on) it can go on. It has none of its own.
    pub(super) fn take_over(&mut self, former: Box<dyn Operator>) -> Result<()> {
        let former: Box<dyn std::any::Any> = former;
        let Ok(former) = former.downcast::<GroupAggregate>() else {
            return Err(Error::internal("an aggregate cannot go on with the state of another kind of operator"));
        };
        let GroupAggregate { groups, snapshots, disk, .. } = *former;
        let Groups { keys, rows, live, calls, changes, times, outdated, windows, emitted, .. } = groups;
        (self.snapshots, self.disk) = (snapshots.succeed(), disk);
        (self.groups.keys, self.groups.rows) = (keys, rows);
        (self.groups.live, self.groups.changes) = (live, changes);
        self.groups.times = self.groups.times.take().map(|own| own.follow(times));
        (self.groups.outdated, self.groups.emitted) = (outdated, emitted);
        self.groups.windows = self.groups.windows.take().zip(windows).map(|(own, former)| own.follow(former));
        for (own, former) in self.groups.calls.iter_mut().zip(calls) {
            own.accumulator = former.accumulator;
        }
        Ok(())
    }
}
