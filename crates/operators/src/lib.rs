//! Operators over batches and state, one file each, and the contracts that sources and sinks fulfil.

mod connector;
mod operator;

pub use connector::{Connector, Connectors, Malformed, Polled, Rows, Sink, Source, TaskContext};
pub use operator::{Element, Operator, Output};
