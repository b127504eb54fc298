//! The embedded engine: SQL text in, running jobs out, in one process without servers. A job may be served
//! over HTTP.

mod autoscale;
pub mod cluster;
mod completion;
pub mod control;
mod engine;
pub mod formula;
mod functions;
pub mod http;
mod job;
pub mod otlp;
pub mod process;
mod report;
mod savepoint;
mod session;
mod state_rows;
mod threads;
mod why;
mod words;

pub use anabranch_dataflow::{AutoscaleOptions, Plan, instant_text};
pub use anabranch_model::{Error, ErrorKind, EventTime, LatencySummary, Result, TaskMetrics};
pub use anabranch_operators::{Connector, Connectors, rows_of_groups};
pub use anabranch_plan::{
    Ending, JobStep, Planned, QueryPlan, QueryStep, StatementText, Step, Steps, autoscale_options, ending,
    split_statements,
};
pub use anabranch_protocol::autoscale::Observation;
pub use anabranch_protocol::coordinator::Phase;
pub use anabranch_runtime::{
    Ahead, Change, ChangedPart, Committed, Completed, Coordination, Fate, How, Load, Moves, Origin, Passing,
    Reconfigure, Reconfigured, Status, Summary,
};
pub use anabranch_state::Access;
pub use autoscale::rehearse;
pub use completion::complete;
pub use engine::{Engine, Settings, TableOption};
pub use functions::FunctionRefusal;
pub use job::Job;
pub use report::render;
pub use savepoint::SavepointRequest;
pub use session::{Executed, Query, Reply, Session, Vocabulary};
pub use state_rows::{FoundRows, StateRows, read_state, watermark_ms};
pub use why::{Link, Next, Remedy, Verdict, Why};
pub use words::{Word, words};
