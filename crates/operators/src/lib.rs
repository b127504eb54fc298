//! Operators over batches and state, one file each, and the contracts of sources and sinks.

mod build;
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

pub use anabranch_functions::Zone;
pub use build::{build_operator, state_goes_on};
pub use connector::{
    Committable, Connector, Connectors, Delivery, Former, Host, Malformed, Polled, Positions, Rows, Sink, Source,
    TaskContext,
};
pub use event_time::{event_times, latest_time};
pub use expression::{CompiledExpr, Functions, Projection};
pub use key_hash::{hash_keys, rows_of_groups};
pub use lookup::{Answer, Lookup, LookupContext, Waiting};
pub use operator::{Asking, Dropped, Element, Operator, Output, Sided, State, StateChange, StateShape};
pub use static_join::StaticSide;
