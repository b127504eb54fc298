//! Operators over batches and state, one file each, what builds them from their specifications, and the
//! contracts of sources and sinks.

mod connector;
mod deduplicate;
mod event_time;
mod expand;
mod expression;
mod filter;
mod first_rows;
mod group_aggregate;
mod join_tables;
mod key_hash;
mod key_table;
mod keyed_state;
mod limit;
mod local_time;
mod lookup;
mod lookup_join;
mod multi_join;
mod not_null;
mod one_row;
mod operator;
mod over;
mod project;
mod rank;
mod repeat;
mod row_store;
mod session_aggregate;
mod sort;
mod static_join;
mod stream_join;
pub mod testing;
mod unnest;
mod values;
mod waiting;
mod window_aggregate;
mod window_assign;

use std::sync::Arc;

use anabranch_dataflow::{JobOptions, OperatorSpec, Window};
pub use anabranch_functions::Zone;
use anabranch_model::{Error, Result};
use arrow::datatypes::SchemaRef;

pub use connector::{
    Committable, Connector, Connectors, Delivery, Former, Host, Malformed, Polled, Positions, Rows, Sink, Source,
    TaskContext,
};
pub use event_time::{event_times, latest_time};
pub use expression::{CompiledExpr, Functions, Projection};
pub use key_hash::{hash_keys, rows_of_groups};
pub use lookup::{Lookup, LookupContext, PendingRows, Waiting};
pub use operator::{Dropped, Element, LookupRequests, Operator, Output, Sided, State, StateChange, StateShape};
pub use static_join::StaticSide;

/// Whether an operator of the next plan version can take over the state of a former one in memory.
#[must_use]
pub fn state_goes_on(former: &OperatorSpec, next: &OperatorSpec, functions: &Functions) -> bool {
    use OperatorSpec::{Deduplicate, GroupAggregate, Limit, MultiJoin, Over, Rank, Sort, StreamJoin, WindowAggregate};
    if former.zone() != next.zone() {
        return false;
    }
    match (former, next) {
        (WindowAggregate(former), WindowAggregate(next)) => {
            window_aggregate::succession::goes_on(former, next, functions)
        }
        (GroupAggregate(former), GroupAggregate(next)) => group_aggregate::goes_on(former, next, functions),
        (StreamJoin(former), StreamJoin(next)) => stream_join::goes_on(former, next, functions),
        (MultiJoin(former), MultiJoin(next)) => multi_join::goes_on(former, next, functions),
        (Rank(former), Rank(next)) => rank::goes_on(former, next),
        (Deduplicate(former), Deduplicate(next)) => deduplicate::goes_on(former, next),
        (Over(former), Over(next)) => over::goes_on(former, next),
        (Sort(former), Sort(next)) => sort::goes_on(former, next),
        (Limit(former), Limit(next)) => former.skip == next.skip,
        // Of different kinds, or without state.
        (
            WindowAggregate(_)
            | GroupAggregate(_)
            | StreamJoin(_)
            | MultiJoin(_)
            | Rank(_)
            | Deduplicate(_)
            | Over(_)
            | Sort(_)
            | Limit(_)
            | OperatorSpec::Filter { .. }
            | OperatorSpec::Project { .. }
            | OperatorSpec::StaticJoin(_)
            | OperatorSpec::LookupJoin(_)
            | OperatorSpec::WindowAssign(_)
            | OperatorSpec::NotNull(_)
            | OperatorSpec::Values(_)
            | OperatorSpec::Expand(_)
            | OperatorSpec::Unnest(_)
            | OperatorSpec::Repeat(_),
            _,
        ) => false,
    }
}

/// Builds the operator of a specification for rows of `input`, and returns the schema of its output.
pub fn build_operator(
    spec: &OperatorSpec,
    input: &SchemaRef,
    options: &JobOptions,
    functions: &Functions,
) -> Result<(Box<dyn Operator>, SchemaRef)> {
    let (operator, schema) = build(spec, input, options, functions)?;
    let Some(name) = spec.zone() else { return Ok((operator, schema)) };
    let zone = Zone::parse(name).ok_or_else(|| {
        Error::user(format!("the plan has the time zone '{name}', which this version does not know"))
            .remedy("plan the query again with this version")
    })?;
    Ok((Box::new(local_time::LocalTime::new(zone, operator)), schema))
}

fn build(
    spec: &OperatorSpec,
    input: &SchemaRef,
    options: &JobOptions,
    functions: &Functions,
) -> Result<(Box<dyn Operator>, SchemaRef)> {
    Ok(match spec {
        OperatorSpec::Filter { predicate, keep } => {
            let filter = filter::Filter::new(predicate, keep.as_deref(), input, functions)?;
            let schema = Arc::clone(filter.schema());
            (Box::new(filter), schema)
        }
        OperatorSpec::Project { columns } => {
            let projection = Projection::new(columns, input, functions)?;
            let schema = Arc::clone(projection.schema());
            (Box::new(project::Project { projection }), schema)
        }
        OperatorSpec::StaticJoin(spec) => {
            let join = static_join::StaticJoin::new(spec, functions, options.state_bytes)?;
            let schema = Arc::clone(join.schema());
            (Box::new(join), schema)
        }
        OperatorSpec::LookupJoin(spec) => lookup_join::build(spec, functions, options)?,
        OperatorSpec::WindowAssign(spec) => {
            let assign = window_assign::WindowAssign::new(spec, input)?;
            let schema = Arc::clone(assign.schema());
            (Box::new(assign), schema)
        }
        OperatorSpec::WindowAggregate(spec) if matches!(spec.window, Window::Session { .. }) => {
            let aggregate = session_aggregate::SessionAggregate::new(spec, functions, options)?;
            let schema = Arc::clone(aggregate.schema());
            (Box::new(aggregate), schema)
        }
        OperatorSpec::WindowAggregate(spec) => window_aggregate::build(spec, functions, options)?,
        OperatorSpec::GroupAggregate(spec) => {
            let aggregate = group_aggregate::GroupAggregate::new(spec, functions, options)?;
            let schema = Arc::clone(aggregate.schema());
            (Box::new(aggregate), schema)
        }
        OperatorSpec::StreamJoin(spec) => stream_join::build(spec, functions, options)?,
        OperatorSpec::MultiJoin(spec) => multi_join::build(spec, functions, options)?,
        OperatorSpec::Rank(spec) => rank::build(spec, options)?,
        OperatorSpec::Deduplicate(spec) => {
            (Box::new(deduplicate::Deduplicate::new(spec, options)?), Arc::new(spec.output_schema()))
        }
        OperatorSpec::Over(spec) => over::build(spec, functions, options)?,
        OperatorSpec::Sort(spec) => (Box::new(sort::Sort::new(spec, options)?), Arc::clone(&spec.schema)),
        OperatorSpec::Limit(spec) => (Box::new(limit::Limit::new(*spec)), Arc::clone(input)),
        OperatorSpec::Values(spec) => {
            (Box::new(values::Values::new(spec, input, functions)?), Arc::clone(&spec.schema))
        }
        OperatorSpec::Expand(spec) => {
            let expand = expand::Expand::new(spec, input, functions)?;
            let schema = Arc::clone(expand.schema());
            (Box::new(expand), schema)
        }
        OperatorSpec::Repeat(spec) => {
            let repeat = repeat::Repeat::new(*spec, input)?;
            let schema = Arc::clone(repeat.schema());
            (Box::new(repeat), schema)
        }
        OperatorSpec::Unnest(spec) => {
            let unnest = unnest::Unnest::new(spec, input, functions)?;
            let schema = Arc::clone(unnest.schema());
            (Box::new(unnest), schema)
        }
        OperatorSpec::NotNull(spec) => (Box::new(not_null::NotNull::new(spec.clone())), Arc::clone(input)),
    })
}
