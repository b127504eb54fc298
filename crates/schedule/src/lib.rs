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

pub use condition::{Condition, Target};
pub use entity::{
    Edge, Graph, Operator, OperatorIndex, Query, QueryIndex, Role, Task, TaskIndex, Thread, ThreadId, ThreadKind,
};
pub use metric::Metric;
pub use nodes::{Level, Node, Nodes};
pub use normalize::{NICE_RATIO, Range, Scale, normalize};
pub use policy::{Constant, Formula, FormulaPolicy, Given, Goal, POLICY_NAMES, Policy, by_name};
pub use provider::{Metrics, Missing, Provider};
pub use reading::{Reading, Readings};
pub use schedule::{Group, Schedule};
pub use transform::{Aggregate, Grouping, Transform, to_tasks};
pub use window::Window;
