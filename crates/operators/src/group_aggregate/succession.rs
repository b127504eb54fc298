//! An aggregate of the next plan version goes on with the state of the former one, in memory.

use anabranch_dataflow::{AggregateSpec, GroupAggregateSpec};
use anabranch_model::Result;

use super::GroupAggregate;
use super::distinct::followed;
use crate::operator::{StateShape, same_kind};
use crate::{Functions, State};

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
    pub(super) fn take_over(&mut self, former: &mut dyn State) -> Result<()> {
        let former: &mut GroupAggregate = same_kind(former)?;
        let (own, groups) = (&mut self.groups, &mut former.groups);
        self.snapshots = std::mem::take(&mut former.snapshots).succeed();
        std::mem::swap(&mut self.disk, &mut former.disk);
        std::mem::swap(&mut own.keys, &mut groups.keys);
        std::mem::swap(&mut own.rows, &mut groups.rows);
        std::mem::swap(&mut own.changes, &mut groups.changes);
        std::mem::swap(&mut own.outdated, &mut groups.outdated);
        std::mem::swap(&mut own.emitted, &mut groups.emitted);
        own.live = groups.live;
        own.times = own.times.take().map(|own| own.follow(groups.times.take()));
        own.windows = own.windows.take().zip(groups.windows.take()).map(|(own, former)| own.follow(former));
        for (own, former) in own.calls.iter_mut().zip(&mut groups.calls) {
            std::mem::swap(&mut own.accumulator, &mut former.accumulator);
        }
        Ok(())
    }
}
