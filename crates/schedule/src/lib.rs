//! Decides which threads of stream queries matter now: from what engines and the kernel report to a priority
//! for each thread. After Lachesis (Palyvos-Giannas, Mencagli, Papatriantafilou, Gulisano: "Lachesis: a
//! middleware for customizing OS scheduling of stream processing queries", Middleware 2021), whose sections
//! are named where an algorithm is taken from it.
//!
//! ```text
//! Graph + Readings ──window──▶ rates ──▶ Nodes ──provider──▶ Metrics ──policy──▶ priorities of nodes
//!     ──transform──▶ Schedule: priorities of threads ──normalize──▶ nice values, weights
//! ```
//!
//! Everything here is a value: no clock, no file, no socket, no thread. `osched` carries out what is decided,
//! for engines that run in other processes; `runtime` does so for the engine's own tasks.

mod condition;
mod entity;
mod metric;
mod nodes;
mod normalize;
mod policy;
mod provider;
mod reading;
mod schedule;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod transform;
mod window;

pub use condition::{Condition, HYSTERESIS, Target};
pub use entity::{
    Edge, Graph, Operator, OperatorIndex, Query, QueryIndex, Role, Task, TaskIndex, Thread, ThreadId, ThreadKind,
};
pub use metric::{Combine, Kind, Metric, Side};
pub use nodes::{Level, Node, Nodes};
pub use normalize::{LADDER_RATIO, Meaning, Range, Scale, normalize};
pub use policy::{
    Constant, Deadline, Drain, FirstCome, Formula, FormulaPolicy, Given, Goal, HighestRate, LAST_GOOD_PERIODS, Marker,
    MaxWeight, POLICY_NAMES, Policy, QueueSize, Random, by_name,
};
pub use provider::{Explanation, Metrics, Missing, Provider};
pub use reading::{Reading, Readings};
pub use schedule::{Group, Schedule};
pub use transform::{Aggregate, Grouping, Transform, to_tasks};
pub use window::{SMOOTHING_NS, STALE_AFTER_NS, Window};
