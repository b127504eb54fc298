//! Whether an aggregate of the next plan version takes over the state of the former one, in memory.

use anabranch_dataflow::{AggregateSpec, GroupAggregateSpec};

use super::GroupAggregate;
use super::distinct::followed;
use crate::Functions;
use crate::operator::StateShape;

/// Whether an aggregate can take over the state of another one. The expressions of keys, arguments and
/// filters may differ: state has only their values.
pub(crate) fn goes_on(former: &GroupAggregateSpec, next: &GroupAggregateSpec, functions: &Functions) -> bool {
    let call = |a: &AggregateSpec| (a.function.clone(), a.distinct, a.data_type.clone(), a.args.len());
    let calls = |spec: &GroupAggregateSpec| spec.aggregates.iter().map(call).collect::<Vec<_>>();
    if former == next {
        return true;
    }
    let followed = |spec: &GroupAggregateSpec| {
        (0..spec.aggregates.len()).map(|index| followed(&spec.aggregates, index)).collect::<Vec<_>>()
    };
    let kinds = |spec: &GroupAggregateSpec| {
        (calls(spec), followed(spec), spec.weight.is_some(), spec.emission.map(|emission| emission.time))
    };
    if kinds(former) != kinds(next) {
        return false;
    }
    let tables = |spec: &GroupAggregateSpec| GroupAggregate::new(spec, functions, &Default::default()).ok();
    let (Some(former), Some(next)) = (tables(former), tables(next)) else { return false };
    let arguments = |aggregate: &GroupAggregate| {
        aggregate.state.rows.calls.iter().map(|call| call.argument_types()).collect::<Vec<_>>()
    };
    let columns = |aggregate: &GroupAggregate| {
        let fields = |shape: &StateShape| {
            let field = |f: &std::sync::Arc<arrow::datatypes::Field>| (f.data_type().clone(), f.is_nullable());
            shape.schema.fields().iter().map(field).collect::<Vec<_>>()
        };
        aggregate.state.shapes().iter().map(fields).collect::<Vec<_>>()
    };
    arguments(&former) == arguments(&next) && columns(&former) == columns(&next)
}
